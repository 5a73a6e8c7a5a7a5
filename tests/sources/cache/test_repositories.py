"""What is kept of repositories: by address, one at a time, and facts about commits."""

from __future__ import annotations

from pathlib import Path

import pytest

from failures import failing
from paddock_sources.cache import SourceCache
from support.rows import each_row

URL = "https://host/repository"
COMMIT = "c" * 40


def test_a_repositorys_folder_is_stable_and_names_its_source(folder: Path) -> None:
    with SourceCache(folder).repositories.locked(URL, 1) as first:
        (first / "repo.git").mkdir()
    with SourceCache(folder).repositories.locked(URL, 1) as second:
        assert second == first
        assert (second / "repo.git").is_dir()
    assert (first / "url").read_text(encoding="utf-8") == URL + "\n"
    with SourceCache(folder).repositories.locked(URL + "2", 1) as other:
        assert other != first


def test_no_credentials_are_written_down(folder: Path) -> None:
    with SourceCache(folder).repositories.locked("https://user:secret@host/repository", 1) as place:
        pass
    written = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert b"secret" not in written
    assert "secret" not in str(place)


def test_one_has_a_repository_at_a_time(folder: Path) -> None:
    with SourceCache(folder).repositories.locked(URL, 1):
        with failing("CacheBusyError"), SourceCache(folder).repositories.locked(URL, 0):
            pass
        with SourceCache(folder).repositories.locked(URL + "2", 0):
            pass


def test_what_was_noted_of_a_commit_is_told_without_a_lock(folder: Path) -> None:
    cache = SourceCache(folder)
    assert cache.repositories.commit(URL, COMMIT) is None
    assert not folder.exists()
    cache.repositories.note(URL, COMMIT, {"tree": "one"})
    cache.repositories.note(URL, COMMIT, {"tree": "two"})
    with cache.repositories.locked(URL, 1):
        assert SourceCache(folder).repositories.commit(URL, COMMIT) == {"tree": "two"}
    assert cache.repositories.commit(URL + "2", COMMIT) is None
    assert cache.repositories.commit(URL, "d" * 40) is None


@each_row("commit", ["", "main", "c" * 39, "C" * 40, "../" + "c" * 37, "c" * 41])
def test_what_is_no_commit_is_never_a_path(folder: Path, commit: str) -> None:
    with pytest.raises(ValueError, match="not a commit"):
        SourceCache(folder).repositories.note(URL, commit, {})
