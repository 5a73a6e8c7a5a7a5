"""The event log: what is written, what is kept out of it, and that it never disturbs a session."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import tempfile
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


def session_in(folder: Path) -> MockCoordinator:
    coordinator = MockCoordinator()
    coordinator.register_capability("session.working_dir", str(folder))
    coordinator.hooks.set_default_fields(session_id="s-1", parent_id=None)
    return coordinator


def logged(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_every_event_becomes_a_line_with_time_and_session(tmp_path: Path) -> None:
    coordinator = session_in(tmp_path)
    await mount(coordinator)

    await coordinator.hooks.emit("tool:pre", {"tool_name": "read", "tool_input": {"path": "a"}})
    await coordinator.hooks.emit("session:end", {})

    first, second = logged(tmp_path / "session.jsonl")
    assert first["event"] == "tool:pre"
    assert first["session_id"] == "s-1"
    assert first["ts"].startswith("20")
    assert first["data"] == {"tool_name": "read", "tool_input": {"path": "a"}}
    assert second["event"] == "session:end"


async def test_all_well_known_events_are_logged_by_default(tmp_path: Path) -> None:
    coordinator = session_in(tmp_path)
    await mount(coordinator, None)
    for event in events.ALL_EVENTS:
        await coordinator.hooks.emit(event, {})
    assert [entry["event"] for entry in logged(tmp_path / "session.jsonl")] == list(events.ALL_EVENTS)


async def test_patterns_select_events_and_plain_names_need_not_be_known(tmp_path: Path) -> None:
    coordinator = session_in(tmp_path)
    await mount(coordinator, {"events": ["tool:*", "my:own"]})
    for event in ("tool:pre", "my:own", "session:start", "prompt:submit", "my:other"):
        await coordinator.hooks.emit(event, {})
    assert [entry["event"] for entry in logged(tmp_path / "session.jsonl")] == ["tool:pre", "my:own"]


async def test_events_announced_before_and_after_mounting_are_logged(tmp_path: Path) -> None:
    coordinator = session_in(tmp_path)
    coordinator.register_capability("observability.events", ["early:listed", 7])
    coordinator.register_contributor("observability.events", "a", lambda: ["early:contributed"])
    await mount(coordinator)
    coordinator.register_capability("observability.events", ["early:listed", "late:listed"])
    coordinator.register_contributor("observability.events", "b", lambda: ["late:contributed"])

    await coordinator.hooks.emit("session:start", {})
    names = ["early:listed", "early:contributed", "late:listed", "late:contributed"]
    for name in [*names, "never:announced"]:
        await coordinator.hooks.emit(name, {})

    assert [entry["event"] for entry in logged(tmp_path / "session.jsonl")] == ["session:start", *names]


async def test_what_modules_announce_without_end_keeps_the_log_from_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    coordinator = session_in(tmp_path)
    coordinator.register_contributor("observability.events", "a", lambda: ["x" * 300, ""])
    coordinator.register_contributor("observability.events", "b", lambda: [f"e:{number}" for number in range(5000)])
    await mount(coordinator)
    registered = coordinator.hooks.list_handlers()
    assert "e:100" in registered and "x" * 300 not in registered and len(registered) == 500
    assert "events too many, which are not logged" in caplog.text


async def test_a_failing_contributor_does_not_stop_the_log(tmp_path: Path) -> None:
    coordinator = session_in(tmp_path)

    async def refuse(channel: str) -> list[Any]:
        raise PermissionError(channel)

    coordinator.collect_contributions = refuse
    await mount(coordinator)
    await coordinator.hooks.emit("session:start", {})
    assert len(logged(tmp_path / "session.jsonl")) == 1


async def test_the_answer_is_always_continue(tmp_path: Path) -> None:
    event_logger = EventLogger(session_in(tmp_path), Settings())
    for data in ({}, {"a": 1}, None, [1], "text", {"a": object()}, {"a": float("nan")}):
        result = await event_logger.handle("x", data)
        assert isinstance(result, HookResult)
        assert result.action == "continue"


async def test_other_hooks_still_decide(tmp_path: Path) -> None:
    coordinator = session_in(tmp_path)
    await mount(coordinator)

    async def refuse(event: str, data: Any) -> HookResult:
        return HookResult(action="deny", reason="no")

    coordinator.hooks.register("tool:pre", refuse, priority=200)
    assert (await coordinator.hooks.emit("tool:pre", {})).action == "deny"


async def test_a_log_that_cannot_be_written_is_reported_once_and_never_raises(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    coordinator = session_in(tmp_path)
    cleanup = await mount(coordinator, {"path": "file/log.jsonl"})
    shutil.rmtree(tmp_path / "file")
    (tmp_path / "file").touch()

    for _ in range(3):
        assert (await coordinator.hooks.emit("tool:pre", {})).action == "continue"
    cleanup()

    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 1
    assert "file/log.jsonl" in caplog.text


async def test_a_log_that_becomes_writable_goes_on(tmp_path: Path) -> None:
    blocker = tmp_path / "logs"
    coordinator = session_in(tmp_path)
    await mount(coordinator, {"path": "logs/log.jsonl"})
    shutil.rmtree(blocker)
    blocker.touch()
    await coordinator.hooks.emit("tool:pre", {})
    blocker.unlink()
    await coordinator.hooks.emit("tool:post", {})
    assert [entry["event"] for entry in logged(tmp_path / "logs/log.jsonl")] == ["tool:post"]


async def test_the_file_is_there_from_the_start_of_a_session_and_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (await mount(MockCoordinator()))()
    assert names_in(tmp_path) == []
    (await mount(session_in(tmp_path)))()
    assert names_in(tmp_path) == ["session.jsonl"]


async def test_a_log_that_could_not_be_kept_is_an_error_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    coordinator = session_in(tmp_path)
    with pytest.raises(ValueError, match=r"`path`: .*file/log.jsonl cannot be written .*grant the module `write`"):
        await mount(coordinator, {"path": "file/log.jsonl"})
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    await mount(coordinator, {"path": "log.jsonl"})
    monkeypatch.setattr(Path, "is_mount", lambda path: path == tmp_path)
    with pytest.raises(ValueError, match="a file system of its own there, which goes with it"):
        await mount(session_in(tmp_path / "not granted"), {"path": "made/other.jsonl"})
    assert names_in(tmp_path) == ["file", "log.jsonl"]


async def test_cleanup_stops_the_log_and_may_be_called_twice(tmp_path: Path) -> None:
    coordinator = session_in(tmp_path)
    cleanup = await mount(coordinator)
    await coordinator.hooks.emit("tool:pre", {})

    cleanup()
    cleanup()

    await coordinator.hooks.emit("tool:pre", {})
    assert len(logged(tmp_path / "session.jsonl")) == 1
    assert not any(coordinator.hooks.list_handlers().values())


async def test_only_the_owner_may_read_a_new_log_and_an_old_one_is_continued(tmp_path: Path) -> None:
    for _ in range(2):
        coordinator = session_in(tmp_path)
        cleanup = await mount(coordinator, {"path": "deep/er/log.jsonl"})
        await coordinator.hooks.emit("tool:pre", {})
        cleanup()
    path = tmp_path / "deep/er/log.jsonl"
    assert len(logged(path)) == 2
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_without_a_working_directory_the_current_folder_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    coordinator = MockCoordinator()
    await mount(coordinator)
    await coordinator.hooks.emit("tool:pre", {})
    assert len(logged(tmp_path / "session.jsonl")) == 1


async def test_the_priority_decides_when_the_log_runs(tmp_path: Path) -> None:
    coordinator = session_in(tmp_path)
    await mount(coordinator, {"priority": -5})

    async def other(event: str, data: Any) -> HookResult:
        return HookResult()

    coordinator.hooks.register("tool:pre", other, priority=0, name="other")
    assert coordinator.hooks.list_handlers("tool:pre")["tool:pre"] == ["hooks-logging", "other"]


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


async def test_secrets_are_left_out_at_every_depth_of_a_log_line(tmp_path: Path) -> None:
    coordinator = session_in(tmp_path)
    await mount(coordinator, {"detail": "full"})
    seen: list[Any] = []

    async def later(event: str, data: Any) -> HookResult:
        seen.append(data["config"]["api_key"])
        return HookResult()

    coordinator.hooks.register("tool:pre", later, priority=500)
    config = {"api_key": "k-123", "list": [{"password": ["k-123"]}], "token": None, "max_tokens": 5}
    await coordinator.hooks.emit("tool:pre", {"config": config})

    text = (tmp_path / "session.jsonl").read_text()
    assert "k-123" not in text
    assert json.loads(text)["data"]["config"] == {
        "api_key": "[REDACTED]",
        "list": [{"password": "[REDACTED]"}],
        "token": None,
        "max_tokens": 5,
    }
    assert seen == ["k-123"]


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


async def test_a_full_file_is_put_aside_and_so_many_are_kept(tmp_path: Path) -> None:
    coordinator = session_in(tmp_path)
    await mount(coordinator, {"max_file_bytes": 4096, "max_files": 3, "detail": "full"})
    for number in range(40):
        await coordinator.hooks.emit("tool:pre", {"number": number, "text": "x" * 400})
    names = ["session.jsonl.2", "session.jsonl.1", "session.jsonl"]
    assert names_in(tmp_path) == sorted(names)
    assert all((tmp_path / name).stat().st_size <= 4096 for name in names)
    numbers = [entry["data"]["number"] for name in names for entry in logged(tmp_path / name)]
    assert numbers == list(range(numbers[0], 40))
    assert len(numbers) > 14
    assert all(stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600 for name in names)


async def test_one_file_alone_begins_anew(tmp_path: Path) -> None:
    coordinator = session_in(tmp_path)
    await mount(coordinator, {"max_file_bytes": 4096, "max_files": 1, "max_line_bytes": 8000, "detail": "full"})
    for text in ("x" * 3000, "y" * 6000, "z" * 10):
        await coordinator.hooks.emit("tool:pre", {"text": text})
    assert names_in(tmp_path) == ["session.jsonl"]
    assert [entry["data"]["text"] for entry in logged(tmp_path / "session.jsonl")] == ["z" * 10]


async def test_sessions_that_share_a_file_lose_nothing_when_one_puts_it_aside(tmp_path: Path) -> None:
    sessions = [session_in(tmp_path) for _ in range(2)]
    for coordinator in sessions:
        await mount(coordinator, {"max_file_bytes": 4096, "max_files": 9, "detail": "full"})
    for number in range(30):
        await sessions[number % 2].hooks.emit("tool:pre", {"number": number, "text": "x" * 400})
    numbers = [entry["data"]["number"] for name in names_in(tmp_path) for entry in logged(tmp_path / name)]
    assert sorted(numbers) == list(range(30))


async def test_a_file_that_cannot_be_put_aside_grows_and_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(self: Path, target: Path) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "replace", refuse)
    coordinator = session_in(tmp_path)
    await mount(coordinator, {"max_file_bytes": 4096, "detail": "full"})
    for _ in range(20):
        await coordinator.hooks.emit("tool:pre", {"text": "x" * 400})
    assert len(logged(tmp_path / "session.jsonl")) == 20
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1
    assert "session.jsonl cannot be put aside, and grows: [Errno 13] Permission denied" in warnings[0]


async def test_a_full_disk_is_reported_once_and_costs_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write, room = os.write, [20]

    def nearly_full(descriptor: int, content: bytes) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = write(descriptor, content[: room[0]])
        room[0] -= taken
        return taken

    coordinator = session_in(tmp_path)
    await mount(coordinator)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", nearly_full)
        for _ in range(3):
            assert (await coordinator.hooks.emit("tool:pre", {})).action == "continue"
    await coordinator.hooks.emit("tool:post", {})
    torn, line = (tmp_path / "session.jsonl").read_text().splitlines()
    assert len(torn) == 20
    assert json.loads(line)["event"] == "tool:post"
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 1
    assert "session.jsonl cannot be written: [Errno 28] No space left on device" in caplog.text


async def test_a_log_that_was_taken_away_is_made_again(tmp_path: Path) -> None:
    coordinator = session_in(tmp_path)
    await mount(coordinator, {"path": "logs/a.jsonl"})
    await coordinator.hooks.emit("tool:pre", {})
    shutil.rmtree(tmp_path / "logs")
    await coordinator.hooks.emit("tool:post", {})
    assert [entry["event"] for entry in logged(tmp_path / "logs/a.jsonl")] == ["tool:post"]


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
