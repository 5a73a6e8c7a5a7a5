"""uv, which chooses the versions of what modules depend on.

It runs in a `CommandSession` that reaches only the index, reads no configuration, and takes wheels only.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from paddock_sources.environment.errors import InstallerError
from paddock_sources.environment.index import Index
from paddock_sources.environment.locked import LockedDistribution
from paddock_sources.environment.task import RESOLVE_SECONDS, Task
from paddock_sources.errors import SourceError

_NEVER = "python_version < '0'"
_PIN = re.compile(r"([A-Za-z0-9._-]+)==([^\s;]+)((?:\s+--hash=\S+)*)\s*")
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

    def constraint_lines(self) -> tuple[str, ...]:
        """Return all that holds uv to versions, as lines."""
        return (*(f"{name}=={version}" for name, version in sorted(self.constraints.items())), *self.bounds)


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
        if lines := wanted.constraint_lines():  # an empty file is warned of
            constraints = ("--constraints", str(task.write("constraints.txt", lines)))
        argv = [
            *(str(self.path), "pip", "compile", "--generate-hashes", "--no-header", "--no-annotate"),
            *("--no-config", "--no-build", "--no-python-downloads", "--no-progress", "--color", "never"),
            *("--cache-dir", str(task.downloads), "--python", str(task.python.path)),
            *constraints,
            *("--overrides", str(task.write("overrides.txt", (f"{name} ; {_NEVER}" for name in wanted.provided)))),
            str(task.write("requirements.in", wanted.requirements)),
        ]
        result = task.run(argv, timeout=RESOLVE_SECONDS)
        if result.code != 0:
            printed = result.stderr.decode("utf-8", "replace")
            missing = next((match[1] for pattern in _NO_WHEEL if (match := pattern.search(printed))), None)
            if missing is not None:
                raise InstallerError.no_wheel(task.attempted, missing, report=task.report(result))
            if _UNSOLVABLE.search(printed) and not result.refused and not _NOT_ASKED.search(printed):
                raise InstallerError.unsolvable(task.attempted, report=task.report(result))
            raise task.failure(result)
        return tuple(sorted(self._pinned(result.stdout.decode("utf-8", "replace"), task)))

    def _pinned(self, output: str, task: Task) -> Iterator[LockedDistribution]:
        for line in output.replace("\\\n", " ").splitlines():
            if not line.strip():
                continue
            match = _PIN.fullmatch(line)
            if match is None:
                raise InstallerError(task.attempted, f"`{line[:80]}` is no version with hashes")
            hashes = sorted({one.removeprefix("--hash=") for one in match[3].split()})  # an index may list a file twice
            yield LockedDistribution(match[1], match[2], tuple(one for one in hashes if one.startswith("sha256:")))


def _is_program(path: Path) -> bool:
    """Return whether it is uv itself: a version manager's shim only works in the manager's own folder."""
    try:
        with path.open("rb") as file:
            return os.access(path, os.X_OK) and file.read(2) != b"#!"
    except OSError:
        return False
