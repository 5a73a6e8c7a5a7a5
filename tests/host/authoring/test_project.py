"""A new project is what the community lays out, says what it is, and takes nobody's place."""

from __future__ import annotations

import ast
import os
import re
import tomllib
from pathlib import Path

import pytest

from failures import failing
from paddock.authoring.module_folder import ModuleFolder
from paddock.authoring.module_name import KINDS, ModuleName
from paddock.authoring.project import write_module, write_project
from paddock.plan.model import Kind


@pytest.mark.parametrize("kind", KINDS)
def test_a_project_is_laid_out_as_the_community_does(kind: Kind, tmp_path: Path) -> None:
    name = ModuleName.of(kind, "word-count")
    project = write_project(name, tmp_path)
    assert project.folder == tmp_path / f"amplifier-module-{name.module_id}"
    written = {path.relative_to(project.folder).as_posix() for path in project.folder.rglob("*") if path.is_file()}
    assert set(project.files) == written
    assert {"README.md", "pyproject.toml", f"{name.package}/__init__.py", f"{name.package}/py.typed"} <= written
    assert any(path.startswith("tests/test_") for path in written)
    document = tomllib.loads((project.folder / "pyproject.toml").read_text())
    assert document["project"]["entry-points"]["amplifier.modules"] == {name.module_id: f"{name.package}:mount"}
    found = ModuleFolder.at(project.folder)
    assert (found.module_id, found.declared_kind, found.kind()) == (name.module_id, kind, kind)
    code = [project.folder / path for path in project.files if path.endswith(".py")]
    widths = [len(line) for path in code for line in path.read_text().splitlines()]
    assert max(widths) <= 120
    assert found.request is not None and found.request.lines == ("preset isolated",)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_of_a_template_is_left_in_a_project(kind: Kind, tmp_path: Path) -> None:
    project = write_project(ModuleName.of(kind, "longer-name-of-a-module"), tmp_path)
    for path in project.files:
        text = (project.folder / path).read_text()
        assert not re.search(r"\$\w|word.count", text), path
        if path.endswith(".py"):
            assert ast.get_docstring(ast.parse(text))


@pytest.mark.parametrize("there", ["folder", "file", "link"])
def test_what_is_there_is_never_changed(there: str, tmp_path: Path) -> None:
    name = ModuleName.of("tool", "x")
    place = tmp_path / name.folder
    elsewhere = tmp_path / "elsewhere"
    match there:
        case "folder":
            place.mkdir()
        case "file":
            place.write_text("mine")
        case _:
            place.symlink_to(elsewhere)
    with failing("ProjectError", "already"):
        write_project(name, tmp_path)
    assert not elsewhere.exists() and (not place.is_dir() or not list(place.iterdir()))


def _fill_the_disk(monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    """Have no room for a file of this name."""
    real = Path.write_text

    def full(path: Path, *args: object, **options: object) -> int:
        if path.name == at:
            raise OSError(28, os.strerror(28))
        return real(path, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "write_text", full)


def test_a_project_that_cannot_be_written_whole_is_not_there_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fill_the_disk(monkeypatch, "__init__.py")
    with failing("ProjectError", "no space left on device"):
        write_project(ModuleName.of("tool", "x"), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with failing("ProjectError", "no such file or directory"):
        write_project(ModuleName.of("tool", "x"), tmp_path / "nowhere")


# -- a further module of a project


def test_a_project_takes_in_a_module_of_each_kind(tmp_path: Path) -> None:
    folder = write_project(ModuleName.of("tool", "x"), tmp_path).folder
    before = (folder / "pyproject.toml").read_text()
    for kind in KINDS:
        written = write_module(ModuleName.of(kind, "more"), folder)
        assert written.folder == folder and all((folder / path).is_file() for path in written.files)
        assert "pyproject.toml" in written.files and "README.md" not in written.files
    after = (folder / "pyproject.toml").read_text()
    declared = tomllib.loads(after)["project"]["entry-points"]["amplifier.modules"]
    names = [ModuleName.of(kind, "more") for kind in KINDS]
    assert declared == {"tool-x": "amplifier_module_tool_x:mount"} | {
        name.module_id: f"{name.package}:mount" for name in names
    }
    more = [f'{name.module_id} = "{name.package}:mount"' for name in names]
    packages = ", ".join(f'"{package}"' for package in ("amplifier_module_tool_x", *(name.package for name in names)))
    assert [line for line in after.splitlines() if line not in more] == [
        f"packages = [{packages}]" if line.startswith("packages") else line for line in before.splitlines()
    ]
    assert [ModuleFolder.at(folder, name.module_id).kind() for name in names] == list(KINDS)


def test_a_project_that_lays_its_code_below_src_gets_it_there(tmp_path: Path) -> None:
    package = tmp_path / "src" / "amplifier_module_a"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (tmp_path / "pyproject.toml").write_text('[project.entry-points."amplifier.tools"]\na = "amplifier_module_a"\n')
    written = write_module(ModuleName.of("tool", "x"), tmp_path)
    assert (tmp_path / "src/amplifier_module_tool_x/__init__.py").is_file()
    assert [ModuleFolder.at(tmp_path, one).module_id for one in ("a", "tool-x")] == ["a", "tool-x"]
    assert "tests/test_tool_x.py" in written.files


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ("id", "it holds a module `tool-x` already"),
        ("package", "there is `amplifier_module_tool_x` already"),
        ("test", "there is `tests/test_tool_x.py` already"),
        ("one line", "its `pyproject.toml` has no table for"),
        ("full", "no space left on device"),
        ("malformed", "it is not TOML"),
    ],
)
def test_a_module_that_a_project_cannot_take_in_leaves_it_as_it_was(
    there: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_project(ModuleName.of("tool", "x" if there == "id" else "y"), tmp_path).folder
    match there:
        case "package":
            (folder / "amplifier_module_tool_x").mkdir()
        case "test":
            (folder / "tests/test_tool_x.py").write_text("mine")
        case "one line":
            line = (
                '[project]\nname = "y"\nentry-points = {"amplifier.modules" = {"tool-y" = "amplifier_module_tool_y"}}\n'
            )
            (folder / "pyproject.toml").write_text(line)
        case "malformed":
            (folder / "pyproject.toml").write_text("[")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    if there == "full":
        _fill_the_disk(monkeypatch, "pyproject.toml")
    with failing("ProjectError", said):
        write_module(ModuleName.of("tool", "x"), folder)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
