"""What the assembler lays out does what the tree says, within the kernel's limits, however far the jumps reach."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from paddock_sandbox.bpf import MAX_INSTRUCTIONS, Branch, Load, Mask, Program, Return, Test, assemble, choose
from sandbox.filter.bpf_emulator import check, run
from support.examples import examples
from support.rows import each_row

_WORDS = st.integers(0, 2**32 - 1)
# Few different numbers, so that equal parts and hits are common.
_OPERANDS = st.one_of(st.sampled_from([0, 1, 2, 0x80, 0x5412, 2**31, 2**32 - 1]), _WORDS)
_OFFSETS = st.sampled_from(range(0, 64, 4))
_PROGRAMS: st.SearchStrategy[Program] = st.recursive(
    st.builds(Return, st.one_of(st.sampled_from([0, 1, 0x7FFF_0000]), _WORDS)),
    lambda inner: st.one_of(
        st.builds(Load, _OFFSETS, inner),
        st.builds(Mask, _OPERANDS, inner),
        st.builds(Branch, st.sampled_from(Test), _OPERANDS, inner, inner),
    ),
    max_leaves=60,
)
_INPUTS = st.lists(_OPERANDS, min_size=16, max_size=16)

thorough = settings(max_examples=examples(300), deadline=None, print_blob=True)


def interpret(program: Program, words: list[int]) -> int:
    """Say what a tree means, by walking it."""
    loaded = 0
    while not isinstance(program, Return):
        match program:
            case Load(offset, then):
                loaded, program = words[offset // 4], then
            case Mask(bits, then):
                loaded, program = loaded & bits, then
            case Branch(test, operand, yes, no):
                holds = {
                    Test.EQUAL: loaded == operand,
                    Test.ABOVE: loaded > operand,
                    Test.AT_LEAST: loaded >= operand,
                    Test.ANY_BIT: bool(loaded & operand),
                }[test]
                program = yes if holds else no
    return program.answer


def answer(assembled: bytes, words: list[int]) -> int:
    check(assembled)
    return run(assembled, struct.pack("<16I", *words)).answer


@thorough
@given(program=_PROGRAMS, inputs=st.lists(_INPUTS, min_size=1, max_size=8))
@example(program=Branch(Test.EQUAL, 0, Return(1), Return(1)), inputs=[[0] * 16])
@example(program=Load(0, Load(0, Return(1))), inputs=[[0] * 16])
def test_an_assembled_program_answers_what_its_tree_answers(program: Program, inputs: list[list[int]]) -> None:
    assembled = assemble(program)
    for words in inputs:
        assert answer(assembled, words) == interpret(program, words)


def _answers(count: int, first: int = 0) -> Program:
    """A different answer to each number below `count`, and one more to all others: two instructions a number."""
    return choose([(number, Return(first + number)) for number in range(count)])


# Around each multiple of what one jump reaches, and at sizes where everything is out of reach of something.
_COUNTS = [1, 2, *range(60, 68), *range(124, 132), *range(188, 194), 256, 257, 500, 1000]


@each_row("far", [Return(7), Load(4, Return(7)), Load(4, Branch(Test.ABOVE, 5, Return(6), Return(7)))])
@each_row("chosen", ["yes", "no"])
def test_a_branch_may_lead_further_than_a_jump_reaches(far: Program, chosen: str) -> None:
    for count in _COUNTS:
        wide = Load(0, _answers(count, first=100))
        ways = (far, wide) if chosen == "yes" else (wide, far)
        program = Load(8, Branch(Test.EQUAL, int(chosen == "yes"), *ways))
        assembled = assemble(program)
        for flag in 0, 1:
            for word in {0, 1, count // 2, count - 1, count, 2**32 - 1}:
                words = [word, word % 9, flag, *[0] * 13]
                assert answer(assembled, words) == interpret(program, words), (count, words[:3])


def test_both_ways_of_a_branch_may_be_out_of_reach() -> None:
    program = Load(4, Branch(Test.ANY_BIT, 1, Load(0, _answers(300)), Load(0, _answers(300, first=1000))))
    assembled = assemble(program)
    for odd in 0, 1:
        for word in range(0, 300, 7):
            assert answer(assembled, [word, odd, *[0] * 14]) == word + (0 if odd else 1000)


def _chain(length: int) -> Program:
    """As many instructions, of which none is shared."""
    chain: Program = Return(9)
    for step in range(length - 1):
        chain = Mask(2**32 - 1 - step, chain)
    return chain


@each_row("length", range(245, 265))
def test_a_jump_is_bridged_exactly_where_it_no_longer_reaches(length: int) -> None:
    """The last branch leads back over the chain to two parts: one about as far as a jump reaches, one further."""
    near, further = Load(4, Mask(3, Return(1))), Load(8, Mask(5, Return(2)))
    last = Branch(Test.ANY_BIT, 1, near, further)
    program = Load(
        0,
        Branch(Test.EQUAL, 100, further, Branch(Test.EQUAL, 101, near, Branch(Test.EQUAL, 102, _chain(length), last))),
    )
    assembled = assemble(program)
    for word in 100, 101, 102, 103, 104:
        words = [word, *[0] * 15]
        assert answer(assembled, words) == interpret(program, words)


@thorough
@given(firsts=st.sets(_WORDS, max_size=40), numbers=st.lists(_WORDS, max_size=20))
def test_every_number_is_answered_by_the_range_it_lies_in(firsts: set[int], numbers: list[int]) -> None:
    ordered = sorted({0, *firsts})
    assembled = assemble(Load(0, choose([(first, Return(at)) for at, first in enumerate(ordered)])))
    borders = [border for first in ordered for border in (first - 1, first, first + 1) if 0 <= border < 2**32]
    for number in [*numbers, *borders]:
        expected = max(at for at, first in enumerate(ordered) if first <= number)
        assert answer(assembled, [number, *[0] * 15]) == expected


def test_a_number_is_found_in_as_many_steps_as_halving_takes() -> None:
    assembled = assemble(Load(0, _answers(64)))
    for number in range(64):
        assert run(assembled, struct.pack("<16I", number, *[0] * 15)).steps == 1 + 6 + 1


@each_row(
    "ranges", [[], [(1, Return(0))], [(0, Return(0)), (0, Return(1))], [(0, Return(0)), (5, Return(1)), (4, Return(2))]]
)
def test_ranges_that_leave_a_number_open_or_claim_it_twice_are_refused(ranges: Any) -> None:
    with pytest.raises(ValueError, match="must begin at 0, each above the one before"):
        choose(ranges)


def test_equal_parts_are_written_once() -> None:
    same = Load(16, Branch(Test.EQUAL, 0, Return(1), Return(2)))
    again = Load(16, Branch(Test.EQUAL, 0, Return(1), Return(2)))
    program = Load(0, choose([(0, same), (10, Return(1)), (11, again), (12, Return(2)), (13, same)]))
    loads, branches, answers = 1 + 1, 4 + 1, 2
    assert check(assemble(program)) == loads + branches + answers


@thorough
@given(program=_PROGRAMS)
def test_the_same_tree_is_always_the_same_bytes(program: Program) -> None:
    assert assemble(program) == assemble(program)


def test_a_program_longer_than_the_kernel_takes_is_refused() -> None:
    longest = assemble(Load(0, _answers(MAX_INSTRUCTIONS // 2 - 100)))
    assert check(longest) <= MAX_INSTRUCTIONS
    with pytest.raises(ValueError, match="instructions; the kernel accepts 4096"):
        assemble(Load(0, _answers(MAX_INSTRUCTIONS // 2 + 1)))


@each_row("number", [-1, 2**32])
@each_row(
    "program",
    [
        Return,
        lambda n: Load(n, Return(0)),
        lambda n: Mask(n, Return(0)),
        lambda n: Branch(Test.EQUAL, n, Return(0), Return(1)),
    ],
)
def test_a_number_that_is_no_word_is_refused(program: Any, number: int) -> None:
    with pytest.raises(ValueError, match="is no 32-bit word"):
        assemble(program(number))
