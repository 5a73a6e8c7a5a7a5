"""What a module was refused: kept once, counted, bounded, and told to nobody it is not meant for."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from paddock.audit import AuditLog
from paddock.errors import Denial
from paddock.isolation.denials.attempt import AccessAttempt
from paddock.isolation.denials.log import DenialLog
from paddock_sdk.protocol.methods import HostMethod

from .conftest import Hosted, NoJudge

_EXISTS = "there is such a file"


class Judging(NoJudge):
    """Knows which files exist, and takes as long over it as a test wants."""

    def __init__(self, *exist: str, wait: Callable[[], object] = lambda: None) -> None:
        self.exist = exist
        self.wait = wait
        self.judged: list[AccessAttempt] = []

    def tell(self, attempt: AccessAttempt) -> Denial | None:
        return self._denial(attempt, "not granted")

    def judge(self, attempt: AccessAttempt) -> Denial | None:
        self.wait()
        self.judged.append(attempt)
        if attempt.target == "/defect":
            raise ZeroDivisionError
        return self._denial(attempt, _EXISTS) if attempt.target in self.exist else None

    def started(self, attempt: AccessAttempt) -> str:
        return attempt.target if attempt.kind == "run" else ""

    def _denial(self, attempt: AccessAttempt, reason: str) -> Denial:
        return Denial(attempt.kind, attempt.target, "tool-x", "files", f"line for {attempt.target}", reason)


def test_the_same_refusal_is_counted_and_another_is_kept_up_to_a_bound() -> None:
    denials = DenialLog("tool", "tool-x", AuditLog.silent(), lambda: 0.0)
    noted = [denials.note(Denial("read", f"/{number % 150}", "tool-x"), float(number)) for number in range(300)]
    assert len(denials.all) == 100
    assert {denial.times for denial in denials.all} == {2}
    assert noted.count(None) == 100


def test_denials_since_a_time_include_repeated_ones() -> None:
    denials = DenialLog("tool", "tool-x", AuditLog.silent(), lambda: 0.0)
    for target, now in (("/a", 1.0), ("/b", 2.0), ("/c", 3.0), ("/a", 4.0)):
        denials.note(Denial("read", target, "tool-x"), now)
    assert [denial.target for denial in denials.since(3.0)] == ["/a", "/c"]


def test_what_the_host_saw_as_well_counts_as_seen_by_the_host() -> None:
    denials = DenialLog("tool", "tool-x", AuditLog.silent(), lambda: 0.0)
    reported = Denial("connect to", "a:1", "tool-x", "egress", seen_by="module")
    for denial, seen_by in ((reported, "module"), (replace(reported, seen_by="host"), "host"), (reported, "host")):
        noted = denials.note(denial, 0.0)
        assert noted is not None and noted.seen_by == seen_by


def test_a_refusal_by_another_layer_is_another_denial() -> None:
    denials = DenialLog("tool", "tool-x", AuditLog.silent(), lambda: 0.0)
    unknown = Denial("connect to", "a:1", "tool-x", "destination", reason="no address was found (DNS)")
    refused = Denial("connect to", "a:1", "tool-x", "egress", reason="it leads to 169.254.169.254")
    noted = [denials.note(denial, 0.0) for denial in (unknown, refused, refused)]
    assert [(one.layer, one.times) for one in noted if one is not None] == [
        ("destination", 1),
        ("egress", 1),
        ("egress", 2),
    ]
    assert [(one.layer, one.reason) for one in denials.all] == [
        ("destination", unknown.reason),
        ("egress", refused.reason),
    ]


def test_a_refusal_that_the_module_reported_first_is_new_to_the_host() -> None:
    denials = DenialLog("tool", "tool-x", AuditLog.silent(), lambda: 0.0)
    denial = Denial("connect to", "a:1", "tool-x", "egress")
    denials.note(replace(denial, seen_by="module"), 0.0)
    noted = denials.note(denial, 0.0)
    assert noted is not None and (noted.seen_by, noted.times) == ("host", 1)
    assert [(one.seen_by, one.times) for one in denials.all] == [("host", 2)]
    assert [one.times for one in denials.since(0.0, only_by_host=True)] == [1]


def test_texts_of_any_length_are_cut_and_a_line_is_whole_or_none() -> None:
    denials = DenialLog("tool", "tool-x", AuditLog.silent(), lambda: 0.0)
    denials.note(Denial("read", "x" * 10_000, "tool-x", grant="g" * 10_000, reason="r" * 10_000), 0.0)
    (denial,) = denials.all
    assert len(denial.target) < 600 and len(denial.reason) < 600 and denial.grant == ""


async def test_refusals_are_audited_the_first_time_and_then_ever_less_often(
    hosted: Hosted, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    hosted.audit = AuditLog("s", path=tmp_path / "audit.jsonl")
    _, worker = await hosted.start("tool", "tool-x")
    for _ in range(120):
        worker.request(0, HostMethod.EMIT, ["tool:pre", {}])
    await worker.round_trip()
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert [(line["event"], line["module"], line["times"]) for line in lines if line["event"] == "denial"] == [
        ("denial", "tool-x", times) for times in (1, 10, 100)
    ]
    assert len([record for record in caplog.records if "tool:pre" in record.getMessage()]) == 1


@pytest.mark.parametrize("grant", ["", 'permissions: {emit: ["tool:pre"]}'])
async def test_the_log_says_what_everybody_is_told(
    hosted: Hosted, grant: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "paddock.isolation.denials.log")
    module, _ = await hosted.start("tool", "tool-x")
    denial = Denial("emit", "tool:pre", "tool-x", grant=grant)
    module.deny(denial)
    assert [record.getMessage() for record in caplog.records if "may not" in record.getMessage()] == [
        f"tool {denial.describe()}; {denial.hint}"
    ]


@pytest.mark.parametrize("name", ['x"], run: ["*', "two words", "new\nline", "", "x" * 190])
async def test_no_name_that_a_module_makes_up_stands_for_another_grant(hosted: Hosted, name: str) -> None:
    module, worker = await hosted.start("tool", "tool-x")
    with pytest.raises(PermissionError):
        await worker.ask(0, HostMethod.REGISTER, [name, 0, None, worker.function(7)])
    (denial,) = module.denials
    assert denial.grant in ("", f"permissions: {{hooks: [{json.dumps(name)}]}}")
    assert '", run' not in denial.grant


# -- attempts ----------------------------------------------------------------------------------


async def test_a_worker_is_told_what_was_not_granted_and_people_what_exists(hosted: Hosted) -> None:
    judging = hosted.judge = Judging("/there")
    module, worker = await hosted.start("tool", "tool-x")
    asked = [["read", "/there"], ["read", "/missing"]]
    told = await worker.ask(0, HostMethod.EXPLAIN, [asked, 1.0])
    assert [(denial["target"], denial["reason"]) for denial in told] == [
        ("/there", "not granted"),
        ("/missing", "not granted"),
    ]
    await module.attempts.settled()
    assert [(denial.target, denial.reason) for denial in module.denials] == [("/there", _EXISTS)]
    assert judging.judged == [AccessAttempt("read", "/there"), AccessAttempt("read", "/missing")]


async def test_what_was_found_out_by_looking_is_never_told_to_the_worker(hosted: Hosted) -> None:
    hosted.judge = Judging("/there")
    module, worker = await hosted.start("tool", "tool-x")
    await worker.ask(0, HostMethod.EXPLAIN, [[["read", "/there"]], 1.0])
    await module.attempts.settled()
    assert await worker.ask(0, HostMethod.EXPLAIN, [[], 60.0]) == []
    again = await worker.ask(0, HostMethod.EXPLAIN, [[["read", "/there"]], 60.0])
    assert [denial["reason"] for denial in again] == ["not granted"]
    assert [denial["times"] for denial in again] == [1]


async def test_no_room_that_a_find_took_is_missing_from_what_a_worker_is_told(hosted: Hosted) -> None:
    there = [f"/there/{number}" for number in range(64)]
    hosted.judge = Judging(*there)
    module, worker = await hosted.start("tool", "tool-x")

    async def is_refused(*names: str) -> None:
        for name in names:
            with pytest.raises(PermissionError):
                await worker.ask(0, HostMethod.REGISTER, [name, 0, None, worker.function(7)])

    await is_refused(*(f"first:{number}" for number in range(90)))
    for _ in range(2):
        await worker.tell(HostMethod.ATTEMPTED, [["read", path] for path in there])
        await module.attempts.settled()
    probes = [f"probe:{number}" for number in range(10)]
    await is_refused(*probes)
    told = await worker.ask(0, HostMethod.EXPLAIN, [[], 60.0])
    assert [(denial["target"], denial["times"]) for denial in told] == [(probe, 1) for probe in probes]
    assert {denial.target for denial in module.denials} >= {*there}  # people read of both


async def test_a_worker_is_answered_before_anybody_looks(hosted: Hosted) -> None:
    looking = threading.Event()
    hosted.judge = Judging("/there", wait=lambda: looking.wait(5))
    module, worker = await hosted.start("tool", "tool-x")
    try:
        assert len(await worker.ask(0, HostMethod.EXPLAIN, [[["read", "/there"]], 1.0])) == 1
        assert module.denials == ()
    finally:
        looking.set()
    await module.attempts.settled()
    assert len(module.denials) == 1


async def test_what_the_host_refused_meanwhile_is_told_without_what_it_found_out(hosted: Hosted) -> None:
    module, worker = await hosted.start("tool", "tool-x")
    line = 'permissions: {net: ["db.example:443"]}'
    inside = 'permissions: {net: ["10.0.0.7:443"]}'
    for denial in (
        Denial("connect to", "db.example:443", "tool-x", "egress", line, "no rule names it"),
        Denial("connect to", "inner.example:443", "tool-x", "egress", inside, "it leads to 10.0.0.7"),
        Denial("read", "/there", "tool-x", "files", "line", _EXISTS),
    ):
        module.deny(denial)
    told = await worker.ask(0, HostMethod.EXPLAIN, [[], 60.0])
    assert [(denial["target"], denial["grant"], denial["reason"]) for denial in told] == [
        ("db.example:443", line, ""),
        ("inner.example:443", "", ""),
    ]


async def test_a_refusal_from_before_the_call_is_not_told_of_it(hosted: Hosted) -> None:
    module, worker = await hosted.start("tool", "tool-x")
    module.deny(Denial("emit", "tool:pre", "tool-x"))
    await asyncio.sleep(0.02)
    assert await worker.ask(0, HostMethod.EXPLAIN, [[], 0.0]) == []
    assert len(await worker.ask(0, HostMethod.EXPLAIN, [[], 60.0])) == 1


async def test_an_attempt_that_cannot_be_explained_costs_the_others_nothing(hosted: Hosted) -> None:
    hosted.judge = Judging("/there")
    module, worker = await hosted.start("tool", "tool-x")
    await worker.tell(HostMethod.ATTEMPTED, [["read", "/defect"], ["read", "/there"], ["read", "/there"]])
    await module.attempts.settled()
    assert [(denial.target, denial.times) for denial in module.denials] == [("/there", 1)]


async def test_only_so_many_attempts_are_looked_at(hosted: Hosted) -> None:
    judging = hosted.judge = Judging()
    module, worker = await hosted.start("tool", "tool-x")
    module.rate_limits.attempts.per_second = 0.0
    for number in range(40):
        worker.notify(HostMethod.ATTEMPTED, [["read", f"/{number}/{index}"] for index in range(64)])
    await worker.round_trip()
    await module.attempts.settled()
    assert len(judging.judged) <= module.rate_limits.attempts.at_once
    assert module.denials_left_out == 40 * 64 - len(judging.judged)


async def test_only_programs_that_were_looked_at_are_noted_as_started(hosted: Hosted) -> None:
    hosted.judge = Judging()
    module, worker = await hosted.start("tool", "tool-x")
    await worker.tell(HostMethod.ATTEMPTED, [["run", f"p{number}"] for number in range(3)])
    await module.attempts.settled()
    assert module.attempts.programs == ("p0", "p1", "p2")
    module.rate_limits.attempts.per_second = module.rate_limits.attempts.at_once = 0.0
    await worker.tell(HostMethod.ATTEMPTED, [["run", "late"]])
    await module.attempts.settled()
    assert module.attempts.programs == ("p0", "p1", "p2") and module.denials_left_out == 1


async def test_what_is_left_out_is_counted_and_said(
    hosted: Hosted, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "paddock.isolation.denials.log")
    hosted.audit = AuditLog("s", path=tmp_path / "audit.jsonl")
    module, _ = await hosted.start("tool", "tool-x")
    for number in range(115):
        module.deny(Denial("read", f"/{number}", "tool-x"))
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert [line["count"] for line in lines if line["event"] == "denials.left_out"] == [1, 10]
    assert (len(module.denials), module.denials_left_out) == (100, 15)
    assert "so far 10 denials are left out" in caplog.text


async def test_without_anybody_to_explain_a_worker_is_told_nothing(hosted: Hosted) -> None:
    module, worker = await hosted.start("tool", "tool-x")
    assert await worker.ask(0, HostMethod.EXPLAIN, [[["read", "/there"]], 1.0]) == []
    assert module.denials == ()


async def test_resetting_the_turn_is_for_hooks_and_orchestrators(hosted: Hosted) -> None:
    hosted.coordinator._current_turn_injections = 7
    module, worker = await hosted.start("tool", "tool-x")
    await worker.tell(HostMethod.RESET_TURN, [])
    assert hosted.coordinator._current_turn_injections == 7
    assert len(module.denials) == 1
    _, loop = await hosted.start("orchestrator", "loop-x")
    await loop.tell(HostMethod.RESET_TURN, [])
    assert hosted.coordinator._current_turn_injections == 0


async def test_an_orchestrator_adds_session_names_but_replaces_none(hosted: Hosted) -> None:
    hosted.coordinator.register_capability("session.working_dir", "/here")
    module, loop = await hosted.start("orchestrator", "loop-x")
    await loop.ask(0, HostMethod.REGISTER_CAPABILITY, "steers", head="session.steer")
    await loop.ask(0, HostMethod.REGISTER_CAPABILITY, "steers again", head="session.steer")
    with pytest.raises(PermissionError, match=r"session\.working_dir"):
        await loop.ask(0, HostMethod.REGISTER_CAPABILITY, "/elsewhere", head="session.working_dir")
    assert hosted.coordinator.get_capability("session.steer") == "steers again"
    assert hosted.coordinator.get_capability("session.working_dir") == "/here"
    assert [denial.target for denial in module.denials] == ["session.working_dir"]
