"""A folder that holds several modules: which they are, where each is, and what is said of a folder that contradicts."""

from __future__ import annotations

from pathlib import Path

import pytest

from failures import failing
from paddock_sources import FileSource, ManifestError
from paddock_sources.builtin import BuiltinSource
from paddock_sources.manifest.read import HeldModules
from sources.module_folder import BOOBY_TRAP, MOUNT, make_module

THREE = {
    "loop-a": "amplifier_module_loop_a:mount",
    "hooks-b": "amplifier_module_b.inside:start",
    "tool-c": "amplifier_module_tool_c",
}


def folder_of(root: Path, entry_points: dict[str, str], more: str = "") -> Path:
    """Write a project with these entry points, and with a package for each."""
    for target in entry_points.values():
        package = root / target.partition(":")[0].partition(".")[0]
        package.mkdir(parents=True, exist_ok=True)
        (package / "__init__.py").write_text(BOOBY_TRAP + MOUNT)
    lines = "".join(f'{module_id} = "{target}"\n' for module_id, target in entry_points.items())
    text = f'[project]\nname = "all"\nversion = "3"\n[project.entry-points."amplifier.modules"]\n{lines}{more}'
    (root / "pyproject.toml").write_text(text)
    return root


def test_each_module_of_a_folder_is_found_at_its_entry_point(tmp_path: Path) -> None:
    root = folder_of(tmp_path / "all", THREE).resolve()
    (root / "amplifier_module_b" / "inside.py").write_text('__amplifier_module_type__ = "hook"\n')
    held = HeldModules.read(root)
    assert held.ids("all") == tuple(THREE)
    found = [held.manifest(module_id) for module_id in held.ids("all")]
    assert [(one.module, one.attribute, one.version) for one in found] == [
        ("amplifier_module_loop_a", "mount", "3"),
        ("amplifier_module_b.inside", "start", "3"),
        ("amplifier_module_tool_c", "mount", "3"),
    ]
    assert [FileSource(root).resolve(one).kind for one in THREE] == ["orchestrator", "hook", "tool"]


@pytest.mark.parametrize("name", ["tool-c", "amplifier-module-tool-c", "https://host/org/amplifier-module-tool-c.git"])
def test_the_module_that_a_folder_is_named_for_is_the_first(tmp_path: Path, name: str) -> None:
    assert HeldModules.read(folder_of(tmp_path / "x", THREE)).ids(name) == ("tool-c", "loop-a", "hooks-b")


def test_one_that_lacks_its_package_is_named_and_hides_no_other(tmp_path: Path) -> None:
    root = folder_of(tmp_path / "all", THREE)
    (root / "amplifier_module_tool_c" / "__init__.py").unlink()
    held = HeldModules.read(root)
    assert held.ids("all") == tuple(THREE)
    assert held.manifest("loop-a").package == "amplifier_module_loop_a"
    with failing("ModuleLayoutError") as caught:
        held.manifest("tool-c")
    assert "entry point names `amplifier_module_tool_c`, and that package is missing" in caught.value.summary
    assert caught.value.detail[0] == "looked at `amplifier_module_tool_c/__init__.py`"
    assert caught.value.hints == ("write that package, or take the entry point out of `pyproject.toml`",)


def test_a_missing_package_is_not_replaced_by_that_of_another_module(tmp_path: Path) -> None:
    root = folder_of(tmp_path / "all", {"loop-a": "amplifier_module_loop_a"})
    with (root / "pyproject.toml").open("a") as file:
        file.write('tool-c = "amplifier_module_tool_c"\n')
    with failing("ModuleLayoutError", "that package is missing"):
        FileSource(root).resolve("tool-c")


def test_an_id_without_an_entry_point_is_answered_with_those_there_are(tmp_path: Path) -> None:
    with failing("ModuleLayoutError", "the modules in it are loop-a, hooks-b, tool-c") as caught:
        FileSource(folder_of(tmp_path / "all", THREE)).resolve("tool-other")
    assert caught.value.hints[0].startswith("name one of these as the module, or add an entry point")


def test_two_modules_of_one_id_are_refused(tmp_path: Path) -> None:
    twice = '[project.entry-points."amplifier.tools"]\ntool-c = "amplifier_module_other:mount"\n'
    with pytest.raises(ManifestError, match=r"two modules have the id `tool-c`: .*tool_c` and .*other:mount`"):
        HeldModules.read(folder_of(tmp_path / "all", THREE, twice))
    again = '[project.entry-points."amplifier.tools"]\ntool-c = "amplifier_module_tool_c:mount"\n'
    assert HeldModules.read(folder_of(tmp_path / "same", THREE, again)).ids("all") == tuple(THREE)
    with pytest.raises(ManifestError, match=r"it is not TOML: .*[Oo]verwrite a value .*line 8"):
        HeldModules.read(folder_of(tmp_path / "line", THREE, 'tool-c = "amplifier_module_other:mount"\n'))


# -- the shipped ones


def test_a_shipped_folder_may_hold_several_modules(tmp_path: Path) -> None:
    folder_of(tmp_path / "some", THREE)
    make_module(tmp_path / "tool-demo")
    source = BuiltinSource(tmp_path)
    assert source.list() == ("hooks-b", "loop-a", "tool-c", "tool-demo")
    assert [source.has(one) for one in ("loop-a", "some", "tool-demo")] == [True, False, True]
    resolution = source.resolve("tool-c")
    assert (resolution.root, resolution.source) == (tmp_path.resolve() / "some", "builtin:tool-c")


def test_two_shipped_folders_do_not_hold_one_id(tmp_path: Path) -> None:
    folder_of(tmp_path / "some", THREE)
    make_module(tmp_path / "tool-c", "tool-c")
    with pytest.raises(ManifestError, match=r"`.*some` and `.*tool-c` both hold `tool-c`"):
        BuiltinSource(tmp_path).list()


def test_the_one_entry_point_whose_package_is_missing_is_named(tmp_path: Path) -> None:
    root = make_module(tmp_path / "tool-a", "tool-a", package="shoot")
    (root / "shoot").rename(root / "shout")
    with failing("ModuleLayoutError", "its entry point names `shoot"):
        FileSource(root).resolve("tool-a")
