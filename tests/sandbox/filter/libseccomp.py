"""The filter's policy, said again to libseccomp, which compiles it in its own way."""

from __future__ import annotations

import ctypes
import errno
import itertools
import tempfile
from collections.abc import Iterable, Iterator

from paddock_sandbox.seccomp import FilterPolicy
from sandbox.filter.bpf_emulator import ARCHITECTURES
from sandbox.filter.filter_table import ALLOW, DONE

_ACT_ALLOW, _ACT_KILL, _ACT_ERRNO = 0x7FFF_0000, 0x8000_0000, 0x0005_0000
_BAD_ARCHITECTURE = 2  # SCMP_FLTATR_ACT_BADARCH
_NOT_EQUAL, _MASKED_EQUAL = 1, 7
_WORD = 0xFFFF_FFFF


class _Comparison(ctypes.Structure):
    """struct scmp_arg_cmp."""

    _fields_ = (
        ("argument", ctypes.c_uint),
        ("operation", ctypes.c_int),
        ("first", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    )


class Library:
    """libseccomp.so.2, where it is installed."""

    def __init__(self) -> None:
        self.functions = ctypes.CDLL("libseccomp.so.2")
        self.functions.seccomp_init.restype = ctypes.c_void_p

    def knows(self, name: str, machine: str) -> bool:
        architecture = ctypes.c_uint32(ARCHITECTURES[machine])
        return bool(self.functions.seccomp_syscall_resolve_name_arch(architecture, name.encode()) >= 0)


# What has to hold for a call to be refused: comparisons that all hold. A call is refused by any of several.
_Refusal = tuple[_Comparison, ...]


def _bits(argument: int, mask: int, value: int) -> _Comparison:
    return _Comparison(argument, _MASKED_EQUAL, mask, value)


def _any_bit(argument: int, bits: int) -> Iterator[_Refusal]:
    for bit in (1 << place for place in range(32)):
        if bits & bit:
            yield (_bits(argument, bit, bit),)


def _is(argument: int, *values: int) -> Iterator[_Refusal]:
    for value in values:
        yield (_bits(argument, _WORD, value),)


def _is_not(argument: int, value: int) -> Iterator[_Refusal]:
    for bit in (1 << place for place in range(32)):
        yield (_bits(argument, bit, ~value & bit),)


def _neither_0_nor_all_ones(argument: int) -> Iterator[_Refusal]:
    # Somewhere, going round, a bit that is set is followed by one that is not.
    for place in range(32):
        this, following = 1 << place, 1 << (place + 1) % 32
        yield (_bits(argument, this | following, this),)


def _creating_with_set_id(flags: int, mode: int) -> Iterator[_Refusal]:
    for creates, set_id in itertools.product((0o100, 0o20_000_000), (0o4000, 0o2000)):
        yield (_bits(flags, creates, creates), _bits(mode, set_id, set_id))


def _neither_0_nor(argument: int, value: int) -> Iterator[_Refusal]:
    bits = [1 << place for place in range(32)]
    for bit in bits:
        if not value & bit:
            yield (_bits(argument, bit, bit),)
    # All of the value's bits, or none of them: somewhere, two that follow one another differ.
    own = [bit for bit in bits if value & bit]
    for one, other in itertools.pairwise(own):
        yield (_bits(argument, one | other, one),)
        yield (_bits(argument, one | other, other),)


def _sockets(policy: FilterPolicy) -> Iterator[tuple[str, _Refusal]]:
    """Yield what is refused of sockets that connect, with the answer."""
    inet, inet6, stream, datagram = _bits(0, _WORD, 2), _bits(0, _WORD, 10), _bits(1, 0xF, 1), _bits(1, 0xF, 2)
    yield "EAFNOSUPPORT", (inet6,)
    for bit in (1 << place for place in range(32)):
        if bit != 2 ^ 10:  # all that tells the two families apart
            yield "EACCES", (_bits(0, bit, ~2 & bit),)
    for kind in range(16):
        if kind not in ((1,) if policy.shares_host else (1, 2)):
            yield "EACCES", (inet, _bits(1, 0xF, kind))
    for protocol in _neither_0_nor(2, 6):
        yield "EPROTONOSUPPORT", (inet, stream, *protocol)
    if not policy.shares_host:
        for protocol in _neither_0_nor(2, 17):
            yield "EPROTONOSUPPORT", (inet, datagram, *protocol)


def _refusals(policy: FilterPolicy) -> dict[str, list[tuple[str, _Refusal]]]:
    one_process = ("prlimit64", "sched_setscheduler", "sched_setparam", "sched_setattr", "sched_setaffinity")
    terminal = (0x5412, 0x541C, 0x541D, 0x5423)
    found: dict[str, Iterable[_Refusal]] = {
        "clone": [*_any_bit(0, 0x7E02_0000), (_bits(0, 0x1_0400, 0x1_0000),), (_bits(0, 0x1_0400, 0x400),)],
        "close_range": _any_bit(2, 2),
        "ioctl": _is(1, *terminal),
        "fcntl": _is(1, 1024, 1040, *(() if policy.counts_memory else (1031,))),
        "seccomp": _any_bit(1, 8),
        "prctl": _is(0, 4, 35, 62),
        "personality": _neither_0_nor_all_ones(0),
        "socketpair": [*_is_not(0, 1), *((_bits(1, 0xF, kind),) for kind in range(16) if kind not in (1, 5))],
        "open": _creating_with_set_id(1, 2),
        "openat": _creating_with_set_id(2, 3),
        **{name: _any_bit(1, 0o6000) for name in ("creat", "mknod", "chmod", "fchmod")},
        **{name: _any_bit(2, 0o6000) for name in ("mknodat", "fchmodat", "fchmodat2")},
    }
    if policy.may_execute:
        found["execveat"] = _any_bit(4, 0x1000)
    if policy.shares_host:
        other_types = ((_bits(1, 0xFF00, kind << 8),) for kind in range(256) if kind != 0x54)
        found |= {
            "ioctl": [*_is(1, *terminal), *other_types],
            "setpriority": [*_is_not(0, 0), *_is_not(1, 0)],
            "ioprio_set": [*_is_not(0, 1), *_is_not(1, 0)],
            "utimensat": [(_Comparison(1, _NOT_EQUAL, 0, 0),), *_is_not(3, 0)],
            **{name: _is_not(0, 0) for name in one_process},
        }
        for name in ("chmod", "fchmod", "fchmodat", "fchmodat2"):
            del found[name]
    answers = {"socketpair": "EACCES", "close_range": "EINVAL"}
    told = {name: [(answers.get(name, "EPERM"), it) for it in refusals] for name, refusals in found.items()}
    told["fcntl"] += [("EINVAL", it) for it in _is(1, 37, 38)]
    told["mmap"] = [("ENOMEM", it) for it in _any_bit(3, 0x4_0000)]
    at_socket = _bits(1, _WORD, 1)
    told["setsockopt"] = [("EPERM", (at_socket, _bits(2, _WORD, option))) for option in (26, 50, 51, 52)]
    if not policy.counts_memory:
        told["mmap"].append(("EPERM", (_bits(3, 0x4_0021, 0x21),)))
        told["setsockopt"] += [(DONE, (at_socket, _bits(2, _WORD, option))) for option in (7, 8, 32, 33)]
    if policy.may_connect:
        told["socket"] = list(_sockets(policy))
        for name, flags in (("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3)):
            told[name] = [("ENOTSUP", (_bits(flags, 0x2000_0000, 0x2000_0000),))]
        told["setsockopt"] += [("ENOTSUP", (_bits(1, _WORD, 6), _bits(2, _WORD, 31)))]
    return told


def filter_of_libseccomp(library: Library, policy: FilterPolicy, machine: str, answers: dict[str, str]) -> bytes:
    """Return libseccomp's filter: these answers by name, and the refusals that depend on arguments."""
    seccomp = library.functions

    def must(result: int) -> None:
        assert result == 0, f"libseccomp: {errno.errorcode.get(-result, result)}"

    context = ctypes.c_void_p(seccomp.seccomp_init(ctypes.c_uint32(_ACT_ALLOW)))
    try:
        wanted, native = ARCHITECTURES[machine], seccomp.seccomp_arch_native() % 2**32
        if wanted != native:
            must(seccomp.seccomp_arch_add(context, ctypes.c_uint32(wanted)))
            must(seccomp.seccomp_arch_remove(context, ctypes.c_uint32(native)))
        must(seccomp.seccomp_attr_set(context, _BAD_ARCHITECTURE, ctypes.c_uint32(_ACT_KILL)))
        by_argument = _refusals(policy)
        for name, answer in answers.items():
            for refused, refusal in by_argument.get(name, [(answer, ())] if answer != ALLOW else []):
                action = ctypes.c_uint32(_ACT_ERRNO | (0 if refused == DONE else getattr(errno, refused)))
                comparisons = (_Comparison * len(refusal))(*refusal)
                number = seccomp.seccomp_syscall_resolve_name(name.encode())
                must(seccomp.seccomp_rule_add_array(context, action, number, len(refusal), comparisons))
        with tempfile.TemporaryFile() as file:
            must(seccomp.seccomp_export_bpf(context, file.fileno()))
            file.seek(0)
            return file.read()
    finally:
        seccomp.seccomp_release(context)
