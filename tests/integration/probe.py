"""A tool whose `execute` each test spells out: what code in a module's process finds, the test gets to see."""

from __future__ import annotations

import json
import os
import textwrap
from pathlib import Path
from typing import Any

import anyio

from paddock import Session
from paddock.session.tool_call import ToolCallOutcome, ToolCallSession

_SECONDS = 120  # for one call; hit only by a hang
_TOOL = """
import asyncio
import inspect
import json
import os
import threading
from pathlib import Path

from amplifier_core.models import ToolResult

class Probe:
    name = "{name}"
    description = "does what the test spells out"

    def __init__(self, coordinator, config=None):
        self.given = coordinator, config

    async def execute(self, input):
        coordinator, config = self.given
{body}

async def mount(coordinator, config):
    await coordinator.mount("tools", Probe(coordinator, config))
"""
_LOOP = """
import asyncio
import json
import os

class Loop:
    async def execute(self, prompt, context, providers, tools, hooks, coordinator=None, **kwargs):
{body}

async def mount(coordinator, config):
    await coordinator.mount("orchestrator", Loop())
"""
_CONTEXT = """
import asyncio
import os

class Kept:
    def __init__(self):
        self.messages = []

    async def add_message(self, message):
        self.messages.append(message)

    async def get_messages(self):
        return list(self.messages)

    async def get_messages_for_request(self, token_budget=None, provider=None):
        return list(self.messages)

    async def set_messages(self, messages):
        self.messages = list(messages)

    async def clear(self):
        self.messages = []

class Context(Kept):
{body}

async def mount(coordinator, config):
    await coordinator.mount("context", Context())
"""


def tool_code(name: str, body: str) -> str:
    """Return the code of a module with a tool of that name whose `execute` is `body`."""
    return _TOOL.format(name=name, body=_indented(body))


def loop_code(body: str) -> str:
    """Return the code of a module with an orchestrator whose `execute` is `body`."""
    return _LOOP.format(body=_indented(body))


def context_code(body: str = "pass") -> str:
    """Return the code of a module with a context that keeps what it is given, but for what the class's `body` says."""
    return _CONTEXT.format(body=_indented(body, 4))


def _indented(body: str, by: int = 8) -> str:
    return textwrap.indent(textwrap.dedent(body).strip("\n"), " " * by)


class Code(str):
    """The code of a module, in the place of its source; `open_session` writes it down."""


def entry_of(module: str, code: str, **entry: Any) -> dict[str, Any]:
    """Return the entry of a module whose code is spelled out, for `open_session`."""
    return {"module": module, "source": Code(code), **entry}


def probe(body: str, name: str = "probe", **entry: Any) -> dict[str, Any]:
    """Return the entry of a tool of that name whose `execute` is `body`."""
    return entry_of(f"tool-{name}", tool_code(name, body), **entry)


async def called(session: Session, tool: str, /, **input: Any) -> dict[str, Any]:
    """Return what a tool answers to a turn of the orchestrator that `open_session` has."""
    answer: dict[str, Any] = json.loads(await session.execute(json.dumps({"tool": tool, "input": input})))
    return answer


async def probed(session: Session, tool: str = "probe", /, **input: Any) -> Any:
    """Return what a tool comes to."""
    answer = await called(session, tool, **input)
    assert answer["success"], answer["error"]
    return answer["output"]


async def call_once(
    source: str, tool: str, input: dict[str, Any], *, home: Path | None = None, **options: Any
) -> ToolCallOutcome:
    """Call a tool in a session of its own; of a user with this home, who works in its folder `work`."""
    if home is not None:
        options = {"working_dir": home / "work", "environ": {**os.environ, "HOME": str(home)}, **options}
    with anyio.fail_after(_SECONDS):
        return await ToolCallSession(source, tool, input, **options).run()
