"""Where handlers run, and how cancellation and deadlines reach them."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import Any

import anyio
import pytest

from paddock_sdk.contract.models import HookResult
from paddock_sdk.kernel.hooks import HookRegistry, Payload
from support.rows import each_row

VARIABLE: ContextVar[str] = ContextVar("variable", default="unset")


async def test_an_async_handler_runs_in_its_own_task_with_a_copy_of_the_context() -> None:
    registry, seen = HookRegistry(), []

    async def handler(event: str, data: Any) -> None:
        seen.append((VARIABLE.get(), asyncio.current_task(), asyncio.get_running_loop()))
        VARIABLE.set("written by the handler")

    registry.register("e", handler)
    VARIABLE.set("emitter")
    await registry.emit("e", {})
    value, task, loop = seen[0]
    assert value == "emitter"
    assert VARIABLE.get() == "emitter"
    assert task is not asyncio.current_task()
    assert loop is asyncio.get_running_loop()


async def test_a_sync_handler_runs_inline_and_sees_the_context() -> None:
    registry, seen = HookRegistry(), []
    registry.register("e", lambda event, data: seen.append((VARIABLE.get(), asyncio.current_task())))
    VARIABLE.set("emitter")
    await registry.emit("e", {})
    assert seen == [("emitter", asyncio.current_task())]


@each_row("kind", [SystemExit, KeyboardInterrupt, asyncio.CancelledError, GeneratorExit, ValueError])
@each_row("is_async", [True, False])
async def test_no_exception_of_a_handler_ends_the_chain(kind: type[BaseException], is_async: bool) -> None:
    registry, reached = HookRegistry(), []

    def fail(event: str, data: Any) -> None:
        raise kind("from the handler")

    async def fail_later(event: str, data: Any) -> None:
        await asyncio.sleep(0)
        raise kind("from the handler")

    registry.register("e", fail_later if is_async else fail)
    registry.register("e", lambda event, data: reached.append(event))
    assert (await registry.emit("e", {})).action == "continue"
    assert reached == ["e"]


class Hanging:
    """A handler that waits forever, in one of the forms handlers have, and notes how it ends."""

    def __init__(self, on_cancel: str = "propagate") -> None:
        self.started = asyncio.Event()
        self.ended: list[str] = []
        self.on_cancel = on_cancel

    async def __call__(self, event: str, data: Any) -> Any:
        self.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            if self.on_cancel == "propagate":
                raise
            if self.on_cancel == "fail":
                raise ValueError("instead") from None
            return HookResult()


class HangingPayloadHandler(Hanging):
    async def deliver(self, event: str, payload: Payload) -> Any:
        return await super().__call__(event, payload)


@each_row("form", [Hanging, HangingPayloadHandler])
@each_row("on_cancel", ["propagate", "swallow", "fail"])
@each_row("collecting", [False, True])
async def test_cancelling_the_emitter_cancels_the_handler_and_the_emitter(
    form: type[Hanging], on_cancel: str, collecting: bool
) -> None:
    registry, handler, reached = HookRegistry(), form(on_cancel), []
    registry.register("e", handler)
    registry.register("e", lambda event, data: reached.append(event))
    emit = registry.emit_and_collect("e", {}, timeout=60) if collecting else registry.emit("e", {})
    task = asyncio.create_task(emit)
    with anyio.fail_after(60):
        await handler.started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert handler.ended == ["cancelled"]
    assert reached == []


async def test_an_emit_cancelled_early_leaves_no_coroutine() -> None:
    registry, began = HookRegistry(), []

    async def handler(event: str, data: Any) -> None:
        began.append(event)

    def cancel_emitter(event: str, data: Any) -> None:
        current = asyncio.current_task()
        assert current is not None
        current.cancel()

    registry.register("e", cancel_emitter)
    registry.register("e", handler)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(registry.emit("e", {}))
    gc.collect()  # a coroutine nobody awaited would warn here, and warnings are errors
    assert began == []


async def test_a_deadline_around_an_emit_ends_it() -> None:
    registry, handler = HookRegistry(), Hanging()
    registry.register("e", handler)
    with anyio.fail_after(60), pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await registry.emit("e", {})
    assert handler.ended == ["cancelled"]
    current = asyncio.current_task()
    assert current is not None
    assert current.cancelling() == 0


async def test_an_emitter_that_was_cancelled_earlier_can_still_emit() -> None:
    registry, reached = HookRegistry(), []

    async def handler(event: str, data: Any) -> None:
        await asyncio.sleep(0)
        reached.append(event)

    registry.register("e", handler)

    async def emitter() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await registry.emit("e", {})

    task = asyncio.create_task(emitter())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert reached == ["e"]


async def test_a_slow_handler_is_cancelled_and_left_out_of_the_collection() -> None:
    registry = HookRegistry()
    slow, slow_payload = Hanging(), HangingPayloadHandler("swallow")
    registry.register("e", lambda event, data: {"data": {"n": 1}})
    registry.register("e", slow)
    registry.register("e", slow_payload)
    registry.register("e", lambda event, data: {"data": {"n": 2}})
    with anyio.fail_after(60):
        assert await registry.emit_and_collect("e", {}, timeout=0.01) == [{"n": 1}, {"n": 2}]
    assert slow.ended == slow_payload.ended == ["cancelled"]


async def test_an_emit_that_is_closed_blames_no_handler_and_does_not_go_on(caplog: pytest.LogCaptureFixture) -> None:
    registry, reached = HookRegistry(), []
    registry.register("e", HangingPayloadHandler())
    registry.register("e", lambda event, data: reached.append(event))
    emit = registry.emit("e", {})
    emit.send(None)
    emit.close()
    assert reached == []
    assert caplog.text == ""


@each_row(
    "handler",
    [Hanging, partial(Hanging, "swallow"), partial(Hanging, "fail"), HangingPayloadHandler],
    ids=["it is cancelled", "it swallows it", "it fails over it", "it takes payloads"],
)
async def test_a_scope_around_an_emit_knows_the_cancellation_that_it_asked_for(handler: Callable[[], Hanging]) -> None:
    registry, hanging = HookRegistry(), handler()
    registry.register("e", hanging)

    async def cancel(scope: anyio.CancelScope) -> None:
        await hanging.started.wait()
        scope.cancel()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            with anyio.CancelScope() as scope:
                group.start_soon(cancel, scope)
                await registry.emit("e", {})
    assert scope.cancelled_caught
    assert set(hanging.ended) == {"cancelled"}
    current = asyncio.current_task()
    assert current is not None
    assert current.cancelling() == 0


async def test_an_emitter_cancelled_again_cancels_its_handler_again() -> None:
    registry, ends = HookRegistry(), []

    async def handler(event: str, data: Any) -> None:
        for _ in range(3):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ends.append(len(ends))

    registry.register("e", handler)
    task = asyncio.create_task(registry.emit("e", {}))
    await asyncio.sleep(0)
    for times in range(1, 4):
        await asyncio.sleep(0)
        task.cancel(f"cancelled {times}")
        while len(ends) < times:
            await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError, match="cancelled 1"):
        await task
    assert ends == [0, 1, 2]
