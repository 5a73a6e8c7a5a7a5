"""The tables name each call once, and agree with this machine's headers and with a library of other authors."""

from __future__ import annotations

import ctypes
import platform
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock_sandbox.syscall_numbers import SYSCALL_NUMBERS, numbers_here
from support.rows import each_row

_HEADERS = {
    "x86_64": ("x86_64-linux-gnu/asm/unistd_64.h", "asm/unistd_64.h"),
    "aarch64": ("aarch64-linux-gnu/asm/unistd_64.h", "asm-generic/unistd.h"),
}
# Names for what is another call's number, or a marker; and what 64-bit machines do not have.
_NO_CALL = {"syscalls", "arch_specific_syscall", "sync_file_range2"}
_OF_32_BITS = range(403, 424)


def _defined(header: Path) -> Iterator[tuple[str, int]]:
    text = header.read_text()
    for name, number in re.findall(r"^#define\s+__NR(?:3264)?_(\w+)\s+(\d+)\b", text, re.MULTILINE):
        if name not in _NO_CALL and int(number) not in _OF_32_BITS:
            yield name, int(number)


def _header(machine: str) -> Path:
    for name in _HEADERS[machine]:
        if (header := Path("/usr/include", name)).exists():
            return header
    pytest.skip(f"this machine has no headers that number the calls of {machine}")


@each_row("machine", SYSCALL_NUMBERS)
def test_no_name_or_number_is_listed_twice(machine: str) -> None:
    """A name given two numbers would have kept the last one and left the first without a name."""
    gaps = {"x86_64": {*range(337, 424)}, "aarch64": {*range(244, 260), *range(295, 424)}}
    numbers = sorted(SYSCALL_NUMBERS[machine].values())
    assert numbers == sorted({*range(numbers[-1] + 1)} - gaps[machine])


@each_row("machine", SYSCALL_NUMBERS)
def test_the_table_says_what_the_machines_headers_say(machine: str) -> None:
    # fstatat and its kind are called by their 64-bit names: the header has one for both widths.
    renamed = {"fstatat": "newfstatat"}
    defined = {renamed.get(name, name): number for name, number in _defined(_header(machine))}
    known = SYSCALL_NUMBERS[machine]
    shared = defined.keys() & known.keys()
    assert len(shared) > 290
    assert {name: known[name] for name in shared} == {name: defined[name] for name in shared}
    # What the header has and the table lacks can only be newer than the table.
    assert all(number > max(known.values()) for name, number in defined.items() if name not in shared)


@pytest.mark.parametrize(("machine", "value"), [("x86_64", 0xC000003E), ("aarch64", 0xC00000B7)])
def test_the_table_says_what_libseccomp_says(machine: str, value: int) -> None:
    try:
        library = ctypes.CDLL("libseccomp.so.2")
    except OSError as error:
        pytest.skip(f"libseccomp cannot be loaded: {error}")
    known = SYSCALL_NUMBERS[machine]
    theirs = {name: library.seccomp_syscall_resolve_name_arch(ctypes.c_uint32(value), name.encode()) for name in known}
    # Below 0 is what it knows of other architectures only, or not yet.
    compared = {name: number for name, number in theirs.items() if number >= 0}
    assert len(compared) > 300
    assert {name: known[name] for name in compared} == compared


def test_an_architecture_without_a_table_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(NotImplementedError, match="architecture riscv64"):
        numbers_here()
