"""Unpack the archives of npm's packages, which were verified and are still strangers' work, into a tree.

The host does this itself: what npm unpacked would have to be compared with the archive afterwards. Headers are read one
by one, none longer than its bound; what is neither a file nor a folder is refused. `TreeWriter` judges all names. The
amount that is unpacked is bounded, for all archives together.
"""

from __future__ import annotations

import gzip
import io
import stat
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from typing import Final

from paddock_sources.cache.errors import UnsafeTreeError
from paddock_sources.cache.tree_writer import TreeCaps, TreeWriter

TREE_CAPS: Final = TreeCaps(files=60_000, file_bytes=256 << 20, bytes=1 << 30)

_MAX_UNPACKED_BYTES: Final = 2 << 30  # with headers, and what fills up blocks
_MAX_EXTENDED_BYTES: Final = 64 << 10
_CHUNK_BYTES: Final = 1 << 18
_HEADERS: Final = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.GNUTYPE_LONGNAME,
)
_FILES: Final = (
    tarfile.REGTYPE,
    tarfile.AREGTYPE,
    tarfile.CONTTYPE,
)
_PATH: Final = "path"
_SIZE: Final = "size"


class Unpacker:
    """Unpacks archives into one tree."""

    def __init__(self, tree: TreeWriter) -> None:
        self._tree = tree
        self._left = _MAX_UNPACKED_BYTES

    def unpack(self, content: bytes, folder: str) -> None:
        """Put all files of an archive into a folder of the tree, without the folder that is around them in there.

        Raises:
            UnsafeTreeError: it is no such archive, or has something that no tree may have.
        """
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(content)) as stream:
                self._unpack(stream, folder)
        except (
            OSError,
            EOFError,
            ValueError,
            tarfile.TarError,
            zlib.error,
        ) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # of the disk
            raise UnsafeTreeError(folder, f"its archive cannot be read: {error}") from error

    def _unpack(self, stream: gzip.GzipFile, folder: str) -> None:
        extended: Mapping[str, str] = {}
        while (block := self._read(stream, tarfile.BLOCKSIZE)).strip(b"\0"):
            member = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
            path = extended.get(_PATH, member.name)
            size = int(extended.get(_SIZE, member.size))
            if size < 0:
                raise ValueError("a size is negative")
            if member.type in _HEADERS:
                extended = self._extended(stream, member.type, path, size)
                continue
            extended = {}
            if member.type == tarfile.DIRTYPE and not size:
                continue
            if member.type not in _FILES:
                raise UnsafeTreeError(f"{folder}: {path}", "it is neither a file nor a folder")
            if path.startswith("/"):
                raise UnsafeTreeError(path, "its path is absolute")
            inside = path.partition("/")[2]
            is_program = bool(member.mode & stat.S_IXUSR)
            self._tree.add_file(
                f"{folder}/{inside}",
                is_program,
                self._chunks(stream, size),
            )

    def _extended(
        self,
        stream: gzip.GzipFile,
        kind: bytes,
        name: str,
        size: int,
    ) -> Mapping[str, str]:
        """Return what a header says about the member after it."""
        if size > _MAX_EXTENDED_BYTES:
            raise UnsafeTreeError(name, f"a header of it has more than {_MAX_EXTENDED_BYTES} bytes")
        data = b"".join(self._chunks(stream, size))
        if kind == tarfile.GNUTYPE_LONGNAME:
            return {_PATH: data.rstrip(b"\0").decode("utf-8", "surrogateescape")}
        if kind == tarfile.XHDTYPE:
            return dict(_records(data))
        return {}

    def _chunks(self, stream: gzip.GzipFile, size: int) -> Iterator[bytes]:
        """Yield the content of a member, and read what fills up its last block."""
        left = size
        while left:
            chunk = self._exactly(stream, min(left, _CHUNK_BYTES))
            left -= len(chunk)
            yield chunk
        self._exactly(stream, -size % tarfile.BLOCKSIZE)

    def _exactly(self, stream: gzip.GzipFile, size: int) -> bytes:
        found = self._read(stream, size)
        if len(found) < size:
            raise ValueError("it ends too early")
        return found

    def _read(self, stream: gzip.GzipFile, size: int) -> bytes:
        self._left -= size
        if self._left < 0:
            raise ValueError(f"what is unpacked has more than {_MAX_UNPACKED_BYTES >> 20} MiB")
        return stream.read(size)


def _records(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield the keys and values of an extended header: each `LENGTH key=value` and a new line, LENGTH being of all."""
    at = 0
    while at < len(data):
        length, _, _ = data[at : at + 8].partition(b" ")
        record = data[at : at + int(length)]
        if int(length) <= len(length) + 1:
            raise ValueError("a header is malformed")
        key, _, value = record[len(length) + 1 : -1].partition(b"=")
        yield key.decode("utf-8", "replace"), value.decode("utf-8", "surrogateescape")
        at += int(length)
