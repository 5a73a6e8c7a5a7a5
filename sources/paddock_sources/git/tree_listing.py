"""The files of a commit: the output of `git ls-tree -r -z`, read strictly and while it comes.

What a path may be is the writer's to judge; here only what git can mean by a line is, and how many there may be.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

_ENTRY = re.compile(rb"([0-7]{6}) (blob|commit) ([0-9a-f]{40}|[0-9a-f]{64})\t(.+)", re.DOTALL)
_MAX_ENTRY_BYTES = 8 << 10
_KINDS: dict[bytes, Literal["file", "executable", "link"]] = {
    b"100644": "file",
    b"100664": "file",  # written by gits of 2005
    b"100755": "executable",
    b"120000": "link",
}


class TreeListingError(ValueError):
    """Raised for output that is not what `git ls-tree` prints, or for more of it than there may be."""


class TooManyFilesError(TreeListingError):
    """Raised when a commit has more files than there may be."""


@dataclass(frozen=True, slots=True)
class TreeLine:
    """One file of a commit."""

    path: str
    kind: Literal["file", "executable", "link"]
    blob: str


class TreeListing:
    """Takes the output in pieces; `lines` are the files, `submodules` paths at which other repositories belong."""

    def __init__(self, most: int) -> None:
        self.lines: list[TreeLine] = []
        self.submodules: list[str] = []
        self._most = most
        self._rest = b""

    def write(self, data: memoryview) -> None:
        """Take a piece of output.

        Raises:
            TreeListingError: it is malformed, or too much.
        """
        *entries, self._rest = (self._rest + bytes(data)).split(b"\0")
        for entry in entries:
            self._take(entry)
        if len(self._rest) > _MAX_ENTRY_BYTES:
            raise TreeListingError("a path has no end")

    def finish(self) -> None:
        """Take note that this was all.

        Raises:
            TreeListingError: the last entry is not whole.
        """
        if self._rest:
            raise TreeListingError("it ends within a path")

    def _take(self, entry: bytes) -> None:
        if len(self.lines) + len(self.submodules) >= self._most:
            raise TooManyFilesError(f"there are more than {self._most} files")
        matched = _ENTRY.fullmatch(entry)
        if matched is None:
            raise TreeListingError(f"an entry is none of a tree: {entry[:100]!a}")
        mode, kind, blob, raw = matched.groups()
        path = raw.decode("utf-8", errors="surrogateescape")
        if mode == b"160000" and kind == b"commit":
            self.submodules.append(path)
        elif mode in _KINDS and kind == b"blob":
            self.lines.append(TreeLine(path, _KINDS[mode], blob.decode("ascii")))
        else:
            raise TreeListingError(f"`{path}` is of a kind that no repository has: {mode.decode('ascii')}")
