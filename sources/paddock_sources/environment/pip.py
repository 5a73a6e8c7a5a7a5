"""pip as the installer, run by the interpreter that runs modules.

pip need not be installed for that interpreter: the pip of the host's environment is used, or the one that came with
Python. pip reports only the hash of the file it would take here. So the index is asked for the hashes of the other
files.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from paddock_sources.environment.errors import InstallerError
from paddock_sources.environment.index import Index
from paddock_sources.environment.installer import INSTALL_SECONDS, RESOLVE_SECONDS, ResolutionRequest, Task
from paddock_sources.environment.listing import IndexFile, files_of
from paddock_sources.environment.locked import LockedDistribution
from paddock_sources.environment.requirements import parsed_requirement

if TYPE_CHECKING:
    from packaging.version import Version

_PIP = Path(__file__).resolve().with_name("pip_program.py")
_MISSING = re.compile(r"no matching distribution found for (.+?)(?: \(from .*)?$", re.IGNORECASE | re.MULTILINE)
_IMPOSSIBLE = re.compile(r"resolutionimpossible|conflicting dependencies", re.IGNORECASE)
_NOT_REACHED = re.compile(r"retrying \(|could not fetch url|\b40[137] (?:client )?error", re.IGNORECASE)
_ANY_VERSION = "9999"  # of a provided package whose version is unknown: most requirements ask for a newer one


@dataclass(frozen=True, slots=True)
class Pip:
    """The pip at `path`: its package's folder, in an environment or inside a wheel."""

    path: Path
    name: str = "pip"

    @staticmethod
    def find() -> Pip | None:
        """Return the pip of this interpreter's environment, or else the bundled one; None when there is neither."""
        try:
            spec = importlib.util.find_spec("pip")
        except (ImportError, ValueError):
            spec = None
        if spec is not None and spec.submodule_search_locations:
            return Pip(Path(next(iter(spec.submodule_search_locations))).resolve())
        return Pip.bundled()

    @staticmethod
    def bundled() -> Pip | None:
        """Return the pip that came with Python, if its distributor left it in."""
        spec = importlib.util.find_spec("ensurepip")
        if spec is None or spec.origin is None:
            return None
        wheels = sorted(Path(spec.origin).resolve().parent.glob("_bundled/pip-*.whl"))
        return Pip(wheels[-1] / "pip") if wheels else None

    @property
    def programs(self) -> tuple[Path, ...]:
        # All that lies beside it: a package can only be imported from a folder that can be listed.
        return (self.path.parent, _PIP)

    def environ(self, index: Index) -> Mapping[str, str]:
        # pip reads the machine's configuration even in isolation; this path has none.
        return {"PIP_CONFIG_FILE": "/dev/null"}

    def resolve(self, wanted: ResolutionRequest, task: Task) -> tuple[LockedDistribution, ...]:
        stubs = dict(_stubs(wanted.provided, task.folder / "stubs"))
        lines = [
            f"--index-url {task.index.url}",
            f"--find-links {shlex.quote(str(task.folder / 'stubs'))}",
            *wanted.requirements,
        ]
        argv = [
            *(*self._command(task), "install", "--dry-run", "--ignore-installed", "--quiet", "--report", "-"),
            *("--only-binary", ":all:"),
            *("--constraint", str(task.write("constraints.txt", wanted.constraint_lines(stubs)))),
            *("--requirement", str(task.write("requirements.in", lines))),
        ]
        result = task.run(argv, timeout=RESOLVE_SECONDS)
        if result.code != 0:
            stderr = result.stderr.decode("utf-8", "replace")
            missing = _MISSING.search(stderr)
            if result.refused or _NOT_REACHED.search(stderr) or not (missing or _IMPOSSIBLE.search(stderr)):
                raise task.failure(self.name, result)
            report = task.report(result)
            if missing is not None and (name := self._only_source(missing[1], task)):
                raise InstallerError.no_wheel(self.name, task.attempted, name, report=report)
            raise InstallerError.unsolvable(self.name, task.attempted, report=report)
        chosen = [one for one in self._chosen(result.stdout, task) if one[0] not in stubs]
        files = files_of([name for name, _, _ in chosen], task, installer=self.name)
        return tuple(sorted(self._pinned(*one, files) for one in chosen))

    def install(self, locked: Sequence[LockedDistribution], wheels: Sequence[Path], site: Path, task: Task) -> None:
        found = (f"--find-links {folder.as_uri()}" for folder in wheels)
        argv = [
            *(*self._command(task), "install", "--no-deps", "--ignore-installed", "--no-compile", "--require-hashes"),
            *("--no-index", "--only-binary", ":all:", "--no-warn-script-location", "--progress-bar", "off"),
            *("--target", str(site)),
            *("--requirement", str(task.write("locked.txt", (*found, *(one.requirement for one in locked))))),
        ]
        result = task.run(argv, timeout=INSTALL_SECONDS, total=len(locked))
        if result.code != 0:
            raise task.failure(self.name, result)

    def _command(self, task: Task) -> tuple[str, ...]:
        certificates = ("--cert", str(task.index.ca_file)) if task.index.ca_file else ()
        return (
            *_python(task, _PIP),
            str(self.path),
            *("--isolated", "--no-input", "--no-color", "--disable-pip-version-check", *certificates),
            *("--retries", "2", "--timeout", "30", "--cache-dir", str(task.downloads)),
        )

    def _chosen(self, output: bytes, task: Task) -> Iterator[tuple[str, str, str]]:
        """Yield name, version and hash of each distribution in pip's report."""
        from packaging.utils import canonicalize_name

        try:
            for one in json.loads(output)["install"]:
                facts, archive = one["metadata"], one["download_info"]["archive_info"]
                yield canonicalize_name(facts["name"]), facts["version"], "sha256:" + archive["hashes"]["sha256"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InstallerError(self.name, task.attempted, "its report is not understood") from error

    def _pinned(
        self, name: str, version: str, digest: str, files: Mapping[str, Sequence[IndexFile]]
    ) -> LockedDistribution:
        from packaging.version import Version

        wanted = Version(version)
        others = {
            f"sha256:{file.digest}" for file in files.get(name, ()) if file.digest and _version_of(file.name) == wanted
        }
        return LockedDistribution(name, version, tuple(sorted({digest, *others})))

    def _only_source(self, text: str, task: Task) -> str | None:
        """Return the name of a requirement that the index could only satisfy with something to be built."""
        try:
            requirement = parsed_requirement(text)
        except ValueError:
            return None
        files = files_of([requirement.name], task, installer=self.name).get(requirement.name, ())
        versions = [version for file in files if (version := _version_of(file.name)) is not None]
        fits = any(requirement.specifier.contains(one, prereleases=True) for one in versions)
        return requirement.name if fits else None


def _python(task: Task, program: Path) -> tuple[str, ...]:
    """Return the command for one of our programs, without the interpreter's packages, one of which may be pip."""
    return (str(task.python.path), "-I", "-S", "-B", str(program))


def _version_of(file: str) -> Version | None:
    from packaging.utils import InvalidSdistFilename, InvalidWheelFilename, parse_sdist_filename, parse_wheel_filename
    from packaging.version import InvalidVersion

    try:
        return parse_wheel_filename(file)[1] if file.endswith(".whl") else parse_sdist_filename(file)[1]
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion, ValueError):
        return None


def _stubs(provided: Mapping[str, str], folder: Path) -> Iterator[tuple[str, str]]:
    """Write an empty wheel for each distribution that is provided, and yield its name and version.

    pip cannot leave a dependency out. So it finds an empty one, in a version that no index has.
    """
    folder.mkdir()
    for name, known in provided.items():
        version = f"{known or _ANY_VERSION}+provided" if "+" not in known else known
        escaped = name.replace("-", "_")
        info = f"{escaped}-{version}.dist-info"
        with zipfile.ZipFile(folder / f"{escaped}-{version}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")
        yield name, version
