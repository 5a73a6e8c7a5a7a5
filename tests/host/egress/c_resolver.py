"""Ask a server by the resolver of the C library, glibc's, which loads little: programs import this."""

from __future__ import annotations

import ctypes
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

_EDNS = 0x00100000  # RES_USE_EDNS0


def _library() -> ctypes.CDLL:
    library = ctypes.CDLL("libresolv.so.2")
    library.__res_state.restype = ctypes.c_void_p
    return library


def why_no_glibc() -> str:
    """Return why there is no such resolver, or nothing."""
    try:
        _library()
    except (OSError, AttributeError) as error:
        return str(error)
    return ""


def in_a_thread_that_asks(port: int, act: Callable[[], Any], *, edns: bool = False) -> Any:
    """Do something where the C library's resolver asks `port`; its state is each thread's own."""
    library = _library()
    outcome: list[Any] = []

    def run() -> None:
        library.__res_init()
        state = library.__res_state()
        # struct __res_state: int retrans, retry; unsigned long options; int nscount; struct sockaddr_in nsaddr_list[3]
        ctypes.c_int.from_address(state).value = 5
        if edns:
            ctypes.c_ulong.from_address(state + 8).value |= _EDNS
        ctypes.c_int.from_address(state + 16).value = 1
        server = struct.pack("=H", socket.AF_INET) + struct.pack(">H", port) + bytes((127, 0, 0, 1)) + bytes(8)
        ctypes.memmove(state + 20, server, len(server))
        try:
            outcome.append(act())
        except OSError as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    return outcome[0]


def addresses_of(name: str) -> Callable[[], list[str]]:
    return lambda: [info[4][0] for info in socket.getaddrinfo(name, 443, type=socket.SOCK_STREAM)]
