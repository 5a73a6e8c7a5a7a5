"""The audit log: what is in its lines and what never is, where it is, and what becomes of it when things go wrong."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import resource
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from paddock import audit
from paddock.audit import NO_LINE, AuditLog, digest_of
from paddock.audit_reading import Chain, audit_lines
from paddock.errors import KindError
from paddock.state_folder import make_private, state_folder


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


def test_a_line_says_when_in_which_session_and_what(path: Path) -> None:
    AuditLog("s-1", path=path).record("module.started", module="tool-x", level="ns", grants=["read /a"])
    (line,) = lines_of(path)
    head = ["time", "session", "event", "seq", "uid", "pid"]
    assert list(line) == [*head, "module", "level", "grants", "prev"]
    assert (line["seq"], line["uid"], line["pid"], line["prev"]) == (1, os.geteuid(), os.getpid(), NO_LINE)
    assert line["session"] == "s-1" and line["event"] == "module.started" and line["grants"] == ["read /a"]
    assert line["time"].endswith("Z")
    assert datetime.fromisoformat(line["time"]).utcoffset() == timedelta(0)


def test_by_default_it_is_in_the_users_state_folder_and_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        AuditLog("s").record("session.started")
    finally:
        os.umask(before)
    file = Path.home() / ".local/state/paddock/audit.jsonl"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_a_folder_and_a_file_that_others_could_read_are_closed_to_them(path: Path) -> None:
    folder = state_folder()
    folder.chmod(0o755)
    (folder / "audit.jsonl").touch(0o644)
    AuditLog("s").record("session.started")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "audit.jsonl").stat().st_mode) == 0o600


def test_the_silent_one_writes_nothing() -> None:
    AuditLog.silent().record("session.started")
    assert not (Path.home() / ".local").exists()


def test_lines_of_sessions_side_by_side_are_each_whole(path: Path) -> None:
    def write(session: str) -> None:
        log = AuditLog(session, path=path)
        for number in range(200):
            log.record("denial", target="t" * 500, number=number)

    writers = [threading.Thread(target=write, args=(f"s-{number}",)) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(20)
    lines = lines_of(path)
    assert len(lines) == 800
    for session in range(4):
        assert [line["number"] for line in lines if line["session"] == f"s-{session}"] == list(range(200))


# -- text from modules ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "hostile",
    [
        'x"}\n{"event": "session.ended"}',
        "\x1b[2J\x1b]0;t\x07\r",
        "\x7f\x9b2J",
        "\u202e\u2028\u2029\ufeff",
        "\udc80\ud800",
        "\0",
    ],
)
@pytest.mark.parametrize("place", ["value", "key", "item"])
def test_text_stays_inside_its_quotes_whatever_it_is(path: Path, hostile: str, place: str) -> None:
    facts: dict[str, Any] = {"value": hostile, "key": {hostile: 1}, "item": [[hostile]]}
    log = AuditLog("s", path=path)
    log.record("denial", module="tool-x", fact=facts[place])
    log.record("session.ended")
    raw = path.read_bytes()
    assert raw.count(b"\n") == 2
    assert all(0x20 <= byte < 0x7F for byte in raw.replace(b"\n", b""))
    assert lines_of(path)[0]["fact"] == facts[place]


def test_facts_cannot_stand_in_for_what_is_the_logs_own(path: Path) -> None:
    facts = {"event": "session.ended", "time": "never", "session": "other", "left_out": 7, "self": 1}
    AuditLog("s", path=path).record("denial", **facts, seq=7, prev="x", pid=7)
    (line,) = lines_of(path)
    assert (line["event"], line["session"], line["self"]) == ("denial", "s", 1)
    assert line["time"] != "never" and "left_out" not in line
    assert (line["seq"], line["prev"], line["pid"]) == (1, NO_LINE, os.getpid())


@pytest.mark.parametrize(
    "huge",
    [
        "x" * 10_000_000,
        ["x" * 2000] * 1000,
        {f"k{number}": "\u202e" * 2000 for number in range(1000)},
        [[[[[[[[[["deep"]]]]]]]]]],
        [["x" * 300] * 100] * 100,
        10**4000,
    ],
    ids=["text", "list", "table", "deep", "wide", "number"],
)
def test_a_line_is_bounded_whatever_the_facts_are(path: Path, huge: object) -> None:
    AuditLog("s", path=path).record("denial", module="tool-x", fact=huge)
    assert path.stat().st_size <= 8192
    (line,) = lines_of(path)
    assert line["event"] == "denial"


def test_values_that_json_does_not_have_are_written_as_what_comes_close(path: Path) -> None:
    AuditLog("s", path=path).record("x", nan=float("nan"), path=Path("/a"), names={"b", "a"}, pair=(1, None), yes=True)
    (line,) = lines_of(path)
    for key in ("time", "session", "event", "seq", "uid", "pid", "prev"):
        del line[key]
    assert line == {"nan": None, "path": "/a", "names": ["a", "b"], "pair": [1, None], "yes": True}


def test_secrets_are_masked_also_where_a_text_is_cut_in_the_middle_of_one(path: Path) -> None:
    secret = "sk-0123456789abcdef"

    def mask(text: str) -> str:
        return text.replace(secret, "***")

    padding = "x" * 990
    AuditLog("s", path=path, mask=mask).record("denial", target=padding + secret, keys={secret: [secret]})
    assert b"sk-0" not in path.read_bytes()
    AuditLog("s", path=path).record("denial", target=padding + secret)
    assert b"sk-0" in path.read_bytes()


def test_a_secret_that_is_a_number_is_masked_as_well(path: Path) -> None:
    log = AuditLog("s", path=path, mask=lambda text: text.replace("31415926", "***"))
    log.record("denial", pin=31415926, count=2, seconds=0.5, nested=[{"pin": 31415926}])
    (line,) = lines_of(path)
    assert (line["pin"], line["count"], line["seconds"], line["nested"]) == ("***", 2, 0.5, [{"pin": "***"}])


# -- how much ------------------------------------------------------------------------------


def test_a_module_that_floods_is_counted_and_displaces_no_other(path: Path) -> None:
    now = 0.0
    log = AuditLog("s", path=path, clock=lambda: now)
    for number in range(20_000):
        log.record("denial", module="tool-flood", target="x" * 500, number=number)
    written = path.stat().st_size
    assert written < 600_000
    log.record("connection", module="tool-flood", host="a")
    log.record("denial", module="tool-quiet", target="y")
    assert [line["module"] for line in lines_of(path)[-2:]] == ["tool-flood", "tool-quiet"]
    told = len(lines_of(path)) - 2
    now = 60.0
    log.record("denial", module="tool-flood", target="z")
    assert lines_of(path)[-1]["left_out"] == 20_000 - told
    log.record("denial", module="tool-flood", target="z")
    assert "left_out" not in lines_of(path)[-1]


def test_what_was_left_out_is_said_when_the_session_ends(path: Path) -> None:
    log = AuditLog("s", path=path, clock=lambda: 0.0)
    for _ in range(2000):
        log.record("denial", module="tool-flood", target="x" * 500)
    told = len(lines_of(path))
    log.record("session.ended")
    left_out, ended = lines_of(path)[-2:]
    assert ended["event"] == "session.ended"
    assert (left_out["event"], left_out["module"], left_out["of"]) == ("audit.left_out", "tool-flood", "denial")
    assert left_out["left_out"] == 2000 - told > 0


def test_a_full_file_is_set_aside_and_one_older_is_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "MAX_FILE_BYTES", 2000)
    logs = [AuditLog("a", path=path), AuditLog("b", path=path)]
    for number in range(60):
        logs[number % 2].record("denial", number=number)
        assert path.stat().st_size < 2300
    older = path.with_name("audit.jsonl.1")
    numbers = [line["number"] for line in [*lines_of(older), *lines_of(path)]]
    assert numbers == list(range(numbers[0], 60)) and len(numbers) > 20
    assert sorted(os.listdir(path.parent)) == ["audit.jsonl", "audit.jsonl.1"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_was_taken_away_is_made_again(path: Path) -> None:
    log = AuditLog("s", path=path)
    log.record("session.started")
    path.unlink()
    log.record("session.ended")
    assert [line["event"] for line in lines_of(path)] == ["session.ended"]


# -- the chain -----------------------------------------------------------------------------

_WRITER = """
import sys
from pathlib import Path
from paddock import audit
audit.MAX_FILE_BYTES = 60_000
log = audit.AuditLog(sys.argv[1], path=Path(sys.argv[2]))
for number in range(200):
    log.record("denial", number=number)
"""


def test_each_line_names_the_one_before_also_of_another_host(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "MAX_FILE_BYTES", 1000)
    logs = [AuditLog("a", path=path), AuditLog("b", path=path)]
    for number in range(8):
        logs[number % 2].record("denial", number=number)
    lines = [*path.with_name("audit.jsonl.1").read_bytes().splitlines(), *path.read_bytes().splitlines()]
    assert [json.loads(line)["prev"] for line in lines[1:]] == [digest_of(line) for line in lines[:-1]]
    assert [json.loads(line)["seq"] for line in lines[-2:]] == [4, 4]


def test_hosts_that_write_at_once_keep_one_chain_and_lose_no_line(path: Path) -> None:
    hosts = [subprocess.Popen([sys.executable, "-c", _WRITER, f"s-{one}", str(path)]) for one in range(2)]
    assert [host.wait(60) for host in hosts] == [0, 0]
    chain = Chain.of(audit_lines(path))
    assert not chain.wrong and chain.before == 0
    numbers: dict[str, list[int]] = {}
    for line in audit_lines(path):
        assert line.facts is not None
        numbers.setdefault(line.facts["session"], []).append(line.facts["seq"])
    for seen in numbers.values():  # a third file back is gone
        assert seen == list(range(seen[0], 201))
    assert path.with_name("audit.jsonl.1").exists() and len(numbers) == 2


def test_a_line_of_an_older_paddock_and_a_very_long_one_are_linked_as_well(path: Path) -> None:
    path.write_bytes(b'{"event": "old"}\n' + b"x" * 10_000_000)
    AuditLog("s", path=path).record("session.started")
    *_, long, line = path.read_bytes().splitlines()
    assert json.loads(line)["prev"] == digest_of(long) == digest_of(long[-8192:])


def test_another_process_that_holds_the_file_is_not_waited_for_long(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(audit, "_WAIT_SECONDS", 0.1)
    log = AuditLog("s", path=path)
    log.record("session.started")
    with path.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_SH)
        log.record("denial")
        log.record("denial")
        assert caplog.text.count("another process has held it for too long") == 1
    log.record("session.ended")
    assert [line["seq"] for line in lines_of(path)] == [1, 4]


# -- what policies say ---------------------------------------------------------------------


@pytest.fixture
def service(path: Path, monkeypatch: pytest.MonkeyPatch) -> socket.socket:
    """A service that gets lines, at the place where `journald` would be."""
    place = str(path.with_name("s"))
    monkeypatch.setattr(audit, "_SERVICES", {"journald": (place, audit._SERVICES["journald"][1])})
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    receiver.bind(place)
    return receiver


_SENT = frozenset({"journald"})


def test_each_line_is_sent_on_as_one_text_that_no_module_can_leave(path: Path, service: socket.socket) -> None:
    log = AuditLog("s", path=path)
    log.obey(_SENT, False)
    log.record("denial", target="x\nPRIORITY=0\nMESSAGE=forged\n")
    with service:
        *fields, message = service.recv(1 << 16).decode().splitlines()
    assert fields == ["SYSLOG_IDENTIFIER=paddock", "SYSLOG_FACILITY=10", "PRIORITY=6"]
    assert message == f"MESSAGE={path.read_text().rstrip()}"


def test_a_line_for_syslog_is_of_the_kind_that_few_may_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = str(path.with_name("s"))
    monkeypatch.setattr(audit, "_SERVICES", {"syslog": (place, audit._SERVICES["syslog"][1])})
    log = AuditLog("s", path=path)
    log.obey({"syslog"}, False)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(place)
        log.record("session.started")
        assert receiver.recv(1 << 16).decode() == f"<86>paddock[{os.getpid()}]: {path.read_text()}"


@pytest.mark.parametrize("state", ["full", "absent"])
def test_a_service_that_takes_nothing_stops_nothing_and_is_told_once(
    path: Path, service: socket.socket, state: str, caplog: pytest.LogCaptureFixture
) -> None:
    log = AuditLog("s", path=path)
    log.obey(_SENT, False)
    with service:
        if state == "absent":
            os.unlink(path.with_name("s"))
        for _ in range(600):
            log.record("denial")
    assert len(lines_of(path)) == 600
    assert [one.message.partition(":")[0] for one in caplog.records] == [
        "the audit log is not sent on to journald, which misses lines from here on"
    ]
    log.check()


def test_a_required_log_that_fails_is_refused_before_and_after(path: Path, service: socket.socket) -> None:
    stopped: list[str] = []
    log = AuditLog("s", path=path)
    log.obey(_SENT, True)
    service.close()
    with pytest.raises(KindError, match="nothing runs here without an audit log") as refused:
        with log.needed(lambda: stopped.append("turn")):
            log.record("denial")
    assert stopped == ["turn"] and "journald" in refused.value.detail[0]
    with pytest.raises(KindError), log.needed(lambda: None):
        pytest.fail("it is not begun")
    path.unlink()
    path.mkdir()
    with pytest.raises(KindError, match="without an audit log"):
        AuditLog("s", path=path).obey((), True)


# -- what goes wrong -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.symlink_to("../elsewhere"),
        os.mkfifo,
        os.mkdir,
        lambda path: path.parent.rmdir(),
    ],
    ids=["a link", "a fifo", "a folder", "no folder"],
)
def test_a_failed_write_is_reported_once_and_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, spoil: Callable[[Path], object]
) -> None:
    path = tmp_path / "state" / "audit.jsonl"
    path.parent.mkdir()
    (tmp_path / "elsewhere").touch()
    spoil(path)
    log = AuditLog("s", path=path)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            log.record("session.started")
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "the audit log cannot be written, and misses what happens from here on"
    ]
    assert not (tmp_path / "elsewhere").read_bytes()


def test_a_mask_that_fails_writes_nothing_unmasked(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def mask(text: str) -> str:
        raise RuntimeError("no mask")

    AuditLog("s", path=path, mask=mask).record("denial", target="sk-1")
    assert not path.exists() and len(caplog.records) == 1


def test_a_line_that_found_no_room_spoils_no_other(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = AuditLog("s", path=path)
    log.record("session.started")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 20, before[1]))  # as on a disk that is full
    try:
        log.record("denial", target="x")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "there was no room for all of a line" in caplog.text
    log.record("session.ended")
    assert [line["seq"] for line in lines_of(path)] == [1, 3]  # the number of the one that is missing shows that
    assert not Chain.of(audit_lines(path)).wrong


@pytest.mark.skipif(os.geteuid() != 0, reason=f"only root can give a folder to somebody else, not user {os.geteuid()}")
def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = state_folder()
    AuditLog("s").record("session.started")
    os.chown(folder, 12345, 12345)
    folder.chmod(0o777)
    AuditLog("s").record("session.ended")
    assert "belongs to uid 12345" in caplog.text
    assert [line["event"] for line in lines_of(folder / "audit.jsonl")] == ["session.started"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o777


def test_a_link_in_the_place_of_a_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    make_private(tmp_path)
    with pytest.raises(OSError):
        make_private(tmp_path / "link")


def test_a_line_that_a_killed_host_left_unfinished_costs_no_other(path: Path) -> None:
    AuditLog("s-1", path=path).record("one")
    with path.open("ab") as file:
        file.write(b'{"time": "2026-01-0')
    AuditLog("s-2", path=path).record("two")
    lines = path.read_bytes().splitlines()
    assert len(lines) == 3 and json.loads(lines[2])["event"] == "two" and json.loads(lines[0])["event"] == "one"
