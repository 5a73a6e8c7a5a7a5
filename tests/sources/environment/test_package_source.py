from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from failures import failing
from paddock_sources import SourceError
from paddock_sources.cache import SourceCache
from paddock_sources.environment.builder import Environments
from paddock_sources.environment.errors import (
    InstalledDistributionError,
)
from paddock_sources.environment.index import Index
from paddock_sources.environment.installed import InstalledDistributions
from paddock_sources.environment.interpreter import Interpreter
from paddock_sources.package import PackageSource
from sources.environment.installed_folder import MOUNT, add_distribution, record_hash
from sources.index_server import IndexServer
from sources.module_folder import BOOBY_TRAP, make_module
from sources.warm.warm_runner import WarmRunner

MakeSource = Callable[..., PackageSource]
MODULES = "[amplifier.modules]\ntool-demo = amplifier_module_tool_demo:mount\n"
TRAP = "amplifier_module_tool_demo/__init__.py"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "site").mkdir()
    return tmp_path / "site"


@pytest.fixture
def of_the_index(cache: SourceCache, index: Index, runner: WarmRunner) -> MakeSource:
    return partial(PackageSource, cache=cache, environments=Environments(cache, runner, index, Interpreter.this()))


def source(site: Path, cache: SourceCache, name: str, **preloaded: str) -> PackageSource:
    return PackageSource(name, cache=cache, installed=InstalledDistributions([site]), preloaded=preloaded)


def add_demo(site: Path, **facts: object) -> Path:
    return add_distribution(site, "amplifier-module-tool-demo", **{"entry_points": MODULES, **facts})  # type: ignore[arg-type]


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_modules_of_both_groups_are_listed_and_none_is_imported(site: Path, tmp_path: Path) -> None:
    add_demo(site, files={TRAP: BOOBY_TRAP})
    add_distribution(
        site,
        "many",
        "2.0",
        {"many/__init__.py": BOOBY_TRAP},
        entry_points="# a comment\n[console_scripts]\nx = many:x\n[amplifier.tools]\nhook-log = many.log:mount\n"
        "tool-z=many:mount [extra]\n[amplifier.modules]\nbad id! = many:mount\nworse = many:mount()\n",
    )
    add_distribution(site, "in-place", entry_points="[amplifier.tools]\ntool-a = in_place:m\n", editable=tmp_path)
    assert InstalledDistributions([site]).module_ids() == {"hook-log", "tool-a", "tool-demo", "tool-z"}
    assert "packaging" in InstalledDistributions().by_name  # those of this process, by default


def test_the_ids_in_a_package_are_those_it_announces_or_else_its_name_s(
    site: Path, cache: SourceCache, tmp_path: Path
) -> None:
    add_demo(site, entry_points="[amplifier.tools]\na = x:m\ntool-demo = x:m\nbad! = x:m\n")
    add_distribution(site, "plain", files={"amplifier_module_hook_log/__init__.py": MOUNT})
    add_distribution(site, "amplifier-module-tool-here", editable=tmp_path)
    add_distribution(site, "none")
    assert source(site, cache, "tool-demo").module_ids() == ("tool-demo", "a")
    assert source(site, cache, "plain").module_ids() == ("hook-log",)
    assert source(site, cache, "tool-here").module_ids() == ("tool-here",)
    with pytest.raises(InstalledDistributionError, match="no module in it"):
        source(site, cache, "none").module_ids()


@pytest.mark.parametrize("name", ["tool-demo", "amplifier-module-tool-demo", "Amplifier_Module.tool_demo"])
def test_a_package_is_found_by_its_name_and_by_the_module_s(site: Path, cache: SourceCache, name: str) -> None:
    add_demo(site)
    found = source(site, cache, name).resolve("tool-demo")
    assert (found.package, found.attribute, found.kind, found.version) == (
        "amplifier_module_tool_demo",
        "mount",
        "tool",
        "1.0",
    )
    assert found.source == "amplifier-module-tool-demo"
    assert found.import_root == found.root == found.package_dir.parent
    assert found.root.is_relative_to(cache.folder)


def test_a_package_that_only_announces_the_module_is_found(site: Path, cache: SourceCache) -> None:
    add_distribution(site, "other", entry_points="[amplifier.tools]\ntool-demo = other:begin\n")
    found = source(site, cache, "tool-demo").resolve("tool-demo")
    assert (found.package, found.attribute, found.source) == ("other", "begin", "other")


def test_a_package_without_entry_points_is_read_by_convention(site: Path, cache: SourceCache) -> None:
    add_demo(site, entry_points="", files={TRAP: "__amplifier_module_type__ = 'provider'\n" + MOUNT})
    assert source(site, cache, "tool-demo").resolve("tool-demo").kind == "provider"


def test_two_that_announce_one_module_are_not_chosen_between(site: Path, cache: SourceCache) -> None:
    for name in ("one", "two"):
        add_distribution(site, name, entry_points=f"[amplifier.modules]\ntool-demo = {name}:mount\n")
    with failing("AmbiguousPackageError", "one, two") as caught:
        source(site, cache, "tool-demo").resolve("tool-demo")
    assert "name the one that is meant: `source: one`" in caught.value.hints
    assert source(site, cache, "two").resolve("tool-demo").package == "two"


def test_what_is_not_installed_is_told_with_what_is_close(site: Path, cache: SourceCache) -> None:
    add_demo(site)
    with failing("PackageNotFoundError") as caught:
        source(site, cache, "tool-dema").resolve("tool-dema")
    assert "did you mean `tool-demo`?" in caught.value.hints
    assert any("==1.0" in hint for hint in caught.value.hints)


def test_the_first_folder_of_the_path_counts(tmp_path: Path, cache: SourceCache) -> None:
    for folder, version in (("first", "1.0"), ("second", "2.0")):
        (tmp_path / folder).mkdir()
        add_demo(tmp_path / folder, version=version)
    path = [tmp_path / "missing", tmp_path / "first", tmp_path / "second"]
    found = PackageSource("tool-demo", cache=cache, installed=InstalledDistributions(path)).resolve("tool-demo")
    assert found.version == "1.0"


def test_what_it_depends_on_comes_with_it_and_nothing_else_does(
    site: Path, cache: SourceCache, python: Interpreter
) -> None:
    add_demo(
        site,
        requires=["Middle_Part[web]>=1", "absent; python_version < '3'", "amplifier-core>=1", "unused; extra == 'x'"],
    )
    add_distribution(site, "middle-part", requires=["leaf", "webby; extra == 'web'", "amplifier_module_tool_demo"])
    add_distribution(site, "leaf", "3.0")
    add_distribution(site, "webby")
    add_distribution(site, "bystander")
    found = source(site, cache, "tool-demo").resolve("tool-demo")
    assert [name for name in names_in(found.import_root) if not name.endswith(".dist-info")] == [
        "amplifier_module_tool_demo",
        "leaf",
        "middle_part",
        "webby",
    ]
    code = (
        "import sys; sys.path.append(sys.argv[1]); import middle_part, leaf; from importlib.metadata import version; "
    )
    code += "print(version('leaf'), version('amplifier-module-tool-demo'))"
    told = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, found.import_root], capture_output=True, timeout=60, check=True
    )
    assert told.stdout == b"3.0 1.0\n"


def test_what_a_runtime_brings_in_the_same_version_is_left_to_it(site: Path, cache: SourceCache) -> None:
    add_demo(site, requires=["same", "other"])
    add_distribution(site, "same", "1.0", requires=["below"])
    add_distribution(site, "other", "1.0")
    add_distribution(site, "below", "1.0")
    found = source(site, cache, "tool-demo", same="1.0", other="2.0", unrelated="1").resolve("tool-demo")
    packages = [name for name in names_in(found.import_root) if not name.endswith(".dist-info")]
    assert packages == ["amplifier_module_tool_demo", "below", "other"]
    assert found.own_versions == ("other",)


@pytest.mark.parametrize(
    ("requirement", "told"),
    [("absent>=1", "it is not installed"), ("leaf>=2", "version 1.0 is installed")],
)
def test_a_dependency_that_is_missing_is_told_with_what_to_do(
    site: Path, cache: SourceCache, requirement: str, told: str
) -> None:
    add_demo(site, requires=[requirement])
    add_distribution(site, "leaf", "1.0")
    with failing("MissingDependencyError", told) as caught:
        source(site, cache, "tool-demo").resolve("tool-demo")
    assert caught.value.hints == (f"install it: `pip install '{requirement}'`",)


def test_a_package_installed_in_place_stands_for_its_folder(site: Path, cache: SourceCache, tmp_path: Path) -> None:
    folder = make_module(tmp_path / "work with spaces")
    add_demo(site, files={}, editable=folder)
    found = source(site, cache, "tool-demo").resolve("tool-demo")
    assert found.package_dir == folder / "amplifier_module_tool_demo"
    assert found.is_live and found.source == str(folder)


def test_a_dependency_installed_in_place_is_refused(site: Path, cache: SourceCache, tmp_path: Path) -> None:
    add_demo(site, requires=["leaf"])
    add_distribution(site, "leaf", files={}, editable=tmp_path)
    with pytest.raises(InstalledDistributionError, match="installed in place"):
        source(site, cache, "tool-demo").resolve("tool-demo")


@pytest.mark.parametrize("target", ["os:system", "paddock.cli:main", "bystander:mount", "bystander.inner:mount"])
def test_an_entry_point_outside_its_own_files_is_refused(site: Path, cache: SourceCache, target: str) -> None:
    add_demo(site)
    assert source(site, cache, "tool-demo").resolve("tool-demo")
    add_distribution(site, "bystander")
    add_distribution(site, "evil", entry_points=f"[amplifier.modules]\ntool-evil = {target}\n")
    with pytest.raises(InstalledDistributionError, match="not a package among its files"):
        source(site, cache, "evil").resolve("tool-evil")


def test_files_that_a_list_names_elsewhere_are_not_taken(site: Path, cache: SourceCache, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("key")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "tool").write_text("key")
    (site / "evil.pth").write_text("key")
    (site / "__pycache__").mkdir()
    (site / "__pycache__" / "x.pyc").write_text("key")
    digest = record_hash(b"key")
    elsewhere = ["../secret", f"{tmp_path}/secret", "a/../../secret", "../bin/tool", "evil.pth", "__pycache__/x.pyc"]
    add_demo(site, record=[(path, digest, "3") for path in elsewhere])
    found = source(site, cache, "tool-demo").resolve("tool-demo")
    copied = [path for path in found.import_root.rglob("*") if path.is_file()]
    assert copied and not [path for path in copied if path.read_bytes() == b"key"]


def test_a_file_of_another_s_is_not_taken_by_naming_it(site: Path, cache: SourceCache) -> None:
    (site / "private.json").write_text("secret")
    add_demo(site, record=[("private.json", "", "")])
    assert not (source(site, cache, "tool-demo").resolve("tool-demo").import_root / "private.json").exists()
    add_demo(site, record=[("private.json", record_hash(b"a guess"), "")])
    with pytest.raises(InstalledDistributionError, match=r"private\.json"):
        source(site, cache, "tool-demo").resolve("tool-demo")


def test_a_file_that_was_changed_since_it_was_installed_is_told(site: Path, cache: SourceCache) -> None:
    add_demo(site, files={TRAP: MOUNT + "# unlike any other here\n"})
    (site / TRAP).write_text("changed = True\n")
    with pytest.raises(InstalledDistributionError, match="not what was installed") as caught:
        source(site, cache, "tool-demo").resolve("tool-demo")
    assert "reinstall" in caught.value.hints[0]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("RECORD", ""),
        ("RECORD", 'a,"\n'),
        ("RECORD", "x\0y,sha256=,\n"),
        ("METADATA", "Name: ../../x\nVersion: 1\n"),
        ("METADATA", "Name: a\nVersion: nonsense\n"),
        ("METADATA", ""),
        ("METADATA", "Name: amplifier-module-tool-demo\nVersion: 1\nRequires-Dist: --evil\n"),
        ("METADATA", "Name: amplifier-module-tool-demo\nVersion: 1\nRequires-Dist: a; " + "(" * 500 + "\n"),
        ("entry_points.txt", "[amplifier.modules]\ntool-demo = os:system\n"),
        ("entry_points.txt", "[amplifier.modules\ntool-demo\n=\n[]\n"),
        ("direct_url.json", "[" * 100_000),
        ("direct_url.json", '{"url": "file://host/x", "dir_info": {"editable": true}}'),
        ("direct_url.json", '{"url": "https://host/x", "dir_info": {"editable": true}}'),
        ("direct_url.json", '{"url": "file:relative", "dir_info": {"editable": true}}'),
    ],
)
def test_hostile_metadata_is_refused_or_does_nothing(site: Path, cache: SourceCache, name: str, content: str) -> None:
    info = add_demo(site)
    (info / name).write_text(content)
    try:
        found = source(site, cache, "tool-demo").resolve("tool-demo")
    except SourceError as error:
        assert str(error).replace("\n", "").isprintable()
    else:
        assert found.package == "amplifier_module_tool_demo"


def test_metadata_that_is_a_link_elsewhere_is_not_read(site: Path, cache: SourceCache, tmp_path: Path) -> None:
    info = add_demo(site)
    (info / "METADATA").rename(tmp_path / "METADATA")
    (info / "METADATA").symlink_to(tmp_path / "METADATA")
    with failing("PackageNotFoundError"):
        source(site, cache, "tool-demo").resolve("tool-demo")


def test_a_package_of_the_index_is_pinned_and_run_with_all_it_needs(
    server: IndexServer, of_the_index: MakeSource
) -> None:
    name, package = "amplifier-module-tool-pinned", "amplifier_module_tool_pinned"
    server.add_wheel(
        name,
        "1.5",
        {f"{package}/__init__.py": BOOBY_TRAP},
        requires=["leaf", "amplifier-core"],
        entry_points=f"[amplifier.modules]\ntool-x = {package}:mount\n",
    )
    package_source = of_the_index(name, "1.5", preloaded={"leaf": "1.0"})
    locked = package_source.lock()
    assert [(one.name, one.version) for one in locked] == [(name, "1.5"), ("leaf", "1.0")]
    assert package_source.module_ids(locked) == ("tool-x",)
    found = package_source.provide("tool-x", locked)
    assert (found.source, found.version, found.package) == (f"{name}=={1.5}", "1.5", package)
    assert names_in(found.import_root) == [package, f"{package}-1.5.dist-info"]
    with pytest.raises(SourceError):
        package_source.provide("tool-x", locked[1:])


def test_an_index_package_with_too_much_metadata_is_refused(server: IndexServer, of_the_index: MakeSource) -> None:
    server.add_wheel(
        "big", "1", {"big/__init__.py": ""}, requires=[f"leaf>={n}.0; python_version < '3'" for n in range(130_000)]
    )
    with pytest.raises(SourceError, match="metadata is malformed or too large"):
        of_the_index("big", "1").resolve("big")


def test_a_package_of_the_index_has_versions_of_its_own_where_it_must(
    server: IndexServer, of_the_index: MakeSource
) -> None:
    server.add_wheel("amplifier-module-tool-own", "1", requires=["leaf>=2"])
    found = of_the_index("amplifier-module-tool-own", "1", preloaded={"leaf": "1.0"}).resolve("tool-own")
    assert found.own_versions == ("leaf",)
    assert (found.import_root / "leaf").is_dir()
