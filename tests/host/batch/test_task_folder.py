"""The folder of a task: what is put there, and what comes back of all that was made in it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock.batch import folder as folder_module
from paddock.batch.folder import TaskFolder
from paddock.errors import KindError


@pytest.fixture
def as_ordinary_user() -> Iterator[None]:
    """Have root refused what an ordinary user is refused."""
    before = os.geteuid()
    os.seteuid(before or 65534)
    yield
    os.seteuid(before)


@pytest.fixture
def folder() -> Iterator[TaskFolder]:
    folder = TaskFolder()
    yield folder
    folder.remove()
    assert not folder.path.exists()


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Return a folder of inputs, with a secret beside it to which links in it lead."""
    base = tmp_path / "base"
    (base / "data").mkdir(parents=True)
    (base / "data/in.txt").write_text("in")
    (tmp_path / "secret").write_text("secret")
    (base / "link").symlink_to(tmp_path / "secret")
    (base / "linked").symlink_to(tmp_path)
    os.mkfifo(base / "fifo")
    return base


def test_changed_and_new_files_come_back_and_others_do_not(folder: TaskFolder, base: Path, tmp_path: Path) -> None:
    folder.fill({f"a/{name}.txt": "data/in.txt" for name in ("kept", "changed", "removed")}, base)
    (folder.path / "a/changed.txt").write_text("on")
    (folder.path / "a/removed.txt").unlink()
    (folder.path / "b/c").mkdir(parents=True)
    (folder.path / "b/c/new.txt").write_text("new")
    (folder.path / "empty").mkdir()
    assert _taken(folder, tmp_path) == ({"a/changed.txt": "on", "b/c/new.txt": "new"}, ["`a/removed.txt` was removed"])


@pytest.mark.parametrize("path", ["missing", "data", "link", "linked/secret", "fifo"])
def test_an_input_that_is_no_ordinary_file_is_refused(folder: TaskFolder, base: Path, path: str) -> None:
    with pytest.raises(KindError, match=path) as raised:
        folder.fill({"x": path}, base)
    assert raised.value.hints and not (folder.path / "x").exists()


def test_two_files_of_which_one_is_the_others_folder_are_refused(folder: TaskFolder, base: Path) -> None:
    with pytest.raises(KindError, match="a/b"):
        folder.fill({"a": "data/in.txt", "a/b": "data/in.txt"}, base)


def test_an_input_may_be_a_link_to_one_beside_it(folder: TaskFolder, base: Path) -> None:
    (base / "beside").symlink_to("data/in.txt")
    folder.fill({"x": "beside"}, base)
    assert (folder.path / "x").read_text() == "in" and not (folder.path / "x").is_symlink()


def test_links_fifos_and_our_own_name_are_not_taken(folder: TaskFolder, base: Path, tmp_path: Path) -> None:
    (folder.path / "link").symlink_to(tmp_path / "secret")
    (folder.path / "linked").symlink_to(tmp_path)
    os.mkfifo(folder.path / "fi\x1bfo")
    (folder.path / ".paddock").mkdir()
    (folder.path / ".paddock/x").write_text("x")
    (folder.path / "closed").mkdir()
    (folder.path / "good").write_text("good")
    files, notes = _taken(folder, tmp_path)
    assert files == {"good": "good"}
    assert len(notes) == 4 and "`fi\\x1bfo` was not taken: it is no ordinary file" in notes


def test_a_link_in_place_of_the_copy_leads_nowhere(folder: TaskFolder, base: Path, tmp_path: Path) -> None:
    (folder.path / "x").write_text("of a module")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/x").symlink_to(tmp_path / "secret")
    assert folder.take(tmp_path / "out") == ["`x` was not taken: file exists"]
    assert (tmp_path / "secret").read_text() == "secret"


def test_a_folder_that_was_closed_is_taken_and_removed(as_ordinary_user: None, folder: TaskFolder) -> None:
    (folder.path / "x").write_text("x")
    folder.path.chmod(0)
    with pytest.raises(PermissionError):
        os.listdir(folder.path)
    with tempfile.TemporaryDirectory() as out:
        assert folder.take(Path(out)) == []
        assert (Path(out) / "x").read_text() == "x"
    folder.path.chmod(0)


@pytest.mark.parametrize(("bound", "value"), [("_BYTES_MAX", 3), ("_SEEN_MAX", 3), ("_DEPTH_MAX", 0)])
def test_what_is_beyond_a_bound_is_named_and_counted(
    folder: TaskFolder, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, value: int
) -> None:
    monkeypatch.setattr(folder_module, bound, value)
    monkeypatch.setattr(folder_module, "_NOTES_MAX", 2)
    below = folder.path / "below" if bound == "_DEPTH_MAX" else folder.path
    below.mkdir(exist_ok=True)
    for number in range(9):
        (below / str(number)).write_text("x")
    files, notes = _taken(folder, tmp_path)
    assert len(files) == (0 if bound == "_DEPTH_MAX" else 3)
    assert notes and len(notes) <= 3


def _taken(folder: TaskFolder, tmp_path: Path) -> tuple[dict[str, str], list[str]]:
    out = tmp_path / "out"
    out.mkdir()
    notes = folder.take(out)
    return {str(one.relative_to(out)): one.read_text() for one in out.rglob("*") if one.is_file()}, notes
