"""Two modules that help each other make no right of what one of them was only shown: not over a restart either."""

from __future__ import annotations

import pytest

from integration.conftest import OpenSession
from integration.probe import entry_of, probe, probed

_OWNER = """
    async def mount(coordinator, config):
        async def secret():
            return "canary"

        if config["offers"]:
            coordinator.register_capability("offered", secret)
        coordinator.register_contributor("kept", "owner", secret)
"""
_TAKER = """
    import os

    class Taker:
        def die(self):
            os._exit(1)

        async def use(self, function):
            self.function = function
            return await function()

        async def use_again(self):
            return await self.function()

    async def mount(coordinator, config):
        coordinator.register_capability("taker", Taker())
"""
_WASH = """
async def tried(work):
    try:
        return await work
    except Exception as error:
        return type(error).__name__

driver = coordinator._driver
taker = coordinator.get_capability("taker")
shown = coordinator.get_capability("offered") or coordinator.channels["kept"][0]["callback"]
itself = await tried(shown())
try:
    taker.die()
except Exception:
    pass
washing = asyncio.ensure_future(taker.use(shown))
await asyncio.sleep(0)  # its request is written
id = driver.objects._stand_in_ids[shown]
driver.write(driver.connection.send_release(id, driver.objects._received[id]))
passed_on = await tried(washing)
return ToolResult(output=[itself, passed_on, await tried(taker.use_again())])
"""


@pytest.mark.parametrize(
    ("offers", "expected"),
    [
        (False, ["RefusedError", "RefusedError", "RefusedError"]),
        (True, ["canary", "canary", "canary"]),
    ],
)
async def test_a_restarting_module_is_handed_no_right_that_its_caller_lacks(
    open_session: OpenSession, offers: bool, expected: list[str]
) -> None:
    async with open_session(
        tools=[entry_of("tool-owner", _OWNER, config={"offers": offers}), entry_of("tool-taker", _TAKER), probe(_WASH)]
    ) as session:
        assert await probed(session) == expected
