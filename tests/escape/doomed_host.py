"""A host for another test to kill: its module has left a daemon, which holds a lock; says so, and waits."""

from __future__ import annotations

import signal
import sys
from typing import Any

import anyio

from paddock import Session
from paddock.errors import IsolationUnavailableError


async def main(level: str, module: str, workspace: str) -> None:
    isolation = {"isolation": level}
    attacker: dict[str, Any] = {
        "module": "tool-attacker",
        "source": module,
        "permissions": {"write": [workspace]},
        **isolation,
    }
    plan = {
        "session": {
            "orchestrator": {"module": "loop-basic", **isolation},
            "context": {"module": "context-simple", **isolation},
        },
        "tools": [attacker],
    }
    try:
        async with Session(plan, working_dir=workspace, trust_plan=True) as session:
            for name in ("leave_a_daemon", "refuse_to_end"):
                order = {"body": f"endings.{name}", "arguments": {"lock": f"{workspace}/{name}"}}
                result = await session.coordinator.get("tools")["attack"].execute(order)
                assert result.output["succeeded"], result
            print("here", flush=True)
            await anyio.sleep_forever()
    except IsolationUnavailableError as error:
        print(error, flush=True)


if __name__ == "__main__":
    # Whoever runs the tests in the background has SIGINT ignored, and a host inherits that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    anyio.run(main, *sys.argv[1:])
