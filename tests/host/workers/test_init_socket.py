"""The host's end of the socket to an init."""

from __future__ import annotations

import socket

import anyio

from paddock.workers.init_socket import InitSocket
from paddock_sdk.worker.init_socket import pack

_SECONDS = 60  # hit only by a hang


async def test_an_inits_last_report_is_read_though_a_command_was_left_unread() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    changed = anyio.Event()
    line = InitSocket(ours, lambda: changed.set() if not line.is_open else None)
    line.send("terminate")
    theirs.send(pack({"exited": {"code": None, "signal": 9}}))
    theirs.close()
    with anyio.fail_after(_SECONDS):
        await changed.wait()
    assert line.exited == {"code": None, "signal": 9}
