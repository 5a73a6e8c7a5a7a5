"""In a network of its own a process can connect to any address at the ports that were opened, and comes to us."""

from __future__ import annotations

import errno
import ipaddress
import socket
import struct
from typing import Any

import pytest

from paddock_sandbox.network import GATEWAY, LOOKUP_PORT, NAMES, open_network
from paddock_sandbox.profile import NetworkAccess
from paddock_sandbox.step_error import StepError
from sandbox.apart import IMPORTS, PROGRAM, why_not
from sandbox.subject import USERS, run
from support.rows import each_row

as_each_user = pytest.mark.parametrize("user", USERS)

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
def reach(address, port):
    with socket.socket() as stream:
        stream.settimeout(60)
        stream.connect((address, port))

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


@as_each_user
def test_every_address_is_local_and_a_connection_knows_which_was_meant(user: str) -> None:
    program = """
def inside(trees):
    before = outcome(reach, *given[0])
    _, first, second = open_network(NetworkAccess((443, 8080)))
    arrived = []
    for address, port in given:
        reach(address, port)
        stream, _ = (first if port == 443 else second).accept()
        arrived.append(stream.getsockname())
    return before, arrived
tell(apart(inside))
"""
    meant = [["198.18.0.7", 443], ["127.0.0.1", 443], ["192.0.2.1", 8080], ["10.0.0.1", 443], ["223.255.255.254", 443]]
    before, arrived = told(program, meant, user=user)
    assert (before, arrived) == ("ENETUNREACH", meant)


@as_each_user
def test_no_other_port_answers(user: str) -> None:
    program = """
def inside(trees):
    sockets = open_network(NetworkAccess((443,)))
    return [outcome(reach, address, port) for address in ("198.18.0.7", "127.0.0.1") for port in (80, 53, 444)]
tell(apart(inside))
"""
    assert told(program, user=user) == ["ECONNREFUSED"] * 6


@as_each_user
def test_lookups_arrive_and_can_be_answered(user: str) -> None:
    program = """
def inside(trees):
    (lookups,) = open_network(NetworkAccess(()))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(60)
        asking.connect((network.GATEWAY, network.LOOKUP_PORT))
        asking.send(b"question")
        asked, whom = lookups.recvfrom(100)
        lookups.sendto(b"answer to " + asked, whom)
        return [asking.recv(100).decode(), lookups.getsockname()]
tell(apart(inside))
"""
    assert told(program, user=user) == ["answer to question", [GATEWAY, LOOKUP_PORT]]


@as_each_user
def test_the_listeners_are_in_port_order_and_not_inherited(user: str) -> None:
    program = """
def inside(trees):
    lookups, *listeners = open_network(NetworkAccess((8080, 1, 65535)))
    each = [lookups, *listeners]
    return [
        [listener.getsockname() for listener in listeners],
        [outcome(listener.accept) for listener in listeners],
        [one.get_inheritable() for one in each],
    ]
tell(apart(inside))
"""
    ports, accepted, inheritable = told(program, user=user)
    assert ports == [["0.0.0.0", port] for port in (8080, 1, 65535)]
    assert accepted == ["EAGAIN"] * 3
    assert inheritable == [False] * 4


@as_each_user
def test_listeners_outside_answer_with_no_process_left_inside(user: str) -> None:
    program = """
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
def hand_over(trees):
    sockets = open_network(NetworkAccess((443,)))
    socket.send_fds(theirs, [b"."], [each.fileno() for each in sockets])
    for each in sockets:
        each.close()
    reach("198.18.0.9", 443)
    return True
done = apart(hand_over)
theirs.close()
_, fds, _, _ = socket.recv_fds(ours, 1, 10)
lookups, listener = map(lambda fd: socket.socket(fileno=fd), fds)
done["returned"] = listener.accept()[0].getsockname()
tell(done)
"""
    # The connection was made by a process that has ended, in a namespace that nobody is in any more.
    assert told(program, user=user) == ["198.18.0.9", 443]


@as_each_user
def test_it_can_be_made_once(user: str) -> None:
    program = """
def inside(trees):
    sockets = open_network(NetworkAccess((443,)))
    return failed([443])
tell(apart(inside))
"""
    step, number, text, is_clean = told(program, user=user)
    assert (step, number, is_clean) == ("route", "EEXIST", True)
    assert "route: File exists" in text


@as_each_user
def test_a_port_that_is_taken_is_named_and_nothing_stays_open(user: str) -> None:
    program = """
def inside(trees):
    other = socket.socket()
    other.bind(("0.0.0.0", 8080))
    other.listen()
    return failed([443, 8080])
tell(apart(inside))
"""
    step, number, text, is_clean = told(program, user=user)
    assert (step, number, is_clean) == ("listener at port 8080", "EADDRINUSE", True)
    assert "listener at port 8080: Address already in use" in text


@as_each_user
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
