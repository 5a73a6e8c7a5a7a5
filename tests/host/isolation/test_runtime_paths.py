"""Every worker sees the interpreter, its libraries and the packages of the runtime, and no other package."""

from __future__ import annotations

import importlib
import subprocess
import sys
import sysconfig
from dataclasses import replace
from pathlib import Path

import pytest

from paddock.isolation.mount_table import MountTable
from paddock.isolation.runtime_paths import RuntimePaths
from paddock.workers.runtime import WorkerRuntime
from paddock_sandbox.profile import Mount


@pytest.fixture(scope="module")
def located(tmp_path_factory: pytest.TempPathFactory) -> RuntimePaths:
    runtime = WorkerRuntime.locate()
    return RuntimePaths.locate(runtime.interpreter, runtime.packages, tmp_path_factory.mktemp("covers"))


def mounts_of(runtime: RuntimePaths, *, by_mounts: bool, seen: tuple[Path, ...] = ()) -> tuple[Mount, ...]:
    table = MountTable()
    runtime.show(table, by_mounts=by_mounts, seen=seen)
    return table.mounts()


def covered(mounts: tuple[Mount, ...], path: str | Path) -> Mount | None:
    """Return the mount that shows a path."""
    around = [mount for mount in mounts if Path(path).is_relative_to(mount.target)]
    return max(around, key=lambda mount: len(mount.target), default=None)


def test_the_interpreter_is_visible_and_read_only(located: RuntimePaths) -> None:
    mounts = mounts_of(located, by_mounts=True)
    assert not any(mount.writable for mount in mounts)
    told = subprocess.run(
        [
            located.interpreter,
            "-I",
            "-S",
            "-c",
            "import sys, os, _ctypes; print(*sys.path, os.__file__, _ctypes.__file__)",
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    for path in [located.interpreter, *filter(lambda path: Path(path).exists(), told.stdout.split())]:
        shown = covered(mounts, path)
        assert shown is not None and shown.mappable, path


def test_mapped_libraries_are_visible_by_their_loaded_names(
    located: RuntimePaths,
) -> None:
    mounts = mounts_of(located, by_mounts=True)
    loaded = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if ".so" in line}
    system = [path for path in loaded if path.startswith(("/lib", "/usr/lib"))]
    assert system
    for path in system:
        shown = covered(mounts, path)
        assert shown is not None and shown.mappable, path


def test_no_source_is_a_link_and_no_target_is_in_another_mounts_link(located: RuntimePaths) -> None:
    for by_mounts in (True, False):
        for mount in mounts_of(located, by_mounts=by_mounts):
            assert Path(mount.source).resolve() == Path(mount.source)


@pytest.mark.parametrize("by_mounts", [True, False])
def test_packages_are_seen_one_by_one_with_their_metadata_and_no_other_is(
    located: RuntimePaths, by_mounts: bool
) -> None:
    mounts = mounts_of(located, by_mounts=by_mounts)
    sources = {mount.source for mount in mounts}
    names = {Path(source).name.partition("-")[0] for source in sources}
    assert {"msgpack", "pydantic", "pydantic_core", "paddock_sdk", "paddock_sandbox"} <= names
    assert any(source.endswith(".dist-info") and "/pydantic-" in source for source in sources)
    assert any(Path(source).name.startswith("typing_extensions") for source in sources)
    assert not names & {"pytest", "hypothesis", "paddock", "paddock_sources", "anyio"}
    for name in ("paddock", "pytest"):
        folder = Path(sys.modules[name].__file__ or "").parent
        shown = covered(mounts, folder)
        assert shown is None or shown.source != shown.target


def test_another_package_whose_name_begins_alike_is_not_taken_for_one(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for name in ("foo-1.0.dist-info", "foo_bar-1.0.dist-info", "Foo.Baz-2.dist-info", "foo", "foobar"):
        (tmp_path / name).mkdir()
    (tmp_path / "baz.py").touch()

    def parts(name: str) -> list[str]:
        covers = tmp_path_factory.mktemp("covers")
        found = RuntimePaths.locate(Path(sys.executable).resolve(), [(name, tmp_path)], covers)
        return [path.name for path in found.code if path.parent == tmp_path]

    assert parts("foo") == ["foo", "foo-1.0.dist-info"]
    assert parts("foo_baz") == ["Foo.Baz-2.dist-info"]
    assert parts("baz") == ["baz.py"]


# -- an interpreter that keeps installed packages inside its standard library ---------------


def make_runtime(tmp_path: Path) -> RuntimePaths:
    library = tmp_path / "lib" / "python3"
    installed = library / "site-packages"
    (installed / "msgpack").mkdir(parents=True)
    (installed / "secret").mkdir()
    (library / "asyncio").mkdir()
    (library / "os.py").touch()
    (library / "linked").symlink_to("/etc")
    for path in (tmp_path / "python", tmp_path / "elsewhere.py"):
        path.touch()
    (tmp_path / "covers").mkdir()
    packages = [("msgpack", installed), ("elsewhere", tmp_path)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sysconfig, "get_path", lambda *args, **kwargs: str(library))
        located = RuntimePaths.locate(tmp_path / "python", packages, tmp_path / "covers")
    made = tuple(path for path in located.code if path.is_relative_to(tmp_path))  # the others are the machine's
    return replace(located, code=made, data=(), links=())


def test_an_empty_folder_covers_the_installed_packages(tmp_path: Path) -> None:
    runtime = make_runtime(tmp_path)
    installed = tmp_path / "lib" / "python3" / "site-packages"
    ((hidden, cover),) = runtime.hidden
    assert hidden == installed
    assert [(mount.source, mount.target) for mount in mounts_of(runtime, by_mounts=True)] == [
        (str(tmp_path / "elsewhere.py"),) * 2,
        (str(tmp_path / "lib" / "python3"),) * 2,
        (str(cover), str(installed)),
        (str(installed / "msgpack"),) * 2,
        (str(tmp_path / "python"),) * 2,
    ]
    assert [path.name for path in cover.iterdir()] == ["msgpack"]


def test_what_is_granted_or_visible_anyway_is_not_laid_over(tmp_path: Path) -> None:
    runtime = make_runtime(tmp_path)
    ((_, cover),) = runtime.hidden
    for seen in (tmp_path, tmp_path / "lib" / "python3" / "site-packages" / "secret"):
        sources = [mount.source for mount in mounts_of(runtime, by_mounts=True, seen=(seen,))]
        assert str(cover) not in sources


def test_without_mounts_library_entries_are_named_one_by_one(tmp_path: Path) -> None:
    targets = {mount.target for mount in mounts_of(make_runtime(tmp_path), by_mounts=False)}
    library = tmp_path / "lib" / "python3"
    assert targets == {
        *(str(library / "asyncio"), str(library / "os.py"), str(tmp_path / "python")),
        *(str(library / "site-packages" / "msgpack"), str(tmp_path / "elsewhere.py")),
    }


# -- what nobody may change ----------------------------------------------------------------


def test_the_host_its_environment_and_its_interpreter_are_the_installation(located: RuntimePaths) -> None:
    for name in ("paddock", "paddock_sandbox", "paddock_sdk", "paddock_sources"):
        folder = Path(importlib.import_module(name).__file__ or "").resolve().parent
        assert any(folder.is_relative_to(path) for path in located.installation)
    if sys.prefix != sys.base_prefix:
        assert Path(sys.prefix).resolve() / "bin" in located.installation
        assert Path(sys.prefix).resolve() not in located.installation  # work may lie beside it
    assert set(located.standard_library) <= set(located.installation)
