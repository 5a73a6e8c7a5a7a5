"""Fetch the wheels of locked distributions, and refuse each one that is not safe to unpack.

The wheel is chosen here, by hash and by the interpreter's tags. Its members are judged like a repository's files
(`cache.tree_names`) before an installer unpacks them: their paths, the places where they would be installed, their
number, and their size compared with the size of the wheel.
"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from paddock_sources.environment.errors import InstallerError
from paddock_sources.environment.installer import INSTALL_SECONDS, Task
from paddock_sources.environment.listing import IndexFile, files_of, run_program
from paddock_sources.environment.locked import LockedDistribution
from paddock_sources.environment.site import MAX_BYTES, MAX_FILES
from paddock_sources.errors import SourceError

if TYPE_CHECKING:
    from packaging.tags import Tag

FETCH_WHEELS: Final = Path(__file__).resolve().with_name("fetch_wheels.py")

_MAX_RATIO: Final = 100  # packages have 3 to 10, and zeros 1,000
_SMALL_BYTES: Final = 64 << 20  # up to which a ratio does not matter
_FOLDERS: Final = {"purelib": "", "platlib": "", "data": "", "scripts": "bin/", "headers": "include/"}
_DATA: Final = re.compile(r"[^/]+\.data/(?P<scheme>[^/]*)/(?P<path>.*)", re.DOTALL)
_SCRIPTS: Final = frozenset(("console_scripts", "gui_scripts"))
_MAX_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class _Wheel:
    """A wheel of the index, to be fetched; `hashes` are hexadecimal."""

    filename: str
    url: str
    hashes: tuple[str, ...]

    def path(self, folder: Path) -> Path:
        return folder / self.hashes[0] / self.filename


def fetched(locked: Sequence[LockedDistribution], task: Task, *, attempt: str) -> tuple[Path, ...]:
    """Return one folder for each distribution, with its wheel, whose contents were checked.

    Raises:
        InstallerError: one cannot be had, or differs from what was locked.
        SourceError: one must not be unpacked.
    """
    from packaging.tags import sys_tags

    order = {tag: place for place, tag in enumerate(sys_tags())}
    listed = files_of([one.name for one in locked], task, installer=attempt)
    chosen = [_chosen(one, listed.get(one.name, ()), order, task, attempt) for one in locked]
    folder = task.downloads / "wheels"
    paths = [one.path(folder) for one in chosen]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
    wanted = [
        {"url": one.url, "path": str(path), "hashes": one.hashes} for one, path in zip(chosen, paths, strict=True)
    ]
    result = run_program(
        FETCH_WHEELS,
        {"wheels": wanted, "max_members": MAX_FILES, "max_bytes": MAX_BYTES},
        task,
        timeout=INSTALL_SECONDS,
        total=len(wanted),
        counts=lambda line: line.startswith("fetched "),
    )
    if result.code != 0:
        raise task.failure(attempt, result)
    try:
        parsed = (_Contents.parse(json.loads(line)) for line in result.stdout.splitlines())
        contents = dict(zip((path.name for path in paths), parsed, strict=True))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InstallerError(attempt, task.attempted, "the report about the wheels is not understood") from error
    _check_all(contents)
    return tuple(path.parent for path in paths)


def _chosen(
    locked: LockedDistribution, files: Iterable[IndexFile], order: Mapping[Tag, int], task: Task, attempt: str
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
        raise InstallerError.no_wheel(attempt, task.attempted, locked.name)
    known = [one for one in found if not one[2].digest or one[2].digest in hashes]
    if not known:
        raise InstallerError.hash_mismatch(attempt, task.attempted)
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
    entry_points: str
    problem: str

    @staticmethod
    def parse(one: Any) -> _Contents:
        members = tuple(_Member(str(path), int(kind), int(size)) for path, kind, size in one["members"])
        return _Contents(int(one["size"]), members, str(one["entry_points"]), str(one["problem"]))


def _check_all(wheels: Mapping[str, _Contents]) -> None:
    files = size = 0
    for name, contents in wheels.items():
        check_wheel(name, contents)
        files, size = files + len(contents.members), size + sum(member.size for member in contents.members)
        if files > MAX_FILES:
            raise _unsafe(name, f"is one too many: with it there are more than {MAX_FILES} files")
        if size > MAX_BYTES:
            raise _unsafe(name, f"is one too many: all that a module needs may be {MAX_BYTES >> 20} MiB")


def _unsafe(wheel: str, problem: str) -> SourceError:
    """Return the error for a wheel that must not be unpacked; nothing of it was."""
    hints = ["take another version of it, and report this to the publisher of the package"]
    return SourceError(f"the wheel `{wheel}` {problem}", code="UnsafeWheelError", hints=hints)


def check_wheel(name: str, contents: _Contents) -> None:
    """Check that a wheel may be unpacked.

    Raises:
        SourceError: it may not.
    """
    from paddock_sources.cache.errors import UnsafeTreeError
    from paddock_sources.cache.tree_names import TreeNames

    if contents.problem:
        raise _unsafe(name, contents.problem[:_MAX_SHOWN])
    size = sum(member.size for member in contents.members)
    if size > _SMALL_BYTES and size > _MAX_RATIO * contents.size:
        raise _unsafe(name, f"is {size // max(1, contents.size)} times as large when it is unpacked")
    packed, unpacked = TreeNames(), TreeNames()
    try:
        for member in contents.members:
            if member.kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise UnsafeTreeError(member.path, "it is neither a file nor a folder")
            if member.path.endswith("/"):
                TreeNames().admit(member.path.removesuffix("/"))
                continue
            packed.admit(member.path)
            unpacked.admit(_place(member.path))
        for script in _scripts(contents.entry_points):
            if "/" in script or "\\" in script:
                raise UnsafeTreeError(script, "it is announced as a script, and is no name of a file")
            TreeNames().admit(script)
    except UnsafeTreeError as error:
        raise _unsafe(name, f"cannot be taken: `{error.path[:_MAX_SHOWN]}`: {error.problem}") from None


def _place(path: str) -> str:
    """Return where a member is installed.

    Raises:
        UnsafeTreeError: the place is unknown.
    """
    from paddock_sources.cache.errors import UnsafeTreeError

    if "\\" in path or not path.isprintable():
        raise UnsafeTreeError(path, "there is a character in its name that no file of a package needs")
    match = _DATA.fullmatch(path)
    if match is None:
        return path
    folder = _FOLDERS.get(match["scheme"])
    if folder is None:
        raise UnsafeTreeError(path, "it is not known where it would be installed")
    return folder + match["path"]


def _scripts(entry_points: str) -> Iterator[str]:
    group = ""
    for line in map(str.strip, entry_points.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            group = line[1:-1].strip()
        elif group in _SCRIPTS and line and not line.startswith(("#", ";")):
            yield re.split("[=:]", line, maxsplit=1)[0].strip()
