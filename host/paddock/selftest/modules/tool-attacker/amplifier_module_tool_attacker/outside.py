"""Perform one attack as a program of its own, without restrictions: `python -I -S -c … <this folder's folder>`.

It reads the attack's body and arguments as one line of JSON from stdin and writes the result as another to stdout. The
attack's own output goes elsewhere.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from .performance import is_on_the_session, load, perform, perform_in_session

__all__ = ["main"]


def main() -> None:
    """Perform it, and end at once, or as programs end if the order contains `and_end`."""
    order = json.loads(sys.stdin.readline())
    load(order["body"])
    # Code compiled until now is kept for the next process; an attack finds the usual settings.
    sys.pycache_prefix, sys.dont_write_bytecode = None, True
    answer = os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    if is_on_the_session(order["body"]):
        import asyncio  # the one family that needs it, and it takes as long as everything else here

        sys.path.extend(order["paths"])
        result = json.dumps(asyncio.run(_in_session(order))) + "\n"
    else:
        result = json.dumps(perform(order["body"], order["arguments"])) + "\n"
    os.write(answer, result.encode())
    if not order["and_end"]:
        os._exit(0)


async def _in_session(order: dict[str, Any]) -> dict[str, Any]:
    from .bare_session import bare_session  # needs asyncio as well

    session = await bare_session(order["gates"])
    if order["before"]:
        await perform_in_session(order["before"], session, {"lent": session.get("providers", "mock")})
    return await perform_in_session(order["body"], session, order["arguments"])
