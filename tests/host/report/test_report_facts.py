"""The facts about a session: only what was recorded, and what was not is told as such."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from host.isolation.test_record import module, session
from paddock.audit import AuditLog
from paddock.errors import Denial, PaddockError
from paddock.isolation.record import ModuleRecord, SessionRecord, SessionRecords
from paddock.plan.permissions import Permissions, added_grants, grants_of, permissions_in_line
from paddock.report.facts import Facts, ModuleFacts, facts_of
from paddock.report.for_author import for_author
from paddock.session.journals.journal_folder import Journals


class Ground:
    """A state folder with a record, and the audit log of its session."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environ = {"XDG_STATE_HOME": str(folder / "state")}
        (folder / "state").mkdir()
        self.audit = AuditLog("s-1", environ=self.environ)
        self.file = folder / "state/paddock/audit.jsonl"

    def keep(self, *modules: ModuleRecord, id: str = "s-1", ended: bool = True) -> SessionRecord:
        record = session(self.folder, id, *modules)
        record = record.end() if ended else record
        SessionRecords(environ=self.environ).keep(record)
        return record

    def facts(self, record: SessionRecord) -> Facts:
        return facts_of(record, self.environ)

    def only(self, **permissions: Any) -> ModuleFacts:
        """Return the facts on one module with these permissions."""
        return self.facts(self.keep(module(self.folder, **permissions))).modules[0]


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


def _ran(ground: Ground, grants: dict[str, list[int]] | None = None, **more: Any) -> None:
    """Write the lines of a session in which a module used these grants."""
    ground.audit.record("session.started", accepted="you", modules={"tool-x": {"commit": "c0ffee"}})
    ground.audit.record("module.started", module="tool-x")
    end = {"reason": "memory", "message": "ended for memory", "limit": {"name": "memory_max", "observed": "9 MiB"}}
    ground.audit.record("module.ended", module="tool-x", report=end)
    use = {"grants": grants or {}, "unseen": [], "programs": [], "cpu_seconds": 1.5, "peak_memory_bytes": 7, "calls": 3}
    ground.audit.record("module.used", module="tool-x", **{**use, **more})


def _named(record: ModuleRecord, name: str) -> ModuleRecord:
    return record.model_copy(update={"name": name, "place": "tools[1]"})


def _states(found: ModuleFacts) -> dict[str, tuple[str, str]]:
    return {f"{one.family} {one.grant}": (one.state, one.seen_by) for one in found.grants}


def test_each_grant_is_used_not_seen_used_or_not_known_by_who_says_so(ground: Ground) -> None:
    _ran(ground, {"read": [1], "call": [0], "net": [2], "secrets": [1]})
    ground.audit.record("egress.connection", module="tool-x", rule="a.example.org", outcome="ended")  # no text decides
    found = ground.only(
        read=["/a", "/b", "!.env"],
        net=["self", "a.example.org", "b.example.org"],
        env=["LANG", "WORD=secret"],
        secrets=["HANDED", {"name": "KEY", "inject": "b.example.org"}],
        call=["tools:y", "context"],
    )
    assert _states(found) == {
        "read /a": ("not seen used", "the module"),
        "read /b": ("used", "the module"),
        "read !.env": ("excludes", ""),
        "net self": ("not known", ""),
        "net a.example.org": ("not seen used", "Paddock"),
        "net b.example.org": ("used", "Paddock"),
        "env LANG": ("not known", ""),
        "env WORD=…": ("not known", ""),
        "secrets HANDED": ("not known", ""),
        "secrets KEY, inserted by Paddock at b.example.org": ("used", "Paddock"),
        "call tools:y": ("used", "Paddock"),
        "call context": ("not seen used", "Paddock"),
    }
    assert found.unused == 'permissions: {read: ["/a"], net: ["a.example.org"], call: ["context"]}'
    assert (found.pin, found.peak_memory_bytes, found.calls, found.unseen) == ("c0ffee", 7, 3, ())
    assert [(life.message, life.limit, life.was_ordinary) for life in found.lives] == [
        ("ended for memory", "memory_max, 9 MiB seen", False)
    ]


@pytest.mark.parametrize(
    ("permissions", "lines", "unused", "unseen"),
    [
        ({"read": ["/a"], "run": ["git", "make"]}, {"programs": []}, 'permissions: {run: ["git", "make"]}', ("read",)),
        (
            {"read": ["/a"], "run": ["git", "make"]},
            {"programs": ["make"], "unseen": ["run"], "grants": {"run": [0]}},
            "",
            ("read", "run"),
        ),
        ({"read": ["/a"], "write": ["/b"]}, {"unseen": ["write"]}, 'permissions: {read: ["/a"]}', ("write",)),
        (
            {"preset": "workspace", "call": ["tools"]},
            {"grants": {"read": [0], "call": [0]}},
            'permissions: {write: ["."]}',
            (),
        ),
    ],
)
def test_what_too_little_is_known_of_is_never_called_unused(
    permissions: dict[str, Any], lines: dict[str, Any], unused: str, unseen: tuple[str, ...], ground: Ground
) -> None:
    _ran(ground, **lines)
    found = ground.only(**permissions)
    assert (found.unused, found.unseen) == (unused, unseen)
    line = permissions_in_line(unused) if unused else Permissions()
    assert line is not None and not any(added_grants(grants_of(Permissions.parse(permissions)), line))


def test_what_a_server_reads_is_not_known_and_what_came_with_it_is_told(ground: Ground) -> None:
    _ran(ground)
    one = module(ground.folder, read=["/a"])
    server = one.model_copy(update={"source": "mcp+pypi:x==1", "programs": ("/usr/bin/python3",)})
    found = ground.facts(ground.keep(server)).modules[0]
    said = "run the server, which reads its own files (from mcp+pypi:x==1)"
    assert _states(found) == {said: ("not known", ""), "read /a": ("not known", "")}
    assert (found.unused, found.unseen) == ("", ("read",))


def test_a_session_of_which_nothing_was_audited_says_so(ground: Ground) -> None:
    record = ground.keep(module(ground.folder, read=["/a"], net=["a.example.org"]))
    facts = ground.facts(record)
    assert [note.partition(":")[0] for note in facts.notes] == [
        "no journal was kept of this session",
        "nothing was recorded here",
    ]
    ground.file.touch()
    assert "the audit log has no line on this session" in ground.facts(record).notes[1]
    found = facts.modules[0]
    assert (found.unused, found.peak_memory_bytes, found.lives) == (None, None, ())
    assert {state for state, _ in _states(found).values()} == {"not known"}


@pytest.mark.parametrize("damage", ["cut", "garbage", "link", "fifo"])
def test_a_damaged_audit_log_is_read_as_far_as_it_goes(damage: str, ground: Ground) -> None:
    _ran(ground)
    whole = ground.file.read_bytes().splitlines(keepends=True)
    if damage == "cut":  # rotated away, and a line that was cut off
        ground.file.write_bytes(b"".join(whole[1:]) + whole[0][:60])
    elif damage == "garbage":
        ground.file.write_bytes(b'{"session": "s-1", "event": 7}\n\x00\xff\n' + b"".join(whole))
    else:
        ground.file.unlink()
        ground.file.symlink_to("/etc/passwd") if damage == "link" else os.mkfifo(ground.file)
    facts = ground.facts(ground.keep(module(ground.folder, net=["a.example.org"])))
    told = " ".join(facts.notes)
    if damage == "cut":
        assert "does not have the beginning" in told and facts.modules[0].unused
    elif damage == "garbage":
        assert "1 line of the audit log is damaged" in told and facts.modules[0].unused
    else:
        assert f"cannot be read: {ground.file}" in told and "refusals, ends" in told


def test_the_line_of_a_resume_with_open_calls_is_not_damaged(ground: Ground) -> None:
    _ran(ground)
    ground.audit.record("session.resumed", interrupted=True, calls=["bash: outcome unknown"])
    assert "damaged" not in " ".join(ground.facts(ground.keep(module(ground.folder))).notes)


def test_a_refusal_is_told_once_with_its_line_and_who_says_so(ground: Ground) -> None:
    denial = Denial("read", "/etc/shadow", "tool-x", grant='permissions: {read: ["/etc/shadow"]}', reason="not granted")
    for times in (1, 10):
        facts = replace(denial, times=times, seen_by="module")
        ground.audit.record("denial", module="tool-x", **facts.as_dict(), seen_by="module")
    ground.audit.record("denials.left_out", module="tool-x", count=4)
    of_another = AuditLog("s-2", environ=ground.environ)
    of_another.record("denial", module="tool-x", operation="read", target="s-1", reason="s-1")
    found = ground.only()
    (refusal,) = found.refusals
    assert (refusal.operation, refusal.target, refusal.times, refusal.seen_by) == (
        "read",
        "/etc/shadow",
        10,
        "the module",
    )
    assert refusal.grant == denial.grant and found.refusals_left_out == 4


def _use(ground: Ground, session: str, place: int, agent: str | None = None, parent: str = "s-1") -> None:
    """Write the lines of a sub-session in which a module used the grant to read at this place."""
    audit = ground.audit.of_sub_session(session)
    if agent != "not told":
        audit.record("sub_session.started", agent=agent, parent=parent)
    audit.record("module.used", module="tool-x", grants={"read": [place]}, unseen=[], programs=[], calls=1)


def _of_agent(record: ModuleRecord, place: str) -> ModuleRecord:
    return record.model_copy(update={"place": place})


def _read_states(ground: Ground, *places: str) -> dict[str, list[str]]:
    one = module(ground.folder, read=["/a", "/b"])
    found = ground.facts(ground.keep(one, *(_of_agent(one, place) for place in places)))
    return {one.place: [grant.state for grant in one.grants] for one in found.modules}


def test_lines_of_one_name_are_told_of_the_plans_or_its_agents_module(ground: Ground) -> None:
    _ran(ground)
    _use(ground, "below-a", 1, "a")
    _use(ground, "further", 1, parent="below-a")
    _use(ground, "other", 0, "without modules")
    assert _read_states(ground, "agents.a.tools[0]", 'agents["b c"].tools[0]') == {
        "tools[0]": ["used", "not seen used"],
        "agents.a.tools[0]": ["not seen used", "used"],
        'agents["b c"].tools[0]': ["not known", "not known"],
    }


@pytest.mark.parametrize("loops", [False, True])
def test_lines_that_may_be_of_several_modules_say_nothing_of_grants(loops: bool, ground: Ground) -> None:
    _use(ground, "below", 1, None if loops else "not told", parent="below")
    one = module(ground.folder, read=["/a", "/b"])
    found = ground.facts(ground.keep(one, _of_agent(one, "agents.a.tools[0]"))).modules
    assert [one.shared_with for one in found] == [("agents.a.tools[0]",), ("tools[0]",)]
    assert {state for one in found for state, _ in _states(one).values()} == {"not known"}
    assert [(one.unused, one.calls) for one in found] == [("", 1), ("", 1)]


def test_a_session_runs_ended_or_was_killed(ground: Ground) -> None:
    assert ground.facts(ground.keep(id="ended")).state == "ended"
    assert ground.facts(session(ground.folder, "gone")).state == "its host was killed"
    ground.audit.record("session.lost", pid=7)
    assert ground.facts(ground.keep()).state == "its host was killed"
    Journals(environ=ground.environ).create("empty").close()
    assert ground.facts(ground.keep(id="empty")).notes[0].endswith(": turns and calls of tools are not recorded")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("missing", "no session `missing` is known"),
        ("same", "it is the beginning of several ids: same-1, same-2"),
        ("sam", "of an id, 4 characters at least stand for it"),
        ("../sessions", "sessions known: same-"),
        ("", "sessions known: same-"),
    ],
)
def test_a_session_that_is_not_meant_is_not_reported(asked: str, said: str, ground: Ground) -> None:
    for id in ("same-1", "same-2"):
        ground.keep(id=id)
    (ground.folder / "state/paddock/sessions/broken.json").write_text("{")
    with pytest.raises(PaddockError, match="no session") as refused:
        SessionRecords(environ=ground.environ).find(asked, ground.folder)
    assert said in f"{refused.value} {refused.value.hints}"
    assert "broken.json` is no record of a session" in refused.value.detail[0]


def test_a_session_is_named_by_its_id_its_beginning_or_last(ground: Ground) -> None:
    for id in ("same-1", "same-2", "other"):
        ground.keep(id=id)
    records = SessionRecords(environ=ground.environ)
    assert [records.find(one, ground.folder).id for one in ("same-1", "othe", "last")] == ["same-1", "other", "other"]
    with pytest.raises(PaddockError, match="no session is known that ran in"):
        records.find("last", Path("/nowhere"))


def test_an_author_gets_the_module_alone_without_private_facts(ground: Ground) -> None:
    home = str(Path.home())
    one = module(ground.folder, secrets=["OWN_KEY"])
    other = _named(module(ground.folder, secrets=["OTHER_KEY"]), "tool-y")
    _ran(ground)
    reason = f"OTHER_KEY, OWN_KEY and {home}/notes, not {home}beside"
    ground.audit.record("denial", module="tool-x", operation="read", target=f"{home}/x", reason=reason, times=1)
    record = ground.keep(one, other)
    told = json.dumps(for_author(ground.facts(record), "tool-x", record).as_dict(), ensure_ascii=False)
    assert "OTHER_KEY" not in told and "tool-y" not in told and "accepted" in told and '"you"' not in told
    assert f"…, OWN_KEY and ~/notes, not {home}beside" in told and '"~/x"' in told
    with pytest.raises(PaddockError, match="has no module `tool-z`"):
        for_author(ground.facts(record), "tool-z", record)


def test_facts_for_scripts_are_plain_and_have_times_in_one_form(ground: Ground) -> None:
    _ran(ground)
    facts = json.loads(json.dumps(ground.facts(ground.keep(module(ground.folder))).as_dict()))
    assert datetime.fromisoformat(facts["began"]) and facts["modules"][0]["lives"][0]["limit"]
    assert facts["calls_left_out"] == 0
