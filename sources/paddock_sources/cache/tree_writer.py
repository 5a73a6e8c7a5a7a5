"""Write an untrusted tree of files so that nothing in it lies, or leads, outside it.

Every name is checked before it is used. Links are made last, so that no file is written through one. The amount written
has bounds. Compiled Python code is left out. The digest covers exactly the written files. They can be read, but not
changed, and executed if they are programs.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Final

from paddock_sources.cache.errors import UnsafeTreeError
from paddock_sources.cache.tree_digest import Contents, Kind, TreeDigest, text_sha256
from paddock_sources.cache.tree_names import TreeNames, is_compiled

_MIB: Final = 1 << 20
_MAX_FOLLOWED: Final = 40  # as many as Linux follows
_MAX_TARGET_BYTES: Final = 1024


@dataclass(frozen=True, slots=True)
class TreeCaps:
    """How large a tree may be."""

    files: int = 20_000
    file_bytes: int = 64 * _MIB
    bytes: int = 512 * _MIB


class TreeChecker:
    """Takes the files and links of a tree, checks them and digests them, and writes nothing."""

    def __init__(self, caps: TreeCaps | None = None) -> None:
        self._caps = caps or TreeCaps()
        self._names = TreeNames()
        self._links: dict[str, str] = {}
        self._digest = TreeDigest()
        self._with_compiled = TreeDigest()
        self._files = 0
        self._bytes = 0
        self._contents: Contents | None = None

    @property
    def contents(self) -> Contents:
        """The contents of the tree, once it is finished."""
        assert self._contents is not None
        return self._contents

    def add_file(self, path: str, executable: bool, chunks: Iterable[bytes]) -> None:
        """Take a file.

        Raises:
            UnsafeTreeError: for its path, or for its size.
        """
        self._make_folders(self._admit(path))
        content = hashlib.sha256()
        size = 0
        with nullcontext() if is_compiled(path) else self._opened(path, executable) as file:
            for chunk in chunks:
                size += len(chunk)
                if size > self._caps.file_bytes:
                    raise UnsafeTreeError(path, f"it is larger than {self._caps.file_bytes // _MIB} MiB")
                if self._bytes + size > self._caps.bytes:
                    raise UnsafeTreeError(path, f"the tree is larger than {self._caps.bytes // _MIB} MiB")
                content.update(chunk)
                if file is not None:
                    file.write(chunk)
        self._bytes += size
        self._take(path, "program" if executable else "file", content.hexdigest(), size)

    def add_link(self, path: str, target: str) -> None:
        """Add a symbolic link.

        Raises:
            UnsafeTreeError: for its path, or for what its target already shows.
        """
        check_target(path, target)
        self._make_folders(self._admit(path))
        if not is_compiled(path):
            self._links[path] = target
        self._take(path, "link", text_sha256(target))

    def finish(self) -> str:
        """Finish the tree and return its digest.

        Raises:
            UnsafeTreeError: a link leads out of it.
        """
        check_links(self._links)
        self._seal(self._links)
        self._contents = replace(self._digest.contents(), with_compiled=self._with_compiled.contents().digest)
        return self._contents.digest

    def _take(self, path: str, kind: Kind, content_sha256: str, size: int = 0) -> None:
        self._with_compiled.add(path, kind, content_sha256, size)
        if not is_compiled(path):
            self._digest.add(path, kind, content_sha256, size)

    def _admit(self, path: str) -> list[str]:
        self._files += 1
        if self._files > self._caps.files:
            raise UnsafeTreeError(path, f"there are more than {self._caps.files} files in the tree")
        return [one for one in self._names.admit(path) if not is_compiled(one)]

    # -- the bytes that writing adds

    def _make_folders(self, paths: list[str]) -> None:
        pass

    def _opened(self, path: str, executable: bool) -> AbstractContextManager[IO[bytes] | None]:
        return nullcontext()

    def _seal(self, links: dict[str, str]) -> None:
        pass


class TreeWriter(TreeChecker):
    """Writes the tree into the folder `root`, which is empty, or not there yet."""

    def __init__(self, root: Path, caps: TreeCaps | None = None) -> None:
        super().__init__(caps)
        self._root = os.fspath(root)
        self._folders: list[str] = [self._root]
        root.mkdir(mode=0o700, exist_ok=True)

    def _make_folders(self, paths: list[str]) -> None:
        for path in paths:
            folder = f"{self._root}/{path}"
            os.mkdir(folder, 0o700)
            self._folders.append(folder)

    def _opened(self, path: str, executable: bool) -> AbstractContextManager[IO[bytes]]:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(f"{self._root}/{path}", flags, 0o600)
        os.fchmod(descriptor, 0o555 if executable else 0o444)
        return open(descriptor, "wb")

    def _seal(self, links: dict[str, str]) -> None:
        for path, target in links.items():
            os.symlink(target, f"{self._root}/{path}")
        for folder in reversed(self._folders):
            os.chmod(folder, 0o555)  # noqa: S103 - what is cached is read by modules, of other users too


def check_target(path: str, target: str) -> None:
    """Check a link by itself.

    Raises:
        UnsafeTreeError: it leads to a place outside the tree.
    """
    if not target or target.startswith("/"):
        raise UnsafeTreeError(path, "it is a link that leads out of the tree")
    if any(ord(char) < 0x20 or 0x7F <= ord(char) <= 0x9F or 0xD800 <= ord(char) <= 0xDFFF for char in target):
        raise UnsafeTreeError(path, "it is a link to a name that no file should have")
    if len(target.encode()) > _MAX_TARGET_BYTES:
        raise UnsafeTreeError(path, f"it is a link to a path longer than {_MAX_TARGET_BYTES} bytes")


def check_links(links: Mapping[str, str]) -> None:
    """Check where links lead, given all links of the tree, each with its target.

    A link to nothing passes as long as even that name stays inside: nothing can be put there later.

    Raises:
        UnsafeTreeError: one leads out, or forms a loop.
    """
    for path, target in links.items():
        _follow(path, target, links)


def _follow(path: str, target: str, links: Mapping[str, str]) -> None:
    at = posixpath.dirname(path)
    pending = target.split("/")[::-1]
    followed = 1
    while pending:
        name = pending.pop()
        if name in ("", "."):
            continue
        if name == "..":
            if not at:
                raise UnsafeTreeError(path, "it is a link that leads out of the tree")
            at = posixpath.dirname(at)
            continue
        at = f"{at}/{name}" if at else name
        if at in links:
            followed += 1
            if followed > _MAX_FOLLOWED:
                raise UnsafeTreeError(path, "it is a link that leads nowhere, over other links")
            pending += links[at].split("/")[::-1]
            at = posixpath.dirname(at)
