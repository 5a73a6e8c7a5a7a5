"""Cancellation: the session's token and a module's own, children, callbacks, and the turn that sees it."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from integration.semantics.places import Place
from support.rows import each_row

WHOSE = ("the session's", "its own")


@each_row("whose", WHOSE)
@each_row(
    ("requests", "answers", "seen"),
    [
        ([], [], ["none", False, False, False]),
        (["request_graceful"], [True], ["graceful", True, True, False]),
        (["request_graceful", "request_graceful"], [True, False], ["graceful", True, True, False]),
        (["request_immediate"], [True], ["immediate", True, False, True]),
        (["request_graceful", "request_immediate"], [True, True], ["immediate", True, False, True]),
        (["request_immediate", "request_graceful"], [True, False], ["immediate", True, False, True]),
        (["request_immediate", "request_immediate"], [True, False], ["immediate", True, False, True]),
        (["request_cancellation"], [None], ["graceful", True, True, False]),
        (["request_immediate", "request_cancellation"], [True, None], ["immediate", True, False, True]),
        (["request_immediate", "reset", "request_graceful"], [True, None, True], ["graceful", True, True, False]),
    ],
)
async def test_a_wish_grows_until_it_is_reset(
    place: Place, whose: str, requests: list[str], answers: list[Any], seen: list[Any]
) -> None:
    assert await place.run("cancellation.requested", whose=whose, requests=requests) == {
        "answers": answers,
        "seen": seen,
        "text": "str",
        "after a reset": "none",
    }


async def test_the_states_have_the_contracts_values(place: Place) -> None:
    states = {"NONE": "none", "GRACEFUL": "graceful", "IMMEDIATE": "immediate"}
    assert await place.run("cancellation.states") == states


async def test_a_cancel_request_sets_the_token_and_nothing_else(place: Place) -> None:
    outcome = await place.run("cancellation.by_the_coordinator")
    assert outcome == {"states": ["graceful", "immediate"], "heard": []}


@each_row("whose", WHOSE)
async def test_tools_that_run_are_known_until_they_end(place: Place, whose: str) -> None:
    assert await place.run("cancellation.running_tools", whose=whose) == [["1", "2"], "set", ["2"], ["bash"], []]


@each_row("whose", WHOSE)
async def test_children_follow_their_parent_but_for_its_resets(place: Place, whose: str) -> None:
    assert await place.run("cancellation.children", whose=whose) == [
        ["graceful", "graceful", "graceful", "none"],
        ["graceful", "graceful", "graceful", "graceful"],
        ["immediate", "immediate", "immediate", "graceful"],
        ["none", "immediate", "immediate", "graceful"],
        ["none", "immediate", "none", "graceful"],
    ]


@each_row("whose", WHOSE)
async def test_callbacks_run_each_time_they_are_triggered_whatever_they_raise(place: Place, whose: str) -> None:
    assert await place.run("cancellation.callbacks", whose=whose) == {
        "requested": [],
        "returned": None,
        "once": ["synchronous", "asynchronous", "fails", "cancels", "last"],
        "twice": 10,
    }


@pytest.mark.parametrize(
    ("request_it", "state", "was_immediate"),
    [
        ("request_graceful", ["graceful", True, True, False], False),
        ("request_immediate", ["immediate", True, False, True], True),
    ],
)
async def test_a_turn_sees_the_applications_wish_and_its_end_is_announced(
    place: Place, request_it: str, state: list[Any], was_immediate: bool
) -> None:
    polling, completed = anyio.Event(), []
    hooks, token = place.coordinator.hooks, place.coordinator.cancellation
    gone = [
        hooks.register("semantics:polling", lambda event, data: polling.set(), name="watch"),
        hooks.register("cancel:completed", lambda event, data: completed.append(data), name="watch"),
    ]
    outcome: dict[str, Any] = {}

    async def turn() -> None:
        outcome.update(await place.run("cancellation.until_cancelled"))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(turn)
            await polling.wait()
            getattr(token, request_it)()
    token.reset()
    for unregister in gone:
        unregister()
    assert outcome == {"here": state, "elsewhere": state}
    assert [data["was_immediate"] for data in completed] == [was_immediate]
    assert "error" not in completed[0]
