"""uv, which chooses the versions of what modules depend on, and the wheels of these versions.

It runs in a `CommandSession` that reaches only the index, reads no configuration, and takes wheels only.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from paddock_sources.bounded_toml import read_toml
from paddock_sources.commands.command_runner import CommandResult
from paddock_sources.environment.errors import InstallerError
from paddock_sources.environment.index import Index
from paddock_sources.environment.locked import LockedDistribution
from paddock_sources.environment.task import RESOLVE_SECONDS, Task
from paddock_sources.errors import SourceError

if TYPE_CHECKING:
    from packaging.tags import Tag

_NEVER = "python_version < '0'"
_PIN = re.compile(r"([A-Za-z0-9._-]+)==([^\s;]+)((?:\s+--hash=\S+)*)\s*")
_SHA256 = re.compile("[0-9a-f]{64}")
_NO_WHEEL = (
    re.compile(r"wheels are required for `([A-Za-z0-9._-]+)`", re.IGNORECASE),
    re.compile(r"([A-Za-z0-9._-]+?)(?:[=<>!~]=?\S+)? has no (?:usable )?wheels"),
)
_NOT_ASKED = re.compile(r"index URL \(.*\) could not be queried", re.IGNORECASE)
_UNSOLVABLE = re.compile(r"no solution found|unsatisfiable", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ResolutionRequest:
    """The input of a resolution: lines of requirements, versions to keep to, and packages that need no install.

    `bounds` are further lines, each of a package and the versions of it that may be chosen.
    """

    requirements: tuple[str, ...]
    constraints: Mapping[str, str] = field(default_factory=dict)
    provided: Mapping[str, str] = field(default_factory=dict)
    bounds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IndexWheel:
    """A wheel of the index, to be fetched; `hashes` are hexadecimal, and it has one of them."""

    filename: str
    url: str
    hashes: tuple[str, ...]

    def path(self, folder: Path) -> Path:
        """Return the place of the wheel in a folder of downloads."""
        return folder / self.hashes[0] / self.filename


@dataclass(frozen=True, slots=True)
class Uv:
    """The program at `path`."""

    path: Path

    @staticmethod
    def find(environ: Mapping[str, str]) -> Uv:
        """Return the uv beside this interpreter, or else on the PATH of `environ`.

        Raises:
            SourceError: there is neither.
        """
        folders = [os.path.dirname(sys.executable), *environ.get("PATH", "").split(os.pathsep)]
        for folder in filter(os.path.isabs, folders):
            path = Path(folder, "uv")
            if _is_program(path):
                return Uv(path.resolve())
        raise SourceError(
            "uv is not installed, which chooses the versions of packages: there may be no wheel of uv for this machine",
            code="NoInstallerError",
            hints=[
                f"install it beside paddock: `{shlex.quote(sys.executable)} -m pip install uv`",
                "or build it elsewhere for this machine, and put it into a folder of the PATH",
            ],
        )

    def environ(self, index: Index) -> Mapping[str, str]:
        """Return the variables that it is to see."""
        variables = {
            "UV_DEFAULT_INDEX": index.url,  # not an argument: those can be seen by everybody on the machine
            "UV_NO_PROGRESS": "1",
            "UV_PYTHON_DOWNLOADS": "never",
            "UV_HTTP_TIMEOUT": "30",
            "UV_HTTP_RETRIES": "2",
            "NO_COLOR": "1",
        }
        return {**variables, "SSL_CERT_FILE": str(index.ca_file)} if index.ca_file else variables

    def resolve(self, wanted: ResolutionRequest, task: Task) -> tuple[LockedDistribution, ...]:
        """Return versions that satisfy the requirements, with the hashes of all files that the index has of them.

        Raises:
            InstallerError: there are none, or the index does not answer.
        """
        constraints: tuple[str, ...] = ()
        lines = (*(f"{name}=={version}" for name, version in sorted(wanted.constraints.items())), *wanted.bounds)
        if lines:  # an empty file is warned of
            constraints = ("--constraints", str(task.write("constraints.txt", lines)))
        overrides = task.write("overrides.txt", (f"{name} ; {_NEVER}" for name in wanted.provided))
        options = ("--generate-hashes", "--cache-dir", str(task.downloads), *constraints, "--overrides", str(overrides))
        result = self._compiled(wanted.requirements, task, *options)
        if result.code != 0:
            raise self._failure(result, task)
        return tuple(sorted(self._pinned(result.stdout.decode("utf-8", "replace"), task)))

    def wheels(self, locked: Sequence[LockedDistribution], task: Task) -> tuple[IndexWheel, ...]:
        """Return the wheel of each of these distributions that fits this machine best.

        Raises:
            InstallerError: there is none, it is not among the locked ones, or the index does not answer.
        """
        lines = [f"{one.name}=={one.version}" for one in locked]
        # Without what uv keeps of an index, which may be older than the choice of versions.
        result = self._compiled(lines, task, "--no-deps", "--format", "pylock.toml", "--no-cache")
        if result.code != 0:
            failure = self._failure(result, task)
            if failure.code != "UnsolvableError":
                raise failure
            printed = result.stderr.decode("utf-8", "replace")
            named = (one.name for one in locked if re.search(rf"(?<![\w.-]){one.name}==", printed))
            missing = next(named, locked[0].name)
            raise InstallerError.no_wheel(task.attempted, missing, report=task.report(result))
        try:
            found = {one["name"]: one["wheels"] for one in read_toml(result.stdout)["packages"]}
            return tuple(_chosen(one, found[one.name], task) for one in locked)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InstallerError(task.attempted, "the index's list of files is not understood") from error

    def _compiled(self, requirements: Sequence[str], task: Task, *options: str) -> CommandResult:
        argv = [
            *(str(self.path), "pip", "compile", "--no-header", "--no-annotate"),
            *("--no-config", "--no-build", "--no-python-downloads", "--no-progress", "--color", "never"),
            *("--python", str(task.python.path), *options),
            str(task.write("requirements.in", requirements)),
        ]
        return task.run(argv, timeout=RESOLVE_SECONDS)

    def _failure(self, result: CommandResult, task: Task) -> SourceError:
        printed = result.stderr.decode("utf-8", "replace")
        missing = next((match[1] for pattern in _NO_WHEEL if (match := pattern.search(printed))), None)
        if missing is not None:
            return InstallerError.no_wheel(task.attempted, missing, report=task.report(result))
        if _UNSOLVABLE.search(printed) and not result.refused and not _NOT_ASKED.search(printed):
            return InstallerError.unsolvable(task.attempted, report=task.report(result))
        return task.failure(result)

    def _pinned(self, output: str, task: Task) -> Iterator[LockedDistribution]:
        for line in output.replace("\\\n", " ").splitlines():
            if not line.strip():
                continue
            match = _PIN.fullmatch(line)
            if match is None:
                raise InstallerError(task.attempted, f"`{line[:80]}` is no version with hashes")
            hashes = sorted({one.removeprefix("--hash=") for one in match[3].split()})  # an index may list a file twice
            yield LockedDistribution(match[1], match[2], tuple(one for one in hashes if one.startswith("sha256:")))


def _chosen(locked: LockedDistribution, files: Iterable[Any], task: Task) -> IndexWheel:
    """Return the best fitting of the wheels that uv lists, without those that are known to be other bytes.

    A uv before 0.10 lists the wheels of all machines.

    Raises:
        InstallerError: none is left.
        ValueError: one is of another distribution, or has no address or hash of a known form.
    """
    from packaging.utils import parse_wheel_filename
    from packaging.version import Version

    order = _order_of_tags()
    hashes = tuple(one.removeprefix("sha256:") for one in locked.hashes)
    fitting: list[tuple[int, tuple[int, ...], IndexWheel]] = []
    for file in files:
        address = urlsplit(file["url"])
        filename = file.get("name") or unquote(address.path.rpartition("/")[2])
        name, version, build, tags = parse_wheel_filename(filename)
        digest = file["hashes"].get("sha256", "")  # an index need not give any
        if (name, version) != (locked.name, Version(locked.version)) or "/" in filename:
            raise ValueError("another wheel")
        if address.scheme not in ("http", "https") or (digest and not _SHA256.fullmatch(digest)):
            raise ValueError("no address, or no hash")
        wheel = IndexWheel(filename, address.geturl(), (digest,) if digest else hashes)
        if places := [order[tag] for tag in tags if tag in order]:
            fitting.append((min(places), tuple(-part for part in build if isinstance(part, int)), wheel))
    if not fitting:
        raise InstallerError.no_wheel(task.attempted, locked.name)
    known = [one for one in fitting if set(one[2].hashes) <= set(hashes)]
    if not known:
        raise InstallerError.hash_mismatch(task.attempted)
    return min(known, key=lambda one: one[:2])[2]


@cache
def _order_of_tags() -> Mapping[Tag, int]:
    from packaging.tags import sys_tags

    return {tag: place for place, tag in enumerate(sys_tags())}


def _is_program(path: Path) -> bool:
    """Return whether it is uv itself: a version manager's shim only works in the manager's own folder."""
    try:
        with path.open("rb") as file:
            return os.access(path, os.X_OK) and file.read(2) != b"#!"
    except OSError:
        return False
