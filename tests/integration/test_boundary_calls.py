"""Synchronous calls, live objects and threads across the boundary: what code does in one process works between many."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from integration.conftest import OpenSession
from integration.probe import entry_of, loop_code, probe, probed
from paddock import SteeringQueueFull, event_emitter

# -- a provider's plain functions --------------------------------------------------------------

_PROVIDER = """
    import threading
    from dataclasses import dataclass

    from amplifier_core import ChatResponse, ProviderInfo, TextBlock, TextContent, ToolCall

    class Rich(ChatResponse):
        content_blocks: list | None = None
        raw: object = None

        @property
        def text(self):
            return "".join(block.text for block in self.content)

    class Provider:
        name = "rich"
        priority = 7
        config = {"model": "m"}

        def get_info(self):
            return ProviderInfo(id="rich", display_name="Rich", defaults={"context_window": 1000})

        async def list_models(self):
            return []

        async def complete(self, request, **kwargs):
            return Rich(
                content=[TextBlock(text="two calls")],
                content_blocks=[TextContent(text="two calls", raw=threading.Lock())],
                raw=threading.Lock(),
                metadata={"vendor": {"calls": [["one", {"a": 1}], ["two", {}]]}},
            )

        def parse_tool_calls(self, response):
            calls = response.metadata["vendor"]["calls"]
            return [ToolCall(id=str(at), name=name, arguments=given) for at, (name, given) in enumerate(calls)]

    async def mount(coordinator, config):
        await coordinator.mount("providers", Provider(), name="rich")
"""

_ASKING_LOOP = """
    from amplifier_core import ChatRequest, Message
    provider = providers["rich"]
    response = await provider.complete(ChatRequest(messages=[Message(role="user", content=prompt)]))
    calls = provider.parse_tool_calls(response)
    block = response.content_blocks[0]
    return json.dumps({
        "info": provider.get_info().defaults,
        "calls": [[type(call).__name__, call.name, call.arguments] for call in calls],
        "text": response.text,
        "block": [block.type.value, block.to_dict()],
        "kept": hasattr(response, "raw"),
        "class": type(response).__name__,
        "priority": [provider.priority, type(provider).priority],
        "same": provider is coordinator.get("providers", "rich"),
    })
"""


async def test_a_providers_answer_returns_to_it_as_it_came(open_session: OpenSession) -> None:
    async with open_session(
        orchestrator=entry_of("loop-asking", loop_code(_ASKING_LOOP)), providers=[entry_of("provider-rich", _PROVIDER)]
    ) as session:
        answer = json.loads(await session.execute("go"))
    assert answer == {
        "info": {"context_window": 1000},
        "calls": [["ToolCall", "one", {"a": 1}], ["ToolCall", "two", {}]],
        "text": "two calls",
        "block": ["text", {"type": "text", "text": "two calls"}],
        "kept": False,
        "class": "ChatResponse",
        "priority": [7, 7],
        "same": True,
    }


# -- objects of the application ----------------------------------------------------------------


async def test_a_plain_application_function_answers_at_once(open_session: OpenSession) -> None:
    @dataclass
    class Place:
        path: Path
        line: int

    class Resolver:
        kinds = ("file", "folder")

        def resolve(self, mention: str) -> Path | None:
            return Path("/docs") / mention if mention != "nothing" else None

        def locate(self, mention: str) -> Place:
            return Place(Path("/docs"), 3)

        async def later(self) -> Any:
            return SimpleNamespace(model="m")

    body = """
resolver = coordinator.get_capability("mention_resolver")
found = resolver.resolve("readme")
place = resolver.locate("readme")
return ToolResult(output={
    "found": [type(found).__name__, str(found), found.is_dir()],
    "nothing": resolver.resolve("nothing"),
    "place": [str(place.path), place.line],
    "later": (await resolver.later()).model,
    "kinds": resolver.kinds == ("file", "folder"),
    "flavours": [inspect.iscoroutinefunction(resolver.resolve), inspect.iscoroutinefunction(resolver.later)],
})
"""
    async with open_session(tools=[probe(body)]) as session:
        session.coordinator.register_capability("mention_resolver", Resolver())
        assert await probed(session) == {
            "found": ["PosixPath", "/docs/readme", False],
            "nothing": None,
            "place": ["/docs", 3],
            "later": "m",
            "kinds": True,
            "flavours": [False, True],
        }


_FULL = """
    class SteeringQueueFull(RuntimeError):
        pass

    class Steered:
        def steer(self, message):
            raise SteeringQueueFull("the queue is full")

        async def execute(self, prompt, context, providers, tools, hooks, coordinator=None, **kwargs):
            return "done"

    async def mount(coordinator, config):
        steered = Steered()
        coordinator.register_capability("session.steer", steered.steer)
        await coordinator.mount("orchestrator", steered)
"""


async def test_a_full_steering_queue_arrives_as_itself(open_session: OpenSession) -> None:
    loop = entry_of("loop-full", _FULL)
    async with open_session(orchestrator=loop) as session:
        steer = session.coordinator.get_capability("session.steer")
        with pytest.raises(SteeringQueueFull, match=r"^the queue is full$") as raised:
            await asyncio.to_thread(steer, "go left")
    assert type(raised.value) is SteeringQueueFull


_ASKING = """
    from paddock_sdk.kernel.emitter import event_emitter

    async def mount(coordinator, config):
        said = {}

        async def before(event, data):
            said["first"] = event_emitter()
            await coordinator.hooks.emit("asking:nested", {})
            said["again"] = event_emitter()

        def nested(event, data):
            said["nested"] = event_emitter()

        coordinator.hooks.register("asking:first", before)
        coordinator.hooks.register("asking:nested", nested)
        coordinator.register_capability("asked", lambda: {**said, "by the application": event_emitter()})
"""


async def test_a_handler_asks_whose_event_it_is(open_session: OpenSession) -> None:
    hook = entry_of("hooks-asking", _ASKING)
    loop = entry_of("loop-emits", loop_code(_EMITS))
    heard: list[str | None] = []
    async with open_session(orchestrator=loop, hooks=[hook]) as session:
        session.coordinator.hooks.register("asking:first", lambda event, data: heard.append(event_emitter()))
        await session.execute("x")
        asked = session.coordinator.get_capability("asked")
        assert await asked() == {
            "first": "loop-emits",
            "again": "loop-emits",
            "nested": "hooks-asking",
            "by the application": None,
        }
        await session.coordinator.hooks.emit("asking:first", {})
        assert (await asked())["first"] is None
    assert heard == ["loop-emits", None]


_EMITS = """
    await hooks.emit("asking:first", {})
    return "done"
"""


# -- the session -------------------------------------------------------------------------------


async def test_the_session_a_module_passes_on_is_the_applications_own(open_session: OpenSession) -> None:
    passed: list[Any] = []

    async def start(agent_name: str, *, parent_session: Any) -> dict[str, Any]:
        passed.append(parent_session)
        return {"output": agent_name, "session_id": f"{parent_session.session_id}-child"}

    body = """
session = coordinator.session
started = await coordinator.get_capability("start")("helper", parent_session=session)
return ToolResult(output={
    "id": [type(session.session_id).__name__, session.session_id == coordinator.session_id, session.session_id[:4]],
    "parent": [session.parent_id, coordinator.parent_id],
    "config": [session.config is coordinator.config, sorted(session.config)],
    "state": [session.is_resumed, session.initialized],
    "coordinator": session.coordinator is coordinator,
    "members": [hasattr(session, name) for name in ("execute", "cleanup", "initialize")],
    "started": started["session_id"] == coordinator.session_id + "-child",
    "stays": session is coordinator.session,
})
"""
    async with open_session(
        tools=[probe(body)], session_id="abcd-1234", parent_id="parent-1", is_resumed=True
    ) as session:
        session.coordinator.register_capability("start", start)
        output = await probed(session)
        assert [parent.coordinator for parent in passed] == [session.coordinator]
    assert output == {
        "id": ["str", True, "abcd"],
        "parent": ["parent-1", "parent-1"],
        "config": [True, ["hooks", "providers", "session", "tools"]],
        "state": [True, True],
        "coordinator": True,
        "members": [False, False, False],
        "started": True,
        "stays": True,
    }


# -- threads -----------------------------------------------------------------------------------


async def test_a_module_uses_its_session_from_threads_of_every_kind(open_session: OpenSession) -> None:
    body = """
loop = asyncio.get_running_loop()
heard = []

def work():
    resolver = coordinator.get_capability("shouter")
    coordinator.hooks.register("thread:news", lambda event, data: heard.append(data["n"]), name="in thread")
    coordinator.thread_note = {"from": threading.current_thread().name}
    emitted = asyncio.run_coroutine_threadsafe(coordinator.hooks.emit("thread:news", {"n": 1}), loop)
    emitted.result(10)
    return [resolver.shout("hello"), asyncio.run(coordinator.collect_contributions("colours"))]

coordinator.register_contributor("colours", "probe", lambda: "red")

said = await asyncio.to_thread(work)
done = []
thread = threading.Thread(target=lambda: done.append(coordinator.get_capability("shouter").shout("again")), name="own")
thread.start()
while thread.is_alive():
    await asyncio.sleep(0.001)

refused = []
def offer():
    try:
        coordinator.register_capability("lock", threading.Lock())
    except TypeError as error:
        refused.append(error.path)
    try:
        coordinator.public_lock = threading.Lock()
    except TypeError as error:
        refused.append(error.path)

await asyncio.to_thread(offer)
return ToolResult(output={
    "said": said, "done": done, "heard": heard, "refused": refused,
    "note": list(coordinator.thread_note), "left": hasattr(coordinator, "public_lock"),
})
"""

    class Shouter:
        def shout(self, text: str) -> str:
            return text.upper()

    entry = probe(body)
    entry["permissions"] = {"hooks": ["*"]}
    async with open_session(tools=[entry]) as session:
        session.coordinator.register_capability("shouter", Shouter())
        output = await probed(session)
        on_the_host: Any = session.coordinator
        assert on_the_host.thread_note["from"]
    assert output == {
        "said": ["HELLO", ["red"]],
        "done": ["AGAIN"],
        "heard": [1],
        "refused": ['capability "lock"', 'attribute "public_lock"'],
        "note": ["from"],
        "left": False,
    }
