"""Files and a few values as bytes of Paddock's own format, which is all that crosses between driver and nodes.

A pack is one value of msgpack: a table in JSON, and files, each by its path, kind and content. Nothing in it is
executed to read it. Its bytes are untrusted: they are checked against caps before anything is made of them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, TypeVar

import msgpack
from pydantic import BaseModel, ConfigDict, TypeAdapter

from paddock_sources.cache.tree_digest import Kind, TreeDigest, kind_of, walk
from paddock_sources.cache.tree_writer import TreeCaps, check_links, check_target

_MAX_TABLE_BYTES: Final = 32 << 20
_CAPS: Final = TreeCaps()
_PACK: Final = TypeAdapter(
    tuple[bytes, tuple[tuple[bytes, Kind, bytes], ...]],
    config=ConfigDict(strict=True),
)

_About = TypeVar("_About", bound=BaseModel)


class BrokenPackError(Exception):
    """Bytes are no pack, or one that is too large."""


@dataclass(frozen=True, slots=True)
class PackedFile:
    """A file by its path in a folder, with its content; of a link it is where it leads."""

    path: str
    kind: Kind
    content: bytes


def files_of(folder: Path, inside: str = "") -> Iterator[PackedFile]:
    """Yield the files and links below a folder in which nothing changes, at their paths below `inside`.

    Raises:
        BrokenPackError: one is too large.
        UnsafeTreeError: something is neither a file, a folder nor a link.
        OSError: it cannot be read.
    """
    for path, entry in walk(folder):
        place = os.path.join(inside, path)
        if entry.is_symlink():
            yield PackedFile(place, "link", os.fsencode(os.readlink(entry.path)))
            continue
        facts = entry.stat(follow_symlinks=False)
        _check_sizes([facts.st_size])
        yield PackedFile(place, kind_of(facts.st_mode), Path(entry.path).read_bytes())


def digest_of(files: Iterable[PackedFile]) -> str:
    """Return the digest that a tree with these files has in the cache."""
    tree = TreeDigest()
    for one in files:
        tree.add(
            one.path,
            one.kind,
            hashlib.sha256(one.content).hexdigest(),
            len(one.content),
        )
    return tree.contents().digest


def pack(about: BaseModel, files: Iterable[PackedFile] = ()) -> bytes:
    """Return values and files as one pack.

    Raises:
        BrokenPackError: the files are more, or larger, than a pack may have.
    """
    rows = [(os.fsencode(one.path), one.kind, one.content) for one in files]
    _check_sizes([len(content) for _, _, content in rows])
    packed: bytes = msgpack.packb((about.model_dump_json().encode(), rows))
    return packed


def unpack(packed: bytes, kind: type[_About]) -> tuple[_About, list[PackedFile]]:
    """Return the values and files of a pack.

    Raises:
        BrokenPackError: it is none.
    """
    if len(packed) > _MAX_TABLE_BYTES + 2 * _CAPS.bytes:
        raise BrokenPackError("a pack is too long")
    try:
        read = msgpack.unpackb(
            packed,
            use_list=False,
            max_array_len=_CAPS.files,
            max_map_len=0,
            max_ext_len=0,
        )
        table, rows = _PACK.validate_python(read)
        if len(table) > _MAX_TABLE_BYTES:
            raise BrokenPackError("a pack's table is too long")
        about = kind.model_validate_json(table)
    except (ValueError, msgpack.UnpackException) as error:
        raise BrokenPackError(f"a pack is not understood: {type(error).__name__}") from None
    _check_sizes([len(content) for _, _, content in rows])
    return about, [PackedFile(os.fsdecode(path), kind, content) for path, kind, content in rows]


def lay_out(files: Iterable[PackedFile], folder: Path, *, with_links: bool = False) -> None:
    """Write files below a folder that is this process's own; links are made last, so that nothing is written by one.

    Raises:
        BrokenPackError: a path leads elsewhere, there are two of it, or a link is not expected.
        UnsafeTreeError: a link leads out of the folder.
        OSError: one cannot be written.
    """
    links = {}
    for one in files:
        parts = PurePosixPath(one.path).parts
        if not parts or one.path.startswith("/") or ".." in parts or "\0" in one.path:
            raise BrokenPackError(f"`{one.path[:200]}` is no path of a file")
        if one.kind == "link":
            links[one.path] = os.fsdecode(one.content)
            continue
        place = folder.joinpath(*parts)
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(place, "xb") as file:
                file.write(one.content)
        except FileExistsError:
            raise BrokenPackError(f"`{one.path[:200]}` is there twice") from None
        if one.kind == "program":
            place.chmod(0o755)
    if links and not with_links:
        raise BrokenPackError("there are links, and only plain files are expected")
    for path, target in links.items():
        check_target(path, target)
        if any(str(parent) in links for parent in PurePosixPath(path).parents):
            raise BrokenPackError(f"`{path[:200]}` lies below a link")
    check_links(links)
    for path, target in links.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).symlink_to(target)


def _check_sizes(sizes: list[int]) -> None:
    if len(sizes) > _CAPS.files:
        raise BrokenPackError(f"there are more than {_CAPS.files} files")
    if max(sizes, default=0) > _CAPS.file_bytes:
        raise BrokenPackError(f"a file is larger than {_CAPS.file_bytes >> 20} MiB")
    if sum(sizes) > _CAPS.bytes:
        raise BrokenPackError(f"the files are larger than {_CAPS.bytes >> 20} MiB together")
