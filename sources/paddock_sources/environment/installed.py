"""Distributions that are installed for some interpreter, read from their metadata and never imported.

Any of them may announce itself as a module, so their metadata is untrusted: it is capped, checked against the list of
the distribution's own files, and used for nothing else. Files count as they were installed: each must have the hash in
its list.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import os
import re
import stat
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from paddock_sources.cache.tree_names import is_compiled
from paddock_sources.constraints import PROVIDED
from paddock_sources.environment.contract import check_contract
from paddock_sources.environment.errors import InstalledDistributionError
from paddock_sources.environment.interpreter import Interpreter
from paddock_sources.environment.requirements import applies, normalised, parsed_requirement
from paddock_sources.errors import ManifestError, ModuleIdError, SourceError
from paddock_sources.manifest.read import ENTRY_POINT_GROUPS
from paddock_sources.module_id import PACKAGE_PREFIX, checked_module_id
from paddock_sources.tree import SourceTree

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_NAME_PREFIX = "amplifier-module-"
_MAX_METADATA_BYTES = 4 << 20  # a whole README may be in it
_MAX_ENTRY_POINTS_BYTES = 256 << 10
_MAX_RECORD_BYTES = 64 << 20
_MAX_RECORD_ROWS = 200_000
_MAX_FILE_BYTES = 2 << 30
_MAX_DISTRIBUTIONS = 2000  # among the dependencies of one
_CHUNK_BYTES = 1 << 20
_HASH = re.compile(r"sha256=([A-Za-z0-9_-]{43})")
_ENTRY_POINT = re.compile(r"([A-Za-z_]\w*)((?:\.\w+)*)\s*(?::\s*([A-Za-z_]\w*)\s*)?(?:\[.*\])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """An entry point: `name`, and the function `attribute` (may be empty) in `package`."""

    name: str
    package: str
    attribute: str = ""


@dataclass(frozen=True)
class InstalledDistribution:
    """The distribution whose metadata is in `info`, a folder `<name>-<version>.dist-info` beside its files.

    `name` is normalised, `label` is as its author writes it.
    """

    info: Path
    name: str
    label: str
    version: str
    requires: tuple[str, ...] = field(repr=False)

    @property
    def site(self) -> Path:
        """The folder that its files are in."""
        return self.info.parent

    @cached_property
    def entry_points(self) -> tuple[EntryPoint, ...]:
        """The entry points that announce modules; malformed ones are left out."""
        text = self._read("entry_points.txt", _MAX_ENTRY_POINTS_BYTES)
        return tuple(
            EntryPoint(name, match[1], "" if match[2] else match[3] or "")
            for name, match in _targets(text, ENTRY_POINT_GROUPS)
        )

    @property
    def scripts(self) -> Mapping[str, tuple[str, str]]:
        """The module and the function of each program that an installer makes for it, by the program's name."""
        text = self._read("entry_points.txt", _MAX_ENTRY_POINTS_BYTES)
        return {
            name: (match[1] + match[2], match[3])
            for name, match in _targets(text, ("console_scripts",))
            if match[3] and name.isprintable()
        }

    @cached_property
    def editable(self) -> Path | None:
        """The folder it is developed in, where it is installed from one in place."""
        try:
            origin = json.loads(self._read("direct_url.json", _MAX_ENTRY_POINTS_BYTES) or "{}")
            url = urlsplit(origin["url"]) if origin["dir_info"]["editable"] is True else None
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
        if url is None or url.scheme != "file" or url.netloc not in ("", "localhost"):
            return None
        folder = Path(unquote(url.path))
        return folder if folder.is_absolute() and "\0" not in url.path else None

    @cached_property
    def files(self) -> Mapping[str, str]:
        """Its own files below `site` that code may need, with their hashes (hexadecimal).

        Files outside the folder (scripts) and files without a hash are left out.

        Raises:
            InstalledDistributionError: there is no list of files.
        """
        record = self._read("RECORD", _MAX_RECORD_BYTES)
        if not record:
            raise InstalledDistributionError(
                self.name,
                "it does not tell which files are its own",
                hints=[f"install it again with pip or uv: `pip install --force-reinstall {self.name}`"],
            )
        found: dict[str, str] = {}
        try:
            for count, row in enumerate(csv.reader(record.splitlines())):
                if count == _MAX_RECORD_ROWS:
                    raise InstalledDistributionError(self.name, f"it has more than {_MAX_RECORD_ROWS} files")
                digest = _HASH.fullmatch(row[1]) if len(row) > 1 else None
                if digest is not None and _is_own(row[0]):
                    found[PurePosixPath(row[0]).as_posix()] = base64.urlsafe_b64decode(digest[1] + "=").hex()
        except csv.Error as error:
            raise InstalledDistributionError(self.name, f"its list of files is malformed: {error}") from error
        return found

    @cached_property
    def packages(self) -> frozenset[str]:
        """The top-level packages among its files."""
        return frozenset(
            path.partition("/")[0] for path in self.files if re.fullmatch(r"[A-Za-z_]\w*/__init__\.py", path, re.ASCII)
        )

    def requirements(self, python: Interpreter, extras: Iterable[str] = ()) -> Iterator[Requirement]:
        """Yield its dependencies there, with these of its extras.

        Raises:
            InstalledDistributionError: an entry is no valid requirement.
        """
        for text in self.requires:
            try:
                requirement = parsed_requirement(text)
                if applies(requirement, python, tuple(extras)):
                    yield requirement
            except ValueError as error:
                raise InstalledDistributionError(
                    self.name, f"`{text[:80]}` in its metadata is no requirement ({error})"
                ) from error

    @property
    def module_ids(self) -> tuple[str, ...]:
        """The ids of the modules it announces, or else has by convention; the one it is named for is the first.

        Raises:
            InstalledDistributionError: it has no module.
        """
        named = self.name.removeprefix(_NAME_PREFIX)
        ids = {entry.name for entry in self.entry_points if _is_module_id(entry.name)}
        if not ids and self.editable is not None:
            ids = {named}
        if not ids:
            by_convention = (one for one in self.packages if one.startswith(PACKAGE_PREFIX))
            ids = {one.removeprefix(PACKAGE_PREFIX).replace("_", "-") for one in by_convention}
        if not ids:
            raise InstalledDistributionError(self.name, "there is no module in it")
        return tuple(sorted(ids, key=lambda one: (one != named, one)))

    def module_package(self, module_id: str) -> tuple[str, str]:
        """Return the package of a module in it, and the function that mounts it.

        Raises:
            InstalledDistributionError: it holds no such module, or places the module in another distribution's files.
        """
        announced = [one for one in self.entry_points if one.name == module_id] or list(self.entry_points)
        if announced and (announced[0].name == module_id or len({one.name for one in announced}) == 1):
            entry = announced[0]
            if entry.package not in self.packages:
                raise InstalledDistributionError(
                    self.name,
                    f"it announces module `{module_id}` in `{entry.package}`, which is not a package among its files",
                )
            return entry.package, entry.attribute or "mount"
        candidates = sorted(one for one in self.packages if one.startswith(PACKAGE_PREFIX))
        if len(candidates) != 1:
            ids = ", ".join(sorted({one.name for one in self.entry_points}))
            there = f"there are: {ids}" if ids else "it announces none"
            raise InstalledDistributionError(self.name, f"it holds no module `{module_id}` ({there})")
        return candidates[0], "mount"

    def copy(self, target: Path) -> None:
        """Copy its files into the folder `target`, each checked against its hash.

        A file that several distributions name is copied once; it must match the hash of one of them.

        Raises:
            InstalledDistributionError: a file is gone, or was changed.
        """
        for path, digest in self.files.items():
            there = target / path
            if there.is_file():
                continue
            there.parent.mkdir(parents=True, exist_ok=True)
            if _copied(self.site / path, there) == digest:
                continue
            there.unlink(missing_ok=True)
            raise InstalledDistributionError(
                self.name,
                f"`{path}` is gone, or not what was installed",
                hints=[f"install it again: `pip install --force-reinstall {self.name}`"],
            )

    def _read(self, name: str, limit_bytes: int) -> str:
        return _read(self.info, name, limit_bytes)


class InstalledDistributions:
    """All that are installed in the folders of `path`, by default those this process imports from."""

    def __init__(self, path: Iterable[str | os.PathLike[str]] | None = None) -> None:
        self._path = tuple(map(Path, sys.path if path is None else path))

    @cached_property
    def by_name(self) -> Mapping[str, InstalledDistribution]:
        """The distributions by normalised name; the first in the path counts, as when importing."""
        found: dict[str, InstalledDistribution] = {}
        for folder in self._path:
            try:
                infos = sorted(Path(entry.path) for entry in os.scandir(folder) if entry.name.endswith(".dist-info"))
            except OSError:  # a zip file, or a folder that is not there, as in any path
                continue
            for distribution in map(_distribution, infos):
                if distribution is not None:
                    found.setdefault(distribution.name, distribution)
        return found

    def module_ids(self) -> frozenset[str]:
        """Return the ids of all modules that are announced by a name that a module can have."""
        names = (entry.name for one in self.by_name.values() for entry in one.entry_points)
        return frozenset(filter(_is_module_id, names))

    def find(self, name: str) -> InstalledDistribution | None:
        """Return the distribution that has that name, or the conventional name for that id, or that announces it.

        Raises:
            SourceError: several announce a module of that id, and none is named after it.
        """
        for label in (name, f"{_NAME_PREFIX}{name}"):
            if normalised(label) in self.by_name:
                return self.by_name[normalised(label)]
        announcing = [one for one in self.by_name.values() if any(entry.name == name for entry in one.entry_points)]
        if len(announcing) > 1:
            distributions = sorted(one.name for one in announcing)
            raise SourceError(
                f"several installed packages announce module `{name}`: {', '.join(distributions)}",
                code="AmbiguousPackageError",
                hints=[f"name the one that is meant: `source: {one}`" for one in distributions[:3]],
            )
        return announcing[0] if announcing else None

    def closure(
        self, distribution: InstalledDistribution, python: Interpreter, preloaded: Mapping[str, str]
    ) -> tuple[InstalledDistribution, ...]:
        """Return a distribution and all its dependencies, except those that a runtime has in the same version.

        Raises:
            ContractVersionError: something asks for an unknown version of the module contracts.
            InstalledDistributionError: a dependency is missing, does not fit, or cannot be determined.
        """
        found: dict[str, InstalledDistribution] = {}
        seen: set[tuple[str, str]] = set()
        waiting: list[tuple[InstalledDistribution, str]] = [(distribution, "")]
        while waiting:
            one, extra = waiting.pop()
            if (one.name, extra) in seen:
                continue
            seen.add((one.name, extra))
            if len(seen) > _MAX_DISTRIBUTIONS:
                raise InstalledDistributionError(distribution.name, "it depends on too many others")
            found[one.name] = one
            for requirement in one.requirements(python, (extra,) if extra else ()):
                needed = self._needed(one, requirement)
                if needed is not None:
                    waiting += [(needed, wanted) for wanted in ("", *sorted(map(normalised, requirement.extras)))]
        needless = {name for name, one in found.items() if preloaded.get(name) == one.version and one != distribution}
        return tuple(one for name, one in sorted(found.items()) if name not in needless)

    def _needed(self, by: InstalledDistribution, requirement: Requirement) -> InstalledDistribution | None:
        name = normalised(requirement.name)
        if name in PROVIDED:
            check_contract(by.name, requirement)
            return None
        needed = self.by_name.get(name)
        if needed is None:
            raise InstalledDistributionError.missing_dependency(by.name, str(requirement))
        if not requirement.specifier.contains(needed.version, prereleases=True):
            raise InstalledDistributionError.missing_dependency(by.name, str(requirement), needed.version)
        if needed.editable is not None:
            raise InstalledDistributionError(
                by.name,
                f"it depends on `{name}`, which is installed in place, from `{needed.editable}`",
                hints=[f"install a copy: `pip install {needed.editable}`"],
            )
        return needed


def _is_module_id(name: str) -> bool:
    try:
        checked_module_id(name)
    except ModuleIdError:
        return False
    return True


def _distribution(info: Path) -> InstalledDistribution | None:
    """Read a `.dist-info` folder; None where it is no distribution, as after a failed removal."""
    from email.parser import HeaderParser

    from packaging.version import InvalidVersion, Version

    fields = HeaderParser().parsestr(_read(info, "METADATA", _MAX_METADATA_BYTES))
    label, version = fields.get("Name", ""), fields.get("Version", "")
    if not re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?", label):
        return None
    try:
        Version(version[:128])
    except (InvalidVersion, ValueError):
        return None
    requires = tuple(re.sub(r"\s*\n\s*", " ", str(line)) for line in fields.get_all("Requires-Dist", []))
    return InstalledDistribution(info, normalised(label), label, version, requires)


def _targets(text: str, groups: Collection[str]) -> Iterator[tuple[str, re.Match[str]]]:
    """Yield the name and the target of each well-formed entry point in one of these groups."""
    group = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            group = line[1:-1].strip()
        elif group in groups and "=" in line and not line.startswith(("#", ";")):
            name, _, target = (part.strip() for part in line.partition("="))
            match = _ENTRY_POINT.fullmatch(target)
            if match is not None and name:
                yield name, match


def _read(folder: Path, name: str, limit_bytes: int) -> str:
    try:
        return (SourceTree(folder).read(name, limit_bytes=limit_bytes) or b"").decode("utf-8", "replace")
    except ManifestError:
        return ""


def _is_own(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return (
        bool(parts)
        and not path.startswith("/")
        and not {"..", "bin"} & set(parts[:1])
        and ".." not in parts
        and "\\" not in path
        and path.isprintable()
        and not path.endswith(".pth")
        and not is_compiled(path)
    )


def _copied(source: Path, target: Path) -> str:
    """Copy a file and return its hash; empty if the file cannot be read."""
    digest = hashlib.sha256()
    size = 0
    try:
        descriptor = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with open(descriptor, "rb") as file, open(target, "xb") as copy:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return ""
        while chunk := file.read(_CHUNK_BYTES):
            size += len(chunk)
            if size > _MAX_FILE_BYTES:
                return ""
            digest.update(chunk)
            copy.write(chunk)
    return digest.hexdigest()
