"""What git prints is read strictly, in whatever pieces it comes; anything else ends the reading."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock_sources.git.git_output import (
    BlobError,
    BlobReader,
    GitOutputError,
    RemoteRefs,
    TreeLine,
    TreeListing,
    blob_requests,
    kind_of_fetched,
    object_name,
)
from paddock_sources.ref_name import is_commit, is_like_commit
from support.rows import each_row

A, B, C = "a" * 40, "b" * 40, "c" * 40


def in_pieces(data: bytes, sizes: list[int], write: Callable[[memoryview], None]) -> None:
    at = 0
    for size in sizes:
        write(memoryview(data)[at : at + size])
        at += size
    write(memoryview(data)[at:])


PIECES = st.lists(st.integers(min_value=0, max_value=40), max_size=20)


# -- refs


def test_tags_are_at_the_commit_that_they_are_of() -> None:
    refs = RemoteRefs.parse(
        f"{A}\trefs/heads/main\n{B}\trefs/tags/v1\n{C}\trefs/tags/v1^{{}}\n{A}\trefs/tags/light\n", 10
    )
    assert refs.branches == {"main": A}
    assert refs.tags == {"v1": C, "light": A}
    assert (refs.find("v1"), refs.find("main"), refs.find("none")) == (("tag", C), ("branch", A), None)
    assert (refs.leading_to(C), refs.leading_to(A), refs.leading_to(B)) == ("refs/tags/v1", "refs/tags/light", "")
    assert refs.close_to("mian") == ("main",)


def test_a_name_of_both_is_the_tag_unless_it_says_which() -> None:
    refs = RemoteRefs.parse(f"{A}\trefs/heads/v1\n{B}\trefs/tags/v1\n", 10)
    assert refs.find("v1") == ("tag", B)
    assert refs.find("refs/heads/v1") == ("branch", A)
    assert refs.find("refs/tags/v1") == ("tag", B)


@each_row(
    "output",
    [
        f"{A} refs/heads/main",
        f"{A}\trefs/pull/1/head",
        f"{A}\tHEAD",
        f"{A[:-1]}\trefs/heads/main",
        f"{A.upper()}\trefs/heads/main",
        f"{A}\trefs/heads/a b",
        f"{A}\trefs/heads/",
        f"{A}\trefs/heads/a\x00b",
        "warning: something",
        "".join(f"{A}\trefs/heads/{number}\n" for number in range(12)),
    ],
)
def test_a_list_of_refs_in_any_other_form_is_refused(output: str) -> None:
    with pytest.raises(GitOutputError):
        RemoteRefs.parse(output, 10)


def test_as_many_refs_as_there_may_be_are_read() -> None:
    lines = [f"{A}\trefs/heads/{number}\n" for number in range(11)]
    assert len(RemoteRefs.parse("".join(lines[:10]), 10).branches) == 10
    with pytest.raises(GitOutputError, match="more than 10"):
        RemoteRefs.parse("".join(lines), 10)


@each_row(
    ("described", "kind"),
    [
        ("branch 'main' of file:///r", "branch"),
        ("tag 'v1' of file:///r", "tag"),
        ("'refs/pull/1/head' of file:///r", None),
        ("remote-tracking branch 'x' of file:///r", None),
        ("file:///r", None),
    ],
)
def test_what_was_fetched_is_a_branch_a_tag_or_neither(described: str, kind: str | None) -> None:
    assert kind_of_fetched(described) == kind


@each_row(
    ("ref", "whole", "part"),
    [
        (A, True, False),
        ("a" * 64, True, False),
        ("A" * 40, False, True),
        ("abc123", False, True),
        ("a" * 39, False, True),
        ("abc", False, False),
        ("v1", False, False),
    ],
)
def test_only_its_whole_name_is_a_commit(ref: str, whole: bool, part: bool) -> None:
    assert (is_commit(ref), is_like_commit(ref)) == (whole, part)


# -- trees

LISTED = (
    f"100644 blob {A}\ta.py\0".encode()
    + f"100755 blob {B}\tbin/\x01 odd\n\t\xe9\0".encode()
    + f"120000 blob {C}\tlink\0".encode()
    + f"160000 commit {A}\tvendored\0".encode()
    + f"100644 blob {A}\t".encode()
    + b"\xff\0"
)


@given(PIECES)
def test_a_tree_is_read_in_whatever_pieces_it_comes(sizes: list[int]) -> None:
    listing = TreeListing(10)
    in_pieces(LISTED, sizes, listing.write)
    listing.finish()
    assert listing.lines == [
        TreeLine("a.py", "file", A),
        TreeLine("bin/\x01 odd\n\t\xe9", "executable", B),
        TreeLine("link", "link", C),
        TreeLine("\udcff", "file", A),
    ]
    assert listing.submodules == ["vendored"]


@each_row(
    "data",
    [
        b"garbage\0",
        b"\0",
        f"040000 tree {A}\tfolder\0".encode(),
        f"100600 blob {A}\tx\0".encode(),
        f"160000 blob {A}\tx\0".encode(),
        f"100644 commit {A}\tx\0".encode(),
        f"100644 blob {A[:-2]}\tx\0".encode(),
        f"100644 blob {A}\t\0".encode(),
        f"100644 blob {A}\tx".encode(),
        b"x" * 9000,
    ],
)
def test_a_tree_in_any_other_form_is_refused(data: bytes) -> None:
    listing = TreeListing(10)
    with pytest.raises(GitOutputError):
        listing.write(memoryview(data))
        listing.finish()


def test_files_are_counted_while_they_come() -> None:
    listing = TreeListing(2)
    with pytest.raises(GitOutputError, check=lambda error: error.is_too_much):
        listing.write(memoryview(b"".join(f"100644 blob {A}\t{number}\0".encode() for number in range(3))))


# -- blobs

CONTENTS = [b"", b"one\n", b"two\0\n\nthree", b"x" * 300]
NAMES = [object_name("blob", content, 40) for content in CONTENTS]
PRINTED = b"".join(
    f"{name} blob {len(content)}\n".encode() + content + b"\n" for name, content in zip(NAMES, CONTENTS, strict=True)
)


def test_an_object_is_named_as_git_names_it() -> None:
    assert NAMES[0] == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    assert object_name("blob", b"", 64) == hashlib.sha256(b"blob 0\0").hexdigest()


@given(PIECES)
def test_contents_are_read_in_whatever_pieces_they_come(sizes: list[int]) -> None:
    taken: list[tuple[int, bytes]] = []
    reader = BlobReader(NAMES, 1000, lambda index, content: taken.append((index, content)))
    in_pieces(PRINTED, sizes, reader.write)
    reader.finish()
    assert taken == list(enumerate(CONTENTS))


@each_row(
    "printed",
    [
        PRINTED[:-1],
        PRINTED[:-400],
        PRINTED + b"x",
        PRINTED + f"{A} blob 0\n\n".encode(),
        PRINTED.replace(b"one", b"two"),
        PRINTED.replace(b"blob 0", b"tree 0"),
        PRINTED.replace(NAMES[0].encode(), A.encode()),
        b"x" * 300,
        b"fatal: something\n",
        f"{NAMES[0]} blob -1\n".encode(),
        f"{NAMES[0]} blob 1\n\n".encode(),
    ],
)
def test_contents_that_are_not_what_was_asked_for_are_refused(printed: bytes) -> None:
    reader = BlobReader(NAMES, 1000, lambda index, content: None)
    with pytest.raises(GitOutputError):
        reader.write(memoryview(printed))
        reader.finish()


def test_a_content_that_is_missing_or_too_large_is_told_before_it_comes() -> None:
    with pytest.raises(BlobError) as missing:
        BlobReader(NAMES, 1000, lambda index, content: None).write(memoryview(f"{NAMES[0]} missing\n".encode()))
    assert (missing.value.index, missing.value.is_missing) == (0, True)
    with pytest.raises(BlobError, match="1001 bytes") as large:
        BlobReader(NAMES, 1000, lambda index, content: None).write(memoryview(f"{NAMES[0]} blob 1001\n".encode()))
    assert (large.value.index, large.value.is_missing) == (0, False)


def test_every_blob_is_asked_for_once_in_order() -> None:
    names = [f"{number:040x}" for number in range(1201)]
    assert b"".join(blob_requests(names)) == "".join(f"{name}\n" for name in names).encode()
    assert list(blob_requests([])) == []


@given(st.binary(max_size=300), PIECES)
def test_nothing_that_git_could_print_raises_anything_else(data: bytes, sizes: list[int]) -> None:
    for reader in (TreeListing(5), BlobReader(NAMES, 1000, lambda index, content: None)):
        with suppress(GitOutputError):
            in_pieces(data, sizes, reader.write)
            reader.finish()
