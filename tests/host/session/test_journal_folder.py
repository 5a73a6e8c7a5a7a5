"""The journals of a user: which sessions are meant by what people type, and which are removed beyond the bounds."""

from __future__ import annotations

import json
import math
import os
import time
from pathlib import Path

import pytest

from paddock.errors import KindError
from paddock.policy.journal_rule import JournalRule
from paddock.session.journals import journal_folder
from paddock.session.journals.journal_file import JournalFile, Kind, read_journal
from paddock.session.journals.journal_folder import Journals
from paddock.session.journals.kept_session import Call, End, KeptSession, Meta, Result, Spawn, Turn, encoded
from support.examples import IN_FULL

_DAY = 86_400


def _meta(id: str) -> bytes:
    return encoded(Meta(paddock="1", session=id, pid=7, plan=None, digest="d", working_dir="/", modules={}))


def _kept(folder: Path, id: str, *, days: float = 0.0, ended: bool = True, size: int = 0) -> JournalFile:
    """Make a session that was last written some days ago; it is open until it is closed."""
    file = Journals(folder).create(id)
    file.append(Kind.META, _meta(id))
    file.append(Kind.TURN, encoded(Turn(prompt="p" * size)))
    if ended:
        file.append(Kind.END, encoded(End(outcome="answer")))
        file.append(Kind.OVER, b"")
    os.utime(file.path, (time.time() - days * _DAY,) * 2)
    return file


def test_the_oldest_sessions_that_have_ended_are_removed(tmp_path: Path) -> None:
    for day in range(5):
        _kept(tmp_path, f"day-{day}", days=day).close()
    journals = Journals(tmp_path)
    assert journals.prune(JournalRule(keep=math.inf), 3) == []
    assert journals.prune(JournalRule(), 3) == ["day-3", "day-4"]
    assert journals.ids() == ["day-0", "day-1", "day-2"]
    assert (journals.is_first_removal(), journals.is_first_removal()) == (True, False)


def test_sessions_beyond_a_size_or_an_age_are_removed(tmp_path: Path) -> None:
    for day in range(4):
        _kept(tmp_path, f"day-{day}", days=day, size=1000).close()
    journals = Journals(tmp_path)
    assert journals.prune(JournalRule(size=4000)) == ["day-3"]
    assert journals.prune(JournalRule(keep=1.5 * _DAY)) == ["day-2"]


def test_a_session_that_runs_or_was_just_interrupted_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = _kept(tmp_path, "running", days=30)
    _kept(tmp_path, "interrupted", days=30, ended=False).close()
    _kept(tmp_path, "ended", days=30).close()
    (tmp_path / "foreign.journal").write_bytes(b"not ours")
    os.utime(tmp_path / "foreign.journal", (0, 0))
    journals, rule = Journals(tmp_path), JournalRule(keep=_DAY)
    assert journals.prune(rule) == ["ended"]
    running.close()
    later = time.time() + 8 * _DAY
    monkeypatch.setattr(time, "time", lambda: later)
    assert set(journals.prune(rule)) == {"running", "interrupted"}


_LONG = b"x" * 100_000  # more than is read of an end


def _long(folder: Path, *tail: tuple[Kind, bytes]) -> Path:
    """Make a session of three turns by two hosts, which ends with these records."""
    file = Journals(folder).create("long")
    written = [
        (Kind.META, _meta("long")),
        (Kind.TURN, encoded(Turn(prompt="first", turn=1, host=1))),
        (Kind.ADD, _LONG),
        (Kind.END, encoded(End(outcome="answer", turn=1, host=1))),
        (Kind.META, _meta("long").replace(b'"plan": null', b'"plan": "/p.yaml"')),
        (Kind.TURN, encoded(Turn(prompt="second", turn=2, host=2))),
        (Kind.END, encoded(End(outcome="answer", turn=2, host=2))),
    ]
    for kind, body in (*written, *tail):
        file.append(kind, body)
    file.close()
    return file.path


_TURN = Kind.TURN, encoded(Turn(prompt="third", turn=3, host=2))
_CALL = Kind.CALL, encoded(Call(call=2, module="m", tool="mark"))
_LATE = Kind.RESULT, encoded(Result(call=1))  # of a call before what is read
_END = Kind.END, encoded(End(outcome="answer", turn=3, host=2))
_HOST = Kind.META, _meta("long")
_SPAWN = Kind.SPAWN, encoded(Spawn(id="s", parent="long", agent="a", wishes=0), _LONG)


@pytest.mark.parametrize(
    ("tail", "is_enough"),
    [
        pytest.param((), True, id="ended"),
        pytest.param((_TURN, _LATE, _CALL), True, id="interrupted"),
        pytest.param((_TURN, _CALL, (Kind.ADD, _LONG)), False, id="interrupted in a long turn"),
        pytest.param((_TURN, (Kind.ADD, _LONG), _CALL, _END), False, id="a later host, out of sight"),
        pytest.param(((Kind.ADD, _LONG), _HOST, _TURN, _CALL, _END), True, id="a third host"),
        pytest.param((_TURN, _END, _SPAWN), False, id="ended before a large record"),
    ],
)
def test_the_ends_of_a_file_tell_what_all_of_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tail: tuple[tuple[Kind, bytes], ...], is_enough: bool
) -> None:
    _long(tmp_path, *tail)
    whole, _ = Journals(tmp_path).read("long")
    reads = []
    monkeypatch.setattr(journal_folder, "read_journal", lambda path: reads.append(path) or read_journal(path))
    ((glanced, _),) = Journals(tmp_path).all(lambda error: None)
    assert _facts(glanced) == _facts(whole)
    assert (reads == []) is is_enough


def _facts(kept: KeptSession) -> tuple[object, ...]:
    told = kept.id, kept.metas[-1], kept.turn_count, [turn.prompt for turn in kept.turns[:1]], kept.was_interrupted
    return (*told, kept.began, kept.last, [call.tool for call in kept.open_calls()], kept.is_cut)


def test_the_ends_of_a_damaged_file_tell_nothing_else_than_all_of_it(tmp_path: Path) -> None:
    path = tmp_path / "s.journal"
    file = _kept(tmp_path, "s")
    for kind, body in (_HOST, _TURN, _CALL, _LATE, _END, _TURN):
        file.append(kind, body)
    file.close()
    whole, journals = path.read_bytes(), Journals(tmp_path)
    seen = set()
    for place in range(0, len(whole), 1 if IN_FULL else 11):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << (place % 8)
        for damaged in (whole[:place], bytes(flipped)):
            path.write_bytes(damaged)
            glanced = [_facts(kept) for kept, _ in journals.all(lambda error: None)]
            try:
                assert glanced == [_facts(journals.read("s")[0])]
            except KindError:
                assert glanced == []
            seen.add(str(glanced))
    assert len(seen) > 5


@pytest.mark.parametrize("rest", [b"half a record", bytes(17)], ids=["cut", "no room"])
def test_a_session_whose_end_is_missing_says_so(tmp_path: Path, rest: bytes) -> None:
    path = _long(tmp_path, _TURN)
    with path.open("ab") as file:
        file.write(rest)
    ((kept, _),) = Journals(tmp_path).all(lambda error: None)
    assert (kept.is_cut, kept.reached.turn, kept.was_interrupted) == (True, 3, True)


def test_the_beginning_of_several_ids_means_none(tmp_path: Path) -> None:
    for id in ("abcd-1", "abcd-2", "other"):
        _kept(tmp_path, id).close()
    journals = Journals(tmp_path)
    with pytest.raises(KindError) as caught:
        journals.find("abcd")
    with pytest.raises(KindError) as meant:
        journals.find("othre")
    assert "did you mean `other`?" in meant.value.hints
    assert caught.value.hints[0] == "it is the beginning of several ids: abcd-1, abcd-2"
    assert (journals.find("abcd-1"), journals.find("othe")) == ("abcd-1", "other")
    for asked in ("oth", "abcd-3"):
        with pytest.raises(KindError):
            journals.find(asked)


def test_an_id_that_is_no_name_of_a_file_is_found_by_it(tmp_path: Path) -> None:
    odd = "../of an application/1"
    _kept(tmp_path, odd).close()
    journals = Journals(tmp_path)
    (name,) = journals.ids()
    assert {journals.find(asked, Path("/")) for asked in (odd, "last", name, name[:8])} == {odd}
    assert [kept.id for kept, _ in journals.all(lambda error: None)] == [odd]
    journals.delete(odd)
    assert journals.ids() == []


def test_the_last_session_is_that_of_the_folder(tmp_path: Path) -> None:
    journals = Journals(tmp_path / "journals")
    for id, folder in (("of-a", "a"), ("of-b", "b"), ("silent", "a")):
        file = journals.create(id)
        file.append(Kind.META, _meta(id).replace(b'"/"', json.dumps(str(tmp_path / folder)).encode()))
        if id != "silent":
            file.append(Kind.TURN, encoded(Turn(prompt="hello")))
        file.close()
    assert journals.find("last", tmp_path / "a") == "of-a"  # nothing was said in the other one
    with pytest.raises(KindError, match=r"(?s)`last` to go on with.*no session of .* had a turn"):
        journals.find("last", tmp_path / "c")


def test_a_session_goes_without_those_whose_ids_look_like_its_ends(tmp_path: Path) -> None:
    for id in ("one", "one.torn-2"):
        _kept(tmp_path, id).close()
    (tmp_path / "one.torn-1").touch()
    Journals(tmp_path).delete("one")
    assert [path.name for path in tmp_path.iterdir()] == ["one.torn-2.journal"]


def test_a_killed_session_is_the_folders_until_there_is_a_later_turn(tmp_path: Path) -> None:
    journals = Journals(tmp_path)
    _kept(tmp_path, "killed", days=3, ended=False).close()
    _kept(tmp_path, "present").close()
    found = journals.interrupted_in(Path("/"), besides="present")
    assert found is not None and found.id == "killed"
    assert journals.interrupted_in(Path("/elsewhere"), besides="present") is None
    running = _kept(tmp_path, "running", days=2, ended=False)
    assert journals.interrupted_in(Path("/"), besides="present") is None
    running.close()
    _kept(tmp_path, "later", days=1).close()
    assert journals.interrupted_in(Path("/"), besides="present") is None
