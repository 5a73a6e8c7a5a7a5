"""Which plans a chat does not ask about again after `/grant`: exactly the one that was agreed to, and no other."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from paddock.authorization.consent import ConsentAnswer, ModuleReview, PlanReview
from paddock.cli.chat.chat_session import GrantConsent
from paddock.plan.edit import PlanEdit, with_permissions
from paddock.plan.load import load_plan
from paddock.plan.permissions import Permissions
from paddock.policy.owner import Owner
from paddock.policy.trust import with_places

_PLAN = "session: {orchestrator: loop-basic, context: context-simple}\ntools:\n  - module: a\n"
_NETWORK = ModuleReview("a", "tool", "here", needs_trust=("net: example.org:443",))


class Person:
    """A person who declines, and counts what they are asked."""

    def __init__(self) -> None:
        self.asked = 0

    async def ask(self, review: PlanReview) -> ConsentAnswer:
        self.asked += 1
        return ConsentAnswer.AS_IT_IS


def _edit(folder: Path, **granted: list[str]) -> PlanEdit:
    path = folder / "plan.yaml"
    path.write_text(_PLAN, encoding="utf-8")
    return with_permissions(path, "tools[0]", Permissions.model_validate(granted))


async def test_the_answer_to_a_grant_is_good_for_its_plan_once(tmp_path: Path) -> None:
    person = Person()
    consent = GrantConsent(person, tmp_path, is_trusted=False)
    edit = _edit(tmp_path, net=["example.org"])
    covered = consent.covered(edit.plan, load_plan(edit.path), "")
    consent.agree(covered, ())
    assert edit.write().digest == load_plan(edit.path).digest
    review = PlanReview("plan.yaml", edit.plan.digest, (_NETWORK,))
    assert await consent.ask(review) is ConsentAnswer.ACCEPT and person.asked == 0
    assert await consent.ask(review) is ConsentAnswer.AS_IT_IS and person.asked == 1
    consent.agree(covered, ())
    consent.forget()
    assert await consent.ask(review) is ConsentAnswer.AS_IT_IS and person.asked == 2


async def test_whatever_a_grants_question_did_not_show_is_asked_about(tmp_path: Path) -> None:
    person = Person()
    consent = GrantConsent(person, tmp_path, is_trusted=False)
    plan = _edit(tmp_path, net=["example.org"]).plan
    proposing = replace(_NETWORK, proposed_lines=("read: .",))
    for review in (
        PlanReview("plan.yaml", "sha256:another", (_NETWORK,)),
        PlanReview("plan.yaml", plan.digest, (proposing,)),
        PlanReview("plan.yaml", plan.digest, (_NETWORK,), warnings=("the whole web",)),
    ):
        consent.agree(plan.digest, ())
        assert await consent.ask(review) is ConsentAnswer.AS_IT_IS
    assert person.asked == 3


async def test_a_module_that_keeps_what_it_runs_with_is_not_asked_about_again(tmp_path: Path) -> None:
    person = Person()
    consent = GrantConsent(person, tmp_path, is_trusted=False)
    plan = _edit(tmp_path, net=["example.org"]).plan
    has = Permissions(read=(".", "!@secrets"))
    runs: Any = SimpleNamespace(place="tools[1]", granted=has, keeps_home=False)
    other = ModuleReview("b", "tool", "here", proposed=has, proposed_lines=("read: .",), place="tools[1]")
    consent.agree(plan.digest, [runs])
    assert await consent.ask(PlanReview("plan.yaml", plan.digest, (_NETWORK, other))) is ConsentAnswer.ACCEPT
    for more in ({"proposed": Permissions(read=(".",))}, {"keeps": True}, {"proposed": None}, {"place": "tools[2]"}):
        consent.agree(plan.digest, [runs])
        await consent.ask(PlanReview("plan.yaml", plan.digest, (_NETWORK, replace(other, **more))))
    assert person.asked == 4


async def test_a_grant_in_a_plan_that_was_declined_is_not_enough(tmp_path: Path) -> None:
    consent = GrantConsent(Person(), tmp_path, is_trusted=False)
    edit = _edit(tmp_path, net=["example.org"])
    await consent.ask(PlanReview("plan.yaml", "sha256:before", (_NETWORK,)))
    assert not consent.covered(edit.plan, load_plan(edit.path), "")


def test_a_path_that_leads_outside_takes_the_whole_question(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "data").symlink_to("/etc")
    edit = _edit(tmp_path / "work", read=["data"])
    before = load_plan(edit.path), load_plan(edit.path).digest
    consent, trusting = (
        GrantConsent(Person(), tmp_path / "work", is_trusted=is_trusted) for is_trusted in (False, True)
    )
    assert not consent.covered(edit.plan, *before) and trusting.covered(edit.plan, *before)


def test_a_path_that_led_outside_before_is_not_asked_about_again(tmp_path: Path) -> None:
    (work := tmp_path / "work").mkdir()
    (link := work / "data").symlink_to("/etc")
    before = _edit(work, read=["data"]).plan
    after = _edit(work, read=["data"], net=["example.org"]).plan
    owner = Owner.current(os.environ)
    judged = with_places(before, work, owner).digest
    consent = GrantConsent(Person(), work, is_trusted=False)
    assert consent.covered(after, before, judged) == with_places(after, work, owner).digest
    link.unlink()
    link.symlink_to("/usr")  # as a module may do
    assert not consent.covered(after, before, judged)


def test_a_grants_question_says_what_it_opens(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "docs").mkdir()
    consent = GrantConsent(Person(), tmp_path, is_trusted=False)

    def said(**granted: list[str]) -> tuple[str, ...]:
        return consent.consequences(_edit(tmp_path, **granted).plan, "tools[0]")

    assert said(write=[".", "docs", "none"], net=["example.org"], read=[".git"]) == ()
    opened, web = said(write=[".", ".git"], net=["public"])
    assert opened == f"writes {tmp_path}/.git: it may commit, and your next git command there may run its code"
    assert "ANY public host" in web
