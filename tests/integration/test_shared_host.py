"""Several sessions on one host: what they share, and that nothing of one reaches another."""

from __future__ import annotations

import asyncio
import json

import pytest

from integration.conftest import OpenSession, WriteModule
from paddock import Host, Session
from support.children import descendants_of_this_process

_LOOK = """
    import os

    from amplifier_core.models import ToolResult

    class Look:
        name = "look"
        description = "tells about its process"

        async def execute(self, input):
            return ToolResult(output={"environ": dict(os.environ)})

    async def mount(coordinator, config):
        await coordinator.mount("tools", Look())
"""


async def _look(session: Session) -> dict[str, dict[str, str]]:
    seen: dict[str, dict[str, str]] = json.loads(await session.execute('{"tool": "look"}'))["output"]
    return seen


async def test_each_session_of_a_host_keeps_its_own_environment(
    open_session: OpenSession, write_module: WriteModule
) -> None:
    look = {"module": "tool-look", "source": write_module("tool-look", _LOOK), "permissions": {"env": ["WHO"]}}
    async with Host() as host:
        async with (
            open_session(tools=[look], environ={"WHO": "one"}, host=host) as one,
            open_session(tools=[look], environ={"WHO": "two"}, host=host) as two,
        ):
            seen = await asyncio.gather(_look(one), _look(two))
        assert [each["environ"]["WHO"] for each in seen] == ["one", "two"]
        async with open_session(tools=[look], environ={}, host=host) as three:
            assert "WHO" not in (await _look(three))["environ"]


async def test_a_host_that_is_not_open_says_how_to_open_it(open_session: OpenSession) -> None:
    before = descendants_of_this_process()
    with pytest.raises(RuntimeError, match="async with Host"):
        async with open_session(host=Host()):
            pass
    assert descendants_of_this_process() == before
