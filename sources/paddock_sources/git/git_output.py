"""Parse git's output strictly, as it arrives: a server's refs, the files of a commit, the contents of blobs.

Output of any other form ends the reading: its sender is not git, or a git that this file does not know. The writer of
the tree judges paths. This file checks only what git can mean by a line, and how many lines there may be. Every content
is checked against its name, so that neither a damaged pack nor a git that was taken over can pass off one content for
another.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, Self

from paddock_sources.resolution import RefKind
from paddock_sources.similar_names import near

_LINE = re.compile(r"([0-9a-f]{40}|[0-9a-f]{64})\t(refs/(?:heads|tags)/[^\x00-\x20\x7f]+)")
_HEAD = re.compile(r"([0-9a-f]{40}|[0-9a-f]{64})\tHEAD")
_PEELED = "^{}"
_ENTRY = re.compile(rb"([0-7]{6}) (blob|commit) ([0-9a-f]{40}|[0-9a-f]{64})\t(.+)", re.DOTALL)
_MAX_ENTRY_BYTES = 8 << 10
_KINDS: dict[bytes, Literal["file", "executable", "link"]] = {
    b"100644": "file",
    b"100664": "file",  # written by gits of 2005
    b"100755": "executable",
    b"120000": "link",
}
_HEADER = re.compile(rb"([0-9a-f]{40}|[0-9a-f]{64}) blob ([0-9]{1,15})")
_MISSING = re.compile(rb"([0-9a-f]{40}|[0-9a-f]{64}) missing")
_MAX_HEADER_BYTES = 200
_IDS_A_PIECE = 500


class GitOutputError(ValueError):
    """Raised for unexpected output or, if `is_too_much`, for more files than allowed."""

    def __init__(self, problem: str, *, is_too_much: bool = False) -> None:
        super().__init__(problem)
        self.is_too_much = is_too_much


class BlobError(GitOutputError):
    """Raised for a blob that is missing or too large; `index` is its place among the requested ones."""

    def __init__(self, index: int, problem: str, *, is_missing: bool) -> None:
        super().__init__(problem)
        self.index = index
        self.is_missing = is_missing


# -- branches and tags


@dataclass(frozen=True, slots=True)
class RemoteRefs:
    """Branches and tags by name, and the commits they are at."""

    branches: Mapping[str, str]
    tags: Mapping[str, str]

    @classmethod
    def parse(cls, output: str, most: int) -> Self:
        """Return the refs that a server listed.

        Raises:
            GitOutputError: a line is malformed, or there are more than `most`.
        """
        branches: dict[str, str] = {}
        tags: dict[str, str] = {}
        lines = output.split("\n", most + 1)
        if len(lines) > most + 1:
            raise GitOutputError(f"there are more than {most} refs")
        for line in lines:
            if not line:
                continue
            matched = _LINE.fullmatch(line)
            if matched is None:
                raise GitOutputError(f"a line is no ref: {line[:100]!a}")
            commit, ref = matched.groups()
            if ref.startswith("refs/heads/"):
                branches[ref.removeprefix("refs/heads/")] = commit
            else:  # a line that ends in `^{}` comes after its own, and names the tag's target
                tags[ref.removeprefix("refs/tags/").removesuffix(_PEELED)] = commit
        return cls(branches, tags)

    def find(self, ref: str) -> tuple[RefKind, str] | None:
        """Return the kind of a name and the commit it is at; a tag comes before a branch, as in git.

        A name of both is a release: a branch that appears later must not change what a plan means by it. `refs/heads/…`
        and `refs/tags/…` name one of the two.
        """
        kinds: tuple[tuple[RefKind, Mapping[str, str], str], ...] = (
            ("tag", self.tags, "refs/tags/"),
            ("branch", self.branches, "refs/heads/"),
        )
        for kind, named, prefix in kinds:
            commit = named.get(ref.removeprefix(prefix)) if ref.startswith(prefix) else named.get(ref)
            if commit is not None:
                return kind, commit
        return None

    def leading_to(self, commit: str) -> str:
        """Return the whole name of a tag or branch that is at a commit, or nothing."""
        for prefix, named in (("refs/tags/", self.tags), ("refs/heads/", self.branches)):
            for name, at in named.items():
                if at == commit:
                    return prefix + name
        return ""

    def close_to(self, ref: str) -> tuple[str, ...]:
        """Return similar names that the user may have meant."""
        plain = ref.removeprefix("refs/heads/").removeprefix("refs/tags/")
        return tuple(near(plain, list({**self.tags, **self.branches})[:5000], limit=2))


def ref_patterns(ref: str) -> tuple[str, ...]:
    """Return the patterns that make `git ls-remote` list only what a name may be."""
    if ref.startswith("refs/"):
        return ref, ref + _PEELED
    return f"refs/heads/{ref}", f"refs/tags/{ref}", f"refs/tags/{ref}{_PEELED}"


def default_commit(output: str) -> str | None:
    """Return the commit of the default branch, given `git ls-remote`'s line for `HEAD`."""
    matched = _HEAD.fullmatch(output.partition("\n")[0])
    return matched[1] if matched else None


def kind_of_fetched(described: str) -> Literal["branch", "tag"] | None:
    """Return the kind of a fetched ref, given a line of `FETCH_HEAD`; None for neither branch nor tag."""
    if described.startswith("branch '"):
        return "branch"
    return "tag" if described.startswith("tag '") else None


# -- the files of a commit


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
            GitOutputError: it is malformed, or too much.
        """
        *entries, self._rest = (self._rest + bytes(data)).split(b"\0")
        for entry in entries:
            self._take(entry)
        if len(self._rest) > _MAX_ENTRY_BYTES:
            raise GitOutputError("a path has no end")

    def finish(self) -> None:
        """Take note that this was all.

        Raises:
            GitOutputError: the last entry is not whole.
        """
        if self._rest:
            raise GitOutputError("it ends within a path")

    def _take(self, entry: bytes) -> None:
        if len(self.lines) + len(self.submodules) >= self._most:
            raise GitOutputError(f"there are more than {self._most} files", is_too_much=True)
        matched = _ENTRY.fullmatch(entry)
        if matched is None:
            raise GitOutputError(f"an entry is none of a tree: {entry[:100]!a}")
        mode, kind, blob, raw = matched.groups()
        path = raw.decode("utf-8", errors="surrogateescape")
        if mode == b"160000" and kind == b"commit":
            self.submodules.append(path)
        elif mode in _KINDS and kind == b"blob":
            self.lines.append(TreeLine(path, _KINDS[mode], blob.decode("ascii")))
        else:
            raise GitOutputError(f"`{path}` is of a kind that no repository has: {mode.decode('ascii')}")


# -- the contents of blobs


def blob_requests(blobs: Iterable[str]) -> Iterator[bytes]:
    """Yield the input of `git cat-file --batch`."""
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
        """Parse a piece of output.

        Raises:
            GitOutputError: it is not what was asked for.
        """
        self._buffer += data
        start = 0
        while True:
            if self._size is None:
                end = self._buffer.find(b"\n", start, start + _MAX_HEADER_BYTES)
                if end < 0:
                    if len(self._buffer) - start >= _MAX_HEADER_BYTES:
                        raise GitOutputError("a header has no end")
                    break
                self._size = self._read_header(bytes(self._buffer[start:end]))
                start = end + 1
            if len(self._buffer) - start <= self._size:
                break
            end = start + self._size
            content, wanted = bytes(memoryview(self._buffer)[start:end]), self._blobs[self._index]
            if self._buffer[end] != ord("\n") or object_name("blob", content, len(wanted)) != wanted:
                raise GitOutputError("a content is not what its name says")
            self._take(self._index, content)
            self._index += 1
            start, self._size = end + 1, None
        del self._buffer[:start]

    def finish(self) -> None:
        """Check that the output is complete.

        Raises:
            GitOutputError: something asked for did not come.
        """
        if self._index != len(self._blobs) or self._buffer or self._size is not None:
            raise GitOutputError("it ended early")

    def _read_header(self, header: bytes) -> int:
        if self._index == len(self._blobs):
            raise GitOutputError("more came than was asked for")
        if _MISSING.fullmatch(header):
            raise BlobError(self._index, "a blob is missing", is_missing=True)
        matched = _HEADER.fullmatch(header)
        if matched is None or matched[1].decode("ascii") != self._blobs[self._index]:
            raise GitOutputError(f"something else came than was asked for: {header!a}")
        size = int(matched[2])
        if size > self._most_bytes:
            raise BlobError(self._index, f"a blob has {size} bytes", is_missing=False)
        return size


def object_name(kind: str, content: bytes, digits: int) -> str:
    """Return the name that git has for an object, of as many digits as the repository's names have."""
    digest = hashlib.sha1(usedforsecurity=False) if digits == 40 else hashlib.sha256()
    digest.update(f"{kind} {len(content)}".encode("ascii") + b"\0")
    digest.update(content)
    return digest.hexdigest()
