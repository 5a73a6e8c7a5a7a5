"""Try, from inside, the acts that a confined process must not be able to do, and report the outcome of each.

A worker runs this after its lockdown and before anything untrusted. The chosen acts do no harm if they succeed. The
host compares the outcomes with the promises of the level: a lockdown whose steps succeeded but which does not hold is
no lockdown.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import select
import socket
import struct
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from paddock_sandbox import prctl
from paddock_sandbox.capabilities import effective_set
from paddock_sandbox.profile import NetworkAccess, SandboxProfile
from paddock_sandbox.syscalls import call

SUCCEEDED: Final = "succeeded"

_CLONE_NEWUSER: Final = 0x10000000
_KEYCTL_GET_KEYRING_ID: Final = 0
_NO_SUCH_CALL: Final = 999
_DESCRIPTORS: Final = 256  # as many are looked at; a worker starts with a handful
_AF_NETLINK: Final = 16
_AF_VSOCK: Final = 40
_SECCOMP_FILTER: Final = 2
_PTRACE_SEIZE: Final = 0x4206  # unlike attaching, it does not stop the parent should it succeed
_IPPROTO_MPTCP: Final = 262
_MSG_FASTOPEN: Final = 0x2000_0000
_TCP_ULP: Final = 31
_PORTS: Final = range(1, 65536)
_SIOCGIFCONF: Final = 0x8912
_INTERFACES: Final = struct.Struct("iP")  # struct ifconf: how many bytes, and where
_INTERFACE_BYTES: Final = 40  # of a struct ifreq


def run(*, parent: int, descriptors: Iterable[int], network: NetworkAccess | None = None) -> dict[str, str]:
    """Try every act and return its outcome by name: the name of an errno, or `succeeded`.

    `parent` is the process that started this one, `descriptors` are those it should have. Without a `network` no socket
    can be made, so acts that need one are skipped.
    """
    known = frozenset(descriptors)
    acts: dict[str, Callable[[], object]] = {
        **{name: partial(_read, path) for name, path in _OUTSIDE.items()},
        **{f"socket {name}": partial(_socket, family) for name, family in _FAMILIES.items()},
        "change the parent's limits": lambda: call("prlimit64", parent, resource.RLIMIT_NOFILE, None, None),
        **_always_refused(parent, known),
    }
    if network is not None:
        acts |= _acts_by_a_socket(network)
    if network is not None and network.serves:
        acts |= _ACTS_OF_WHO_SERVES
    return {name: _outcome(act) for name, act in acts.items()}


def _always_refused(parent: int, known: frozenset[int]) -> dict[str, Callable[[], object]]:
    return {
        "signal the parent": lambda: os.kill(parent, 0),
        "list the keyring": lambda: call("keyctl", _KEYCTL_GET_KEYRING_ID, -3, 0, 0, 0),
        "unshare": lambda: call("unshare", _CLONE_NEWUSER),
        "clone3": lambda: call("clone3", None, 0),
        "setns": lambda: call("setns", -1, 0),
        "mount": lambda: call("mount", None, None, None, 0, None),
        "ptrace": lambda: call("ptrace", _PTRACE_SEIZE, parent, 0, 0),
        "process_vm_readv": lambda: call("process_vm_readv", parent, None, 0, None, 0, 0),
        "io_uring": lambda: call("io_uring_setup", 0, None),
        "bpf": lambda: call("bpf", 0, None, 0),
        "perf_event_open": lambda: call("perf_event_open", None, 0, 0, -1, 0),
        "userfaultfd": lambda: os.close(call("userfaultfd", 0)),
        "open_by_handle_at": lambda: call("open_by_handle_at", -1, None, 0),
        "memfd": lambda: os.close(call("memfd_create", b"", 0)),
        "unknown call": lambda: call(_NO_SUCH_CALL),
        "more privileges": _check_privileges,
        "other descriptors": partial(_check_descriptors, known),
    }


def _acts_by_a_socket(network: NetworkAccess) -> dict[str, Callable[[], object]]:
    # The lowest is usually 1, of a service that is no longer in use.
    elsewhere = ("127.0.0.1", next(port for port in _PORTS if port not in network.ports))
    return {
        "send datagrams": lambda: _socket(socket.AF_INET, socket.SOCK_DGRAM),
        "mptcp": lambda: _socket(socket.AF_INET, socket.SOCK_STREAM, _IPPROTO_MPTCP),
        "serve": partial(_with_a_stream, lambda stream: stream.listen()),
        "bind": partial(_with_a_stream, lambda stream: stream.bind(("127.0.0.1", 0))),
        "connect to another port": partial(_with_a_stream, lambda stream: stream.connect(elsewhere)),
        "connect by sending": partial(_with_a_stream, lambda stream: stream.sendto(b"", _MSG_FASTOPEN, elsewhere)),
        # Of a protocol without a name, which the kernel finds invalid, rather than of one that it may not have.
        "lay a protocol over tcp": partial(
            _with_a_stream, lambda stream: stream.setsockopt(socket.IPPROTO_TCP, _TCP_ULP, b"")
        ),
    }


_A_FILE: Final = "/etc/passwd"  # it is no socket: the kernel answers that nobody listens, if it is seen
# Files that every system has and that no module is granted.
_OUTSIDE: Final[Mapping[str, str]] = {
    "read the first process's environment": "/proc/1/environ",
    "read the kernel's settings": "/proc/sys/kernel/hostname",
    "list devices": "/sys/class",
    "read the password file": "/etc/shadow",
}
_FAMILIES: Final[Mapping[str, int]] = {
    "unix": socket.AF_UNIX,
    "inet": socket.AF_INET,
    "inet6": socket.AF_INET6,
    "netlink": _AF_NETLINK,
    "vsock": _AF_VSOCK,
}
_REFUSED: Final = frozenset({"EPERM", "EACCES", "ENOENT", "ESRCH", "ENOSYS"})
# The error that lets a caller go on without the socket.
_REFUSED_SOCKET: Final = frozenset({"EAFNOSUPPORT", "EPROTONOSUPPORT", "ENOTSUP", "EOPNOTSUPP"})


def breaches(profile: SandboxProfile, verdicts: Mapping[str, object]) -> tuple[str, ...]:
    """Return the acts that were not refused, or not tried, and that the profile's level promises to refuse."""
    if profile.level == "none":
        return ()
    promised = [
        *(name for name, path in _OUTSIDE.items() if not profile.is_mounted(path)),
        *_always_refused(0, frozenset()),  # by name; nothing is tried here
        *(_REFUSED_BESIDE_THE_HOST if profile.level == "landlock" else ()),
    ]
    return (
        *(name for name in _refused_sockets(profile) if verdicts.get(name) not in _REFUSED | _REFUSED_SOCKET),
        *(name for name in promised if verdicts.get(name) not in _REFUSED),
    )


def _refused_sockets(profile: SandboxProfile) -> Iterable[str]:
    if profile.network is None:
        return [f"socket {name}" for name in _FAMILIES]
    if profile.serves:
        families = [f"socket {name}" for name in _FAMILIES if name not in ("inet", "unix")]
        return [*families, *(act for act in _REFUSED_WITH_A_NETWORK if act != "serve"), *_ACTS_OF_WHO_SERVES]
    families = [f"socket {name}" for name in _FAMILIES if name != "inet"]
    beside_the_host = _REFUSED_SOCKETS_BESIDE_THE_HOST if profile.level == "landlock" else ()
    return [*families, *_REFUSED_WITH_A_NETWORK, *beside_the_host]


_REFUSED_WITH_A_NETWORK: Final = ("mptcp", "serve", "connect by sending", "lay a protocol over tcp")
# In a network of its own a process reaches nothing by these, and the confinement does not depend on Landlock, which may
# be too old to refuse them.
_REFUSED_SOCKETS_BESIDE_THE_HOST: Final = ("send datagrams", "bind", "connect to another port")
# Elsewhere the parent is the worker's own init; it only matters that it lives.
_REFUSED_BESIDE_THE_HOST: Final = ("change the parent's limits",)


def _outcome(act: Callable[[], object]) -> str:
    try:
        act()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, "unknown")
    return SUCCEEDED


def _read(path: str) -> None:
    os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))


def _socket(family: int, kind: int = socket.SOCK_STREAM, protocol: int = 0) -> None:
    socket.socket(family, socket.SOCK_RAW if family == _AF_NETLINK else kind, protocol).close()


def _with_a_stream(act: Callable[[socket.socket], object], family: int = socket.AF_INET) -> None:
    # No answer is awaited: the call was not refused, which is enough.
    with socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as stream:
        act(stream)


def _check_addresses(stream: socket.socket) -> None:
    """Refuse when the network has one address at most: no interface beside the loopback can be reached by."""
    size, _ = _INTERFACES.unpack(fcntl.ioctl(stream, _SIOCGIFCONF, _INTERFACES.pack(0, 0)))  # how many bytes it takes
    if size <= _INTERFACE_BYTES:
        raise FileNotFoundError(errno.ENOENT, "no other address")


_ACTS_OF_WHO_SERVES: Final[Mapping[str, Callable[[], object]]] = {
    "datagrams by path": lambda: _socket(socket.AF_UNIX, socket.SOCK_DGRAM),
    "a file by path": partial(_with_a_stream, lambda stream: stream.connect(_A_FILE), socket.AF_UNIX),
    "another address": partial(_with_a_stream, _check_addresses),
}


def _check_privileges() -> None:
    """Refuse, as the kernel would, when nothing is there to be gained."""
    if not effective_set() and prctl.is_no_new_privs() and prctl.seccomp_mode() == _SECCOMP_FILTER:
        raise PermissionError(errno.EPERM, "no privileges")


def _check_descriptors(known: frozenset[int]) -> None:
    others = [fd for fd in range(_DESCRIPTORS) if fd not in known]
    # poll takes as many descriptors at once as may be open at once; it needs no /proc.
    at_once = max(1, min(_DESCRIPTORS, resource.getrlimit(resource.RLIMIT_NOFILE)[0]))
    for first in range(0, len(others), at_once):
        asked = select.poll()
        for fd in others[first : first + at_once]:
            asked.register(fd, 0)
        closed = [fd for fd, events in asked.poll(0) if events & select.POLLNVAL]
        if closed != others[first : first + at_once]:
            return
    raise FileNotFoundError(errno.ENOENT, "no other descriptors")
