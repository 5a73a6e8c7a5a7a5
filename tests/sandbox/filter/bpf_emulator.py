"""Run a filter as the kernel would, from its bytes alone, and check what the kernel checks before it takes one.

Written from the kernel's description of classic BPF and sharing no code with the assembler: each shows the other wrong.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from dataclasses import dataclass

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7, "i386": 0x40000003, "arm": 0x40000028}
_DATA_BYTES = 64  # struct seccomp_data


class RefusedError(Exception):
    """Raised for a program that the kernel would not accept as a filter."""


@dataclass(frozen=True)
class Outcome:
    """What a filter answered, after how many instructions, having looked at which offsets."""

    answer: int
    steps: int
    looked_at: tuple[int, ...]


def decide(program: bytes, machine: str, number: int, arguments: tuple[int, ...] = ()) -> Outcome:
    """Return what a filter answers to a call; arguments are taken as 64-bit numbers, missing ones as 0."""
    words = [argument % 2**64 for argument in (*arguments, 0, 0, 0, 0, 0, 0)[:6]]
    data = struct.pack("<IIQ6Q", number % 2**32, ARCHITECTURES[machine], 0x7F00_1234_5678, *words)
    return run(program, data)


def run(program: bytes, data: bytes) -> Outcome:
    """Return what a program answers to this input."""
    instructions = _instructions(program)
    accumulator = 0
    looked_at = []
    at = steps = 0
    while True:
        code, jump_true, jump_false, k = instructions[at]
        at += 1
        steps += 1
        match code:
            case 0x06:  # RET
                return Outcome(k, steps, tuple(looked_at))
            case 0x20:  # LD W ABS
                (accumulator,) = struct.unpack_from("<I", data, k)
                looked_at.append(k)
            case 0x54:  # AND
                accumulator &= k
            case 0x05:  # JA
                at += k
            case 0x15:  # JEQ
                at += jump_true if accumulator == k else jump_false
            case 0x25:  # JGT
                at += jump_true if accumulator > k else jump_false
            case 0x35:  # JGE
                at += jump_true if accumulator >= k else jump_false
            case 0x45:  # JSET
                at += jump_true if accumulator & k else jump_false
            case _:
                raise RefusedError(f"operation {code:#x}")


@functools.lru_cache(maxsize=256)
def _instructions(program: bytes) -> Sequence[tuple[int, int, int, int]]:
    """Return the instructions of a program: to unpack them takes longer than to run those that a call comes to."""
    return tuple(struct.iter_unpack("<HBBI", program))


def check(program: bytes) -> int:
    """Return how many instructions an acceptable program has.

    Raises:
        RefusedError: The kernel would refuse it.
    """
    if len(program) % 8 or not 1 <= len(program) // 8 <= 4096:
        raise RefusedError(f"{len(program)} bytes")
    instructions = _instructions(program)
    for at, (code, jump_true, jump_false, k) in enumerate(instructions):
        left = len(instructions) - at - 1
        match code:
            case 0x20 if k % 4 or k >= _DATA_BYTES:
                raise RefusedError(f"a load at {k}")
            case 0x05 if k >= left:
                raise RefusedError(f"a jump over {k} of {left}")
            case 0x15 | 0x25 | 0x35 | 0x45 if max(jump_true, jump_false) >= left:
                raise RefusedError(f"a jump over {max(jump_true, jump_false)} of {left}")
            case 0x06 | 0x20 | 0x54 | 0x05 | 0x15 | 0x25 | 0x35 | 0x45:
                pass
            case _:
                raise RefusedError(f"operation {code:#x}")
    if instructions[-1][0] != 0x06:
        raise RefusedError("the end is no answer")
    return len(instructions)
