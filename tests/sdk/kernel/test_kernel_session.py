"""Turns and the end of a session, for both session classes."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest

from paddock_sdk.kernel.session import AmplifierSession, PlainAmplifierSession

BOTH = pytest.mark.parametrize("kind", [AmplifierSession, PlainAmplifierSession])


@pytest.fixture
def plan(plan: dict[str, Any], loader: Any) -> dict[str, Any]:
    """A plan with a provider, which the plain class needs."""
    loader.modules["provider-p"] = loader.mounts("providers", "the provider", "p")
    return plan | {"providers": [{"module": "provider-p"}]}


def prepared(plan: dict[str, Any], loader: Any, kind: type[AmplifierSession], **kwargs: Any) -> Any:
    session = kind(plan, session_id="s", **kwargs)
    session.coordinator.loader = loader
    return session


async def started(plan: dict[str, Any], loader: Any, kind: type[AmplifierSession], **kwargs: Any) -> Any:
    session = prepared(plan, loader, kind, **kwargs)
    await session.initialize()
    return session


def recorded(session: AmplifierSession, *events: str) -> list[tuple[str, dict[str, Any]]]:
    seen: list[tuple[str, dict[str, Any]]] = []
    for event in events:
        session.coordinator.hooks.register(
            event, lambda event, data: seen.append((event, {k: v for k, v in data.items() if k != "timestamp"}))
        )
    return seen


IDS = {"session_id": "s", "parent_id": None}


@BOTH
async def test_a_turn_gives_the_orchestrator_everything_by_keyword(plan: Any, loader: Any, kind: Any) -> None:
    session = await started(plan, loader, kind)
    assert await session.execute("hello") == "answer"
    coordinator = session.coordinator
    (given,) = loader.orchestrator.calls
    assert given == {
        "prompt": "hello",
        "context": "the context",
        "providers": {"p": "the provider"},
        "tools": {},
        "hooks": coordinator.hooks,
        "coordinator": coordinator,
    }
    assert given["providers"] is coordinator.get("providers")
    assert given["tools"] is coordinator.get("tools")


@BOTH
@pytest.mark.difference("`session:start` and `session:resume` have `config`, and `session:end` has `stats`")
async def test_a_session_shows_its_plan_at_the_start_and_its_counts_at_the_end(
    plan: Any, loader: Any, kind: Any
) -> None:
    plan["providers"][0]["config"] = {"api_key": "hush", "model": "m"}
    session = await started(plan, loader, kind)
    seen, hooks = recorded(session, "session:start", "session:end"), session.coordinator.hooks
    for _ in range(2):
        await session.execute("hello")
        await hooks.emit("tool:pre", {"tool_name": "look"})
        for usage in ({"input_tokens": 5, "output_tokens": 2, "cost_usd": "0.25"}, {"input_tokens": "many"}):
            await hooks.emit("provider:response", {"usage": usage})
        await hooks.emit("llm:response", {"usage": {"input_tokens": 5}})
    await session.cleanup()
    (_, start), (_, end) = seen
    assert start["config"]["providers"][0]["config"] == {"api_key": "[REDACTED]", "model": "m"}
    assert 0 <= end["stats"].pop("duration_seconds") < 60
    counted = {"input_tokens": 10, "output_tokens": 4, "cost_usd": "0.50"}
    assert end["stats"] == {"turns": 2, "tool_calls": 2, "requests": 4, **counted}


async def test_a_plan_with_live_objects_is_not_shown(plan: Any, loader: Any) -> None:
    plan["providers"][0]["config"] = {"client": print}
    session = await started(plan, loader, AmplifierSession)
    seen = recorded(session, "session:start")
    assert await session.execute("hello") == "answer"
    assert seen == [("session:start", IDS)]


@pytest.mark.parametrize(
    ("kind", "events", "with_plan"),
    [
        (AmplifierSession, ["session:start", *["session:config"] * 2], ["session:config"] * 2),
        (PlainAmplifierSession, ["session:start"], ["session:start"]),
    ],
)
async def test_a_raw_session_shows_its_plan_without_secrets(
    plan: Any, loader: Any, kind: Any, events: list[str], with_plan: list[str]
) -> None:
    plan["session"]["raw"] = True
    plan["providers"][0]["config"] = {"api_key": "hush", "model": "m"}
    session = await started(plan, loader, kind)
    seen = recorded(session, "session:start", "session:config")
    await session.execute("one")
    await session.execute("two")
    assert [event for event, _ in seen] == events
    with_raw = [(event, data["raw"]) for event, data in seen if "raw" in data]
    assert [event for event, _ in with_raw] == with_plan
    for _, raw in with_raw:
        assert raw["providers"][0]["config"] == {"api_key": "[REDACTED]", "model": "m"}


# Where the two classes differ.


async def test_a_turn_before_initialisation(plan: Any, loader: Any) -> None:
    with pytest.raises(RuntimeError, match=r"Session not initialized\. Call initialize\(\) first\."):
        await prepared(plan, loader, AmplifierSession).execute("hello")
    plain = prepared(plan, loader, PlainAmplifierSession)
    assert await plain.execute("hello") == "answer"
    assert plain.initialized


async def test_an_exception_of_the_orchestrator(plan: Any, loader: Any) -> None:
    loader.orchestrator.answer = error = LookupError("gone")
    with pytest.raises(RuntimeError, match=r"^Execution failed: LookupError: gone$"):
        await (await started(plan, loader, AmplifierSession)).execute("hello")
    with pytest.raises(LookupError) as raised:
        await (await started(plan, loader, PlainAmplifierSession)).execute("hello")
    assert raised.value is error


async def test_an_answer_that_is_no_text(plan: Any, loader: Any) -> None:
    loader.orchestrator.answer = answer = {"not": "text"}
    with pytest.raises(TypeError, match="dict"):
        await (await started(plan, loader, AmplifierSession)).execute("hello")
    assert await (await started(plan, loader, PlainAmplifierSession)).execute("hello") is answer


async def test_a_turn_without_providers(plan: Any, loader: Any) -> None:
    plan["providers"] = []
    assert await (await started(plan, loader, AmplifierSession)).execute("hello") == "answer"
    with pytest.raises(RuntimeError, match=r"^No providers mounted$"):
        await (await started(plan, loader, PlainAmplifierSession)).execute("hello")


@BOTH
@pytest.mark.parametrize(("point", "message"), [("orchestrator", "No orchestrator"), ("context", "No context manager")])
async def test_a_turn_without_what_was_unmounted(plan: Any, loader: Any, kind: Any, point: str, message: str) -> None:
    session = await started(plan, loader, kind)
    session.coordinator.unmount(point)
    with pytest.raises(RuntimeError, match=message):
        await session.execute("hello")


async def test_the_plain_class_keeps_a_status(plan: Any, loader: Any) -> None:
    session = prepared(plan, loader, PlainAmplifierSession)
    assert (session.status.session_id, session.status.status) == ("s", "running")

    seen: list[str] = []

    async def look(**given: Any) -> str:
        seen.append(session.status.status)
        return "ok"

    loader.orchestrator.answer = look
    await session.execute("hello")
    assert session.status.status == "completed"
    loader.orchestrator.answer = LookupError("gone")
    with pytest.raises(LookupError):
        await session.execute("hello")
    assert session.status.status == "failed"
    assert session.status.last_error == {"message": "gone"}
    loader.orchestrator.answer = look
    await session.execute("hello")
    assert seen == ["running", "running"]
    assert session.status.status == "completed"
    session.coordinator.cancellation.request_graceful()
    await session.execute("hello")
    assert session.status.status == "cancelled"
    loader.orchestrator.answer = LookupError("gone")
    with pytest.raises(LookupError):
        await session.execute("hello")
    assert session.status.status == "cancelled"
    await session.cleanup()


async def test_the_plain_class_raises_what_keeps_it_from_initialising(plan: Any, loader: Any) -> None:
    loader.modules["loop"] = ValueError("broken")
    session = prepared(plan, loader, PlainAmplifierSession)
    with pytest.raises(RuntimeError, match="Cannot initialize without orchestrator"):
        await session.execute("hello")
    assert not session.initialized


# Cancellation.


@BOTH
@pytest.mark.parametrize(
    ("state", "answer", "expected"),
    [
        ("none", "answer", []),
        ("graceful", "answer", [{"was_immediate": False}]),
        ("immediate", "answer", [{"was_immediate": True}]),
        ("none", LookupError("gone"), []),
        ("immediate", LookupError("gone"), [{"was_immediate": True, "error": "{}gone"}]),
    ],
)
async def test_a_cancelled_turn_is_announced(
    plan: Any, loader: Any, kind: Any, state: str, answer: Any, expected: list[Any]
) -> None:
    session = await started(plan, loader, kind)
    seen = recorded(session, "cancel:completed")

    async def run(**given: Any) -> Any:
        if state != "none":
            await given["coordinator"].request_cancel(immediate=state == "immediate")
        if isinstance(answer, Exception):
            raise answer
        return answer

    loader.orchestrator.answer = run
    if isinstance(answer, Exception):
        with pytest.raises((RuntimeError, LookupError)):
            await session.execute("hello")
    else:
        await session.execute("hello")
    kept = "" if kind is PlainAmplifierSession else "LookupError: "
    said = [data | {"error": data["error"].format(kept)} if "error" in data else data for data in expected]
    assert [data for _, data in seen] == [{**IDS, **data} for data in said]


@BOTH
@pytest.mark.parametrize("token_is_set", [False, True])
async def test_a_turn_whose_task_is_cancelled_leaves_the_session_usable(
    plan: Any, loader: Any, kind: Any, token_is_set: bool
) -> None:
    session = await started(plan, loader, kind)
    seen = recorded(session, "cancel:completed", "session:start")
    running = asyncio.Event()

    async def hang(**given: Any) -> Any:
        if token_is_set:
            session.coordinator.cancellation.request_immediate()
        running.set()
        await asyncio.Event().wait()

    loader.orchestrator.answer = hang
    task = asyncio.create_task(session.execute("hello"))
    with anyio.fail_after(60):
        await running.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    is_announced = token_is_set and kind is PlainAmplifierSession
    assert [event for event, _ in seen] == ["session:start"] + ["cancel:completed"] * is_announced
    session.coordinator.cancellation.reset()
    loader.orchestrator.answer = "again"
    assert await session.execute("hello") == "again"
    assert [event for event, _ in seen].count("session:start") == 1


# The end.


async def test_the_end_is_announced_before_the_cleanups_and_once(plan: Any, loader: Any) -> None:
    session = await started(plan, loader, AmplifierSession)
    order: list[str] = []
    session.coordinator.hooks.register("session:end", lambda event, data: order.append(event))
    seen = recorded(session, "session:end")
    session.coordinator.register_cleanup(lambda: order.append("first registered"))
    session.coordinator.register_cleanup(lambda: order.append("last registered"))
    await session.cleanup()
    assert order == ["session:end", "last registered", "first registered"]
    assert not session.initialized
    await session.cleanup()
    assert order == ["session:end", *["last registered", "first registered"] * 2]
    assert [(event, data["session_id"]) for event, data in seen] == [("session:end", "s")]


@BOTH
async def test_every_cleanup_runs_and_one_class_raises_what_ends_it(plan: Any, loader: Any, kind: Any) -> None:
    session = await started(plan, loader, kind)
    ran: list[str] = []

    def fail(error: BaseException) -> Any:
        raise error

    session.coordinator.register_cleanup(lambda: ran.append("ran"))
    for error in (ValueError("x"), SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()):
        session.coordinator.register_cleanup(lambda error=error: fail(error))
    session.coordinator.hooks.register("session:end", lambda event, data: fail(SystemExit(3)))
    if kind is PlainAmplifierSession:
        with pytest.raises(asyncio.CancelledError):  # of the latest
            await session.cleanup()
    else:
        await session.cleanup()
    assert ran == ["ran"]


@BOTH
async def test_a_cancelled_end_runs_every_cleanup_first(plan: Any, loader: Any, kind: Any) -> None:
    session = await started(plan, loader, kind)
    ran: list[str] = []
    running = asyncio.Event()

    async def hang(event: str, data: Any) -> None:
        running.set()
        await asyncio.Event().wait()

    async def clean() -> None:
        await asyncio.sleep(0)
        ran.append("ran")

    session.coordinator.hooks.register("session:end", hang)
    session.coordinator.register_cleanup(clean)
    task = asyncio.create_task(session.cleanup())
    with anyio.fail_after(60):
        await running.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert ran == ["ran"]


@BOTH
async def test_a_session_is_a_context_manager(plan: Any, loader: Any, kind: Any) -> None:
    ran: list[str] = []
    with pytest.raises(KeyError):
        async with prepared(plan, loader, kind) as session:
            session.coordinator.register_cleanup(lambda: ran.append("cleaned"))
            assert await session.execute("hello") == "answer"
            raise KeyError("the body's")
    assert ran == ["cleaned"]


async def test_entering_a_session_that_cannot_come_up_takes_down_what_did(plan: Any, loader: Any) -> None:
    ran: list[str] = []
    loader.modules["loop"] = loader.mounts("orchestrator", "it", cleanup=lambda: ran.append("cleaned"))
    loader.modules["memory"] = ValueError("broken")
    with pytest.raises(RuntimeError, match="broken"):
        async with prepared(plan, loader, AmplifierSession):
            pytest.fail("the body must not run")
    assert ran == ["cleaned"]
