"""Assemble the small programs that the kernel runs for each system call of a filtered process.

A program is written as a decision tree: leaves return an answer, inner nodes load a word, mask it or branch on it.
`assemble` lays the tree out as classic BPF and returns the kernel's bytes. It writes equal parts once, and bridges
distances that a conditional jump cannot reach. The same tree always gives the same bytes. This file does not know the
meaning of the words and answers.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

MAX_INSTRUCTIONS: Final = 4096  # the kernel's own limit for one program
INSTRUCTION_BYTES: Final = 8
_MAX_SKIP: Final = 255  # how far a conditional jump reaches: its two distances are bytes
_WORD: Final = 0xFFFF_FFFF
_pack: Final = struct.Struct("=HBBI").pack  # struct sock_filter

# The few operations used, from <linux/bpf_common.h>.
_LOAD_WORD: Final = 0x20  # BPF_LD | BPF_W | BPF_ABS
_AND: Final = 0x54  # BPF_ALU | BPF_AND | BPF_K
_JUMP: Final = 0x05  # BPF_JMP | BPF_JA
_RETURN: Final = 0x06  # BPF_RET | BPF_K


class Test(enum.IntEnum):
    """How a branch compares the loaded word, without sign; the value is the operation's code."""

    __test__ = False  # for pytest, which would collect a class of this name

    EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
    ABOVE = 0x25  # BPF_JMP | BPF_JGT | BPF_K
    AT_LEAST = 0x35  # BPF_JMP | BPF_JGE | BPF_K
    ANY_BIT = 0x45  # BPF_JMP | BPF_JSET | BPF_K


@dataclass(frozen=True, slots=True)
class Return:
    """End the program with this answer."""

    answer: int


@dataclass(frozen=True, slots=True)
class Load:
    """Load the word at this offset of the input, then go on."""

    offset: int
    then: Program


@dataclass(frozen=True, slots=True)
class Mask:
    """Keep only these bits of the loaded word, then go on."""

    bits: int
    then: Program


@dataclass(frozen=True, slots=True)
class Branch:
    """Go on with one of two programs, as the loaded word answers the test."""

    test: Test
    operand: int
    yes: Program
    no: Program


Program = Return | Load | Mask | Branch


def choose(ranges: Sequence[tuple[int, Program]]) -> Program:
    """Return the program that picks, by binary search, the last range beginning at or below the loaded word.

    Raises:
        ValueError: the ranges are not in order, or do not begin at 0.
    """
    firsts = [first for first, _ in ranges]
    if not firsts or firsts[0] != 0 or any(low >= high for low, high in pairwise(firsts)):
        raise ValueError("ranges must begin at 0, each above the one before")
    return _search(ranges)


def _search(ranges: Sequence[tuple[int, Program]]) -> Program:
    if len(ranges) == 1:
        return ranges[0][1]
    middle = len(ranges) // 2
    return Branch(Test.AT_LEAST, ranges[middle][0], yes=_search(ranges[middle:]), no=_search(ranges[:middle]))


def assemble(program: Program) -> bytes:
    """Return the program as the array of instructions that the kernel takes.

    Raises:
        ValueError: it is longer than the kernel accepts, or a number in it is no 32-bit word.
    """
    layout = _Layout()
    layout.place(program)  # no part of a program equals the whole, so its first instruction is the last one placed
    return layout.encoded()


@dataclass(frozen=True, slots=True)
class _Instruction:
    code: int
    operand: int
    # Where to go on: places of instructions already laid out. A load or a mask goes on with `yes`.
    yes: int = 0
    no: int = 0


class _Layout:
    """Instructions from the last to the first: jumps only lead forwards, so a jump's target is already placed."""

    def __init__(self) -> None:
        self._backwards: list[_Instruction] = []
        self._places: dict[_Instruction, int] = {}

    def place(self, program: Program) -> int:
        """Lay a program out, or find where an equal one lies, and return the place of its first instruction."""
        if isinstance(program, Return):
            return self._put(_Instruction(_RETURN, program.answer))
        if isinstance(program, Branch):
            yes = self.place(program.yes)
            no = self.place(program.no)
            if (known := self._places.get(_Instruction(program.test, program.operand, yes, no))) is not None:
                return known
            # One less than the reach: bridging the second way may put one more instruction in front of the first.
            yes = self._bridge(yes, reach=_MAX_SKIP - 1)
            no = self._bridge(no, reach=_MAX_SKIP)
            return self._put(_Instruction(program.test, program.operand, yes, no))
        code, operand = (_LOAD_WORD, program.offset) if isinstance(program, Load) else (_AND, program.bits)
        then = self.place(program.then)
        if (known := self._places.get(_Instruction(code, operand, then))) is not None:
            return known
        return self._put(_Instruction(code, operand, self._bridge(then, reach=0)))

    def encoded(self) -> bytes:
        if len(self._backwards) > MAX_INSTRUCTIONS:
            raise ValueError(f"{len(self._backwards)} instructions; the kernel accepts {MAX_INSTRUCTIONS}")
        return b"".join(reversed([_encode(place, it) for place, it in enumerate(self._backwards)]))

    def _put(self, instruction: _Instruction) -> int:
        if not 0 <= instruction.operand <= _WORD:
            raise ValueError(f"{instruction.operand:#x} is no 32-bit word")
        if (known := self._places.get(instruction)) is not None:
            return known
        return self._append(instruction)

    def _append(self, instruction: _Instruction) -> int:
        self._backwards.append(instruction)
        place = self._places[instruction] = len(self._backwards) - 1
        return place

    def _bridge(self, place: int, reach: int) -> int:
        """Return a place that leads to this one and that the next instruction reaches, skipping at most `reach`."""
        if self._skipped(place) <= reach:
            return place
        target = self._backwards[place]
        bridge = target if target.code == _RETURN else _Instruction(_JUMP, 0, place)
        if (known := self._places.get(bridge)) is not None and self._skipped(known) <= reach:
            return known
        return self._append(bridge)

    def _skipped(self, place: int) -> int:
        return len(self._backwards) - place - 1


def _encode(place: int, instruction: _Instruction) -> bytes:
    code, operand = instruction.code, instruction.operand
    if code == _JUMP:
        return _pack(code, 0, 0, place - instruction.yes - 1)
    if code in (_LOAD_WORD, _AND, _RETURN):
        return _pack(code, 0, 0, operand)
    return _pack(code, place - instruction.yes - 1, place - instruction.no - 1, operand)
