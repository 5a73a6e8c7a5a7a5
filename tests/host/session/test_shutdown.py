"""The end of a session: one module's time is no other's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from paddock.session import shutdown as ending
from paddock.session.shutdown import ShutdownDeadlines, ShutdownPhase

PARTS: tuple[ShutdownPhase, ...] = ("session:end", "cleanup functions", "what others emit")


@pytest.fixture(autouse=True)
def short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "_SECONDS", dict.fromkeys(PARTS, 0.1))
    monkeypatch.setattr(ending, "_HURRIED", 0.1)


class Acts:
    """What is done at an end, in order, and by whom."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.done: list[str] = []

    def hangs(self, name: str) -> Callable[[], Awaitable[str]]:
        return self.takes(name, anyio.sleep_forever)

    def takes(self, name: str, wait: Callable[[], Awaitable[Any]] = anyio.lowlevel.checkpoint) -> Any:
        async def act() -> str:
            self.begun.append(name)
            await wait()
            self.done.append(name)
            return f"{name}'s"

        return act


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("is_hurried", [False, True])
async def test_a_module_that_overstays_is_left_out_and_others_have_their_time(
    part: ShutdownPhase, is_hurried: bool, caplog: pytest.LogCaptureFixture
) -> None:
    end, acts, answers = ShutdownDeadlines(), Acts(), []

    async def take_part(name: str) -> None:
        answers.append(await end.run_within(name, part, acts.takes(name) if name == "c" else acts.hangs(name), "late"))

    async def all_of_it() -> None:
        for name in "abacbc":
            await take_part(name)

    with anyio.fail_after(60):
        await end.run(all_of_it, is_hurried=is_hurried)
    assert acts.begun == ["a", "b", "c", "c"]
    assert acts.done == ["c", "c"]
    assert answers == ["late", "late", "late", "c's", "late", "c's"]
    said = [record.getMessage() for record in caplog.records]
    assert [message for message in said if "did not finish with" in message] == said
    assert ["`a`" in said[0], "`b`" in said[1], len(said)] == [True, True, 2], "once for each"


async def test_what_was_used_up_in_one_part_of_the_end_is_there_in_the_next() -> None:
    end, acts = ShutdownDeadlines(), Acts()

    async def all_of_it() -> None:
        await end.run_within("a", "session:end", acts.hangs("a"), None)
        await end.run_within("a", "cleanup functions", acts.takes("a"), None)

    with anyio.fail_after(60):
        await end.run(all_of_it)
    assert acts.done == ["a"]


@pytest.mark.costly
async def test_the_applications_own_time_at_the_end_is_bounded(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "_OF_THE_APPLICATION", 0.4)
    end, acts = ShutdownDeadlines(), Acts()

    async def all_of_it() -> None:
        for name in "abcdef":
            await end.run_within(name, "session:end", acts.hangs(name), None)
        await acts.takes("the application")()
        await acts.hangs("the application")()

    with anyio.fail_after(60):
        await end.run(all_of_it)
    assert acts.begun == [*"abcdef", "the application", "the application"]
    assert acts.done == ["the application"]
    assert "the application did not finish" in caplog.records[-1].getMessage()
    assert not end.is_under_way


async def test_before_its_end_a_module_has_all_the_time_that_there_is() -> None:
    end, acts, go = ShutdownDeadlines(), Acts(), asyncio.Event()
    for _ in range(2):
        with anyio.move_on_after(0.15):
            await end.run_within("a", "session:end", acts.takes("a", go.wait), None)
    go.set()
    assert await end.run_within("a", "session:end", acts.takes("a", go.wait), None) == "a's"


async def test_a_cancelled_scope_still_goes_through_the_end() -> None:
    end, acts = ShutdownDeadlines(), Acts()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await end.run(lambda: end.run_within("a", "session:end", acts.takes("a"), None))
        assert acts.done == ["a"]
        await anyio.lowlevel.checkpoint()
        pytest.fail("it is cancelled")
    assert scope.cancelled_caught
