"""The digest of a tree of files: names, contents, executable bits and link targets only.

It is the same on every machine: it ignores times, owners, the order of a folder's entries, and empty folders. The
digest distinguishes a tree from every other.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from paddock_sources.cache.errors import UnsafeTreeError

Kind = Literal["file", "program", "link"]

PREFIX: Final = "sha256:"
_HEADER: Final = b"paddock tree 1\0"
_CHUNK_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of a tree: its digest, the number of files and links, and the bytes of the files.

    `with_compiled` would be its digest with the compiled code that it was given, and that was left out.
    """

    digest: str
    files: int
    bytes: int
    with_compiled: str = ""


class TreeDigest:
    """Takes the entries of a tree, in any order."""

    def __init__(self) -> None:
        self._entries: list[tuple[bytes, Kind, str]] = []
        self._bytes = 0

    def add(self, path: str, kind: Kind, content_sha256: str, size: int = 0) -> None:
        """Add one entry: a posix path, and the digest of the file's content or of the link's target."""
        self._entries.append((os.fsencode(path), kind, content_sha256))
        self._bytes += size

    def contents(self) -> Contents:
        """Return the contents added so far."""
        digest = hashlib.sha256(_HEADER)
        for path, kind, content in sorted(self._entries):
            digest.update(b"%s %s %s\0" % (kind.encode(), content.encode(), path))
        return Contents(PREFIX + digest.hexdigest(), len(self._entries), self._bytes)


def tree_digest(root: Path) -> str:
    """Return the digest of the contents of the folder `root`.

    Raises:
        UnsafeTreeError: something in it is neither a file, a folder nor a link.
        OSError: it cannot be read.
    """
    return tree_contents(root).digest


def tree_contents(root: Path, *, without: Collection[str] = ()) -> Contents:
    """Return the contents of the folder `root`, except for those paths; raises as `tree_digest` does."""
    tree = TreeDigest()
    for path, entry in walk(root):
        if path in without:
            continue
        if entry.is_symlink():
            tree.add(path, "link", text_sha256(os.readlink(entry.path)))
        else:
            mode, size, content = file_sha256(entry.path)
            tree.add(path, kind_of(mode), content, size)
    return tree.contents()


def walk(root: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield every file and link below `root`, links not followed, each with its path from there.

    Raises:
        UnsafeTreeError: something is neither a file, a folder nor a link.
        OSError: a folder cannot be read.
    """
    waiting = [("", os.fspath(root))]
    while waiting:
        prefix, folder = waiting.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                path = prefix + entry.name
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((path + "/", entry.path))
                elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
                    yield path, entry
                else:
                    raise UnsafeTreeError(path, "it is neither a file, a folder nor a link")


def file_sha256(path: str) -> tuple[int, int, str]:
    """Return mode, size and digest of a regular file; OSError where it cannot be read or no longer is one."""
    # Not blocking: the file may have become a fifo.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise UnsafeTreeError(path, "it is not a regular file")
        digest = hashlib.sha256()
        size = 0
        while chunk := os.read(descriptor, _CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
        return mode, size, digest.hexdigest()
    finally:
        os.close(descriptor)


def kind_of(mode: int) -> Kind:
    """Return the kind of a regular file with that mode; as in git, the owner's bit decides."""
    return "program" if mode & stat.S_IXUSR else "file"


def text_sha256(text: str) -> str:
    """Return the digest of where a link leads."""
    return hashlib.sha256(os.fsencode(text)).hexdigest()
