"""What the kernel starts along with a file is read from its first bytes, whatever these are."""

from __future__ import annotations

import os
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.policy.executable import is_binary, libraries_of, loader_of, open_plain_file, script_line_of
from support.examples import examples


def elf(
    *,
    loader: bytes | None = b"/lib64/ld.so\0",
    bits: int = 64,
    order: str = "<",
    skipped: int = 1,
    size: int | None = None,
) -> bytes:
    """Return a binary with a few segments of which the last asks for a loader."""
    wide = bits == 64
    header_bytes, segment_bytes = (64, 56) if wide else (52, 32)
    count = skipped + (loader is not None)
    place = header_bytes + count * segment_bytes
    ident = b"\x7fELF" + bytes([2 if wide else 1, 1 if order == "<" else 2, 1]) + bytes(9)
    header = ident + struct.pack(
        order + ("HHIQQQIHHHHHH" if wide else "HHIIIIIHHHHHH"),
        *(2, 62, 1, 0, header_bytes, 0, 0, header_bytes, segment_bytes, count, 0, 0, 0),
    )

    def segment(kind: int, offset: int, length: int) -> bytes:
        if wide:
            return struct.pack(order + "IIQQQQQQ", kind, 4, offset, 0, 0, length, length, 1)
        return struct.pack(order + "IIIIIIII", kind, offset, 0, 0, length, length, 4, 1)

    segments = segment(1, 0, 0) * skipped
    if loader is not None:
        segments += segment(3, place, len(loader) if size is None else size)
    return header + segments + (loader or b"") + bytes(16)


def written(folder: Path, content: bytes) -> Path:
    path = folder / "program"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("order", ["<", ">"])
def test_the_loader_of_a_binary_is_found_for_each_class_and_byte_order(bits: int, order: str, tmp_path: Path) -> None:
    assert loader_of(written(tmp_path, elf(bits=bits, order=order, skipped=3))) == "/lib64/ld.so"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"#!/bin/sh\n",
        b"\x7fELF",
        elf(loader=None),
        elf()[:80],
        elf(loader=b"\0"),
        elf().replace(b"\x7fELF\x02", b"\x7fELF\x07"),
        elf().replace(b"\x7fELF\x02\x01", b"\x7fELF\x02\x09"),
        elf()[:54] + b"\x01\x00" + elf()[56:],
        elf(skipped=200),
    ],
)
def test_a_file_that_asks_for_none_has_no_loader(content: bytes, tmp_path: Path) -> None:
    assert loader_of(written(tmp_path, content)) is None


def test_the_loaders_name_is_bounded_whatever_the_file_says(tmp_path: Path) -> None:
    found = loader_of(written(tmp_path, elf(loader=b"/" + b"x" * 9000, size=2**62)))
    assert found is not None and len(found) == 4096


def test_a_real_program_has_the_loader_that_started_it() -> None:
    loader = loader_of(Path("/bin/sh").resolve())
    assert loader is not None and Path(loader).is_file()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"#!/bin/sh\necho", ("/bin/sh",)),
        (b"#! /usr/bin/env python3 -u\n", ("/usr/bin/env", "python3", "-u")),
        (b"#!\n", ()),
        (b"# /bin/sh\n", ()),
        (b"", ()),
        (b"#!" + b"a" * 1000, ("a" * 254,)),
    ],
)
def test_the_first_line_of_a_script_is_read_as_far_as_the_kernel_does(
    content: bytes, words: tuple[str, ...], tmp_path: Path
) -> None:
    assert script_line_of(written(tmp_path, content)) == words


@settings(max_examples=examples(300), deadline=None)
@given(st.binary(max_size=200), st.integers(0, 400))
def test_no_bytes_do_more_than_yield_a_name_or_none(noise: bytes, place: int) -> None:
    content = bytearray(elf(skipped=2))
    content[place : place + len(noise)] = noise
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder), bytes(content))
        found = loader_of(path)
        assert found is None or 0 < len(found) <= 4096
        assert all(isinstance(word, str) for word in script_line_of(path))


@pytest.mark.parametrize("read", [loader_of, libraries_of, script_line_of, open_plain_file])
def test_a_pipe_in_the_place_of_a_program_does_not_block(read: Callable[[Path], object], tmp_path: Path) -> None:
    """A module that may write there can put one in between a look at the file and its opening."""
    pipe = tmp_path / "program"
    os.mkfifo(pipe)
    assert not is_binary(pipe)
    with pytest.raises(OSError, match="no ordinary file"):
        read(pipe)
