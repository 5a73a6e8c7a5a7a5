"""The little of the application library that modules import without saying so, and modules that bring all of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from integration.conftest import OpenSession, WriteModule
from integration.probe import Code, probed

_TOOL = """
    import amplifier_foundation
    from amplifier_core import ToolResult

    class Probe:
        name = "probe"
        description = "Says what it sees of the application library."
        input_schema = {"type": "object", "properties": {}}

        def __init__(self, coordinator):
            self.coordinator = coordinator

        async def execute(self, input):
            return ToolResult(output=PROBE)

    async def mount(coordinator, config=None):
        await coordinator.mount("tools", Probe(coordinator))
"""


def _probe(expression: str) -> str:
    return _TOOL.replace("PROBE", expression)


async def _said(open_session: OpenSession, source: str) -> Any:
    async with open_session(tools=[{"module": "tool-probe", "source": source}]) as session:
        return await probed(session)


async def test_a_module_has_a_preference_and_the_working_directory(open_session: OpenSession) -> None:
    code = _probe(
        "[amplifier_foundation.ProviderPreference('p', 'm').to_dict(), "
        "str(amplifier_foundation.get_working_dir(self.coordinator)) == "
        "self.coordinator.get_capability('session.working_dir')]"
    )
    assert await _said(open_session, Code(code)) == [
        {"provider": "p", "model": "m", "config": {}},
        True,
    ]


async def test_a_module_that_brings_the_library_has_its_own(
    open_session: OpenSession, write_module: WriteModule
) -> None:
    source = write_module("tool-probe", _probe("amplifier_foundation.WHOLE"))
    own = Path(source) / "amplifier_foundation"
    own.mkdir()
    (own / "__init__.py").write_text("WHOLE = 'the whole of it'\n")
    assert await _said(open_session, source) == "the whole of it"
