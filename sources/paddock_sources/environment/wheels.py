"""Fetch the wheels of locked distributions, refuse each one that is not safe to unpack, and unpack the others.

uv lists the wheels of the locked versions; the one that fits this machine best is taken. Its members are judged like a
repository's files (`cache.tree_names`) before anything unpacks them: their paths, the places where they go, their
number, and their size compared with the size of the wheel. Sandboxed programs (`fetch_wheels.py`, `unpack_wheels.py`)
do the rest. Scripts, headers and compiled code are left out: no module needs them.
"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from paddock_sources.commands.command_runner import CommandResult
from paddock_sources.environment.errors import InstallerError
from paddock_sources.environment.locked import LockedDistribution
from paddock_sources.environment.site import MAX_BYTES, MAX_FILES
from paddock_sources.environment.task import INSTALL_SECONDS, Task
from paddock_sources.environment.uv import Uv
from paddock_sources.errors import SourceError

FETCH_WHEELS: Final = Path(__file__).resolve().with_name("fetch_wheels.py")
UNPACK_WHEELS: Final = FETCH_WHEELS.with_name("unpack_wheels.py")
PROGRAMS: Final = (FETCH_WHEELS, UNPACK_WHEELS)  # what runs in the session of a task that unpacks

_MAX_RATIO: Final = 100  # packages have 3 to 10, and zeros 1,000
_SMALL_BYTES: Final = 64 << 20  # up to which a ratio does not matter
_UNPACKED: Final = ("purelib", "platlib", "data")
_LEFT_OUT: Final = ("scripts", "headers")
_DATA: Final = re.compile(r"[^/]+\.data/(?P<scheme>[^/]*)/(?P<path>.*)", re.DOTALL)
_MAX_SHOWN: Final = 200


def unpack(locked: Sequence[LockedDistribution], site: Path, task: Task, uv: Uv) -> None:
    """Put the files of these distributions into the empty folder `site`.

    Raises:
        InstallerError: one cannot be had, or differs from what was locked.
        SourceError: one must not be unpacked.
    """
    wheels = _fetched(locked, task, uv)
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


def _fetched(locked: Sequence[LockedDistribution], task: Task, uv: Uv) -> list[dict[str, object]]:
    """Return the wheels of these distributions, whose contents were checked, as the program takes them."""
    chosen = uv.wheels(locked, task)
    paths = [one.path(task.downloads) for one in chosen]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
    wanted: list[dict[str, object]] = [
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
    files, size = 0, 0
    for one, (name, wheel) in zip(wanted, contents.items(), strict=True):
        one["places"] = _places(name, wheel)
        files, size = files + len(wheel.members), size + sum(member.size for member in wheel.members)
        if files > MAX_FILES:
            raise _unsafe(name, f"is one too many: with it there are more than {MAX_FILES} files")
        if size > MAX_BYTES:
            raise _unsafe(name, f"is one too many: all that a module needs may be {MAX_BYTES >> 20} MiB")
    return wanted


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
