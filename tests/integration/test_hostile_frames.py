"""A worker that lies on the wire is ended for it, by name, and the session goes on.

Each module here gets hold of its own socket, as any code in the process could, and says what no
runtime would.
"""

from __future__ import annotations

import pytest

from integration.conftest import OpenSession
from integration.probe import called, entry_of, probed
from paddock.errors import ModuleDiedError

_LIAR = """
    import os, socket, stat, struct

    import msgpack
    from amplifier_core.models import ToolResult

    HEADER = struct.Struct(">IBBHIIIIH")
    REQUEST, RESPONSE, ITEM, MIRROR, HELLO = 3, 4, 8, 10, 1

    def wire():
        for name in os.listdir("/proc/self/fd"):
            try:
                if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                    yield socket.socket(fileno=os.dup(int(name)))
            except OSError:
                pass  # the listing's own descriptor, closed by now

    def frame(kind, *, method=0, id=0, target=0, body=b"", handles=b"", count=0, flags=0):
        rest = handles + body
        return HEADER.pack(HEADER.size - 4 + len(rest), kind, flags, method, id, target, 0, 0, count) + rest

    def deep(levels):
        return b"\\x91" * levels + b"\\xc0"

    LIES = {
        "garbage": b"\\xff" * 64,
        "unknown kind": frame(200),
        "too short": struct.pack(">I", 3) + b"abc",
        "oversized": struct.pack(">I", 64 * 1024 * 1024) + b"x" * 100,
        "forged response": frame(RESPONSE, id=4242, body=b"\\xc0"),
        "unasked item": frame(ITEM, id=7, body=b"\\xc0"),
        "mirror": frame(MIRROR, method=2, body=msgpack.packb(["tool:pre", True])),
        "second hello": frame(HELLO, body=msgpack.packb({})),
        "too deep": frame(REQUEST, method=5, id=900, body=deep(5000)),
        "same key twice": frame(REQUEST, method=5, id=900, body=b"\\x92\\xa1e\\x82\\xa1a\\x01\\xa1a\\x02"),
        "forged object": frame(REQUEST, target=31337, id=900, body=msgpack.packb([[], {}])),
        "forged handle": frame(
            REQUEST, method=8, id=900, body=msgpack.packb(["tools", "x", msgpack.ExtType(1, b"\\0\\0\\0\\0")]),
            handles=struct.pack(">BII", 1, 31337, 0), count=1,
        ),
        "handle without description": frame(
            REQUEST, method=8, id=900, body=msgpack.packb(["tools", "x", msgpack.ExtType(1, b"\\0\\0\\0\\0")]),
            handles=struct.pack(">BII", 0, 31337, 0), count=1,
        ),
    }

    class Liar:
        description = "says what it is asked to on its own socket"

        def __init__(self, name):
            self.name = name

        async def execute(self, input):
            lie = LIES.get(input.get("lie"))
            if lie is not None:
                for connection in wire():
                    connection.sendall(lie)
                import asyncio
                await asyncio.sleep(60)
            return ToolResult(output="honest")

    async def mount(coordinator, config):
        await coordinator.mount("tools", Liar(config["name"]))
"""

_LIES = [
    "garbage",
    "unknown kind",
    "too short",
    "oversized",
    "forged response",
    "unasked item",
    "mirror",
    "second hello",
    "too deep",
    "same key twice",
    "forged object",
    "forged handle",
    "handle without description",
]


_GARBLER = """
    from paddock_sdk.worker import driver

    class Garbler:
        async def execute(self, prompt, context, providers, tools, hooks, coordinator=None, **kwargs):
            if prompt == "garble":
                original = driver.Driver.reply

                def reply(self, id, value, **options):
                    if self.connection.is_serving(id):
                        self.write(self.connection.send_response(id, b"\\xc1"))

                driver.Driver.reply = reply
            return "fine"

    async def mount(coordinator, config):
        await coordinator.mount("orchestrator", Garbler())
"""


_MISFIT = """
    from amplifier_core.models import ToolResult

    class Misfit:
        name, description, calls = "misfit", "says what means nothing", 0

        def __init__(self, coordinator):
            self.driver = coordinator._driver

        async def execute(self, input):
            self.calls += 1
            if input.get("answer"):
                return ToolResult.model_construct(success=False, output="x", error="a text")
            said = []
            for method, value in ((999, []), (8, [1, 2, 3]), (5, "no event")):
                try:
                    await self.driver.call(0, method, value)
                except ValueError as error:
                    said.append(str(error))
            self.driver.notify(11, 1, head="_observer")
            return ToolResult(output=[self.calls, len(said)])

    async def mount(coordinator, config):
        await coordinator.mount("tools", Misfit(coordinator))
"""


async def test_what_means_nothing_costs_a_module_that_call_and_no_state(open_session: OpenSession) -> None:
    entry = entry_of("tool-misfit", _MISFIT)
    async with open_session(tools=[entry]) as session:
        assert await probed(session, "misfit") == [1, 3]
        with pytest.raises(ValueError, match=r"no class accepts: ToolResult\.error"):
            await called(session, "misfit", answer=True)
        assert await probed(session, "misfit") == [3, 3]
        (tool,) = [module for module in session.modules if module.kind == "tool"]
    assert [denial["target"] for denial in tool.denials] == ["a notification SET_ATTRIBUTE"]
    assert not tool.exit_reports


async def test_an_answer_that_is_no_value_ends_the_module_that_gave_it(open_session: OpenSession) -> None:
    async with open_session(orchestrator=entry_of("loop-garbler", _GARBLER)) as session:
        with pytest.raises(ModuleDiedError, match="breaking the protocol"):
            await session.execute("garble")
        assert await session.execute("again") == "fine"


async def test_a_worker_that_breaks_the_protocol_is_ended_alone(open_session: OpenSession) -> None:
    liars = {lie: f"liar-{number}" for number, lie in enumerate(_LIES)}
    tools = [entry_of("tool-liar", _LIAR, instance_id=liar, config={"name": liar}) for liar in liars.values()]
    async with open_session(tools=tools) as session:
        for lie, liar in liars.items():
            ended, after = await called(session, liar, lie=lie), await called(session, liar)
            assert not ended["success"], lie
            assert after == {"success": True, "output": "honest", "error": None}, lie
        statuses = [module for module in session.modules if module.kind == "tool"]
    for lie, status in zip(liars, statuses, strict=True):
        assert [report.reason.value for report in status.exit_reports] == ["protocol"], lie
        assert status.exit_reports[0].detail, lie
