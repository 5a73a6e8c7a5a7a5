"""What a module says that it reached for, weighed against what it was granted: advice for a person, not a defence.

Inside a file system of its own a refusal looks like a file that is not there, so only the host can tell one from the
other. What it finds out by looking at the real tree is for people: a module is told of every path outside its grants
that it was not granted it, whether there is such a path or not, before anybody has looked (session/adr/0001).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from typing import Any, Final

import anyio
import anyio.to_thread

from paddock.errors import Denial
from paddock.isolation.denials.attempt import AccessAttempt, Explainer
from paddock.token_bucket import TokenBucket

_MAX_WAITING: Final = 500  # attempts that nobody has looked at yet

_log = logging.getLogger(__name__)


class AttemptReview:
    """Those of one module.

    Args:
        deny: told of each attempt that was refused something which exists, and whether a call failed over it.
        spawn: runs something beside everything else.
        budget: how many attempts are looked at.
        leave_out: called for each attempt beyond that, which is not looked at.
    """

    def __init__(
        self,
        deny: Callable[[Denial, bool], None],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        budget: TokenBucket,
        leave_out: Callable[[], None],
    ) -> None:
        self.explainer: Explainer | None = None
        self._deny = deny
        self._spawn = spawn
        self._budget = budget
        self._leave_out = leave_out
        self._waiting: list[tuple[AccessAttempt, bool]] = []
        self._settled = asyncio.Event()
        self._settled.set()

    def not_granted(self, attempts: Iterable[AccessAttempt]) -> list[Denial]:
        """Return what the module may be told: which of these it was not granted, as is seen from its grants alone."""
        if self.explainer is None:
            return []
        told = (self.explainer.tell(attempt) for attempt in attempts)
        return [denial for denial in told if denial is not None]

    def weigh(self, attempts: Iterable[AccessAttempt], *, has_failed: bool, now: float) -> None:
        """Have it found out, beside everything else, which of these were refused something that exists."""
        if self.explainer is None:
            return
        for attempt in attempts:
            if len(self._waiting) < _MAX_WAITING and self._budget.admits(now):
                self._waiting.append((attempt, has_failed))
            else:
                self._leave_out()
        if self._waiting and self._settled.is_set():
            self._settled.clear()
            self._spawn(self._judge_waiting(self.explainer))

    async def settled(self) -> None:
        """Return when nothing waits to be looked at."""
        await self._settled.wait()

    async def _judge_waiting(self, explainer: Explainer) -> None:
        try:
            while self._waiting:
                waiting, self._waiting = self._waiting, []
                # In a thread, and left there if it has to be: a file system may take as long as it likes.
                judged = await anyio.to_thread.run_sync(_judge, explainer, waiting, abandon_on_cancel=True)
                for denial, has_failed in judged:
                    self._deny(denial, has_failed)
        finally:
            self._settled.set()


def _judge(explainer: Explainer, waiting: list[tuple[AccessAttempt, bool]]) -> list[tuple[Denial, bool]]:
    judged: dict[AccessAttempt, tuple[Denial | None, bool]] = {}
    for attempt, has_failed in waiting:
        if attempt in judged:
            known, had_failed = judged[attempt]
            judged[attempt] = known, had_failed or has_failed
            continue
        try:
            judged[attempt] = explainer.judge(attempt), has_failed
        except Exception:  # advice is worth nobody's call
            _log.exception("an attempt of a module could not be explained")
    return [
        (replace(denial, seen_by="module"), has_failed) for denial, has_failed in judged.values() if denial is not None
    ]
