"""A tool that does what a test tells it to, and plans that call it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

LOOK_FIRST = "programs of yours may run what is in it: look at it first"
TRICKY = """
    import asyncio, os, signal, sys

    from amplifier_core.models import ToolResult

    class Tricky:
        name = "tricky"
        description = "does what it is told to"

        def __init__(self, config):
            self.config = config

        async def execute(self, input):
            if "hooks" in input:
                os.makedirs(input["hooks"] + "/.git/hooks")
            match input.get("do"):
                case "segfault":
                    os.kill(os.getpid(), signal.SIGSEGV)
                case "raise":
                    print("out \\x1b[2Jloud")
                    print("err", file=sys.stderr)
                    raise LookupError("no such \\x1b[31mthing")
                case "cancel":
                    raise asyncio.CancelledError("enough \\x1b[31mof this")
                case "not json":
                    return ToolResult(output={
                        "bytes": b"\\xff", "number": float("inf"), "set": {1},
                        "\\udc80": "\\udc80", frozenset({"y", "x"}): 1, (1, b"\\xff"): {None: 2},
                    })
                case "not sendable":
                    return ToolResult(output=object())
                case "hang":
                    await asyncio.sleep(3600)
                case "print":
                    print("out \\x1b[2Jloud")
                    print("err", file=sys.stderr)
                    return ToolResult(output="plain\\ntext")
                case "text":
                    return ToolResult(output="plain\\ntext")
            return ToolResult(output={"input": input, "folder": os.getcwd(), "config": self.config})

    async def mount(coordinator, config):
        await coordinator.mount("tools", Tricky(config))
"""


def json_output(done: subprocess.CompletedProcess[str]) -> Any:
    """Return the one JSON object that stdout has to be."""
    assert done.stdout.count("\n") == 1
    return json.loads(done.stdout)


def plan_of(tmp_path: Path, **changes: Any) -> str:
    plan: dict[str, Any] = {
        "session": {"orchestrator": "loop-basic", "context": "context-simple"},
        "providers": [{"module": "provider-mock", "config": {"fallback": "You said: {prompt}"}}],
        **changes,
    }
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan), encoding="utf-8")
    return str(path)


def calling(tool: str, *, times: int = 1, answer: str = "It said: {last_tool_result}", **arguments: Any) -> list[Any]:
    """Return a provider that calls a tool one or more times and then repeats its last result."""
    calls = [{"tool_calls": [{"name": tool, "arguments": arguments}]}] * times
    return [{"module": "provider-mock", "config": {"responses": calls, "fallback": answer}}]


_ASKING = """
    from amplifier_core.models import HookResult

    async def mount(coordinator, config):
        timeouts, defaults = list(config["timeouts"]), list(config["defaults"])

        async def ask(event, data):
            return HookResult(
                action="ask_user",
                approval_prompt="Run \\x1b[2Jthis?",
                approval_options=["Allow", "Deny"],
                approval_timeout=timeouts.pop(0),
                approval_default=defaults.pop(0),
            )

        async def tell(event, data):
            return HookResult(
                action="inject_context",
                context_injection="noted",
                user_message="done \\x1b]0;owned\\x07",
                user_message_level="warning",
            )

        coordinator.hooks.register("tool:pre", ask, name="ask")
        coordinator.hooks.register("tool:post", tell, name="tell")
"""


def asking_plan(
    tmp_path: Path,
    write_module: Callable[[str, str], str],
    tricky: str,
    *,
    timeouts: Sequence[float] = (60.0,),
    defaults: Sequence[str] = ("deny",),
    answer: str = "It said: {last_tool_result}",
) -> str:
    """Return a plan of a turn that calls a tool for each default: a hook asks about each call."""
    return plan_of(
        tmp_path,
        providers=calling("tricky", times=len(defaults), answer=answer, do="text"),
        tools=[{"module": "tool-tricky", "source": tricky, "permissions": {}}],
        hooks=[
            {
                "module": "hooks-asking",
                "source": write_module("hooks-asking", _ASKING),
                "config": {"timeouts": [*timeouts], "defaults": [*defaults]},
            }
        ],
    )
