"""Files and a few values as bytes of Paddock's own format, which is all that crosses between driver and nodes.

A pack is the length of its header in eight bytes, the header in JSON, and the contents of its files one after another.
Nothing in it is executed to read it. Its bytes are untrusted: they are checked against caps before anything is made of
them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from paddock_sources.cache.tree_writer import TreeCaps, TreeWriter

_LENGTH_BYTES: Final = 8
_MAX_HEADER_BYTES: Final = 32 << 20
_CAPS: Final = TreeCaps()

_About = TypeVar("_About", bound=BaseModel)


class BrokenPackError(Exception):
    """Bytes are no pack, or one that is too large."""


class Message(BaseModel):
    """A table that crosses between driver and nodes; a key that is not known is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class _FileRow(Message):
    path: str
    kind: Literal["file", "program", "link"]
    size: int


@dataclass(frozen=True, slots=True)
class PackedFile:
    """A file of a tree by its path there, with its content; of a link it is where it leads."""

    path: str
    kind: Literal["file", "program", "link"]
    content: bytes | memoryview

    @classmethod
    def read(cls, path: str, place: Path) -> PackedFile:
        """Return the file or link at `place`; OSError where it cannot be read."""
        mode = place.lstat().st_mode
        if stat.S_ISLNK(mode):
            return cls(path, "link", os.fsencode(os.readlink(place)))
        descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(f"{place} is no plain file")
            content = file.read(_CAPS.file_bytes + 1)
        return cls(path, "program" if mode & stat.S_IXUSR else "file", content)


def files_of(folder: Path, inside: str = "", *, links: bool = True) -> Iterator[PackedFile]:
    """Yield the files below a folder, at their paths below `inside`, and its links; what is neither is left out."""
    for at, _, names in os.walk(folder):
        for name in sorted(names):
            place = Path(at, name)
            mode = place.lstat().st_mode
            if stat.S_ISREG(mode) or (links and stat.S_ISLNK(mode)):
                yield PackedFile.read(os.path.join(inside, place.relative_to(folder)), place)


def pack(about: BaseModel, files: Iterable[PackedFile] = ()) -> bytes:
    """Return values and files as one pack.

    Raises:
        BrokenPackError: the files are more, or larger, than a pack may have.
    """
    contents = list(files)
    rows = [_FileRow(path=one.path, kind=one.kind, size=len(one.content)) for one in contents]
    _check(rows)
    header = b"%b\n%b" % (about.model_dump_json().encode(), _Rows(files=rows).model_dump_json().encode())
    return b"".join([len(header).to_bytes(_LENGTH_BYTES, "big"), header, *(one.content for one in contents)])


def unpack(packed: bytes, kind: type[_About]) -> tuple[_About, list[PackedFile]]:
    """Return the values and files of a pack.

    Raises:
        BrokenPackError: it is none.
    """
    size = int.from_bytes(packed[:_LENGTH_BYTES], "big")
    start = _LENGTH_BYTES + size
    if not _LENGTH_BYTES <= len(packed) or size > _MAX_HEADER_BYTES or start > len(packed):
        raise BrokenPackError("a pack's header is cut off, or too long")
    about, _, rows = packed[_LENGTH_BYTES:start].partition(b"\n")
    try:
        values, listed = kind.model_validate_json(about), _Rows.model_validate_json(rows).files
    except ValidationError as error:
        raise BrokenPackError(f"a pack's header is not understood: {error.error_count()} problems") from None
    _check(listed)
    if sum(row.size for row in listed) != len(packed) - start:
        raise BrokenPackError("a pack's files are cut off, or followed by something")
    files, rest = [], memoryview(packed)[start:]
    for row in listed:
        files.append(PackedFile(row.path, row.kind, rest[: row.size]))
        rest = rest[row.size :]
    return values, files


def write_tree(files: Iterable[PackedFile], tree: TreeWriter) -> None:
    """Write files into a tree of the cache, which checks each name and link.

    Raises:
        UnsafeTreeError: one of them may be in no tree.
    """
    for one in files:
        if one.kind == "link":
            tree.add_link(one.path, os.fsdecode(bytes(one.content)))
        else:
            tree.add_file(one.path, one.kind == "program", [bytes(one.content)])


def lay_out(files: Iterable[PackedFile], folder: Path) -> None:
    """Write plain files below a folder that is this process's own, and has no links that others made.

    Raises:
        BrokenPackError: a path leads elsewhere, or there are two of it.
        OSError: one cannot be written.
    """
    for one in files:
        parts = PurePosixPath(one.path).parts
        if one.kind == "link" or not parts or one.path.startswith("/") or ".." in parts or "\0" in one.path:
            raise BrokenPackError(f"`{one.path[:200]}` is no path of a plain file")
        place = folder.joinpath(*parts)
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(place, "xb") as file:
                file.write(one.content)
        except FileExistsError:
            raise BrokenPackError(f"`{one.path[:200]}` is there twice") from None
        if one.kind == "program":
            place.chmod(0o755)


class _Rows(Message):
    files: list[_FileRow]


def _check(rows: list[_FileRow]) -> None:
    if len(rows) > _CAPS.files:
        raise BrokenPackError(f"there are more than {_CAPS.files} files")
    if any(not 0 <= row.size <= _CAPS.file_bytes for row in rows):
        raise BrokenPackError(f"a file is larger than {_CAPS.file_bytes >> 20} MiB")
    if sum(row.size for row in rows) > _CAPS.bytes:
        raise BrokenPackError(f"the files are larger than {_CAPS.bytes >> 20} MiB together")
