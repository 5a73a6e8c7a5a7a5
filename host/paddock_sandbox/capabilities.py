"""Take every capability from the calling process, and the ways back to one.

After `drop_all` the process holds no capability, and this is checked. uid 0 is then a number like any other. If the
process had CAP_SETPCAP (root, and everyone in a user namespace of their own), no exec can ever give it a capability
again. An ordinary user never has that right, so there the bounding set stays as it was. `no_new_privs`, which every
level sets, makes that set worthless: an exec then keeps no more than the process had.

`close_ways_back` takes that right alone, before a fork: the child then has nothing left to do about the ways back.

This cannot prevent a new user namespace, in which its maker holds all capabilities: the system call filter refuses
that. It works without /proc. Capabilities belong to a thread: the caller must have only one.
"""

from __future__ import annotations

import ctypes
import errno
import struct
from dataclasses import dataclass
from functools import cache
from typing import Final

from paddock_sandbox import prctl
from paddock_sandbox.syscalls import call

SYS_PTRACE: Final = 19
_SETPCAP: Final = 8
_MOST: Final = 64  # the kernel's sets are words of 64 bits, independent of the highest capability today

# From <linux/securebits.h>; each has its lock one bit above.
_KEEP_CAPS: Final = 1 << 4
_SETTINGS: Final = 1 << 0 | 1 << 2 | 1 << 6  # NOROOT, NO_SETUID_FIXUP, NO_CAP_AMBIENT_RAISE
_LOCKED: Final = _SETTINGS | (_SETTINGS | _KEEP_CAPS) << 1

# From <linux/capability.h>: a header (version 3, the calling thread), then the low and the high halves of the sets. The
# kernel rewrites only a header of a version that it does not know.
_HEADER: Final = struct.pack("=Ii", 0x20080522, 0)
_HALVES: Final = struct.Struct("=6I")
_Sets: Final = ctypes.c_char * _HALVES.size  # made once: a process that makes a type copies some 60 pages


@dataclass(frozen=True, slots=True)
class CapabilitySets:
    """The five sets of capabilities of a process, as numbers of <linux/capability.h>."""

    effective: frozenset[int]
    permitted: frozenset[int]
    inheritable: frozenset[int]
    ambient: frozenset[int]
    bounding: frozenset[int]


def drop_all(*, but: int | None = None) -> None:
    """Take every capability from the caller, permanently, except for one that it has.

    Raises:
        OSError: the kernel refused a step, or another capability was left.
    """
    close_ways_back()
    kept = 0 if but is None else 1 << but
    _set(kept, kept, 0)
    # Those the kernel keeps for an ordinary exec are among the others.
    left = frozenset().union(*_numbers_of(_get())) - {but}
    if left:
        raise OSError(errno.EPERM, f"capabilities were left after dropping all: {', '.join(map(str, sorted(left)))}")


def close_ways_back() -> None:
    """Let no exec give the caller or its children a capability, and take CAP_SETPCAP from it, which could undo that.

    The caller keeps the other capabilities that it has. Its children inherit all of this, unless they enter a user
    namespace of their own. Where the caller lacks CAP_SETPCAP, only the ambient set is cleared.

    Raises:
        OSError: the kernel refused a step.
    """
    prctl.clear_ambient_set()
    effective, permitted, inheritable = _get()
    if effective >> _SETPCAP & 1:
        for capability in range(_count()):
            prctl.drop_from_bounding_set(capability)
        prctl.set_securebits(prctl.securebits() & ~_KEEP_CAPS | _LOCKED)
        others = ~(1 << _SETPCAP)
        _set(effective & others, permitted & others, inheritable & others)


def effective_set() -> frozenset[int]:
    """Return the capabilities that the caller can use now."""
    return _numbers(_get()[0])


def held() -> CapabilitySets:
    """Return the capabilities that the caller holds now."""
    effective, permitted, inheritable = _numbers_of(_get())
    return CapabilitySets(
        effective,
        permitted,
        inheritable,
        ambient=frozenset(filter(prctl.in_ambient_set, range(_count()))),
        bounding=frozenset(filter(prctl.in_bounding_set, range(_count()))),
    )


def _get() -> tuple[int, int, int]:
    """Return the effective, the permitted and the inheritable set, as words with a bit for each capability."""
    sets = _Sets()
    call("capget", _HEADER, sets)
    low_effective, low_permitted, low_inheritable, high_effective, high_permitted, high_inheritable = _HALVES.unpack(
        sets.raw
    )
    return (
        low_effective | high_effective << 32,
        low_permitted | high_permitted << 32,
        low_inheritable | high_inheritable << 32,
    )


def _set(*words: int) -> None:
    halves = _HALVES.pack(*(word & 0xFFFF_FFFF for word in words), *(word >> 32 for word in words))
    call("capset", _HEADER, halves)


def _numbers_of(words: tuple[int, int, int]) -> tuple[frozenset[int], frozenset[int], frozenset[int]]:
    effective, permitted, inheritable = words
    return _numbers(effective), _numbers(permitted), _numbers(inheritable)


def _numbers(word: int) -> frozenset[int]:
    return frozenset(number for number in range(_MOST) if word >> number & 1)


@cache
def _count() -> int:
    """Return how many capabilities the running kernel has."""
    for capability in range(_MOST):
        try:
            prctl.in_bounding_set(capability)
        except OSError as error:
            if error.errno != errno.EINVAL or capability == 0:
                raise
            return capability
    return _MOST
