"""What evidence amounts to: the attacker's own word for having been refused is never enough."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from paddock.selftest import CATALOGUE, Attack, Verdict
from paddock.selftest.attack import Outside, Sign
from paddock.selftest.control import OutsideControl
from paddock.selftest.outcome import KEPT_MAX, LAG_MAX, Evidence, judge
from paddock.selftest.testbed.testbed import ATTACKER, AttackTestbed
from paddock.selftest.unconfined import UnconfinedAttackers
from paddock.workers.exit_report import ExitReason, ExitReport, LimitHit
from paddock_sandbox.profile import IsolationLevel
from support.rows import each_row

_ATTACK = Attack("files.open_the_door", "opens a door", "files")
_ASKED_BY_THE_HOST = {"identity.listen_honestly", "ways_out.tell_its_proxy"}  # of a module that attacks nothing
_GREEDY = dataclasses.replace(_ATTACK, ends=frozenset((ExitReason.MEMORY,)))
_LEAKING = dataclasses.replace(_ATTACK, known={"landlock": "files can be seen"})
_OBSERVED = dataclasses.replace(_ATTACK, sign=Sign.MARKS)


@contextmanager
def _outside() -> Iterator[tuple[AttackTestbed, OutsideControl]]:
    with AttackTestbed() as stage, closing(UnconfinedAttackers(stage)) as attackers:
        yield stage, OutsideControl(stage, attackers)


def _answer(*ways: tuple[str, str]) -> dict[str, Any]:
    told = [{"way": f"way {number}", "outcome": o, "word": w, "how": w} for number, (o, w) in enumerate(ways)]
    return {"succeeded": False, "how": "", "ways": told}


def _report(reason: ExitReason, limit: LimitHit | None = None) -> ExitReport:
    return ExitReport("tool-x", reason, 1.0, limit=limit)


_REFUSED = _answer(("refused", "EACCES"), ("refused", "ENOENT"))


@each_row(
    ("evidence", "verdict", "by"),
    [
        (Evidence(_REFUSED), Verdict.REFUSED, "EACCES, ENOENT"),
        (Evidence(_answer(("refused", "EACCES"), ("worked", ""))), Verdict.SUCCEEDED, "way 1"),
        (Evidence(_REFUSED, marks=["the key was changed"]), Verdict.SUCCEEDED, "the key was changed"),
        (Evidence(_REFUSED, lag=LAG_MAX + 1), Verdict.SUCCEEDED, "the host stood still for 1.5 s"),
        (Evidence(_REFUSED, kept_bytes=KEPT_MAX + 1), Verdict.SUCCEEDED, "the host kept"),
        (Evidence(_REFUSED, lives_on=True), Verdict.SUCCEEDED, "something of it lives on"),
        (Evidence(_answer(("refused", "EINVAL"))), Verdict.UNCLEAR, "not by being refused"),
        (Evidence(_answer(("broken", ""))), Verdict.UNCLEAR, "not by being refused"),
        (Evidence(_answer()), Verdict.UNCLEAR, "it has no ways"),
        (Evidence(None), Verdict.UNCLEAR, "no answer"),
        (Evidence({"ways": [{"way": "half"}]}), Verdict.UNCLEAR, "no answer"),
        (Evidence({"ways": 7}), Verdict.UNCLEAR, "no answer"),
        (Evidence(error="the tool raised"), Verdict.UNCLEAR, "the tool raised"),
        (Evidence(report=_report(ExitReason.MEMORY)), Verdict.UNCLEAR, "ended for another reason"),
    ],
)
def test_evidence_is_weighed(evidence: Evidence, verdict: Verdict, by: str) -> None:
    outcome = judge(_ATTACK, "ns", evidence)
    assert outcome.verdict is verdict
    assert by in outcome.by


@each_row(
    ("attack", "evidence", "level", "verdict"),
    [
        (_GREEDY, Evidence(report=_report(ExitReason.SIGNALLED)), "ns", Verdict.UNCLEAR),
        (_LEAKING, Evidence(_answer(("worked", ""))), "landlock", Verdict.LEAKS),
        (_LEAKING, Evidence(_answer(("worked", ""))), "ns", Verdict.SUCCEEDED),
        # Where observers judge, an attacker's word does not count, but for its never having attacked.
        (_OBSERVED, Evidence(_answer(("worked", ""))), "ns", Verdict.REFUSED),
        (_OBSERVED, Evidence(_answer(("worked", "")), marks=["x"]), "ns", Verdict.SUCCEEDED),
        (_OBSERVED, Evidence(_answer(("worked", ""), ("broken", ""))), "ns", Verdict.UNCLEAR),
    ],
)
def test_an_attack_is_judged_by_its_own_signs(
    attack: Attack, evidence: Evidence, level: IsolationLevel, verdict: Verdict
) -> None:
    assert judge(attack, level, evidence).verdict is verdict


def test_an_attacker_ended_for_its_attack_was_contained() -> None:
    limit = LimitHit("memory_max", 128 << 20, "129 MiB", "cgroup memory")
    outcome = judge(_GREEDY, "ns", Evidence(report=_report(ExitReason.MEMORY, limit)))
    assert outcome.verdict is Verdict.CONTAINED
    assert outcome.by == "ended: memory_max 128 MiB (cgroup memory)"


# -- what is shown outside -------------------------------------------------------------------


def test_an_attack_that_fails_or_is_broken_outside_shows_nothing() -> None:
    attack = Attack("files.read_ssh_key", "reads", "files", arguments=lambda stage: {"path": str(stage.files.key)})
    lost = dataclasses.replace(attack, arguments=lambda stage: {"path": "/there/is/none"})
    with _outside() as (_, outside):
        assert outside.perform(attack).proves_something
        assert not outside.perform(lost).proves_something and "ENOENT" in outside.perform(lost).problem
        assert "TypeError" in outside.perform(Attack("files.read_ssh_key", "reads", "files")).problem
        assert "no mark" in outside.perform(dataclasses.replace(attack, marks=True)).problem


def test_an_attack_that_should_have_no_end_and_has_one_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paddock.selftest.control._ENDLESS_SECONDS", 60.0)  # it ends long before
    attack = Attack("resources.open_many_files", "opens", "resources", arguments=lambda stage: {"files": 1})
    with _outside() as (_, outside):
        assert "ended by itself" in outside.perform(dataclasses.replace(attack, outside=Outside.RUNS_ON)).problem


def test_an_attack_that_does_not_end_where_it_should_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paddock.selftest.control._ANSWER_SECONDS", 0.1)
    attack = dataclasses.replace(_attack("never_answer"), outside=Outside.LIVES_ON)
    with _outside() as (_, outside):
        assert outside.perform(attack).problem == "it gave no answer within 0.1 s"


def test_an_attack_that_is_not_started_in_time_is_the_only_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with _outside() as (_, outside):
        with monkeypatch.context() as context:
            context.setattr("paddock.selftest.unconfined._START_SECONDS", 0.001)  # loading asyncio takes longer
            late = next(attack for attack in CATALOGUE if attack.body.startswith("identity."))
            assert "was not started within" in outside.perform(late).problem
        assert outside.perform(_attack("read_ssh_key")).proves_something


def test_an_attack_that_cannot_be_loaded_is_the_only_one() -> None:
    unknown = Attack("endings.no_such_body", "cannot be loaded, which ends the program", "endings")
    with _outside() as (_, outside):
        assert "was not started" in outside.perform(unknown).problem
        assert outside.perform(_attack("read_ssh_key")).proves_something


def _attack(name: str) -> Attack:
    return next(attack for attack in CATALOGUE if attack.name == name)


@pytest.mark.exhaustive  # each is renewed, which its own tests show
@pytest.mark.slow
def test_a_stage_is_as_it_was_after_every_attack_outside() -> None:
    with _outside() as (stage, outside):
        for attack in CATALOGUE:
            if attack.marks:
                outside.perform(attack)
                assert stage.marks() == (), attack.name


def test_every_attack_has_a_name_of_its_own() -> None:
    names = [attack.name for attack in CATALOGUE]
    assert len(set(names)) == len(names)
    assert all(name.isidentifier() for name in names)


def test_attacks_and_bodies_are_each_others() -> None:
    declared = {body for attack in CATALOGUE for body in (attack.body, attack.before) if body}
    found = {
        f"{file.stem}.{function.name}"
        for file in (ATTACKER / "amplifier_module_tool_attacker").glob("*.py")
        for function in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and not function.name.startswith("_")
        if function.returns is not None and function.name != "in_one_way"
        if ast.unparse(function.returns) == "Iterator[Way]"
        or any(ast.unparse(one).startswith("in_one_way(") for one in function.decorator_list)
    }
    assert declared == found - _ASKED_BY_THE_HOST
