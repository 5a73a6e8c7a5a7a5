"""A module's folder in the workspace counts once there is Python in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from paddock_sources import FolderUri, ManifestError
from paddock_sources.resolution import NoAnswer
from paddock_sources.workspace import find_in_workspace
from sources.module_folder import BOOBY_TRAP, make_module


def reason(workspace: Path, module_id: str = "tool-demo") -> str:
    answer = find_in_workspace(workspace, module_id)
    assert isinstance(answer, NoAnswer)
    return answer.reason


def test_a_folder_called_as_the_module_is_it(tmp_path: Path) -> None:
    root = make_module(tmp_path / "tool-demo", init=BOOBY_TRAP).resolve()
    assert find_in_workspace(tmp_path, "tool-demo") == FolderUri(str(root), root)


@pytest.mark.parametrize("place", ["a.py", "src/pkg/__init__.py", "x/y/z/a.py"])
def test_python_anywhere_in_it_makes_it_a_module(tmp_path: Path, place: str) -> None:
    file = tmp_path / "tool-demo" / place
    file.parent.mkdir(parents=True)
    file.touch()
    assert isinstance(find_in_workspace(tmp_path, "tool-demo"), FolderUri)


def test_a_link_stands_for_the_folder_it_leads_to(tmp_path: Path) -> None:
    root = make_module(tmp_path / "elsewhere").resolve()
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "tool-demo").symlink_to(root)
    assert find_in_workspace(tmp_path / "workspace", "tool-demo") == FolderUri(str(root), root)


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    assert reason(tmp_path) == f"there is no `{tmp_path}/tool-demo`"
    assert reason(tmp_path / "gone") == f"there is no `{tmp_path}/gone`"


def test_a_file_of_that_name_is_no_module(tmp_path: Path) -> None:
    (tmp_path / "tool-demo").touch()
    assert "is not a folder" in reason(tmp_path)


@pytest.mark.parametrize("marked", [False, True])
def test_a_submodule_that_is_not_checked_out_is_as_good_as_none(tmp_path: Path, marked: bool) -> None:
    (tmp_path / "tool-demo").mkdir()
    if marked:
        (tmp_path / "tool-demo" / ".git").write_text("gitdir: ../.git/modules/tool-demo")
    assert "not checked out" in reason(tmp_path)


@pytest.mark.parametrize("place", ["README.md", ".git/hooks/a.py", ".venv/lib/a.py", "node_modules/a/gyp.py"])
def test_a_folder_without_python_of_its_own_is_no_module(tmp_path: Path, place: str) -> None:
    file = tmp_path / "tool-demo" / place
    file.parent.mkdir(parents=True)
    file.touch()
    (tmp_path / "tool-demo" / "LICENSE").touch()
    assert "there is no Python" in reason(tmp_path)


def test_a_link_out_of_it_is_not_followed_to_find_some(tmp_path: Path) -> None:
    make_module(tmp_path / "elsewhere")
    (tmp_path / "tool-demo").mkdir()
    (tmp_path / "tool-demo" / "loop").symlink_to(".")
    (tmp_path / "tool-demo" / "out").symlink_to(tmp_path / "elsewhere")
    assert "there is no Python" in reason(tmp_path)


def test_a_folder_of_data_is_not_searched_for_ever(tmp_path: Path) -> None:
    folder = tmp_path / "tool-demo"
    folder.mkdir()
    for number in range(2500):
        os.close(os.open(folder / f"data-{number}", os.O_CREAT))
    (folder / "deep" / "pkg").mkdir(parents=True)
    (folder / "deep" / "pkg" / "a.py").touch()
    assert "there is no Python" in reason(tmp_path)


def test_a_folder_that_cannot_be_followed_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "tool-demo").symlink_to("tool-demo")
    with pytest.raises(ManifestError):
        find_in_workspace(tmp_path, "tool-demo")
