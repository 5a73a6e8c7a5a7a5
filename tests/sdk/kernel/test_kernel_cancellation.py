"""The cancellation token, as a table of what each request does."""

from __future__ import annotations

import asyncio
import logging

import anyio
import pytest

from paddock_sdk.kernel.cancellation import CancellationState, CancellationToken
from support.rows import each_row

REQUESTS = {
    "graceful": CancellationToken.request_graceful,
    "immediate": CancellationToken.request_immediate,
    "cancellation": CancellationToken.request_cancellation,
    "reset": CancellationToken.reset,
}


@each_row(
    ("requests", "answers", "state"),
    [
        ([], [], "none"),
        (["graceful"], [True], "graceful"),
        (["graceful", "graceful"], [True, False], "graceful"),
        (["immediate"], [True], "immediate"),
        (["immediate", "immediate"], [True, False], "immediate"),
        (["graceful", "immediate"], [True, True], "immediate"),
        (["immediate", "graceful"], [True, False], "immediate"),
        (["cancellation"], [None], "graceful"),
        (["immediate", "cancellation"], [True, None], "immediate"),
        (["immediate", "reset"], [True, None], "none"),
        (["graceful", "reset", "graceful"], [True, None, True], "graceful"),
    ],
)
def test_a_wish_grows_until_it_is_reset(requests: list[str], answers: list[bool | None], state: str) -> None:
    token = CancellationToken()
    assert [REQUESTS[request](token) for request in requests] == answers
    assert token.state == state
    assert type(token.state) is str
    assert token.is_cancelled == (state != "none")
    assert token.is_graceful == (state == "graceful")
    assert token.is_immediate == (state == "immediate")


def test_the_states_have_the_contracts_values() -> None:
    assert {state.name: state.value for state in CancellationState} == {
        "NONE": "none",
        "GRACEFUL": "graceful",
        "IMMEDIATE": "immediate",
    }


def test_running_tools_are_snapshots_and_forgotten_on_reset() -> None:
    token = CancellationToken()
    token.register_tool_start("1", "bash")
    token.register_tool_start("2", "bash")
    token.register_tool_complete("unknown")
    token.running_tools.add("x")
    token.running_tool_names.append("x")
    assert token.running_tools == {"1", "2"}
    assert token.running_tool_names == ["bash", "bash"]
    token.register_tool_complete("1")
    assert token.running_tools == {"2"}
    token.reset()
    assert token.running_tools == set()


@each_row("before", ["none", "graceful", "immediate"])
def test_a_child_takes_its_parents_state_when_it_is_registered(before: str) -> None:
    parent, child = CancellationToken(), CancellationToken()
    if before != "none":
        REQUESTS[before](parent)
    parent.register_child(child)
    assert child.state == before


def test_requests_reach_grandchildren_but_a_reset_does_not() -> None:
    parent, child, grandchild = CancellationToken(), CancellationToken(), CancellationToken()
    parent.register_child(child)
    child.register_child(grandchild)
    parent.request_graceful()
    assert grandchild.state == "graceful"
    parent.request_immediate()
    assert grandchild.state == "immediate"
    parent.reset()
    assert grandchild.state == "immediate"


def test_a_child_is_never_calmed_by_its_parent() -> None:
    parent, child = CancellationToken(), CancellationToken()
    child.request_immediate()
    parent.request_graceful()
    parent.register_child(child)
    assert child.state == "immediate"


def test_an_unregistered_child_hears_nothing() -> None:
    parent, child = CancellationToken(), CancellationToken()
    parent.register_child(child)
    parent.unregister_child(child)
    parent.unregister_child(child)
    parent.request_immediate()
    assert child.state == "none"


def test_tokens_that_are_each_others_children_still_end() -> None:
    one, other = CancellationToken(), CancellationToken()
    one.register_child(other)
    other.register_child(one)
    one.request_graceful()
    other.request_immediate()
    assert one.state == other.state == "immediate"


def test_the_observer_hears_changes_only() -> None:
    token = CancellationToken()
    heard: list[str] = []
    token.observer = heard.append
    token.reset()
    token.request_graceful()
    token.request_graceful()
    token.request_immediate()
    token.reset()
    assert heard == ["graceful", "immediate", "none"]


async def test_callbacks_run_every_time_and_their_errors_are_swallowed(caplog: pytest.LogCaptureFixture) -> None:
    token, ran = CancellationToken(), []

    async def later() -> None:
        ran.append("async")

    async def cancel_itself() -> None:
        raise asyncio.CancelledError

    token.on_cancel(lambda: ran.append("sync"))
    token.on_cancel(lambda: 1 / 0)
    token.on_cancel(cancel_itself)
    token.on_cancel(later)
    with caplog.at_level(logging.WARNING):
        await token.trigger_callbacks()
        token.reset()
        await token.trigger_callbacks()
    assert ran == ["sync", "async", "sync", "async"]
    assert "ZeroDivisionError" in caplog.text


async def test_requests_run_no_callbacks() -> None:
    token, ran = CancellationToken(), []
    token.on_cancel(lambda: ran.append("ran"))
    token.request_immediate()
    assert ran == []


async def test_cancelling_the_task_that_runs_the_callbacks_ends_it() -> None:
    token, started, ran = CancellationToken(), asyncio.Event(), []

    async def hang() -> None:
        started.set()
        await asyncio.Event().wait()

    token.on_cancel(hang)
    token.on_cancel(lambda: ran.append("later"))
    task = asyncio.create_task(token.trigger_callbacks())
    with anyio.fail_after(60):
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert ran == []
