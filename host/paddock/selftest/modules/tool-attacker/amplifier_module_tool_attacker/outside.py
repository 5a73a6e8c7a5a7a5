"""Perform attacks without restrictions, each in a process of its own: `python -I -S -B -c … <folder> <descriptor>`.

The program reads orders from the socket with that descriptor. Each is one line of JSON, an attack's body and arguments,
and comes with two descriptors: where the result goes, as JSON, and a connection to a host. The code of an attack is
loaded once, before the fork. The socket's end ends the program.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from typing import Any

from .performance import is_on_the_session, load, perform, perform_in_session
from .raw_calls import NUMBERS

_LONGEST = 1 << 17  # bytes of an order


def main(descriptor: int) -> None:
    """Fork an attacker for each order; in an attacker it returns if the order contains `and_end`."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps them
    with socket.socket(fileno=descriptor) as orders:
        while True:
            text, fds, _, _ = socket.recv_fds(orders, _LONGEST, 2)
            if not text:
                return
            order = json.loads(text)
            _prepare(order)
            if os.fork() == 0:
                break
            for fd in fds:
                os.close(fd)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with socket.socket(fileno=fds[0]) as answer:
        _attack(order, answer)
        if not order["and_end"]:
            os._exit(0)


def _prepare(order: dict[str, Any]) -> None:
    """Load the code of an attack; the next attacks of its family find it loaded."""
    load(order["body"])
    if is_on_the_session(order["body"]):
        before = sys.path[:]
        sys.path.extend(order["paths"])
        # The one family that needs them, and they take as long as all else here.
        import asyncio  # noqa: F401

        import paddock_sdk.kernel.coordinator  # noqa: F401

        sys.path[:] = before


def _attack(order: dict[str, Any], answer: socket.socket) -> None:
    own = os.pidfd_open(os.getpid())
    socket.send_fds(answer, [b"."], [own])
    os.close(own)
    if is_on_the_session(order["body"]):
        import asyncio

        sys.path.extend(order["paths"])
        result = asyncio.run(_in_session(order))
    else:
        NUMBERS.update(order["numbers"])
        result = perform(order["body"], order["arguments"])
    answer.sendall(json.dumps(result).encode())


async def _in_session(order: dict[str, Any]) -> dict[str, Any]:
    from .bare_session import bare_session  # needs asyncio as well

    session = await bare_session(order["gates"])
    if order["before"]:
        await perform_in_session(order["before"], session, {"lent": session.get("providers", "mock")})
    return await perform_in_session(order["body"], session, order["arguments"])
