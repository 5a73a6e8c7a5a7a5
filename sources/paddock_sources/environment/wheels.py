"""Fetch the wheels of locked distributions, refuse each one that is not safe to unpack, and unpack the others.

The wheel is chosen here, by hash and by the interpreter's tags. Its members are judged like a repository's files
(`cache.tree_names`) before anything unpacks them: their paths, the places where they go, their number, and their size
compared with the size of the wheel. Sandboxed programs (`fetch_wheels.py`, `unpack_wheels.py`) do the rest. Scripts,
headers and compiled code are left out: no module needs them.
"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from paddock_sources.commands.command_runner import CommandResult
from paddock_sources.environment.errors import InstallerError
from paddock_sources.environment.locked import LockedDistribution
from paddock_sources.environment.site import MAX_BYTES, MAX_FILES
from paddock_sources.environment.task import INSTALL_SECONDS, RESOLVE_SECONDS, Task
from paddock_sources.errors import SourceError

if TYPE_CHECKING:
    from packaging.tags import Tag

FETCH_WHEELS: Final = Path(__file__).resolve().with_name("fetch_wheels.py")
FILE_HASHES: Final = FETCH_WHEELS.with_name("file_hashes.py")
UNPACK_WHEELS: Final = FETCH_WHEELS.with_name("unpack_wheels.py")
PROGRAMS: Final = (FILE_HASHES, FETCH_WHEELS, UNPACK_WHEELS)  # what runs in the session of a task that unpacks

_MAX_RATIO: Final = 100  # packages have 3 to 10, and zeros 1,000
_SMALL_BYTES: Final = 64 << 20  # up to which a ratio does not matter
_UNPACKED: Final = ("purelib", "platlib", "data")
_LEFT_OUT: Final = ("scripts", "headers")
_DATA: Final = re.compile(r"[^/]+\.data/(?P<scheme>[^/]*)/(?P<path>.*)", re.DOTALL)
_MAX_SHOWN: Final = 200
_HASH: Final = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class _Wheel:
    """A wheel of the index, to be fetched; `hashes` are hexadecimal."""

    filename: str
    url: str
    hashes: tuple[str, ...]

    def path(self, folder: Path) -> Path:
        return folder / self.hashes[0] / self.filename


def unpack(locked: Sequence[LockedDistribution], site: Path, task: Task) -> None:
    """Put the files of these distributions into the empty folder `site`.

    Raises:
        InstallerError: one cannot be had, or differs from what was locked.
        SourceError: one must not be unpacked.
    """
    wheels = _fetched(locked, task)
    result = run_program(
        UNPACK_WHEELS,
        {"site": str(site), "wheels": wheels},
        task,
        timeout=INSTALL_SECONDS,
        total=len(wheels),
        counts=lambda line: line.startswith("unpacked "),
    )
    if result.code != 0:
        raise task.failure(result)


def _fetched(locked: Sequence[LockedDistribution], task: Task) -> list[dict[str, object]]:
    """Return the wheels of these distributions, whose contents were checked, as the program takes them."""
    from packaging.tags import sys_tags

    order = {tag: place for place, tag in enumerate(sys_tags())}
    listed = files_of([one.name for one in locked], task)
    chosen = [_chosen(one, listed.get(one.name, ()), order, task) for one in locked]
    paths = [one.path(task.downloads) for one in chosen]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
    wanted = [
        {"url": one.url, "path": str(path), "hashes": one.hashes} for one, path in zip(chosen, paths, strict=True)
    ]
    result = run_program(
        FETCH_WHEELS,
        {**task.index.as_order(), "wheels": wanted, "max_members": MAX_FILES, "max_bytes": MAX_BYTES},
        task,
        timeout=INSTALL_SECONDS,
        total=len(wanted),
        counts=lambda line: line.startswith("fetched "),
    )
    if result.code != 0:
        raise task.failure(result)
    try:
        parsed = (_Contents.parse(json.loads(line)) for line in result.stdout.splitlines())
        contents = dict(zip((path.name for path in paths), parsed, strict=True))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InstallerError(task.attempted, "the report about the wheels is not understood") from error
    places = _checked_places(contents)
    return [{**one, "places": found} for one, found in zip(wanted, places, strict=True)]


def _chosen(
    locked: LockedDistribution,
    files: Iterable[IndexFile],
    order: Mapping[Tag, int],
    task: Task,
) -> _Wheel:
    """Return the best fitting wheel of that version, leaving out those that are known to be other bytes."""
    from packaging.utils import parse_wheel_filename
    from packaging.version import Version

    hashes = tuple(one.removeprefix("sha256:") for one in locked.hashes)
    found: list[tuple[int, tuple[Any, ...], IndexFile]] = []
    for file in files:
        try:
            name, version, build, tags = parse_wheel_filename(file.name)
        except ValueError:
            continue
        places = [order[tag] for tag in tags if tag in order]
        if name == locked.name and version == Version(locked.version) and places and "/" not in file.name:
            found.append((min(places), tuple(-part if isinstance(part, int) else part for part in build), file))
    if not found:
        raise InstallerError.no_wheel(task.attempted, locked.name)
    known = [one for one in found if not one[2].digest or one[2].digest in hashes]
    if not known:
        raise InstallerError.hash_mismatch(task.attempted)
    file = min(known, key=lambda one: one[:2])[2]
    return _Wheel(file.name, file.url, (file.digest,) if file.digest else hashes)


# -- contents ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Member:
    path: str
    kind: int
    size: int


@dataclass(frozen=True, slots=True)
class _Contents:
    """The program's report about one wheel; only its form is checked."""

    size: int
    members: tuple[_Member, ...]
    problem: str

    @staticmethod
    def parse(one: Any) -> _Contents:
        members = tuple(_Member(str(path), int(kind), int(size)) for path, kind, size in one["members"])
        return _Contents(int(one["size"]), members, str(one["problem"]))


def _checked_places(wheels: Mapping[str, _Contents]) -> list[list[str]]:
    """Return the place of each member of each wheel; see `_places`.

    Raises:
        SourceError: one of them may not be unpacked.
    """
    files, size, places = 0, 0, []
    for name, contents in wheels.items():
        places.append(_places(name, contents))
        files, size = files + len(contents.members), size + sum(member.size for member in contents.members)
        if files > MAX_FILES:
            raise _unsafe(name, f"is one too many: with it there are more than {MAX_FILES} files")
        if size > MAX_BYTES:
            raise _unsafe(name, f"is one too many: all that a module needs may be {MAX_BYTES >> 20} MiB")
    return places


def _unsafe(wheel: str, problem: str) -> SourceError:
    """Return the error for a wheel that must not be unpacked; nothing of it was."""
    hints = ["take another version of it, and report this to the publisher of the package"]
    return SourceError(f"the wheel `{wheel}` {problem}", code="UnsafeWheelError", hints=hints)


def _places(name: str, contents: _Contents) -> list[str]:
    """Return where each member of a wheel goes, below the folder that modules import from; empty for one that does not.

    Raises:
        SourceError: it may not be unpacked.
    """
    from paddock_sources.cache.errors import UnsafeTreeError
    from paddock_sources.cache.tree_names import TreeNames, is_compiled, source_of

    if contents.problem:
        raise _unsafe(name, contents.problem[:_MAX_SHOWN])
    size = sum(member.size for member in contents.members)
    if size > _SMALL_BYTES and size > _MAX_RATIO * contents.size:
        raise _unsafe(name, f"is {size // max(1, contents.size)} times as large when it is unpacked")
    packed, unpacked, places = TreeNames(), TreeNames(), []
    try:
        for member in contents.members:
            if member.kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise UnsafeTreeError(member.path, "it is neither a file nor a folder")
            if member.path.endswith("/"):
                TreeNames().admit(member.path.removesuffix("/"))
                places.append("")
                continue
            packed.admit(member.path)
            places.append(_place(member.path))
            if places[-1]:
                unpacked.admit(places[-1])
        for path in filter(is_compiled, there := frozenset(places)):
            if source_of(path) not in there:
                raise UnsafeTreeError(path, "it is compiled code without its source")
    except UnsafeTreeError as error:
        raise _unsafe(name, f"cannot be taken: `{error.path[:_MAX_SHOWN]}`: {error.problem}") from None
    return ["" if is_compiled(place) else place for place in places]


def _place(path: str) -> str:
    """Return where a member goes; nothing for one that is left out.

    Raises:
        UnsafeTreeError: the place is unknown.
    """
    from paddock_sources.cache.errors import UnsafeTreeError

    if "\\" in path or not path.isprintable():
        raise UnsafeTreeError(path, "there is a character in its name that no file of a package needs")
    match = _DATA.fullmatch(path)
    if match is None:
        return path
    if match["scheme"] not in (*_UNPACKED, *_LEFT_OUT):
        raise UnsafeTreeError(path, "it is not known where it would be installed")
    return match["path"] if match["scheme"] in _UNPACKED else ""


@dataclass(frozen=True, slots=True)
class IndexFile:
    """A file of an index; `digest` is hexadecimal, empty where the index gives none."""

    name: str
    digest: str
    url: str


def files_of(names: Iterable[str], task: Task) -> Mapping[str, tuple[IndexFile, ...]]:
    """Return all files that the index has of some projects, each with its hash and address.

    A sandboxed program parses the answers of the index; the form of its output is checked here.

    Raises:
        InstallerError: the index does not answer, or its answer is not understood.
    """
    result = run_program(FILE_HASHES, {**task.index.as_order(), "names": list(names)}, task, timeout=RESOLVE_SECONDS)
    if result.code != 0:
        raise task.failure(result)
    try:
        return _checked(json.loads(result.stdout))
    except (ValueError, RecursionError) as error:
        raise InstallerError(task.attempted, "the index's list of files is not understood") from error


def run_program(
    program: Path,
    order: Mapping[str, object],
    task: Task,
    *,
    timeout: float,
    total: int = 0,
    counts: Callable[[str], bool] = lambda line: False,
) -> CommandResult:
    """Run one of our programs, without the interpreter's own packages, with `order` as its input."""
    argv = (str(task.python.path), "-I", "-S", "-B", str(program))
    return task.run(argv, timeout=timeout, stdin=json.dumps(order).encode(), total=total, counts=counts)


def _checked(listing: Any) -> Mapping[str, tuple[IndexFile, ...]]:
    if not isinstance(listing, dict):
        raise ValueError("not an object")
    for files in listing.values():
        if not isinstance(files, list):
            raise ValueError("not a list")
        for one in files:
            if not (isinstance(one, list) and len(one) == 3 and all(isinstance(part, str) for part in one)):
                raise ValueError("not three texts")
    return {name: tuple(IndexFile(*one) for one in files if _is_usable(*one)) for name, files in listing.items()}


def _is_usable(name: str, digest: str, url: str) -> bool:
    return bool(name) and (not digest or _HASH.fullmatch(digest) is not None) and _is_address(url)


def _is_address(url: str) -> bool:
    try:
        return urlsplit(url).scheme in ("http", "https")
    except ValueError:
        return False
