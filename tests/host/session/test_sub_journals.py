"""The journals of sub-sessions beside that of their session: how many stay, and what they take."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from paddock.session.journals import sub_journals
from paddock.session.journals.journal_file import JournalFile, Kind
from paddock.session.journals.journal_folder import Journals


def _begun(journal: Path, id: str, *, at: int, bytes: int = 10) -> None:
    file, records, _ = sub_journals.opened(journal, id, is_new=True)
    assert records == []
    file.append(Kind.ADD, b"x" * bytes)
    file.close()
    os.utime(file.path, (at, at))


@pytest.mark.parametrize(
    ("most", "bytes_max", "left"), [(3, 1 << 20, "cde"), (99, 2500, "cde"), (99, 1 << 20, "abcde")]
)
def test_the_oldest_go_when_another_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, bytes_max: int, left: str
) -> None:
    monkeypatch.setattr(sub_journals, "_COUNT_MAX", most)
    monkeypatch.setattr(sub_journals, "_BYTES_MAX", bytes_max)
    journal = tmp_path / "s.journal"
    for at, id in enumerate("abcde"):
        _begun(journal, id, at=at, bytes=1000)
    assert {id for id in "abcde" if sub_journals.place_of(journal, id).exists()} == {*left}


def test_one_that_goes_on_has_what_it_had_and_a_new_one_of_its_id_has_nothing(tmp_path: Path) -> None:
    journal = tmp_path / "s.journal"
    _begun(journal, "../odd\udcff", at=1)
    file, records, torn = sub_journals.opened(journal, "../odd\udcff", is_new=False)
    file.close()
    assert (len(records), torn) == (1, None)
    _begun(journal, "../odd\udcff", at=2)


def test_sub_sessions_count_as_their_session_and_are_removed_with_it(tmp_path: Path) -> None:
    JournalFile.create(tmp_path / "s-1.journal").close()
    _begun(tmp_path / "s-1.journal", "below", at=1, bytes=1000)
    (file,) = Journals(tmp_path)._files()
    assert file.size > 1000
    Journals(tmp_path).delete("s-1")
    assert list(tmp_path.iterdir()) == []
