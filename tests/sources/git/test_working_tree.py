"""Files that somebody works on are told from those of a commit, by their contents and on the branch that is meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock_sources.supplies.git import differing_file


@pytest.fixture
def trees(tmp_path: Path) -> tuple[Path, Path]:
    """A repository's folder with the branch `main` checked out, and the same files as those of a commit."""
    for tree in ("work", "commit"):
        (tmp_path / tree / "package").mkdir(parents=True)
        (tmp_path / tree / "package/__init__.py").write_text("1")
        (tmp_path / tree / "link").symlink_to("package")
    (tmp_path / "work/.git").mkdir()
    (tmp_path / "work/.git/HEAD").write_text("ref: refs/heads/main\n")
    return tmp_path / "work", tmp_path / "commit"


@pytest.mark.parametrize("ref", ["", "main", "refs/heads/main"])
def test_a_changed_file_is_found_on_the_branch_that_is_meant(ref: str, trees: tuple[Path, Path]) -> None:
    work, commit = trees
    (work / "new.py").write_text("of no commit")
    assert differing_file(work, ref, commit) == ""
    (work / "package/__init__.py").write_text("2")
    assert differing_file(work, ref, commit) == "package/__init__.py"
    (work / "package/__init__.py").unlink()
    assert differing_file(work, ref, commit) == "package/__init__.py"
    assert differing_file(work, "v1", commit) == ""


def test_nothing_is_read_through_a_link_or_where_no_working_tree_is(trees: tuple[Path, Path]) -> None:
    work, commit = trees
    (work / "package/__init__.py").unlink()
    (work / "package/__init__.py").symlink_to(commit / "package/__init__.py")
    assert differing_file(work, "", commit) == "package/__init__.py"
    assert differing_file(work / ".git", "", commit) == differing_file(work / "gone", "", commit) == ""
