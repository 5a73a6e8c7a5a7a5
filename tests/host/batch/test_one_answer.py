"""Later sessions of a run get what was accepted before the first task, and no more."""

from __future__ import annotations

from paddock.authorization.consent import ConsentAnswer, ModuleReview, PlanReview
from paddock.batch.local import OneAnswer
from paddock.plan.permissions import Permissions


class _Accepting:
    is_attended = True

    def __init__(self) -> None:
        self.asked: list[PlanReview] = []

    async def ask(self, review: PlanReview) -> ConsentAnswer:
        self.asked.append(review)
        return ConsentAnswer.ACCEPT


def _review(digest: str, *read: str) -> PlanReview:
    proposed = Permissions(read=read)
    return PlanReview("plan.yaml", digest, (ModuleReview("tool-x", "tool", "", proposed=proposed, place="tools[0]"),))


async def test_an_answer_is_given_again_and_to_nothing_else() -> None:
    person = _Accepting()
    answer = OneAnswer(person)
    assert answer.is_attended
    assert await answer.ask(_review("one")) is ConsentAnswer.ACCEPT
    answer.close()
    assert await answer.ask(_review("one")) is ConsentAnswer.ACCEPT
    assert await answer.ask(_review("one", "keys")) is ConsentAnswer.AS_IT_IS
    assert await answer.ask(_review("two")) is ConsentAnswer.AS_IT_IS
    assert len(person.asked) == 1
