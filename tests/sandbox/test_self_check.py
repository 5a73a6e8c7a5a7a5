"""A worker's own attempts say what it could do: all of it outside, none of it inside, and what is missing counts."""

from __future__ import annotations

from functools import cache

import pytest

from paddock_sandbox import landlock
from paddock_sandbox.profile import IsolationLevel, Mount, NetworkAccess, SandboxProfile
from paddock_sandbox.self_check import SUCCEEDED, breaches
from sandbox import apart
from sandbox.subject import USERS, ground, run
from support.rows import each_row

ACTS = (
    *("read the first process's environment", "read the kernel's settings", "list devices", "read the password file"),
    *(f"socket {family}" for family in ("unix", "inet", "inet6", "netlink", "vsock")),
    *("signal the parent", "change the parent's limits", "list the keyring", "unshare", "clone3", "setns", "mount"),
    *("ptrace", "process_vm_readv", "io_uring", "bpf", "perf_event_open", "userfaultfd", "open_by_handle_at", "memfd"),
    *("unknown call", "more privileges", "other descriptors"),
)
ACTS_BY_A_SOCKET = (
    *("send datagrams", "mptcp", "serve", "bind"),
    *("connect to another port", "connect by sending", "lay a protocol over tcp"),
)
REFUSED = {"EPERM", "EACCES", "ENOENT", "ESRCH", "ENOSYS"}
REFUSED_SOCKET = {"EAFNOSUPPORT", "EPROTONOSUPPORT", "ENOTSUP", "EOPNOTSUPP"}
NETWORK = NetworkAccess((3128,))

_IMPORTS = """
import select
from paddock_sandbox import lockdown, mounts, namespaces, self_check
from paddock_sandbox.descriptors import close_all_but
from paddock_sandbox.mounts import NewRoot, OwnerMaps
from paddock_sandbox.profile import NetworkAccess, SandboxProfile
"""
_PROGRAM = """
def checked(prepare, network=None):
    "The verdicts of a child on itself, once it prepared for it; of the descriptors it has, it is to have one."
    parent = os.getpid()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        prepare(parent, writing)
        verdicts = self_check.run(parent=parent, descriptors=[0, 1, 2, writing], network=network)
        os.write(writing, json.dumps(verdicts).encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with open(reading) as pipe:
        return json.loads(pipe.read())

def shut_in(level, scratch, network=None):
    def prepare(parent, writing):
        close_all_but(0, 1, 2, writing)
        lockdown.apply(SandboxProfile(level, scratch=scratch, network=network), parent=parent)
    return prepare
"""
# The acts would stand in each other's way: once there is a new user namespace, nothing outside can be reached.
_OUTSIDE = """
real = self_check.call
def call_apart(name, *arguments):
    if name == "unshare":
        return in_a_child(lambda: real(name, *arguments))
    return real(name, *arguments)
self_check.call = call_apart
tell(checked(lambda parent, writing: None, NETWORK))
"""
_BESIDE = 'tell(checked(shut_in("landlock", given, NETWORK), NETWORK))'
_APART = """
def act(trees):
    root = NewRoot()
    root.attach_scratch("/scratch", 1 << 20, mappable=False)
    root.enter()
    return checked(shut_in("ns", "/scratch", NETWORK), NETWORK)
tell(apart(act))
"""


@cache
def verdicts(where: str, user: str, with_network: bool = False) -> dict[str, str]:
    """Return what came of each act."""
    network = f"NETWORK = NetworkAccess({NETWORK.ports})" if with_network else "NETWORK = None"
    if where == "apart":
        if refusal := apart.why_not(user):
            pytest.skip(f"as {user}: {refusal}")
        told = run(f"{network}\n{_PROGRAM}{apart.PROGRAM}{_APART}", user=user, imports=_IMPORTS)
        found: dict[str, str] = told["returned"]
        return found
    if where == "beside" and landlock.abi() == 0:
        pytest.skip(f"this kernel has no Landlock: its ABI is {landlock.abi()}")
    with ground(user) as folder:
        program = _OUTSIDE if where == "outside" else _BESIDE
        found = run(f"{network}\n{_PROGRAM}{program}", str(folder), user=user, imports=_IMPORTS)
    return found


@pytest.mark.parametrize("act", ACTS)
def test_what_a_shut_in_process_is_refused_is_not_refused_outside(user: str, act: str) -> None:
    outside = verdicts("outside", user)[act]
    assert verdicts("beside", user)[act] in REFUSED
    # With a parent that is its own init a worker may do as it likes.
    assert verdicts("apart", user)[act] in REFUSED or act == "change the parent's limits"
    if outside in REFUSED and act != "unknown call":  # which is unknown to the kernel
        pytest.skip(f"as {user}, outside too: {outside}")


def test_every_act_is_one_of_these() -> None:
    assert {*verdicts("outside", USERS[0])} == {*ACTS}
    assert {*verdicts("outside", USERS[0], with_network=True)} == {*ACTS, *ACTS_BY_A_SOCKET}


@pytest.mark.parametrize("act", [*ACTS_BY_A_SOCKET, "socket unix", "socket inet6", "socket netlink", "socket vsock"])
def test_what_a_process_with_a_network_is_refused_is_not_refused_outside(user: str, act: str) -> None:
    if landlock.abi() < 4:
        pytest.skip(f"this kernel's Landlock is {landlock.abi()} < 4")
    assert verdicts("beside", user, with_network=True)[act] in REFUSED | REFUSED_SOCKET
    alone = verdicts("apart", user, with_network=True)[act]
    assert alone in REFUSED | REFUSED_SOCKET or act == "send datagrams"
    if (outside := verdicts("outside", user, with_network=True)[act]) in REFUSED | REFUSED_SOCKET:
        pytest.skip(f"as {user}, outside too: {outside}")


@pytest.mark.parametrize(("where", "level"), [("beside", "landlock"), ("apart", "ns"), ("apart", "bwrap")])
def test_a_process_with_a_network_can_make_a_socket_and_breaches_nothing(
    user: str, where: str, level: IsolationLevel
) -> None:
    if landlock.abi() < 4:
        pytest.skip(f"this kernel's Landlock is {landlock.abi()} < 4")
    found = verdicts(where, user, with_network=True)
    assert found["socket inet"] == SUCCEEDED
    assert breaches(SandboxProfile(level, network=NETWORK), found) == ()


@each_row("user", USERS)
@each_row(("where", "level"), [("beside", "landlock"), ("apart", "ns"), ("apart", "bwrap")])
def test_a_process_that_is_shut_in_breaches_nothing(user: str, where: str, level: IsolationLevel) -> None:
    assert breaches(SandboxProfile(level), verdicts(where, user)) == ()


@each_row("limit", [8, 64, 300])
@each_row("descriptor", [3, 100, 255])
def test_a_descriptor_that_was_left_open_is_seen_however_few_are_allowed(limit: int, descriptor: int) -> None:
    program = """
limit, descriptor = given
seen = []
for left_open in (True, False):
    def prepare(parent, writing):
        close_all_but(0, 1, 2, writing)
        if left_open and descriptor != writing:
            os.dup2(0, descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    seen.append(checked(prepare)["other descriptors"])
tell(seen)
"""
    assert run(_PROGRAM + program, [limit, descriptor], imports=_IMPORTS) == ["succeeded", "ENOENT"]


def test_an_error_without_a_name_is_no_refusal() -> None:
    program = """
def fail(*arguments):
    raise OSError(9999, "unheard of")
self_check.call = fail
tell(checked(lambda parent, writing: None)["bpf"])
"""
    assert run(_PROGRAM + program, imports=_IMPORTS) == "unknown"


ALL_REFUSED = dict.fromkeys(ACTS, "EPERM")
PROMISED = {
    "landlock": set(ACTS),
    "ns": {*ACTS} - {"change the parent's limits"},
    "bwrap": {*ACTS} - {"change the parent's limits"},
    "none": set(),
}


@each_row("level", PROMISED)
@each_row("verdict", [SUCCEEDED, "EINVAL", "EFAULT", "EBADF", "unknown", "", None, 1, "eperm"])
def test_each_act_that_was_not_refused_is_a_breach_of_its_level(level: IsolationLevel, verdict: object) -> None:
    for act in ACTS:
        found = breaches(SandboxProfile(level), {**ALL_REFUSED, act: verdict})
        assert found == ((act,) if act in PROMISED[level] else ())


_OF_EVERY_NETWORK = {"socket unix", "socket inet6", "socket netlink", "socket vsock"}
_OF_EVERY_NETWORK |= {"mptcp", "serve", "connect by sending", "lay a protocol over tcp"}
PROMISED_OF_SOCKETS = {
    "landlock": {*_OF_EVERY_NETWORK, "send datagrams", "bind", "connect to another port"},
    "ns": _OF_EVERY_NETWORK,
    "bwrap": _OF_EVERY_NETWORK,
    "none": set(),
}


@each_row("level", PROMISED)
@each_row("verdict", [SUCCEEDED, "EINVAL", "ECONNREFUSED", "EINPROGRESS", "EBADF", None])
def test_with_a_network_a_socket_that_does_more_than_connect_is_a_breach(
    level: IsolationLevel, verdict: object
) -> None:
    profile = SandboxProfile(level, network=NETWORK)
    refused = ALL_REFUSED | dict.fromkeys(ACTS_BY_A_SOCKET, "EACCES")
    assert breaches(profile, refused) == ()
    for act in (*ACTS, *ACTS_BY_A_SOCKET):
        promised = act in PROMISED_OF_SOCKETS[level] | PROMISED[level] - {"socket inet"}
        assert breaches(profile, {**refused, act: verdict}) == ((act,) if promised else ())


_OF_WHO_SERVES = {"socket inet", "socket unix", "serve"}


@each_row("level", ["ns", "bwrap"])
@each_row("verdict", [SUCCEEDED, "ECONNREFUSED", None])
def test_with_a_loopback_of_its_own_a_way_to_others_is_a_breach(level: IsolationLevel, verdict: object) -> None:
    profile = SandboxProfile(level, network=NetworkAccess((), serves=True))
    acts = (*ACTS, *ACTS_BY_A_SOCKET, "datagrams by path", "a file by path", "another address")
    promised = {*acts} & (PROMISED_OF_SOCKETS[level] | PROMISED[level] | {*acts[-3:]}) - _OF_WHO_SERVES
    for act in acts:
        found = breaches(profile, {**dict.fromkeys(acts, "EACCES"), act: verdict})
        assert found == ((act,) if act in promised else ())


def test_an_address_beside_the_loopbacks_is_found(user: str) -> None:
    if refusal := apart.why_not(user):
        pytest.skip(f"as {user}: {refusal}")
    program = """
import fcntl, struct
from paddock_sandbox import network
def looked():
    return self_check._outcome(self_check._ACTS_OF_WHO_SERVES["another address"])
def act(trees):
    network.open_network(NetworkAccess((), serves=True))
    alone = looked()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        # Addresses are listed by their labels, as if each label were an interface.
        address = struct.pack("HH4s16x", socket.AF_INET, 0, socket.inet_aton("192.0.2.1"))
        fcntl.ioctl(asking, 0x8916, struct.pack("16s", b"lo:1") + address)
    return [alone, looked()]
tell(apart(act))
"""
    assert run(apart.PROGRAM + program, user=user, imports=_IMPORTS)["returned"] == ["ENOENT", SUCCEEDED]


@each_row("verdict", sorted(REFUSED_SOCKET))
def test_a_refusal_that_speaks_of_sockets_is_one_of_sockets_alone(verdict: str) -> None:
    for network in (None, NETWORK):
        refused = ALL_REFUSED | dict.fromkeys(ACTS_BY_A_SOCKET, "EACCES")
        for act in (*ACTS, *ACTS_BY_A_SOCKET):
            found = breaches(SandboxProfile("landlock", network=network), {**refused, act: verdict})
            assert found == (() if act.startswith("socket ") or act in ACTS_BY_A_SOCKET else (act,))


def test_the_port_that_is_tried_is_none_that_was_granted() -> None:
    # No act ends with ENOTUNIQ by itself, so this outcome shows that port 3 was tried.
    program = """
class Stream(socket.socket):
    def connect(self, address):
        raise OSError(errno.ENOTUNIQ if address == ("127.0.0.1", 3) else errno.EINVAL, "")
def prepare(parent, writing):
    self_check.socket.socket = Stream
tell(checked(prepare, NetworkAccess((2, 1, 4)))["connect to another port"])
"""
    assert run(_PROGRAM + program, imports=_IMPORTS) == "ENOTUNIQ"


@each_row("verdict", sorted(REFUSED))
def test_every_way_in_which_the_kernel_refuses_is_a_refusal(verdict: str) -> None:
    assert breaches(SandboxProfile("landlock"), dict.fromkeys(ACTS, verdict)) == ()


@each_row("level", PROMISED)
def test_an_act_that_was_not_tried_is_a_breach(level: IsolationLevel) -> None:
    assert {*breaches(SandboxProfile(level), {})} == PROMISED[level]


@each_row(
    ("granted", "exempt"),
    [
        ("/etc/shadow", {"read the password file"}),
        ("/etc", {"read the password file"}),
        ("/etc/", {"read the password file"}),
        (
            "/",
            {
                "read the password file",
                "list devices",
                "read the kernel's settings",
                "read the first process's environment",
            },
        ),
        ("/sys", {"list devices"}),
        ("/proc", {"read the kernel's settings", "read the first process's environment"}),
        ("/etc/shadow-", set()),
        ("/et", set()),
        ("/etc/shadow/below", set()),
        ("/proc/sys/kernel", {"read the kernel's settings"}),
    ],
)
def test_what_a_grant_covers_is_not_promised_to_be_refused(granted: str, exempt: set[str]) -> None:
    profile = SandboxProfile("landlock", (Mount(granted, granted),))
    assert {*breaches(profile, dict.fromkeys(ACTS, SUCCEEDED))} == {*ACTS} - exempt


def test_a_grant_is_known_by_where_it_is_seen() -> None:
    profile = SandboxProfile("ns", (Mount("/etc", "/elsewhere"),))
    assert breaches(profile, {**ALL_REFUSED, "read the password file": SUCCEEDED}) == ("read the password file",)
