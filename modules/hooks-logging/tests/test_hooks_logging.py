"""The event log: what is written, what is kept out of it, and that it never disturbs a session."""

from __future__ import annotations

import copy
import errno
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from amplifier_core import events
from amplifier_core.models import HookResult
from amplifier_core.testing import MockCoordinator
from amplifier_module_hooks_logging import EventLogger, Settings, mount
from amplifier_module_hooks_logging.log_line import line_for
from amplifier_module_hooks_logging.secrets_filter import is_secret, without_secrets

pytestmark = pytest.mark.anyio


class Session:
    """A session in a folder, with the log mounted; `emit` says its events one after the other."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "session.jsonl"
        self.coordinator = MockCoordinator()
        self.coordinator.register_capability("session.working_dir", str(folder))
        self.coordinator.hooks.set_default_fields(session_id="s-1", parent_id=None)

    async def mount(self, **config: Any) -> Callable[[], None]:
        self.path = self.path.parent / config.get("path", "session.jsonl")
        return await mount(self.coordinator, config)

    async def emit(self, *names: str, **data: Any) -> None:
        for name in names:
            assert (await self.coordinator.hooks.emit(name, data)).action == "continue"

    def logged(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()]

    def names(self) -> list[str]:
        return [entry["event"] for entry in self.logged()]


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path)


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    return lambda: [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_every_event_becomes_a_line_with_time_and_session(session: Session) -> None:
    await session.mount()
    await session.emit("tool:pre", tool_name="read", tool_input={"path": "a"})
    await session.emit("session:end")
    first, second = session.logged()
    assert (first["event"], first["session_id"], first["ts"][:2]) == ("tool:pre", "s-1", "20")
    assert first["data"] == {"tool_name": "read", "tool_input": {"path": "a"}}
    assert second["event"] == "session:end"


async def test_all_well_known_events_are_logged_by_default(session: Session) -> None:
    await mount(session.coordinator, None)
    await session.emit(*events.ALL_EVENTS)
    assert session.names() == list(events.ALL_EVENTS)


async def test_patterns_select_events_and_plain_names_need_not_be_known(session: Session) -> None:
    await session.mount(events=["tool:*", "my:own"])
    await session.emit("tool:pre", "my:own", "session:start", "prompt:submit", "my:other")
    assert session.names() == ["tool:pre", "my:own"]


async def test_events_announced_before_and_after_mounting_are_logged(session: Session) -> None:
    coordinator = session.coordinator
    coordinator.register_capability("observability.events", ["early:listed", 7])
    coordinator.register_contributor("observability.events", "a", lambda: ["early:contributed"])
    await session.mount()
    coordinator.register_capability("observability.events", ["early:listed", "late:listed"])
    coordinator.register_contributor("observability.events", "b", lambda: ["late:contributed"])
    names = ["early:listed", "early:contributed", "late:listed", "late:contributed"]
    await session.emit("session:start", *names, "never:announced")
    assert session.names() == ["session:start", *names]


async def test_what_modules_announce_without_end_keeps_the_log_from_nothing(
    session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    announce = session.coordinator.register_contributor
    announce("observability.events", "a", lambda: ["x" * 300, ""])
    announce("observability.events", "b", lambda: [f"e:{number}" for number in range(5000)])
    await session.mount()
    registered = session.coordinator.hooks.list_handlers()
    assert "e:100" in registered and "x" * 300 not in registered and len(registered) == 500
    assert "events too many, which are not logged" in caplog.text


async def test_a_failing_contributor_does_not_stop_the_log(session: Session) -> None:
    async def refuse(channel: str) -> list[Any]:
        raise PermissionError(channel)

    session.coordinator.collect_contributions = refuse
    await session.mount()
    await session.emit("session:start")
    assert len(session.logged()) == 1


async def test_the_answer_is_always_continue(session: Session) -> None:
    event_logger = EventLogger(session.coordinator, Settings())
    for data in ({}, {"a": 1}, None, [1], "text", {"a": object()}, {"a": float("nan")}):
        assert await event_logger.handle("x", data) == HookResult()


async def test_a_log_that_cannot_be_written_is_reported_once_and_goes_on_later(
    session: Session, warnings: Callable[[], list[str]]
) -> None:
    cleanup = await session.mount(path="logs/log.jsonl")
    shutil.rmtree(session.path.parent)
    session.path.parent.touch()
    await session.emit(*["tool:pre"] * 3)
    assert len(warnings()) == 1 and "logs/log.jsonl" in warnings()[0]
    session.path.parent.unlink()
    await session.emit("tool:post")
    assert session.names() == ["tool:post"]
    cleanup()


async def test_the_file_is_there_from_the_start_of_a_session_and_not_before(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (await mount(MockCoordinator()))()
    assert names_in(tmp_path) == []
    (await session.mount())()
    assert names_in(tmp_path) == ["session.jsonl"]


async def test_a_log_that_could_not_be_kept_is_an_error_at_the_start(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"`path`: .*file/log.jsonl cannot be written .*grant the module `write`"):
        await session.mount(path="file/log.jsonl")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    await session.mount(path="log.jsonl")
    monkeypatch.setattr(Path, "is_mount", lambda path: path == tmp_path)
    with pytest.raises(ValueError, match="a file system of its own there, which goes with it"):
        await Session(tmp_path / "not granted").mount(path="made/other.jsonl")
    assert names_in(tmp_path) == ["file", "log.jsonl"]


async def test_cleanup_stops_the_log_and_may_be_called_twice(session: Session) -> None:
    cleanup = await session.mount()
    await session.emit("tool:pre")
    cleanup()
    cleanup()
    await session.emit("tool:pre")
    assert len(session.logged()) == 1
    assert not any(session.coordinator.hooks.list_handlers().values())


async def test_only_the_owner_may_read_a_new_log_and_an_old_one_is_continued(tmp_path: Path) -> None:
    for number in (1, 2):
        session = Session(tmp_path)
        cleanup = await session.mount(path="deep/er/log.jsonl")
        await session.emit("tool:pre")
        cleanup()
        assert len(session.logged()) == number
    assert stat.S_IMODE(session.path.stat().st_mode) == 0o600


async def test_without_a_working_directory_the_current_folder_is_meant(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    session.coordinator = MockCoordinator()
    await session.mount()
    await session.emit("tool:pre")
    assert len(session.logged()) == 1


async def test_the_priority_decides_when_the_log_runs(session: Session) -> None:
    await session.mount(priority=5)
    hooks = session.coordinator.hooks
    hooks.register("tool:pre", lambda event, data: None, priority=0, name="other")
    assert hooks.list_handlers("tool:pre")["tool:pre"] == ["other", "hooks-logging"]


# --- secrets


@pytest.mark.parametrize(
    "key",
    [
        "api_key", "apiKey", "API-KEY", "OPENAI_API_KEY", "x-api-key", "token", "access_token", "accessToken",
        "password", "db_password", "Authorization", "secret", "client_secret", "clientSecret", "AWS_SECRET_ACCESS_KEY",
        "private_key", "credentials", "Set-Cookie", "auth",
    ],
)  # fmt: skip
def test_a_secret_is_known_by_its_name(key: str) -> None:
    assert is_secret(key)


@pytest.mark.parametrize(
    "key",
    ["max_tokens", "input_tokens", "token_count", "total_tokens", "author", "key", "keyboard", "secretary", "path"],
)
def test_an_ordinary_name_is_not_taken_for_a_secret(key: str) -> None:
    assert not is_secret(key)


async def test_secrets_are_left_out_at_every_depth_of_a_log_line(session: Session) -> None:
    await session.mount(detail="full")
    config = {"api_key": "k-123", "list": [{"password": ["k-123"]}], "token": None, "max_tokens": 5}
    before = copy.deepcopy(config)
    await session.emit("tool:pre", config=config)
    assert session.logged()[0]["data"]["config"] == {
        "api_key": "[REDACTED]",
        "list": [{"password": "[REDACTED]"}],
        "token": None,
        "max_tokens": 5,
    }
    assert config == before


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("key AKIA" + "IOSFODNN7EXAMPLE.", "key []."),
        ("ghp_" + "a1B2" * 9 + " x", "[] x"),
        ("sk-ant-api03-" + "a1B2_c3-D4" * 9, "[]"),
        ("xoxb-" + "123456789012-abcdefABCDEF", "[]"),
        ("eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxIn0.dBjftJeZ4CVP", "[]"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE\nabc=\n-----END PRIVATE KEY-----\n", "[]\n"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE, cut off", "[], cut off"),
        ("curl -H 'Authorization: Bearer abc123def456'", "curl -H 'Authorization: Bearer []'"),
        ("postgres://me:hunter2@db/x", "postgres://me:[]@db/x"),
        ("DB_PASSWORD=hunter2 run", "DB_PASSWORD=[] run"),
        ('{"api_key": "abc", "n": 1}', '{"api_key": "[]", "n": 1}'),
        (r"{\"api_key\": \"abc\", \"n\": 1}", r"{\"api_key\": \"[]\", \"n\": 1}"),
        ("max_tokens: 4096, token_count=12345, see https://x:8080/a", None),
    ],
)  # fmt: skip
def test_secrets_in_texts_are_known_by_their_form_or_name(text: str, expected: str | None) -> None:
    assert without_secrets({"a": [text]}) == {"a": [text if expected is None else expected.replace("[]", "[REDACTED]")]}


@pytest.mark.parametrize(
    "unit", ["a", "sk-", "token:", 'secret="', "eyJaaaaaaaa.", "-----BEGIN PRIVATE KEY-----", "://a:"]
)
def test_a_megabyte_of_anything_takes_time_in_proportion(unit: str) -> None:
    without_secrets(unit * (2**20 // len(unit)))  # a search that is not linear takes hours


# --- files that are full, and disks


async def test_a_full_file_is_put_aside_and_so_many_are_kept(session: Session, tmp_path: Path) -> None:
    await session.mount(max_file_bytes=4096, max_files=3, detail="full")
    for number in range(40):
        await session.emit("tool:pre", number=number, text="x" * 400)
    names = ["session.jsonl.2", "session.jsonl.1", "session.jsonl"]
    assert names_in(tmp_path) == sorted(names)
    numbers = []
    for session.path in (tmp_path / name for name in names):
        assert session.path.stat().st_size <= 4096 and stat.S_IMODE(session.path.stat().st_mode) == 0o600
        numbers += [entry["data"]["number"] for entry in session.logged()]
    assert numbers == list(range(numbers[0], 40)) and len(numbers) > 14


async def test_one_file_alone_begins_anew(session: Session, tmp_path: Path) -> None:
    await session.mount(max_file_bytes=4096, max_files=1, max_line_bytes=8000, detail="full")
    for text in ("x" * 3000, "y" * 6000, "z" * 10):
        await session.emit("tool:pre", text=text)
    assert names_in(tmp_path) == ["session.jsonl"]
    assert [entry["data"]["text"] for entry in session.logged()] == ["z" * 10]


async def test_sessions_that_share_a_file_lose_nothing_when_one_puts_it_aside(tmp_path: Path) -> None:
    sessions = [Session(tmp_path) for _ in range(2)]
    for session in sessions:
        await session.mount(max_file_bytes=4096, max_files=9, detail="full")
    for number in range(30):
        await sessions[number % 2].emit("tool:pre", number=number, text="x" * 400)
    numbers = []
    for session.path in (tmp_path / name for name in names_in(tmp_path)):
        numbers += [entry["data"]["number"] for entry in session.logged()]
    assert sorted(numbers) == list(range(30))


async def test_a_file_that_cannot_be_put_aside_grows_and_is_reported_once(
    session: Session, monkeypatch: pytest.MonkeyPatch, warnings: Callable[[], list[str]]
) -> None:
    def refuse(self: Path, target: Path) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "replace", refuse)
    await session.mount(max_file_bytes=4096, detail="full")
    await session.emit(*["tool:pre"] * 20, text="x" * 400)
    assert len(session.logged()) == 20
    (warning,) = warnings()
    assert "session.jsonl cannot be put aside, and grows: [Errno 13] Permission denied" in warning


async def test_a_full_disk_is_reported_once_and_costs_one_line(
    session: Session, monkeypatch: pytest.MonkeyPatch, warnings: Callable[[], list[str]]
) -> None:
    write, room = os.write, [20]

    def nearly_full(descriptor: int, content: bytes) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = write(descriptor, content[: room[0]])
        room[0] -= taken
        return taken

    await session.mount()
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", nearly_full)
        await session.emit(*["tool:pre"] * 3)
    await session.emit("tool:post")
    torn, line = session.path.read_text().splitlines()
    assert len(torn) == 20 and json.loads(line)["event"] == "tool:post"
    (warning,) = warnings()
    assert "session.jsonl cannot be written: [Errno 28] No space left on device" in warning


async def test_a_log_that_was_taken_away_is_made_again(session: Session) -> None:
    await session.mount(path="logs/a.jsonl")
    await session.emit("tool:pre")
    shutil.rmtree(session.path.parent)
    await session.emit("tool:post")
    assert session.names() == ["tool:post"]


# --- detail and size


async def test_the_detail_decides_how_much_of_the_data_is_written() -> None:
    data = {"timestamp": "2030-01-01T00:00:00Z", "session_id": "s", "text": "x" * 1000}
    lines = {detail: json.loads(line_for("e", data, detail, 65_536)) for detail in ("names", "summary", "full")}
    assert lines["names"] == {"ts": "2030-01-01T00:00:00Z", "event": "e", "session_id": "s"}
    assert lines["summary"]["data"]["text"] == "x" * 200 + "… [800 more characters]"
    assert lines["full"]["data"] == {"text": "x" * 1000}


@pytest.mark.parametrize(
    "data",
    [
        {"text": "x" * 1_000_000},
        {"text": "\x00" * 1_000_000},
        {"numbers": list(range(100_000))},
        {f"key {number}" * 50: "é" * 5000 for number in range(500)},
        {"session_id": "\x01" * 9999, "parent_id": "é" * 9999, "timestamp": "\x02" * 9999, "\x03" * 999: "y" * 99_999},
        {f"{number}" + "\x04" * 99: "\x05" * 9999 for number in range(99)},
    ],
    ids=["long", "control", "numbers", "keys", "envelope", "escapes"],
)
@pytest.mark.parametrize("detail", ["names", "summary", "full"])
def test_no_line_is_longer_than_allowed_and_each_can_be_parsed(data: dict[str, Any], detail: Any) -> None:
    line = line_for("\x06" * 9999, data, detail, 4096)
    assert len(line) <= 4096
    assert line.count(b"\n") == 1
    assert json.loads(line)["event"].startswith("\x06")


def test_what_is_left_out_is_named() -> None:
    entry = json.loads(line_for("e", {"numbers": list(range(100_000))}, "full", 4096))
    assert entry["left_out"]["keys"] == ["numbers"]
    assert entry["left_out"]["bytes"] > 4096


def test_text_that_is_no_unicode_is_still_logged() -> None:
    assert json.loads(line_for("e", {"a": "\ud800"}, "full", 4096))["data"]["a"] == "\ud800"


@pytest.mark.parametrize(
    "config",
    [
        {"path": ""},
        {"events": "tool:*"},
        {"events": [1]},
        {"detail": "verbose"},
        {"max_line_bytes": 10},
        {"max_file_bytes": 10},
        {"max_files": 0},
        {"file": "x"},
        {"priority": "first"},
    ],
)
async def test_a_wrong_configuration_is_refused_at_mount(config: dict[str, Any]) -> None:
    coordinator = MockCoordinator()
    with pytest.raises(ValueError, match=f"`{next(iter(config))}`"):
        await mount(coordinator, config)
    assert not any(coordinator.hooks.list_handlers().values())
