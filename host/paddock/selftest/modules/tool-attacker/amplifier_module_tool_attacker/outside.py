"""Perform one attack as a program of its own, with nothing in its way: `python -I -S -c … <this folder's folder>`.

Reads the attack's body and arguments as one line of JSON from stdin and writes what came of it as another to stdout,
where the attack's own output does not go.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from .performance import is_on_the_session, load, perform, perform_in_session

__all__ = ["main"]


def main() -> None:
    """Do it, and end at once, or as programs end if the order says `and_end`."""
    order = json.loads(sys.stdin.readline())
    load(order["body"])
    # What was compiled until now is kept for the next one; an attack finds things as they are elsewhere.
    sys.pycache_prefix, sys.dont_write_bytecode = None, True
    answer = os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    if is_on_the_session(order["body"]):
        import asyncio  # the one family that needs it, and it takes as long as everything else here

        sys.path.extend(order["paths"])
        told = json.dumps(asyncio.run(_in_session(order))) + "\n"
    else:
        told = json.dumps(perform(order["body"], order["arguments"])) + "\n"
    os.write(answer, told.encode())
    if not order["and_end"]:
        os._exit(0)


async def _in_session(order: dict[str, Any]) -> dict[str, Any]:
    from .bare_session import bare_session  # needs asyncio as well

    session = await bare_session(order["gates"])
    if order["before"]:
        await perform_in_session(order["before"], session, {"lent": session.get("providers", "mock")})
    return await perform_in_session(order["body"], session, order["arguments"])
