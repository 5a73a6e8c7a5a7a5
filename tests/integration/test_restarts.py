"""A module's second life: what of the first it takes up again, and what is taken back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from integration.conftest import OpenSession
from integration.probe import called, context_code, entry_of, loop_code, probed
from integration.session_internals import kill
from paddock.errors import ModuleLoadError

_CHANGING = """
    import os
    from amplifier_core.models import ToolResult

    class First:
        name = "first"
        description = "there in every life"

        async def execute(self, input):
            if input.get("die"):
                os._exit(3)
            return ToolResult(output="executed")

    class Second(First):
        name = "second"
        description = "there in the first life only"

    class Counter:
        async def count(self):
            return 7

    async def mount(coordinator, config):
        await coordinator.mount("tools", First())
        coordinator.register_capability("counter", Counter())
        coordinator.register_contributor("colours", "changing", lambda: "red")
        if not os.path.exists("second-life"):
            await coordinator.mount("tools", Second())
            coordinator.register_contributor("colours", "once", lambda: "blue")
"""


async def test_a_second_life_renews_what_it_does_again_and_loses_the_rest(
    open_session: OpenSession, tmp_path: Path
) -> None:
    async with open_session(tools=[entry_of("tool-changing", _CHANGING)]) as session:
        coordinator = session.coordinator
        counter = coordinator.get_capability("counter")
        assert sorted(coordinator.get("tools")) == ["first", "second"]
        assert sorted(await coordinator.collect_contributions("colours")) == ["blue", "red"]
        (tmp_path / "work" / "second-life").touch()
        died = await called(session, "first", die=True)
        assert died["error"]["report"]["code"] == 3
        assert await probed(session, "first") == "executed"
        assert sorted(coordinator.get("tools")) == ["first"]
        assert await coordinator.collect_contributions("colours") == ["red"]
        assert await counter.count() == 7


async def test_calls_into_a_dying_module_all_end(open_session: OpenSession) -> None:
    async with open_session(tools=[entry_of("tool-changing", _CHANGING)]) as session:
        tool = session.coordinator.get("tools")["first"]
        results = await asyncio.gather(tool.execute({"die": True}), *(tool.execute({}) for _ in range(20)))
        later = await tool.execute({})
    kinds = {(result.error or {}).get("type") for result in results}
    assert kinds <= {None, "ModuleDiedError"}
    assert later.output == "executed"


_SLOW_CONTEXT = context_code(
    """
    async def get_messages(self):
        found = list(self.messages)
        await asyncio.sleep(0.05)  # long enough for a message to come between
        return found

    async def set_messages(self, messages):
        if os.path.exists("refuse"):
            raise ValueError("not those messages")
        await super().set_messages(messages)
    """
)


async def test_messages_added_while_the_context_comes_back_are_kept_in_order(open_session: OpenSession) -> None:
    entry: dict[str, Any] = entry_of("context-slow", _SLOW_CONTEXT)
    async with open_session(context=entry) as session:
        context = session.coordinator.get("context")
        for number in range(3):
            await context.add_message({"role": "user", "content": str(number)})
        await kill(session, kind="context")
        await asyncio.gather(*(context.add_message({"role": "user", "content": str(number)}) for number in range(3, 8)))
        assert [message["content"] for message in await context.get_messages()] == [str(number) for number in range(8)]


async def test_a_context_that_refuses_what_it_knew_is_not_used_with_less(
    open_session: OpenSession, tmp_path: Path
) -> None:
    entry: dict[str, Any] = entry_of("context-slow", _SLOW_CONTEXT)
    async with open_session(context=entry) as session:
        context = session.coordinator.get("context")
        await context.add_message({"role": "user", "content": "kept"})
        (tmp_path / "work" / "refuse").touch()
        await kill(session, kind="context")
        with pytest.raises(ModuleLoadError, match="could not be restored"):
            await context.get_messages()
        (tmp_path / "work" / "refuse").unlink()
        assert [message["content"] for message in await context.get_messages()] == ["kept"]


async def test_a_module_that_never_gets_ready_does_not_stop_the_start(open_session: OpenSession) -> None:
    code = """
        import asyncio

        async def mount(coordinator, config):
            pass

        async def on_session_ready(coordinator):
            await asyncio.sleep(3600)
    """
    entry = entry_of("hooks-never", code, limits={"start_max": "500ms"}, on_failure="continue")
    async with open_session(hooks=[entry]) as session:
        assert session.session_id


_HUGE_ERROR = """
    if prompt == "cancelled":
        raise asyncio.CancelledError("by hand")
    if prompt == "huge":
        raise ValueError("x" * 20_000_000)
    return "fine"
"""


@pytest.mark.parametrize("prompt", ["huge", "cancelled"])
async def test_an_error_of_any_kind_fails_its_turn_not_the_application(prompt: str, open_session: OpenSession) -> None:
    async with open_session(orchestrator=entry_of("loop-huge", loop_code(_HUGE_ERROR))) as session:
        with pytest.raises(Exception, match=r"x{20}|cancelled|too large|cannot be sent"):
            await session.execute(prompt)
        assert await session.execute("fine") == "fine"


_DYING = """
    import os
    from amplifier_core import ChatResponse, ProviderInfo, TextBlock

    class Dying:
        name = "dying"

        def __init__(self, hooks):
            self.hooks = hooks

        def get_info(self):
            return ProviderInfo(id="dying", display_name="Dying", defaults={"context_window": 9000})

        async def list_models(self):
            return []

        async def complete(self, request, **kwargs):
            is_first = not os.path.exists("second-life")
            about = {"block_index": 0, "block_type": "text", "request_id": str(os.getpid())}
            await self.hooks.emit("llm:stream_block_delta", {**about, "text": "half" if is_first else "whole"})
            if is_first:
                os._exit(3)
            return ChatResponse(content=[TextBlock(text="whole")])

        def parse_tool_calls(self, response):
            return []

    async def mount(coordinator, config):
        await coordinator.mount("providers", Dying(coordinator.hooks), name="dying")
"""


@pytest.mark.exhaustive("loop-streaming", "loop-events")
@pytest.mark.parametrize("loop", ["loop-basic", "loop-streaming", "loop-events"])
async def test_an_answer_whose_provider_dies_in_it_is_void_and_comes_again(
    open_session: OpenSession, tmp_path: Path, loop: str
) -> None:
    heard: list[str] = []

    def note(event: str, data: dict[str, Any]) -> None:
        (tmp_path / "work" / "second-life").touch()
        heard.append(data.get("text", event))

    async with open_session(
        orchestrator={"module": loop},
        context={"module": "context-simple"},
        providers=[entry_of("provider-dying", _DYING)],
    ) as session:
        for event in ("llm:stream_block_delta", "content_block:discarded"):
            session.coordinator.hooks.register(event, note)
        assert await session.execute("go") == "whole"
        said = await session.coordinator.get("context").get_messages()
    assert heard == ["half", "content_block:discarded", "whole"]
    assert [message["role"] for message in said] == ["user", "assistant"] and "half" not in str(said)
