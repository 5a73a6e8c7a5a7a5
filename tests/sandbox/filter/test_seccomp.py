"""The filter's answer to every call there is, on both architectures, run as the kernel would run it."""

from __future__ import annotations

import errno
import itertools
import random
from dataclasses import replace

import pytest

from paddock_sandbox.seccomp import FilterPolicy, compile_filter
from paddock_sandbox.syscall_numbers import SYSCALL_NUMBERS
from sandbox.filter.bpf_emulator import ARCHITECTURES, Outcome, check, decide
from sandbox.filter.filter_table import ALLOW, CASES, DONE, EXECUTION, KILL, SUBJECTS, Case
from sandbox.filter.libseccomp import Library, filter_of_libseccomp
from support.examples import IN_FULL, examples
from support.rows import each_row

MACHINES = sorted(SYSCALL_NUMBERS)
# Memory that a control group counts, System V objects that are bounded, and neither.
_MEMORY = {"counted": (True, False), "bounded": (False, True), "neither": (False, False)}
POLICIES = [
    FilterPolicy(*each, *memory)
    for each in itertools.product((False, True), repeat=3)
    for name, memory in _MEMORY.items()
    # Whether programs may be executed has nothing to do with memory; and the machine's own objects are refused.
    if name == "counted" or (not each[0] and (name != "bounded" or not each[1]))
]
_BEYOND_THE_TABLES = (512, 547, 999, 1023, 4096, 0x3FFF_FFFF, 0x8000_0000, 0xC000_0000, 0xFFFF_FFFE, -1)
_NAMES = {
    f"{'executes' if p.may_execute else 'no-exec'}-{'on-host' if p.shares_host else 'apart'}"
    + ("-connects" if p.may_connect else "")
    + ("-counted" if p.counts_memory else "-bounded" if p.bounds_ipc else ""): p
    for p in POLICIES
}

every_machine = each_row("machine", MACHINES)
every_policy = each_row("policy", _NAMES.values(), ids=_NAMES)


def meaning(answer: int) -> str:
    """Say in a word what the kernel makes of a filter's answer."""
    if answer == 0x0005_0000:
        return DONE
    if answer >> 16 == 0x0005:
        return errno.errorcode[answer & 0xFFFF].replace("EOPNOTSUPP", "ENOTSUP")
    return {0x7FFF_0000: ALLOW, 0x8000_0000: KILL, 0x7FC0_0000: "ask"}[answer]


def answered(policy: FilterPolicy, machine: str, number: int, arguments: tuple[int, ...] = ()) -> str:
    return meaning(decide(compile_filter(policy, machine), machine, number, arguments).answer)


def expected_without_arguments(policy: FilterPolicy, machine: str) -> dict[int, str]:
    expected = {}
    for name, number in SYSCALL_NUMBERS[machine].items():
        if name in EXECUTION:
            expected[number] = ALLOW if policy.may_execute else EXECUTION[name]
        else:
            (subject,) = (subject for subject in SUBJECTS if name in subject.names)
            expected[number] = subject.on_the_host if policy.shares_host else subject.apart
            if policy.may_connect and subject.connecting is not None:
                expected[number] = subject.connecting
            if not policy.counts_memory and subject.uncounted is not None:
                expected[number] = subject.uncounted
            if not policy.counts_memory and not policy.bounds_ipc and subject.unbounded is not None:
                expected[number] = subject.unbounded
    return expected


def cases_of(policy: FilterPolicy) -> list[Case]:
    return [
        case
        for case in CASES
        if case.may_execute in (None, policy.may_execute)
        and case.shares_host in (None, policy.shares_host)
        and case.may_connect in (None, policy.may_connect)
        and case.counts_memory in (None, policy.counts_memory)
    ]


def judged_by_arguments(policy: FilterPolicy) -> set[str]:
    """Return the calls whose arguments decide, or might."""
    always = {case.name for case in CASES if case.may_connect is None} | {"socket"}
    return always | ({case.name for case in CASES} if policy.may_connect else set())


def test_every_call_belongs_to_one_subject() -> None:
    known = {name for numbers in SYSCALL_NUMBERS.values() for name in numbers}
    placed = [name for subject in SUBJECTS for name in subject.names] + [*EXECUTION]
    assert sorted(placed) == sorted(known)


@every_machine
@every_policy
def test_every_number_has_the_answer_of_its_subject(policy: FilterPolicy, machine: str) -> None:
    expected = expected_without_arguments(policy, machine)
    numbers = [*range(max(expected) + 11), *_BEYOND_THE_TABLES]
    assert {number: answered(policy, machine, number) for number in numbers} == {
        number: expected.get(number, "ENOSYS") for number in numbers
    }


@every_machine
@every_policy
def test_arguments_are_judged_where_they_matter(policy: FilterPolicy, machine: str) -> None:
    numbers = SYSCALL_NUMBERS[machine]
    wrong = [
        (case, got)
        for case in cases_of(policy)
        if case.name in numbers
        and (got := answered(policy, machine, numbers[case.name], case.arguments)) != case.answer
    ]
    assert wrong == []


@every_machine
@every_policy
def test_arguments_make_no_difference_to_any_other_call(policy: FilterPolicy, machine: str) -> None:
    judged = judged_by_arguments(policy)
    chance = random.Random(0)
    expected = expected_without_arguments(policy, machine)
    for name, number in SYSCALL_NUMBERS[machine].items():
        if name in judged:
            continue
        for _ in range(8):
            arguments = tuple(chance.getrandbits(chance.choice([1, 8, 16, 32, 64])) for _ in range(6))
            assert answered(policy, machine, number, arguments) == expected[number], (name, arguments)


@every_policy
def test_the_second_convention_of_x86_64_kills(policy: FilterPolicy) -> None:
    for number in (*range(548), 999, 0x3FFF_FFFF):
        assert answered(policy, "x86_64", 0x4000_0000 | number) == KILL
    for number in (0, 1, 220, 512):
        assert answered(policy, "aarch64", 0x4000_0000 | number) == "ENOSYS"


@every_machine
@every_policy
def test_a_call_of_any_other_architecture_kills(policy: FilterPolicy, machine: str) -> None:
    program = compile_filter(policy, machine)
    for other in ARCHITECTURES:
        if other != machine:
            assert {meaning(decide(program, other, number).answer) for number in range(600)} == {KILL}


@every_machine
@every_policy
def test_the_kernel_would_take_the_filter_and_it_is_short(policy: FilterPolicy, machine: str) -> None:
    assert check(compile_filter(policy, machine)) < 256


@every_machine
@every_policy
def test_what_a_program_does_most_is_decided_at_once_and_by_its_number(policy: FilterPolicy, machine: str) -> None:
    """Of a call that is allowed whatever its arguments, the kernel remembers the answer and asks no filter again."""
    program = compile_filter(policy, machine)
    judged = judged_by_arguments(policy)
    for name, number in SYSCALL_NUMBERS[machine].items():
        outcome: Outcome = decide(program, machine, number)
        if name not in judged:
            assert outcome.looked_at == (4, 0), f"{name} is decided by more than its architecture and number"
        if name in ("read", "write", "epoll_wait", "epoll_pwait", "futex", "mmap", "munmap", "clock_gettime", "close"):
            assert outcome.steps <= (16 if name == "mmap" else 12)  # whose flags are judged


@each_row("machine", ["i686", "riscv64", "aarch64_be", "armv7l", ""])
def test_no_filter_is_made_for_an_architecture_without_a_table(machine: str) -> None:
    with pytest.raises(NotImplementedError, match="no filter of system calls for the architecture"):
        compile_filter(POLICIES[0], machine)


@every_machine
def test_the_same_policy_is_always_the_same_filter_and_another_is_another(machine: str) -> None:
    again = compile_filter.__wrapped__
    assert [again(policy, machine) for policy in POLICIES] == [compile_filter(policy, machine) for policy in POLICIES]
    assert len({compile_filter(policy, machine) for policy in POLICIES}) == len(POLICIES)


@every_machine
@each_row(
    ("changed", "but"),
    [
        ({"may_execute": True, "shares_host": False}, ""),
        ({"may_connect": False}, "socket"),
        ({"counts_memory": True, "bounds_ipc": False}, ""),
    ],
)
def test_no_policy_allows_what_a_wider_one_refuses(changed: dict[str, bool], but: str, machine: str) -> None:
    numbers = SYSCALL_NUMBERS[machine]
    calls = [(number, ()) for number in range(max(numbers.values()) + 11) if number != numbers.get(but)]
    calls += [(numbers[case.name], case.arguments) for case in CASES if case.name in numbers and case.name != but]
    for policy in POLICIES:
        wider = replace(policy, **changed)
        for number, arguments in calls if wider != policy else ():
            if answered(policy, machine, number, arguments) == ALLOW:
                assert answered(wider, machine, number, arguments) == ALLOW


@every_machine
def test_with_a_loopback_a_broker_names_sockets_of_two_kinds(machine: str) -> None:
    numbers = SYSCALL_NUMBERS[machine]
    calls = [(name, ()) for name in numbers]
    calls += [(case.name, case.arguments) for case in CASES if case.name in numbers]
    for policy in (FilterPolicy(False, False, True), FilterPolicy(True, False, True, counts_memory=True)):
        serving = replace(policy, may_serve=True)
        for name, arguments in calls:
            answer = answered(serving, machine, numbers[name], arguments)
            if name in ("connect", "bind", "listen"):
                assert answer == "ask"
            elif name != "socket":
                assert answer == answered(policy, machine, numbers[name], arguments)
        for family, kind in itertools.product((0, 1, 2, 10, 16, 17, 40), range(16)):
            for flags in (0, 0o2_004_000):
                answer = answered(serving, machine, numbers["socket"], (family, kind | flags, 0))
                if family == 1:
                    assert answer == (ALLOW if kind in (1, 5) else "EACCES")
                else:
                    assert answer == answered(policy, machine, numbers["socket"], (family, kind | flags, 0))


@pytest.fixture
def library() -> Library:
    try:
        return Library()
    except OSError as error:
        pytest.skip(f"libseccomp cannot be loaded: {error}")


@each_row("machine", MACHINES if IN_FULL else ["x86_64"])
@every_policy
def test_another_library_compiles_the_same_policy_to_the_same_answers(
    policy: FilterPolicy, machine: str, library: Library
) -> None:
    expected = expected_without_arguments(policy, machine)
    numbers = {name: number for name, number in SYSCALL_NUMBERS[machine].items() if library.knows(name, machine)}
    assert len(numbers) > 300
    theirs = filter_of_libseccomp(
        library, policy, machine, {name: expected[number] for name, number in numbers.items()}
    )
    ours = compile_filter(policy, machine)
    check(theirs)
    judged = judged_by_arguments(policy)
    chance = random.Random(1)
    calls = [(numbers[case.name], case.arguments) for case in CASES if case.name in numbers]
    for name, number in numbers.items():
        calls += [
            (number, tuple(chance.getrandbits(chance.choice([0, 1, 4, 8, 13, 32, 64])) for _ in range(6)))
            for _ in range(examples(100) if name in judged else 1)
        ]
    for number, arguments in calls:
        mine, other = (meaning(decide(program, machine, number, arguments).answer) for program in (ours, theirs))
        assert mine == other, (number, arguments)
