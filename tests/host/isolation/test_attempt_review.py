"""Attempts that are looked at beside everything else: each is judged, or counted as left out."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from typing import Any

import anyio

from paddock.errors import Denial
from paddock.isolation.denials.attempt import AccessAttempt, AttemptJudge, AttemptReview
from paddock.token_bucket import TokenBucket

_SECONDS = 60  # hit only by a hang


class Judge(AttemptJudge):
    def __init__(self) -> None: ...

    def tell(self, attempt: AccessAttempt) -> Denial | None:
        return None

    def started(self, attempt: AccessAttempt) -> str:
        return ""

    def left(self) -> Iterator[AccessAttempt]:
        yield from ()


class SlowJudge(Judge):
    """Judges nothing until it may, like a file system that takes its time."""

    def __init__(self) -> None:
        self.may_judge = threading.Event()
        self.judging = threading.Event()

    def judge(self, attempt: AccessAttempt) -> Denial | None:
        self.judging.set()
        self.may_judge.wait(_SECONDS)
        return None


class FullFolder(Judge):
    """Refuses everything, and finds a file in the private folder."""

    def __init__(self) -> None:
        self.looked = 0

    def judge(self, attempt: AccessAttempt) -> Denial | None:
        return Denial(attempt.kind, attempt.target, "tool-x")

    def left(self) -> Iterator[AccessAttempt]:
        self.looked += 1
        yield AccessAttempt("left", "/scratch/a")


async def test_attempts_that_were_not_judged_in_time_are_counted() -> None:
    judge, left_out, tasks = SlowJudge(), [], []

    def spawn(coroutine: Coroutine[Any, Any, None]) -> None:
        tasks.append(asyncio.ensure_future(coroutine))

    review = AttemptReview(
        lambda denial, has_failed: None, spawn, TokenBucket(1000, 1000), lambda: left_out.append(1), judge
    )
    with anyio.fail_after(_SECONDS):
        review.weigh([AccessAttempt("read", f"/a/{number}") for number in range(3)], has_failed=False, now=0.0)
        await anyio.to_thread.run_sync(judge.judging.wait, _SECONDS)
        review.weigh([AccessAttempt("read", "/b")], has_failed=False, now=0.0)
        review.drop_waiting()
        assert len(left_out) == 4
        judge.may_judge.set()
        await review.settled()
        review.drop_waiting()
        assert len(left_out) == 4
        await asyncio.gather(*tasks)


async def test_files_left_by_a_module_that_was_cut_short_are_looked_for() -> None:
    judge, denied, tasks = FullFolder(), [], []
    review = AttemptReview(
        lambda denial, has_failed: denied.append((denial.operation, denial.target, has_failed)),
        lambda coroutine: tasks.append(asyncio.ensure_future(coroutine)),
        TokenBucket(1000, 1000),
        lambda: None,
        judge,
    )
    with anyio.fail_after(_SECONDS):
        # The worker's own report asks for no search, whatever it contains.
        review.weigh([AccessAttempt("left", "")], has_failed=False, now=0.0)
        await review.settled()
        assert judge.looked == 0
        denied.clear()
        reported = [AccessAttempt("left", "/scratch/a"), AccessAttempt("read", "/b")]
        review.weigh(reported, has_failed=False, now=0.0, is_cut_short=True)
        await review.settled()
        await asyncio.gather(*tasks)
    assert judge.looked == 1
    assert sorted(denied) == [("left", "/scratch/a", False), ("read", "/b", False)], "each once"
