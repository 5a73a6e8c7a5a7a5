"""What may be written as a tree, and what is refused; whatever is written stays inside, and is what its digest says."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from paddock_sources.cache import TreeWriter, UnsafeTreeError, tree_digest
from paddock_sources.cache.tree_digest import TreeDigest
from paddock_sources.cache.tree_writer import TreeCaps, TreeChecker
from support.examples import examples

Act = Callable[[TreeChecker], None]


def file(path: str, content: bytes = b"x", *, executable: bool = False) -> Act:
    return lambda tree: tree.add_file(path, executable, [content])


def link(path: str, target: str) -> Act:
    return lambda tree: tree.add_link(path, target)


def write(root: Path, *acts: Act, caps: TreeCaps | None = None) -> str:
    tree = TreeWriter(root, caps)
    for act in acts:
        act(tree)
    return tree.finish()


def test_a_tree_is_written_as_it_was_given(tmp_path: Path) -> None:
    digest = write(
        tmp_path / "tree",
        file("a/b/c.txt", b"text"),
        file("run", b"#!/bin/sh\n", executable=True),
        link("a/link", "../run"),
        file("empty", b""),
    )
    root = tmp_path / "tree"
    assert (root / "a/b/c.txt").read_bytes() == b"text"
    assert (root / "a/link").read_bytes() == b"#!/bin/sh\n"
    assert (root / "empty").read_bytes() == b""
    assert digest == tree_digest(root)


def test_compiled_code_is_left_out_and_only_noted(tmp_path: Path) -> None:
    compiled = [file("p/__pycache__/a.x.pyc"), file("q.pyc/deep"), link("p/b.pyc", "a.py"), link("__pycache__", "p")]
    tree, whole = TreeWriter(tmp_path / "tree"), TreeDigest()
    for act in (file("p/a.py"), *compiled):
        act(tree)
    for path, kind, content in (
        *((path, "file", b"x") for path in ("p/a.py", "p/__pycache__/a.x.pyc", "q.pyc/deep")),
        *((path, "link", target) for path, target in (("p/b.pyc", b"a.py"), ("__pycache__", b"p"))),
    ):
        whole.add(path, kind, hashlib.sha256(content).hexdigest())  # type: ignore[arg-type]
    assert tree.finish() == write(tmp_path / "other", file("p/a.py")) == tree_digest(tmp_path / "tree")
    assert [path.name for path in sorted((tmp_path / "tree").rglob("*"))] == ["p", "a.py"]
    assert tree.contents.with_compiled == whole.contents().digest


def test_nothing_that_is_written_can_be_changed(tmp_path: Path) -> None:
    umask = os.umask(0o077)
    try:
        write(tmp_path / "tree", file("a/plain"), file("a/program", executable=True))
    finally:
        os.umask(umask)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "tree").rglob("*")}
    assert modes == {"a": 0o555, "plain": 0o444, "program": 0o555}
    assert stat.S_IMODE((tmp_path / "tree").stat().st_mode) == 0o555


HOSTILE_PATHS = {
    "absolute": "/etc/passwd",
    "absolute, of one part": "/passwd",
    "parent": "../outside",
    "parent in between": "a/../../outside",
    "the folder itself": "a/./b",
    "empty": "",
    "empty part": "a//b",
    "ending in a slash": "a/",
    "repository": ".git/config",
    "repository below": "a/.git/hooks/post-checkout",
    "repository in capitals": "a/.GIT/config",
    "repository with a dot": ".git./config",
    "repository with a blank": ".git /config",
    "repository by its short name": "GIT~1/config",
    "repository with a character that is not seen": ".g\u200cit/config",
    "NUL": "a\0b",
    "newline": "a\nb",
    "escape": "a\x1b[2Jb",
    "delete": "a\x7f",
    "control of the second kind": "a\x9b31m",
    "not UTF-8": "a\udcff",
    "long part": "x" * 256,
    "long part in bytes": "ä" * 128,
    "long path": "/".join(["x" * 100] * 11),
    "deep": "/".join(["d"] * 66),
}


@pytest.mark.parametrize("path", HOSTILE_PATHS.values(), ids=HOSTILE_PATHS.keys())
@pytest.mark.parametrize("act", [file, lambda path: link(path, "target")], ids=["file", "link"])
def test_a_path_that_no_file_should_have_is_refused(tmp_path: Path, path: str, act: Callable[[str], Act]) -> None:
    with pytest.raises(UnsafeTreeError):
        write(tmp_path / "tree", act(path))
    assert [name for _, _, names in os.walk(tmp_path) for name in names] == []


def test_paths_at_the_limits_are_written(tmp_path: Path) -> None:
    deep = "/".join(["d"] * 63 + ["file"])
    write(tmp_path / "tree", file("x" * 255), file("ä" * 127), file(deep), file(".gitignore"), file(".github/w.yml"))
    assert (tmp_path / "tree" / deep).read_bytes() == b"x"


COLLISIONS = {
    "twice": [file("a"), file("a")],
    "file and link": [file("a"), link("a", "b")],
    "case": [file("README"), file("readme")],
    "case of a folder": [file("src/a"), file("SRC/b")],
    "how accents are written": [
        file(unicodedata.normalize("NFC", "é")),
        file(unicodedata.normalize("NFD", "é")),
    ],
    "case that takes two letters": [file("straße"), file("STRASSE")],
    "file as a folder": [file("a"), file("a/b")],
    "folder as a file": [file("a/b"), file("a")],
    "link as a folder": [link("a", "b"), file("a/c")],
    "folder as a link": [file("a/c"), link("a", "b")],
    "file as a folder in other case": [file("a"), file("A/b")],
}


@pytest.mark.parametrize("acts", COLLISIONS.values(), ids=COLLISIONS.keys())
def test_two_names_that_are_one_somewhere_are_refused(tmp_path: Path, acts: list[Act]) -> None:
    write(tmp_path / "first", acts[0])
    with pytest.raises(UnsafeTreeError):
        write(tmp_path / "both", *acts)


GOOD_LINKS = {
    "beside": [file("a/b"), link("a/l", "b")],
    "upwards": [file("b"), link("a/c/l", "../../b")],
    "to the root": [file("a/b"), link("a/l", "..")],
    "over another": [file("d/b"), link("l1", "d"), link("l2", "l1/b")],
    "to nothing inside": [link("l", "nothing/../here")],
}


@pytest.mark.parametrize("acts", GOOD_LINKS.values(), ids=GOOD_LINKS.keys())
def test_a_link_that_stays_inside_is_written(tmp_path: Path, acts: list[Act]) -> None:
    digest = write(tmp_path / "tree", *acts)
    assert digest == tree_digest(tmp_path / "tree")


BAD_LINKS = {
    "absolute": [link("l", "/etc/passwd")],
    "upwards": [link("l", "../secret")],
    "upwards from below": [link("a/l", "../../secret")],
    "out and in again": [link("l", "../tree/file")],
    "empty": [link("l", "")],
    "control character": [link("l", "a\nb")],
    "not UTF-8": [link("l", "a\udcff")],
    "long": [link("l", "x" * 1025)],
    "over another, which is deeper than it looks": [file("a/b/c/f"), link("deep", "a/b/c"), link("l", "a/../../x")],
    "over another, which is higher than it looks": [link("a/b/up", "../.."), link("l", "a/b/up/../secret")],
    "to nothing outside": [link("l", "nothing/../../secret")],
    "to itself": [link("l", "l")],
    "in a circle": [link("a", "b"), link("b", "a")],
    "before what makes it lead out": [link("a/l", "x/../../s"), link("a/x", "..")],
}


@pytest.mark.parametrize("acts", BAD_LINKS.values(), ids=BAD_LINKS.keys())
def test_a_link_that_leads_out_is_refused_before_it_is_made(tmp_path: Path, acts: list[Act]) -> None:
    with pytest.raises(UnsafeTreeError):
        write(tmp_path / "tree", *acts)
    assert not [path for path in (tmp_path / "tree").rglob("*") if path.is_symlink()]


def test_no_file_is_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    with pytest.raises(UnsafeTreeError, match="is no folder"):
        write(tmp_path / "tree", link("a", "../outside"), file("a/file"))
    assert not list((tmp_path / "outside").iterdir())


CAPS = TreeCaps(files=3, file_bytes=1 << 20, bytes=2 << 20)
MIB = b"x" * (1 << 20)
TOO_LARGE = {
    "files": [file("a"), file("b"), link("c", "a"), file("d")],
    "one file": [file("a", MIB + b"x")],
    "all files": [file("a", MIB), file("b", MIB), file("c")],
}


@pytest.mark.parametrize("acts", TOO_LARGE.values(), ids=TOO_LARGE.keys())
def test_a_tree_has_bounds(tmp_path: Path, acts: list[Act]) -> None:
    write(tmp_path / "less", *acts[:-1], caps=CAPS)
    with pytest.raises(UnsafeTreeError, match=r"larger than|more than"):
        write(tmp_path / "tree", *acts, caps=CAPS)


def test_a_file_without_end_is_not_written_to_its_end(tmp_path: Path) -> None:
    taken = 0

    def endless() -> object:
        nonlocal taken
        while True:
            taken += 1
            yield MIB

    tree = TreeWriter(tmp_path / "tree")
    with pytest.raises(UnsafeTreeError, match="larger than 64 MiB"):
        tree.add_file("bomb", False, endless())  # type: ignore[arg-type]
    assert taken == 65
    assert (tmp_path / "tree/bomb").stat().st_size == 64 << 20


NAMES = st.text(st.sampled_from("aAbéÉ.\u200c~1 /git\n\0\udc80\\"), max_size=8)
TARGETS = st.lists(st.sampled_from(["..", ".", "a", "b", "c", ""]), min_size=1, max_size=6).map("/".join)
ACTS = st.lists(
    st.one_of(
        st.builds(file, NAMES),
        st.builds(file, st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=4).map("/".join)),
        st.builds(link, st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=4).map("/".join), TARGETS),
    ),
    max_size=8,
)


@settings(max_examples=examples(300), deadline=None)
@given(acts=ACTS)
@example(acts=[file("a/"), file("a/a")])
def test_whatever_is_tried_nothing_leads_out_and_the_digest_is_right(acts: list[Act]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        box = Path(folder).resolve()
        root = box / "tree"
        tree = TreeWriter(root)
        for act in acts:
            try:
                act(tree)
            except UnsafeTreeError:
                continue
        try:
            digest = tree.finish()
        except UnsafeTreeError:
            digest = None
        assert os.listdir(box) == ["tree"]
        for path in root.rglob("*"):
            # As the kernel has it, also for what leads to nothing.
            assert Path(os.path.realpath(path)).is_relative_to(root)
        if digest is not None:
            assert digest == tree_digest(root)


@settings(max_examples=examples(200), deadline=None)
@given(path=st.text(max_size=40))
def test_any_path_is_written_where_it_says_or_refused(path: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve() / "tree"
        try:
            write(root, file(path))
        except UnsafeTreeError:
            assert not [name for _, _, names in os.walk(folder) for name in names]
        else:
            assert (root / path).read_bytes() == b"x"
            assert not set(path.split("/")) & {"", ".", ".."}


@settings(max_examples=examples(200), deadline=None)
@given(acts=ACTS)
def test_checking_refuses_what_writing_refuses_and_finds_the_same_digest(acts: list[Act]) -> None:
    def outcome(tree: TreeChecker) -> str:
        try:
            for act in acts:
                act(tree)
            return tree.finish()
        except UnsafeTreeError as error:
            return str(error)

    with tempfile.TemporaryDirectory() as folder:
        assert outcome(TreeChecker()) == outcome(TreeWriter(Path(folder) / "tree"))
