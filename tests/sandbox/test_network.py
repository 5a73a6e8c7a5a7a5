"""In a network of its own a process can connect to any address at the ports that were opened, and comes to us."""

from __future__ import annotations

import errno
import ipaddress
import socket
import struct
from typing import Any

import pytest

from paddock_sandbox.network import GATEWAY, NAMES, open_network
from paddock_sandbox.profile import NetworkAccess
from paddock_sandbox.step_error import StepError
from sandbox.apart import IMPORTS, PROGRAM, why_not
from sandbox.subject import USERS, run
from support.rows import each_row

_IMPORTS = (
    IMPORTS
    + """
from paddock_sandbox import network
from paddock_sandbox.network import open_network
from paddock_sandbox.step_error import StepError
from paddock_sandbox.profile import NetworkAccess
"""
)
_PROGRAM = (
    PROGRAM
    + """
def own_descriptors():
    return sorted(set(os.listdir("/proc/self/fd")))

def failed(ports):
    before = own_descriptors()
    try:
        open_network(NetworkAccess(tuple(ports)))
    except StepError as error:
        return [error.step, errno.errorcode[error.errno], str(error), own_descriptors() == before]
"""
)


def told(program: str, given: object = None, *, user: str) -> Any:
    """Return what a program tells that makes networks in namespaces of their own."""
    if refusal := why_not(user):
        pytest.skip(f"as {user}: {refusal}")
    said = run(_PROGRAM + program, given, user=user, imports=_IMPORTS)
    assert "returned" in said, said
    return said["returned"]


@each_row(
    ("before", "step", "number", "reason"),
    [
        ("sockets = open_network(NetworkAccess((443,)))", "route", "EEXIST", "File exists"),
        (
            "other = socket.socket()\n    other.bind(('0.0.0.0', 8080))\n    other.listen()",
            "listener at port 8080",
            "EADDRINUSE",
            "Address already in use",
        ),
    ],
    ids=["it was made before", "a port is taken"],
)
def test_a_step_that_fails_is_named_and_nothing_stays_open(
    user: str, before: str, step: str, number: str, reason: str
) -> None:
    said = told(f"def inside(trees):\n    {before}\n    return failed([443, 8080])\ntell(apart(inside))", user=user)
    assert (said[:2], said[3]) == ([step, number], True)
    assert f"{step}: {reason}" in said[2]


@each_row(
    ("kept", "step", "missing"), [("", "loopback", "CAP_NET_ADMIN"), ("12", "socket for names", "CAP_NET_BIND_SERVICE")]
)
def test_a_capability_that_is_missing_is_named(user: str, kept: str, step: str, missing: str) -> None:
    program = """
def keep(capability):
    "Only this one of all capabilities: version 3 of the call, and the low and high halves of three sets."
    import struct
    header = ctypes.create_string_buffer(struct.pack("=Ii", 0x20080522, 0), 8)
    sets = struct.pack("=6I", *[1 << capability] * 2, *[0] * 4)
    call("capset", header, ctypes.create_string_buffer(sets, len(sets)))
def inside(trees):
    if given:
        keep(int(given))
    else:
        capabilities.drop_all()
    return failed([443])
tell(apart(inside))
"""
    failed, number, text, is_clean = told(program, kept, user=user)
    assert (failed, is_clean) == (step, True)
    assert number in ("EPERM", "EACCES")
    assert f"; it takes {missing} over the network namespace" in text


@each_row("answer", [b"", struct.pack("=IHHII", 20, 3, 0, 0, 0) + bytes(4)], ids=["empty", "no error"])
def test_an_answer_that_is_none_is_no_success(answer: bytes) -> None:
    program = f"""
def inside(trees):
    class Netlink(socket.socket):
        def send(self, data):
            return len(data)
        def recv(self, size, flags):
            return {answer!r}
    network.socket.socket = Netlink
    try:
        open_network(NetworkAccess(()))
    except Exception as error:
        return [type(error).__name__, str(error)]
tell(apart(inside))
"""
    name, text = told(program, user=USERS[0])
    assert name == "StepError"
    assert text.startswith(f"[Errno {errno.EPROTO}] loopback: the kernel")


def test_more_ports_than_can_be_handed_over_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "socket", lambda *_: pytest.fail("it was begun"))
    with pytest.raises(StepError, match="listeners: 201 ports; there can be 200") as failed:
        open_network(NetworkAccess(tuple(range(1, 202))))
    assert (failed.value.step, failed.value.errno) == ("listeners", errno.E2BIG)


def test_lookups_go_to_one_of_the_addresses_that_names_are_kept_in() -> None:
    assert ipaddress.ip_address(GATEWAY) in ipaddress.ip_network(NAMES)
