"""What makes two trees the same, and what does not."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from paddock_sources.cache import TreeWriter, UnsafeTreeError, tree_digest


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "a").mkdir(parents=True)
    (root / "a/file").write_bytes(b"content")
    (root / "a/other").write_bytes(b"")
    (root / "link").symlink_to("a/file")
    return root


def test_the_digest_is_the_same_for_ever(tree: Path) -> None:
    assert tree_digest(tree) == "sha256:240ab85c20afe8cb7bbd5bb909b09496c3f2d5b8d36820a4e4b8ec5f1a2ad961"


SAME: dict[str, Callable[[Path], object]] = {
    "an empty folder": lambda root: (root / "empty/below").mkdir(parents=True),
    "times": lambda root: os.utime(root / "a/file", (0, 0)),
    "who may write": lambda root: (root / "a/file").chmod(0o600),
    "who else may execute": lambda root: (root / "a/file").chmod(0o655),
}
OTHER: dict[str, Callable[[Path], object]] = {
    "content": lambda root: (root / "a/file").write_bytes(b"Content"),
    "a file more": lambda root: (root / "a/more").write_bytes(b""),
    "a file less": lambda root: (root / "a/other").unlink(),
    "a name": lambda root: (root / "a/file").rename(root / "a/File"),
    "a folder's name": lambda root: (root / "a").rename(root / "b"),
    "executable": lambda root: (root / "a/file").chmod(0o755),
    "where a link leads": lambda root: ((root / "link").unlink(), (root / "link").symlink_to("a/other")),
    "a file with a link's target": lambda root: ((root / "link").unlink(), (root / "link").write_text("a/file")),
    "contents exchanged": lambda root: (
        (root / "a/file").rename(root / "x"),
        (root / "a/other").rename(root / "a/file"),
        (root / "x").rename(root / "a/other"),
    ),
}


@pytest.mark.parametrize("change", SAME.values(), ids=SAME.keys())
def test_what_does_not_matter_does_not_change_it(tree: Path, change: Callable[[Path], object]) -> None:
    before = tree_digest(tree)
    change(tree)
    assert tree_digest(tree) == before


@pytest.mark.parametrize("change", OTHER.values(), ids=OTHER.keys())
def test_whatever_else_changes_changes_it(tree: Path, change: Callable[[Path], object]) -> None:
    before = tree_digest(tree)
    change(tree)
    assert tree_digest(tree) != before


def test_the_order_of_writing_does_not_matter(tmp_path: Path) -> None:
    names = ["b", "a/c", "a-b", "a/b", "é"]
    digests = set()
    for number, order in enumerate((names, names[::-1])):
        tree = TreeWriter(tmp_path / str(number))
        for name in order:
            tree.add_file(name, False, [name.encode()])
        digests.add(tree.finish())
    assert len(digests) == 1


@pytest.mark.parametrize("kind", ["fifo", "socket"])
def test_what_is_neither_file_nor_folder_nor_link_is_refused(
    tree: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "fifo":
        os.mkfifo(tree / "special")
    else:
        monkeypatch.chdir(tree)  # a socket's path has to be short
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("special")
    with pytest.raises(UnsafeTreeError, match="special"):
        tree_digest(tree)
