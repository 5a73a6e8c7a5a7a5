"""What `top` draws of sessions: for any width, without colour, and with nothing that a module wrote acting."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.cli.operating import running, top_command
from paddock.cli.operating.running import Module, Running, Session, of_session
from paddock.cli.terminal.rows import cells
from paddock.control.sessions import Place, Seen
from paddock.control.status import SessionStatus
from paddock.errors import PaddockError
from support.rows import each_row

_HOSTILE = "tool-\x1b[31mx\u202ey\r\n\x07" + "界" * 30
_STATUS = SessionStatus(
    session="1234abcd-x", plan="/w/plan.yaml", folder="/w", pid=7, uid=0, version="1", began=1, at=9
)


def _row(name: str, **facts: object) -> Module:
    row = Module(module=name, kind="tool", level="ns", state="idle", memory_bytes=9 << 20, memory_max=256 << 20)
    return row.model_copy(update=facts)


def _session(*modules: Module, id: str = "1234abcd-x") -> Session:
    return Session(Seen(Place(Path("/run"), "7.sock", 0), _STATUS.model_copy(update={"session": id})), modules)


_MODULES = (
    _row("tool-a", state="blocked", call="execute", call_seconds=12.0, last_denial="may not read `/etc/x`"),
    _row("tool-c", memory_bytes=90 << 20, cpu_percent=3.0),
    _row("tool-b", last_end=f"killed {_HOSTILE}", cpu_percent=98.0, calls_per_second=40.0),
    _row(_HOSTILE, last_denial=_HOSTILE),
)


@each_row("width", [20, 79, 119, 400])
def test_a_frame_fits_and_holds_no_character_that_acts(width: int) -> None:
    rows = top_command._frame([_session(*_MODULES)], "c", width, 24)
    assert all(row.isprintable() and cells(row) <= width for row in rows) and len(rows) <= 24
    if width >= 79:
        text = "\n".join(rows)
        assert "9M/256M" in text and "blocked 12s" in text and "may not read `/etc/x`" in text and "98" in text


@each_row(("key", "names"), [("c", "bca"), ("m", "cab"), ("n", "abc")])
def test_keys_sort_by_processor_memory_and_name(key: str, names: str) -> None:
    rows = top_command._frame([_session(*_MODULES[:3])], key, 400, 24)
    assert [row[: len("tool-x")] for row in rows if row.startswith("tool-")] == [f"tool-{name}" for name in names]


def test_what_has_no_room_is_counted() -> None:
    rows = top_command._frame([_session(*(_row(f"tool-{number}") for number in range(30)))], "n", 79, 10)
    assert len(rows) == 8 and rows[-2] == "… 26 more rows"


def test_rates_are_those_between_two_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = [
        _STATUS.model_copy(update={"at": 10.0, "modules": (_row("m", cpu_seconds=1.0, calls=5),)}),
        _STATUS.model_copy(update={"at": 12.0, "modules": (_row("m", cpu_seconds=2.0, calls=25), _row("new"))}),
    ]
    place = Place(Path("/run"), "7.sock", 0)
    monkeypatch.setattr(running, "seen", lambda environ: ([Seen(place, looks.pop(0))], []))
    look = Running().look
    first, second = look()[0].modules, look()[0].modules
    assert first[0].cpu_percent is None
    assert [(one.cpu_percent, one.calls_per_second) for one in second] == [(50.0, 10.0), (None, None)]


@each_row(("asked", "count"), [(None, 2), ("abcd1", 1), ("abcd", 0), ("abc", 0), ("beef", 0)])
def test_a_session_is_meant_by_the_beginning_of_one_id(asked: str | None, count: int) -> None:
    sessions = [_session(id=id).seen for id in ("abcd1", "abcd2")]
    if count:
        assert len(of_session(sessions, asked)) == count
    else:
        with pytest.raises(PaddockError, match="runs") as refused:
            of_session(sessions, asked)
        assert "`paddock ps`" in str(refused.value.hints)
