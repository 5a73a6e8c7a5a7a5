"""uv as the installer: the first choice, because it is several times faster."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from paddock_sources.environment.errors import InstallerError
from paddock_sources.environment.index import Index
from paddock_sources.environment.installer import INSTALL_SECONDS, RESOLVE_SECONDS, ResolutionRequest, Task
from paddock_sources.environment.locked import LockedDistribution

_NEVER = "python_version < '0'"
_PIN = re.compile(r"([A-Za-z0-9._-]+)==([^\s;]+)((?:\s+--hash=\S+)*)\s*")
_NO_WHEEL = (
    re.compile(r"wheels are required for `([A-Za-z0-9._-]+)`", re.IGNORECASE),
    re.compile(r"([A-Za-z0-9._-]+?)(?:[=<>!~]=?\S+)? has no (?:usable )?wheels"),
)
_NOT_ASKED = re.compile(r"index URL \(.*\) could not be queried", re.IGNORECASE)
_MODES_REFUSED = re.compile(r"operation not permitted", re.IGNORECASE)
_UNSOLVABLE = re.compile(r"no solution found|unsatisfiable", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Uv:
    """The program at `path`."""

    path: Path
    name: str = "uv"

    @staticmethod
    def find(environ: Mapping[str, str]) -> Uv | None:
        """Return the uv beside this interpreter, or else on the PATH; None when there is neither."""
        folders = [os.path.dirname(sys.executable), *environ.get("PATH", "").split(os.pathsep)]
        for folder in filter(os.path.isabs, folders):
            path = Path(folder, "uv")
            if _is_program(path):
                return Uv(path.resolve())
        return None

    @property
    def programs(self) -> tuple[Path, ...]:
        return (self.path,)

    def environ(self, index: Index) -> Mapping[str, str]:
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
        constraints: tuple[str, ...] = ()
        if lines := wanted.constraint_lines():  # an empty file is warned of
            constraints = ("--constraints", str(task.write("constraints.txt", lines)))
        argv = [
            *(str(self.path), "pip", "compile", *_common(task), "--generate-hashes", "--no-header", "--no-annotate"),
            *constraints,
            *("--overrides", str(task.write("overrides.txt", (f"{name} ; {_NEVER}" for name in wanted.provided)))),
            str(task.write("requirements.in", wanted.requirements)),
        ]
        result = task.run(argv, timeout=RESOLVE_SECONDS)
        if result.code != 0:
            printed = result.stderr.decode("utf-8", "replace")
            missing = next((match[1] for pattern in _NO_WHEEL if (match := pattern.search(printed))), None)
            if missing is not None:
                raise InstallerError.no_wheel(self.name, task.attempted, missing, report=task.report(result))
            if _UNSOLVABLE.search(printed) and not result.refused and not _NOT_ASKED.search(printed):
                raise InstallerError.unsolvable(self.name, task.attempted, report=task.report(result))
            raise task.failure(self.name, result)
        return tuple(sorted(self._pinned(result.stdout.decode("utf-8", "replace"), task)))

    def install(self, locked: Sequence[LockedDistribution], wheels: Sequence[Path], site: Path, task: Task) -> None:
        found = (f"--find-links {folder.as_uri()}" for folder in wheels)
        argv = [
            *(str(self.path), "pip", "install", *_common(task), "--no-deps", "--require-hashes"),
            *("--no-index", "--offline"),
            *("--link-mode", "copy", "--target", str(site)),  # uv could still write to a hard-linked file
            *("--requirements", str(task.write("locked.txt", (*found, *(one.requirement for one in locked))))),
        ]
        result = task.run(
            argv,
            timeout=INSTALL_SECONDS,
            total=len(locked),
            counts=lambda line: line.lstrip().startswith(("+ ", "Downloaded ")),
        )
        if result.code != 0:
            if _MODES_REFUSED.search(result.stderr.decode("utf-8", "replace")):
                problem = "it may not change the modes of files here"
                report = task.report(result)
                raise InstallerError(self.name, task.attempted, problem, code="ModesRefusedError", report=report)
            raise task.failure(self.name, result)

    def _pinned(self, output: str, task: Task) -> Iterator[LockedDistribution]:
        for line in output.replace("\\\n", " ").splitlines():
            if not line.strip():
                continue
            match = _PIN.fullmatch(line)
            if match is None:
                raise InstallerError(self.name, task.attempted, f"`{line[:80]}` is no version with hashes")
            hashes = sorted({one.removeprefix("--hash=") for one in match[3].split()})  # an index may list a file twice
            yield LockedDistribution(match[1], match[2], tuple(one for one in hashes if one.startswith("sha256:")))


def _common(task: Task) -> tuple[str, ...]:
    return (
        *("--no-config", "--no-build", "--no-python-downloads", "--no-progress", "--color", "never"),
        *("--cache-dir", str(task.downloads), "--python", str(task.python.path)),
    )


def _is_program(path: Path) -> bool:
    """Return whether it is uv itself: a version manager's shim only works in the manager's own folder."""
    try:
        with path.open("rb") as file:
            return os.access(path, os.X_OK) and file.read(2) != b"#!"
    except OSError:
        return False
