"""Consent in a chat: `/grant` asks about one entry, and its answer is good for exactly the plan that this makes.

A person is asked one question for each grant. Where that about the entry does not show all that the plan would open
(a path that leads out of the working directory, a plan that was not accepted before), the question about the whole plan
takes its place. Every other plan is asked about as the session's start does.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from paddock.authorization.consent import Consent, ConsentAnswer, PlanReview
from paddock.authorization.grant_lines import far_reaching_lines
from paddock.plan.model import MountPlan
from paddock.policy.owner import Owner
from paddock.policy.trust import with_places

_NONE: Final = ""


class GrantConsent:
    """Asks `terminal`, unless the person agreed to the plan by `/grant`; `is_trusted`: plans are accepted by a flag."""

    def __init__(self, terminal: Consent, working_dir: Path, *, is_trusted: bool) -> None:
        self._terminal = terminal
        self._working_dir = working_dir
        self._is_trusted = is_trusted
        self._agreed = _NONE  # digest of a plan
        self._is_declined = False  # whether the session that was started last goes without what takes consent

    def covers(self, plan: MountPlan) -> bool:
        """Return whether the question about the changed entry is enough; blocks: it follows paths."""
        if self._is_trusted:
            return True
        if self._is_declined:
            return False
        return with_places(plan, self._working_dir, Owner.current(os.environ)).digest == plan.digest

    def consequences(self, plan: MountPlan, place: str) -> tuple[str, ...]:
        """Return what the entry at `place` lets its module do beyond its grants' own words; blocks, as above."""
        owner = Owner.current(os.environ)
        (entry,) = (one for one in plan.entries() if one.path == place)
        return tuple(far_reaching_lines(entry, self._working_dir, owner))

    def agree(self, plan: MountPlan) -> None:
        """Accept this plan at the next question, as it is and with every path leading where it leads now."""
        self._agreed = plan.digest

    def forget(self) -> None:
        """Withdraw an agreement that has not been used by a question since."""
        self._agreed = _NONE

    async def ask(self, review: PlanReview) -> ConsentAnswer:
        """Return the answer of `/grant` to the plan that it made, otherwise the person's."""
        agreed, self._agreed = self._agreed, _NONE
        if review.digest == agreed and not (review.moved or review.has_proposals or review.warnings or review.fetches):
            self._is_declined = False
            return ConsentAnswer.ACCEPT
        answer = await self._terminal.ask(review)
        self._is_declined = answer is ConsentAnswer.AS_IT_IS and (review.needs_trust or review.has_proposals)
        return answer
