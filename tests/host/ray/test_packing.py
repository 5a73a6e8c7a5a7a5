"""Bytes that are no pack, or have what a pack may not have, are refused before anything is made of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.ray import packing
from paddock.ray.messages import Done, Tree
from paddock.ray.packing import BrokenPackError, PackedFile, digest_of, files_of, lay_out, pack, unpack
from paddock.ray.shipping import keep_tree, lacking_of
from paddock_sources.cache import SourceCache, UnsafeTreeError
from paddock_sources.cache.tree_digest import tree_digest
from support.examples import examples


def _raw(about: Any, files: Any, contents: bytes = b"") -> bytes:
    return msgpack.packb((json.dumps(about).encode(), files)) + contents  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "packed",
    [
        _raw({"problem": "", "more": 1}, []),
        _raw({"problem": 1}, []),
        _raw({}, [], b"x"),
        _raw({}, [(b"a", "socket", b"x")]),
        _raw({}, [("a", "file", b"x")]),
        _raw({}, [(b"a", "file")]),
        _raw({}, [{}]),
        _raw({}, [(b"a", "file", b"x")])[:-1],
        _raw({}, [()] * 20_001),
        b"\xc1",
        b"\x91" * 100_000,
    ],
)
def test_what_is_no_pack_is_refused(packed: bytes) -> None:
    with pytest.raises(BrokenPackError):
        unpack(packed, Done)


@settings(max_examples=examples(200), deadline=None)
@given(st.binary(max_size=200))
def test_noise_is_no_pack(noise: bytes) -> None:
    with pytest.raises(BrokenPackError):
        unpack(noise, Done)


@pytest.mark.parametrize("path", ["../x", "/x", "a/../../x", "", "a\0b"])
def test_no_file_is_laid_out_elsewhere(path: str, tmp_path: Path) -> None:
    with pytest.raises(BrokenPackError):
        lay_out([PackedFile(path, "file", b"x")], tmp_path / "in")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("kind", ["link", "file"])
def test_a_link_is_neither_made_nor_written_through(kind: Any, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("kept")
    (tmp_path / "in").mkdir()
    if kind == "file":
        (tmp_path / "in/a").symlink_to(tmp_path / "outside")
    with pytest.raises(BrokenPackError):
        lay_out([PackedFile("a", kind, b"../outside")], tmp_path / "in")
    assert (tmp_path / "outside").read_text() == "kept"


def test_a_pack_has_no_more_than_its_caps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    packed = pack(Done(), files_of(tmp_path))
    assert [(one.path, bytes(one.content)) for one in unpack(packed, Done)[1]] == [("a", b"12345")]
    monkeypatch.setattr(packing, "_CAPS", packing.TreeCaps(file_bytes=4))
    for refused in (lambda: pack(Done(), files_of(tmp_path)), lambda: unpack(packed, Done)):
        with pytest.raises(BrokenPackError, match="larger"):
            refused()


def test_a_tree_enters_the_cache_only_with_the_files_of_its_digest(tmp_path: Path) -> None:
    environ = {"PADDOCK_CACHE_DIR": str(tmp_path / "cache")}
    with SourceCache(tmp_path / "from") as cache:
        entry = cache.trees.add_tree(lambda tree: tree.add_file("m.py", False, [b"print()"]))
        files = list(files_of(entry.root))
    tree = Tree(bucket="trees-v2", name=entry.digest, content=entry.digest)
    other = [PackedFile("m.py", "file", b"evil()")]
    for forged in (tree, tree.model_copy(update={"bucket": "git-v1"}), tree.model_copy(update={"bucket": "envs-v1"})):
        with pytest.raises(BrokenPackError):
            keep_tree(forged, other, environ)
    assert lacking_of([entry.digest], environ) == [entry.digest]
    keep_tree(tree, files, environ)
    assert lacking_of([entry.digest], environ) == []


def test_links_of_a_tree_stay_in_it_and_are_made_last(tmp_path: Path) -> None:
    file = PackedFile("a/b", "file", b"x")
    lay_out([PackedFile("c", "link", b"a/b"), file, PackedFile("d", "link", b"a")], tmp_path / "in", with_links=True)
    assert (tmp_path / "in/c").read_text() == "x" and (tmp_path / "in/d/b").read_text() == "x"
    assert digest_of(files_of(tmp_path / "in")) == tree_digest(tmp_path / "in")
    for links in ({"c": b"../x"}, {"c": b"/x"}, {"c": b".", "c/d": b"../x"}):
        with pytest.raises((BrokenPackError, UnsafeTreeError)):
            lay_out([PackedFile(path, "link", to) for path, to in links.items()], tmp_path / "out", with_links=True)
        assert not (tmp_path / "out").exists()
