"""Confine the calling thread, and all it starts, to the granted files and ports, by Landlock.

`restrict` refuses everything that this kernel's Landlock can refuse and then grants the accesses in the rules. This
cannot be undone, and a second call only takes more away. It either does all of it and returns the protections now in
force, or raises an error naming the step and the path. The caller must have given up new privileges, and have one
thread: others would stay unconfined. Mounting is impossible afterwards.

Other layers must cover these, which Landlock never does: descriptors opened before; looking at names and metadata
(`stat`, `access`, `chdir`) and changing them (`chmod`, `chown`, `utime`, `setxattr`); listening at a TCP port that the
kernel picks; reading the environment and the memory map of another process, by /proc, where CAP_PERFMON or
CAP_SYS_ADMIN is still held; and, before ABI 9, connecting to a socket that lies in the file system. A process that may
run the loader of programs may have it run any readable file.
"""

from __future__ import annotations

import enum
import errno
import os
import stat
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from paddock_sandbox.mounts import open_place
from paddock_sandbox.syscalls import call

# From <linux/landlock.h>; the same numbers on every architecture.
_CREATE_RULESET_VERSION: Final = 1 << 0
_RULE_PATH_BENEATH: Final = 1
_RULE_NET_PORT: Final = 2
_RULESET: Final = struct.Struct("=QQQ")  # handled_access_fs, handled_access_net, scoped
_PATH_BENEATH: Final = struct.Struct("=Qi")  # allowed_access, parent_fd; packed
_NET_PORT: Final = struct.Struct("=QQ")  # allowed_access, port

# A module is unknown code inside our own executable, which is the case that the kernel's first flag is for. Each
# refused act would be a line in a log of the whole machine, and flooding that log would be one more way out of the
# module's limits. The second flag does the same for domains that the module makes itself.
_LOG_SAME_EXEC_OFF: Final = 1 << 0
_LOG_SUBDOMAINS_OFF: Final = 1 << 2
_FIRST_ABI_WITH_LOG_FLAGS: Final = 7

_EXECUTE: Final = 1 << 0
_WRITE_FILE: Final = 1 << 1
_READ_FILE: Final = 1 << 2
_READ_DIR: Final = 1 << 3
_REMOVE_DIR: Final = 1 << 4
_REMOVE_FILE: Final = 1 << 5
_MAKE_CHAR: Final = 1 << 6
_MAKE_DIR: Final = 1 << 7
_MAKE_REG: Final = 1 << 8
_MAKE_SOCK: Final = 1 << 9
_MAKE_FIFO: Final = 1 << 10
_MAKE_BLOCK: Final = 1 << 11
_MAKE_SYM: Final = 1 << 12
_REFER: Final = 1 << 13
_TRUNCATE: Final = 1 << 14
_IOCTL_DEV: Final = 1 << 15
_RESOLVE_UNIX: Final = 1 << 16

_BIND_TCP: Final = 1 << 0
_CONNECT_TCP: Final = 1 << 1
_BIND_UDP: Final = 1 << 2
_CONNECT_SEND_UDP: Final = 1 << 3

_ABSTRACT_UNIX_SOCKET: Final = 1 << 0
_SIGNAL: Final = 1 << 1


class _Step(NamedTuple):
    """The additions of one ABI: the protection's name, and the bits to refuse in each of a ruleset's three words."""

    abi: int
    protection: str
    files: int = 0
    ports: int = 0
    scopes: int = 0


_STEPS: Final = (
    _Step(
        1,
        "file system",
        files=_EXECUTE
        | _WRITE_FILE
        | _READ_FILE
        | _READ_DIR
        | _REMOVE_DIR
        | _REMOVE_FILE
        | _MAKE_CHAR
        | _MAKE_DIR
        | _MAKE_REG
        | _MAKE_SOCK
        | _MAKE_FIFO
        | _MAKE_BLOCK
        | _MAKE_SYM,
    ),
    # Before it, no file could be moved or linked to another folder, granted or not: it brought the right, not the wall.
    _Step(2, "file system", files=_REFER),
    _Step(3, "truncate", files=_TRUNCATE),
    _Step(4, "tcp", ports=_BIND_TCP | _CONNECT_TCP),
    _Step(5, "ioctl on devices", files=_IOCTL_DEV),
    _Step(6, "abstract sockets", scopes=_ABSTRACT_UNIX_SOCKET),
    _Step(6, "signals", scopes=_SIGNAL),
    _Step(9, "sockets in the file system", files=_RESOLVE_UNIX),
    _Step(10, "udp", ports=_BIND_UDP | _CONNECT_SEND_UDP),
)

# The rights that a rule may give on anything other than a directory; the kernel answers EINVAL to more.
_OF_FILES: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV | _RESOLVE_UNIX


class Access(enum.Flag):
    """The rights of a process on a file, or on everything beneath a directory."""

    READ = enum.auto()
    """Read files and list directories."""

    WRITE = enum.auto()
    """Read; change, make, remove and rename files, directories, links and pipes, but neither sockets nor devices."""

    EXECUTE = enum.auto()
    """Run programs; the kernel also requires READ, and both for a program's loader."""

    DEVICE = enum.auto()
    """Read, write and control a character device."""

    DEVICES = enum.auto()
    """The same, of all devices beneath a directory."""


_READ: Final = _READ_FILE | _READ_DIR
_RIGHTS: Final = {
    Access.READ: _READ,
    Access.WRITE: _READ
    | _WRITE_FILE
    | _TRUNCATE
    | _REMOVE_DIR
    | _REMOVE_FILE
    | _MAKE_DIR
    | _MAKE_REG
    | _MAKE_FIFO
    | _MAKE_SYM
    | _REFER,
    Access.EXECUTE: _EXECUTE,
    Access.DEVICE: _READ_FILE | _WRITE_FILE | _IOCTL_DEV,
    Access.DEVICES: _READ_FILE | _WRITE_FILE | _IOCTL_DEV,
}


@dataclass(frozen=True, slots=True)
class PathRule:
    """A grant: this access to the file at this path, or to all that is beneath this directory.

    The grant follows the file, not the name: it covers every name and every mount of the same file. The path is
    absolute and normalised, and its last part is no symbolic link.
    """

    path: str
    access: Access


class PortAccess(enum.Flag):
    """The rights of a process on a port, at every address."""

    CONNECT_TCP = enum.auto()
    """Connect to it by TCP."""

    SEND_UDP = enum.auto()
    """Send datagrams to it."""

    BIND_UDP = enum.auto()
    """Bind it for datagrams; port 0 stands for a port that the kernel picks, which sending needs too."""


_PORT_RIGHTS: Final = {
    PortAccess.CONNECT_TCP: _CONNECT_TCP,
    PortAccess.SEND_UDP: _CONNECT_SEND_UDP,
    PortAccess.BIND_UDP: _BIND_UDP,
}


@dataclass(frozen=True, slots=True)
class PortRule:
    """A grant: this access to the port of this number. Without meaning where the kernel refuses no such access."""

    port: int
    access: PortAccess


class Handled(NamedTuple):
    """The accesses that a ruleset refuses unless a rule allows them: the three words of `landlock_ruleset_attr`."""

    files: int
    ports: int
    scopes: int


def abi() -> int:
    """Return the version of Landlock in the running kernel; 0 when it has none or has it switched off.

    Raises:
        OSError: the question itself was refused, as a container's filter may do.
    """
    try:
        return call("landlock_create_ruleset", None, 0, _CREATE_RULESET_VERSION)
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EOPNOTSUPP):
            return 0
        raise


def handled(version: int) -> Handled:
    """Return everything that a kernel of this ABI can refuse."""
    files = ports = scopes = 0
    for step in _known(version):
        files |= step.files
        ports |= step.ports
        scopes |= step.scopes
    return Handled(files, ports, scopes)


def protections(version: int) -> frozenset[str]:
    """Return the names of the protections that `restrict` puts in force on a kernel of this ABI."""
    return frozenset(step.protection for step in _known(version))


def rights(access: Access, *, directory: bool, version: int) -> int:
    """Return the rights that a rule may ask for on such a file, on a kernel of this ABI."""
    asked = 0
    for part in access:
        asked |= _RIGHTS[part]
    return asked & handled(version).files & (-1 if directory else _OF_FILES)


def port_rights(access: PortAccess, version: int) -> int:
    """Return the rights that a rule may ask for on a port, on a kernel of this ABI."""
    asked = 0
    for part in access:
        asked |= _PORT_RIGHTS[part]
    return asked & handled(version).ports


def restrict(rules: Iterable[PathRule | PortRule]) -> frozenset[str]:
    """Confine the calling thread and return the protections in force.

    Raises:
        OSError: a step failed; nothing is in force. It names the step, and the path or port where there is one.
    """
    version = abi()
    ruleset = call("landlock_create_ruleset", _RULESET.pack(*handled(version)), _RULESET.size, 0)
    try:
        for rule in rules:
            if isinstance(rule, PortRule):
                _add_port(ruleset, rule, version)
            else:
                _add(ruleset, rule, version)
        flags = _LOG_SAME_EXEC_OFF | _LOG_SUBDOMAINS_OFF if version >= _FIRST_ABI_WITH_LOG_FLAGS else 0
        call("landlock_restrict_self", ruleset, flags)
    finally:
        os.close(ruleset)
    return protections(version)


def _known(version: int) -> tuple[_Step, ...]:
    return tuple(step for step in _STEPS if step.abi <= version)


def _add(ruleset: int, rule: PathRule, version: int) -> None:
    try:
        beneath = _open(rule.path)
        try:
            mode = os.fstat(beneath).st_mode  # its kind may differ from the caller's belief
            if stat.S_ISLNK(mode):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            if Access.DEVICE in rule.access and not stat.S_ISCHR(mode):
                raise OSError(errno.ENODEV, "not a character device")
            allowed = rights(rule.access, directory=stat.S_ISDIR(mode), version=version)
            call("landlock_add_rule", ruleset, _RULE_PATH_BENEATH, _PATH_BENEATH.pack(allowed, beneath), 0)
        finally:
            os.close(beneath)
    except OSError as error:
        raise OSError(error.errno, f"landlock rule for {rule.path!r}: {error.strerror}") from error


def _add_port(ruleset: int, rule: PortRule, version: int) -> None:
    allowed = port_rights(rule.access, version)
    if not allowed:
        return  # the kernel takes no rule that allows nothing
    try:
        call("landlock_add_rule", ruleset, _RULE_NET_PORT, _NET_PORT.pack(allowed, rule.port), 0)
    except OSError as error:
        raise OSError(error.errno, f"landlock rule for port {rule.port}: {error.strerror}") from error


def _open(path: str) -> int:
    # With `..`, the path is not the one that was granted.
    if not os.path.isabs(path) or os.path.normpath(path) != path or "\0" in path:
        raise OSError(errno.EINVAL, "not an absolute and normalised path")
    try:
        return open_place(path)
    except OSError as error:
        raise OSError(error.errno, os.strerror(error.errno or 0)) from error
