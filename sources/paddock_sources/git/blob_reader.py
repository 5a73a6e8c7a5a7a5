"""The contents of blobs, as `git cat-file --batch` prints them: read strictly, while they come.

Every content is checked against its name, so that neither a damaged pack nor a git that was taken over can pass off
one for another.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator

_HEADER = re.compile(rb"([0-9a-f]{40}|[0-9a-f]{64}) blob ([0-9]{1,15})")
_MISSING = re.compile(rb"([0-9a-f]{40}|[0-9a-f]{64}) missing")
_MAX_HEADER_BYTES = 200
_IDS_A_PIECE = 500


class BlobError(ValueError):
    """Raised for output that is not what was asked for."""


class BlobMissingError(BlobError):
    """Raised when the repository here lacks a blob; `index` says which of those asked for."""

    def __init__(self, index: int) -> None:
        super().__init__("a blob is missing")
        self.index = index


class BlobTooLargeError(BlobError):
    """Raised before a blob is read that is larger than one may be; `index` says which of those asked for."""

    def __init__(self, index: int, size: int) -> None:
        super().__init__(f"a blob has {size} bytes")
        self.index = index
        self.size = size


def asked(blobs: Iterable[str]) -> Iterator[bytes]:
    """Yield what `git cat-file --batch` is to read."""
    piece: list[str] = []
    for blob in blobs:
        piece.append(blob)
        if len(piece) == _IDS_A_PIECE:
            yield "\n".join([*piece, ""]).encode("ascii")
            piece.clear()
    if piece:
        yield "\n".join([*piece, ""]).encode("ascii")


class BlobReader:
    """Takes the output in pieces, and hands on each content with its index in `blobs`, in their order."""

    def __init__(self, blobs: list[str], most_bytes: int, take: Callable[[int, bytes], None]) -> None:
        self._blobs = blobs
        self._most_bytes = most_bytes
        self._take = take
        self._index = 0
        self._size: int | None = None
        self._buffer = bytearray()

    def write(self, data: memoryview) -> None:
        """Take a piece of output.

        Raises:
            BlobError: it is not what was asked for.
        """
        self._buffer += data
        start = 0
        while True:
            if self._size is None:
                end = self._buffer.find(b"\n", start, start + _MAX_HEADER_BYTES)
                if end < 0:
                    if len(self._buffer) - start >= _MAX_HEADER_BYTES:
                        raise BlobError("a header has no end")
                    break
                self._size = self._read_header(bytes(self._buffer[start:end]))
                start = end + 1
            if len(self._buffer) - start <= self._size:
                break
            end = start + self._size
            self._read_content(bytes(memoryview(self._buffer)[start:end]), self._buffer[end])
            start, self._size = end + 1, None
        del self._buffer[:start]

    def finish(self) -> None:
        """Take note that this was all.

        Raises:
            BlobError: something asked for did not come.
        """
        if self._index != len(self._blobs) or self._buffer or self._size is not None:
            raise BlobError("it ended early")

    def _read_header(self, header: bytes) -> int:
        if self._index == len(self._blobs):
            raise BlobError("more came than was asked for")
        if _MISSING.fullmatch(header):
            raise BlobMissingError(self._index)
        matched = _HEADER.fullmatch(header)
        if matched is None or matched[1].decode("ascii") != self._blobs[self._index]:
            raise BlobError(f"something else came than was asked for: {header!a}")
        size = int(matched[2])
        if size > self._most_bytes:
            raise BlobTooLargeError(self._index, size)
        return size

    def _read_content(self, content: bytes, after: int) -> None:
        if (
            after != ord("\n")
            or object_name("blob", content, len(self._blobs[self._index])) != self._blobs[self._index]
        ):
            raise BlobError("a content is not what its name says")
        self._take(self._index, content)
        self._index += 1


def object_name(kind: str, content: bytes, digits: int) -> str:
    """Return the name that git has for an object, of as many digits as the repository's names have."""
    digest = hashlib.sha1(usedforsecurity=False) if digits == 40 else hashlib.sha256()
    digest.update(f"{kind} {len(content)}".encode("ascii") + b"\0")
    digest.update(content)
    return digest.hexdigest()
