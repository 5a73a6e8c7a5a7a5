from __future__ import annotations

from pathlib import Path

import pytest

import paddock_sources
from failures import failing
from paddock_sources import (
    BuiltinSource,
    FileSource,
    ManifestError,
    ModuleIdError,
    ModuleManifest,
    Resolution,
    Resolver,
    UnresolvedError,
)
from sources.module_folder import MOUNT, make_module
from support.rows import each_row


@pytest.fixture
def shipped(tmp_path: Path) -> BuiltinSource:
    for module_id in ("loop-basic", "tool-demo"):
        make_module(tmp_path / "shipped" / module_id, module_id, version="0.1.0")
    (tmp_path / "shipped" / "README.md").touch()
    (tmp_path / "shipped" / "__pycache__").mkdir()
    return BuiltinSource(tmp_path / "shipped")


def resolver(shipped: BuiltinSource, **environ: str) -> Resolver:
    return Resolver(environ, builtin=shipped)


# -- a folder


def test_a_folder_resolves_to_all_that_a_worker_needs(tmp_path: Path) -> None:
    root = make_module(tmp_path / "repo").resolve()
    assert FileSource(root).resolve("tool-demo") == Resolution(
        module_id="tool-demo",
        source=str(root),
        root=root,
        package="amplifier_module_tool_demo",
        package_dir=root / "amplifier_module_tool_demo",
        import_root=root,
        kind="tool",
        declared_kind=None,
        version="1.2.3",
        attribute="mount",
    )


def test_a_declared_kind_wins_over_the_id(tmp_path: Path) -> None:
    make_module(tmp_path / "repo", init='__amplifier_module_type__ = "hook"\n' + MOUNT)
    resolution = FileSource(tmp_path / "repo").resolve("tool-demo")
    assert (resolution.kind, resolution.declared_kind) == ("hook", "hook")


@pytest.mark.parametrize("module_id", ["", "../x", "a\nb"])
def test_a_bad_id_is_refused_before_any_file_is_touched(tmp_path: Path, module_id: str) -> None:
    with pytest.raises(ModuleIdError):
        FileSource(tmp_path / "missing").resolve(module_id)
    with pytest.raises(ModuleIdError):
        Resolver({}).resolve(module_id)


# -- the shipped modules


def test_shipped_modules_are_listed_by_id(shipped: BuiltinSource) -> None:
    assert shipped.list() == ("loop-basic", "tool-demo")


def test_a_shipped_module_resolves_under_its_builtin_name(shipped: BuiltinSource) -> None:
    resolution = shipped.resolve("loop-basic")
    assert (resolution.source, resolution.kind, resolution.version) == ("builtin:loop-basic", "orchestrator", "0.1.0")


def test_what_is_not_shipped_is_told_by_what_is(shipped: BuiltinSource) -> None:
    with failing("ModuleLayoutError") as caught:
        shipped.resolve("loop-bsic")
    assert caught.value.hints == ("did you mean `builtin:loop-basic`?",)
    with failing("ModuleLayoutError") as caught:
        shipped.resolve("hooks-audit")
    assert caught.value.hints == ("shipped are: loop-basic, tool-demo",)


def test_nothing_shipped_is_an_empty_list(tmp_path: Path) -> None:
    source = BuiltinSource(tmp_path / "missing")
    assert source.list() == ()
    with failing("ModuleLayoutError", "no module of that id is shipped"):
        source.resolve("loop-basic")


def test_a_folder_of_shipped_modules_that_cannot_be_listed_says_so(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(ManifestError):
        BuiltinSource(tmp_path / "loop").list()


def test_by_default_the_checkout_or_the_wheel_provides_the_modules() -> None:
    here = Path(paddock_sources.__file__).resolve().parent
    assert BuiltinSource().folder in (here / "builtin", here.parents[1] / "modules")


# -- the layers


def test_an_empty_variable_overrides_nothing(shipped: BuiltinSource) -> None:
    assert resolver(shipped, AMPLIFIER_MODULE_LOOP_BASIC="").resolve("loop-basic").layer == "builtin modules"


def test_a_builtin_source_may_run_under_another_id(shipped: BuiltinSource) -> None:
    resolution = resolver(shipped).resolve("my-loop", "builtin:loop-basic")
    assert (resolution.module_id, resolution.package) == ("my-loop", "amplifier_module_loop_basic")


def test_a_file_address_with_a_subdirectory_names_the_folder_inside(tmp_path: Path, shipped: BuiltinSource) -> None:
    root = make_module(tmp_path / "mono repo" / "modules" / "a").resolve()
    source = (tmp_path / "mono repo").as_uri() + "#subdirectory=modules/a"
    assert resolver(shipped).resolve("tool-demo", source).root == root


def test_an_unknown_module_lists_each_layer_and_the_nearest_id(shipped: BuiltinSource) -> None:
    with pytest.raises(UnresolvedError) as caught:
        resolver(shipped).resolve("loop-bsaic")
    assert [attempt.describe() for attempt in caught.value.attempts] == [
        "environment variable AMPLIFIER_MODULE_LOOP_BSAIC: not set",
        "source of the plan entry: none given",
        "builtin modules: no module of that id (there are: loop-basic, tool-demo)",
    ]
    assert caught.value.hints[0] == "did you mean `loop-basic`?"
    assert not caught.value.detail  # a person is helped by the hint, and by no list of places that are silent
    with pytest.raises(UnresolvedError) as caught:
        resolver(shipped).resolve("weather")
    assert caught.value.detail == ("builtin modules: no module of that id (there are: loop-basic, tool-demo)",)


@pytest.mark.parametrize(
    ("source", "family"),
    [("git+https://host/org/repo@v1", "a git repository"), ("some-package", "an installed package")],
)
def test_what_this_version_cannot_fetch_says_so_plainly(shipped: BuiltinSource, source: str, family: str) -> None:
    with pytest.raises(UnresolvedError) as caught:
        resolver(shipped).resolve("loop-basic", source)
    assert caught.value.__cause__.code == "SourceUnavailableError"
    assert f"is {family}, which is not available in this version" in str(caught.value)
    assert caught.value.hints


@pytest.mark.parametrize("source", ["~/x", "./x\x1b[2J", "builtin:nothing", "builtin:../x"])
def test_a_source_that_leads_nowhere_is_shown_legibly(shipped: BuiltinSource, source: str) -> None:
    with pytest.raises(UnresolvedError) as caught:
        resolver(shipped).resolve("loop-basic", source)
    assert all(line.isprintable() for line in str(caught.value).splitlines())


@each_row("module_id", BuiltinSource().list())
def test_every_module_that_ships_resolves_by_its_bare_id(module_id: str) -> None:
    resolution = Resolver({}).resolve(module_id)
    assert resolution.package == "amplifier_module_" + module_id.replace("-", "_")
    assert ModuleManifest.read(resolution.root, module_id).defines_mount is True
