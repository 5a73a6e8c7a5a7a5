"""What is kept of a session: it is read back as it was, holds no secret's value, and what is damaged is no record."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from host.policy.entries import entry, module_at
from paddock.isolation import record as session_record
from paddock.isolation.compile import Confinement
from paddock.isolation.record import DamagedRecordError, ModuleRecord, SessionRecord, SessionRecords
from paddock.plan.source_map import Location
from paddock.policy.limits import ResourceLimits
from paddock.policy.rule import ConsultedRule, Rule
from paddock_sandbox.profile import Mount, SandboxProfile


def module(tmp_path: Path, **permissions: Any) -> ModuleRecord:
    root = tmp_path / "module"
    resolution = module_at(root) if not root.exists() else module_at(tmp_path / "other")
    profile = SandboxProfile("ns", (Mount("/a", "/a", True), Mount("/usr", "/usr", mappable=True)), ("/usr/bin/git",))
    confinement = Confinement(profile, tmp_path, protected=(Path("/a/.git/hooks"),))
    written = entry(permissions=permissions)
    rules = [ConsultedRule(Rule(Location("/etc/paddock/policy.toml", 3), 'match = "*"'), "granted")]
    return ModuleRecord.of(written, resolution, confinement, ResourceLimits.of(written), rules)


def session(tmp_path: Path, session_id: str = "s-1", *modules: ModuleRecord) -> SessionRecord:
    return SessionRecord.begin(
        session_id, modules, working_dir=tmp_path, home=Path.home(), plan=tmp_path / "plan.yaml", digest="sha256:1"
    )


@pytest.fixture
def records(tmp_path: Path) -> SessionRecords:
    return SessionRecords(tmp_path / "sessions")


def _of(records: SessionRecords, id: str) -> SessionRecord | None:
    return next((one for one in records.all() if one.id == id), None)


def test_a_record_is_read_back_as_it_was(tmp_path: Path, records: SessionRecords) -> None:
    kept = session(tmp_path, "s-1", module(tmp_path, read=["."], secrets=["KEY"], net=["example.org"]))
    records.keep(kept)
    assert _of(records, "s-1") == kept
    assert records.all() == (kept,)
    found = kept.modules[0]
    assert (found.name, found.kind, found.level, found.place) == ("tool-x", "tool", "ns", "tools[0]")
    assert found.limits["memory_max"] == 256 << 20 and found.limits["runtime_max"] == 120 and found.programs
    assert [rule.line for rule in found.consulted] == [3]


def test_names_that_modules_give_their_tools_cost_no_record(tmp_path: Path, records: SessionRecords) -> None:
    chosen = {
        "my_tool": "my-tool",
        "\ud800": "a",
        "x" * 5000: "b",
        **{f"{number:03}" * 40: "c" for number in range(2000)},
    }
    records.keep(session(tmp_path, "s-1"))
    records.keep(session(tmp_path, "s-1").tools(chosen).end())
    assert (found := _of(records, "s-1")) is not None and found.ended is not None
    assert found.own_names["my_tool"] == "my-tool" and len(found.own_names) < 1000


def test_what_decides_about_a_module_comes_back_out_of_its_record(tmp_path: Path) -> None:
    found = module(tmp_path, read=["."], emit=["tool:*"])
    assert found.entry.permissions.emit == ("tool:*",) and found.entry.kind == "tool"
    assert found.profile.mounts[0] == Mount("/a", "/a", True) and found.profile.level == "ns"


def test_a_preset_stays_one(tmp_path: Path, records: SessionRecords) -> None:
    written = entry(permissions="workspace")
    kept = ModuleRecord.of(
        written, module_at(tmp_path / "m"), Confinement(SandboxProfile(), tmp_path), ResourceLimits.of(written)
    )
    records.keep(session(tmp_path, "s", kept))
    read = _of(records, "s")
    assert read is not None and read.modules[0].entry.permissions.preset == "workspace"


def test_values_of_variables_are_not_kept(tmp_path: Path, records: SessionRecords) -> None:
    records.keep(
        session(
            tmp_path,
            "s",
            module(tmp_path, env=["TOKEN=sk-1234=5", "LANG", "A=${KEY}", "B=${KEY}sk-1234"], secrets=["KEY"]),
        )
    )
    content = (tmp_path / "sessions/s.json").read_text()
    assert "sk-1234" not in content and "TOKEN=" in content and '"KEY"' in content
    assert "A=${KEY}" in content


def test_the_end_replaces_the_beginning(tmp_path: Path, records: SessionRecords) -> None:
    begun = session(tmp_path)
    records.keep(begun)
    records.keep(begun.end())
    (read,) = records.all()
    assert begun.ended is None and read.ended is not None and read.ended >= read.started


def test_the_newest_session_comes_first_whichever_was_written_last(tmp_path: Path, records: SessionRecords) -> None:
    first, second = session(tmp_path, "first"), session(tmp_path, "second")
    records.keep(second)
    records.keep(first.end())
    assert [record.id for record in records.all()] == ["second", "first"]


def test_a_module_is_found_by_its_instance_and_else_by_its_id(tmp_path: Path) -> None:
    one = module(tmp_path)
    other = one.model_copy(update={"name": "fast"})
    record = session(tmp_path, "s", other, one)
    assert record.module("fast") is other
    assert record.module("tool-x") is one
    assert session(tmp_path, "s", other).module("tool-x") is other
    assert record.module("tool-y") is None


def test_by_default_records_are_in_the_users_state_folder_and_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        SessionRecords().keep(session(tmp_path))
    finally:
        os.umask(before)
    file = Path.home() / ".local/state/paddock/sessions/s-1.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("session_id", ["../../x", "/etc/x", ".", "..", "", "a/b", "x" * 5000, "\0", "\udc80", "é"])
def test_a_session_may_be_called_anything(tmp_path: Path, records: SessionRecords, session_id: str) -> None:
    records.keep(session(tmp_path, session_id))
    assert len(records.all()) == 1
    (file,) = (tmp_path / "sessions").iterdir()
    assert len(file.name) < 255


def test_paths_that_are_no_text_are_kept_as_escapes(tmp_path: Path, records: SessionRecords) -> None:
    found = module(tmp_path)
    odd = SandboxProfile("ns", (Mount("/a\udcff", "/a\udcff"),) * 5000, ("/b\udcff",) * 5000)
    written = entry()
    found = ModuleRecord.of(written, module_at(tmp_path / "m"), Confinement(odd, tmp_path), ResourceLimits.of(written))
    records.keep(session(tmp_path, "s", found))
    read = _of(records, "s")
    assert read is not None and read.modules[0].mounts[0][0] == "/a\\udcff"


def test_only_so_many_are_kept_and_the_newest_always(
    tmp_path: Path, records: SessionRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_record, "_KEPT", 3)
    later = (datetime.now(UTC) + timedelta(days=1)).timestamp()
    for number in range(6):
        records.keep(session(tmp_path, f"s-{number}"))
        path = tmp_path / f"sessions/s-{number}.json"
        os.utime(path, (later + number, later + number))
    (tmp_path / "sessions/s-9.unfinished").touch()
    os.utime(tmp_path / "sessions/s-9.unfinished", (0, 0))
    records.keep(session(tmp_path, "newest"))
    assert {record.id for record in records.all()} >= {"newest", "s-5", "s-4"}
    assert len(list((tmp_path / "sessions").iterdir())) <= 4
    assert not (tmp_path / "sessions/s-9.unfinished").exists()


def test_sessions_at_once_keep_their_records(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sessions = [(SessionRecords(tmp_path / "sessions"), session(tmp_path, f"s-{number}")) for number in range(70)]
    with ThreadPoolExecutor(20) as pool:
        for _ in pool.map(lambda one: one[0].keep(one[1]), sessions):
            pass
    assert len(SessionRecords(tmp_path / "sessions").all()) == 70 and not caplog.records
    with ThreadPoolExecutor(20) as pool:
        for _ in pool.map(lambda one: one[0].keep(one[1].end()), sessions):
            pass
    assert 50 <= len(SessionRecords(tmp_path / "sessions").all()) < 70 and not caplog.records
    SessionRecords(tmp_path / "sessions").keep(session(tmp_path, "next"))
    assert len(SessionRecords(tmp_path / "sessions").all()) <= 51


def test_a_record_of_a_newer_version_is_reported(tmp_path: Path, records: SessionRecords) -> None:
    records.keep(session(tmp_path, "s-1"))
    path = tmp_path / "sessions/s-1.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": 2}))
    unread: list[DamagedRecordError] = []
    assert records.all(unread.append) == ()
    assert "it is of version 2, and this Paddock reads version 1" in unread[0].summary


# -- what is damaged -----------------------------------------------------------------------


def _changed(**changes: Any) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return spoil


def _replaced(content: bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(content) and None


def _a_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def _a_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    "spoil",
    [
        _replaced(b""),
        _replaced(b"\xff\xfe"),
        _replaced(b"[]"),
        _replaced(b'{"id": 1}'),
        _replaced(b"[" * 100_000),
        _replaced(b" " * (3 << 20)),
        _changed(version=2),
        _changed(pid="1"),
        _changed(more=1),
        _changed(started="yesterday"),
        _changed(started="2030-01-01T00:00:00"),
        _changed(modules=[{}]),
        _a_link,
        _a_fifo,
        _a_folder,
    ],
)
def test_what_is_damaged_is_no_record_and_hides_no_other(
    tmp_path: Path, records: SessionRecords, spoil: Callable[[Path], None]
) -> None:
    records.keep(session(tmp_path, "good"))
    records.keep(session(tmp_path, "bad"))
    assert _of(records, "bad") is not None
    spoil(tmp_path / "sessions/bad.json")
    damaged: list[DamagedRecordError] = []
    assert [record.id for record in records.all(damaged.append)] == ["good"]
    assert "is no record of a session" in damaged[0].summary


def test_where_no_session_ran_there_is_no_record(tmp_path: Path) -> None:
    assert SessionRecords().all() == () and _of(SessionRecords(), "s") is None
    (tmp_path / "file").touch()
    assert SessionRecords(tmp_path / "file" / "sessions").all() == ()


def test_a_record_that_cannot_be_kept_is_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    records = SessionRecords(tmp_path / "file")
    for _ in range(2):
        records.keep(session(tmp_path))
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "no record of this session is kept, and `paddock why` cannot explain it"
    ]
