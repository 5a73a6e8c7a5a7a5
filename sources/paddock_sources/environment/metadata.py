"""A source tree's distribution metadata, so that code run from the tree finds its own version and entry points.

It is written from the static table of the tree's `pyproject.toml`, without a build backend. A version that only a build
would know becomes `0+<the commit>`.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock_sources.environment.errors import RequirementsError
from paddock_sources.environment.project_file import read_project
from paddock_sources.environment.requirements import parsed_requirement
from paddock_sources.errors import SourceError

if TYPE_CHECKING:
    from paddock_sources.cache import SourceCache

_MAX_LENGTH = 1024
_MAX_ENTRY_POINTS = 1000
_MAX_REQUIREMENTS = 1000
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?")
_GROUP = re.compile(r"[\w-]+(?:\.[\w-]+)*", re.ASCII)
_ENTRY_NAME = re.compile(r"[\w.-](?:[\w. -]*[\w.-])?", re.ASCII)
_TARGET = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*(?:\s*:\s*[A-Za-z_]\w*(?:\.\w+)*)?", re.ASCII)
_COMMIT = re.compile(r"(?:sha256:)?([0-9a-f]{12})[0-9a-f]*")


@dataclass(frozen=True, slots=True)
class Metadata:
    """The metadata of a distribution; `files` are the names and texts of its `.dist-info` folder."""

    name: str
    version: str
    metadata: str
    entry_points: str

    @property
    def folder(self) -> str:
        """The name of its `.dist-info` folder."""
        return f"{re.sub('[-_.]+', '_', self.name)}-{self.version.replace('-', '_')}.dist-info"

    @property
    def files(self) -> Mapping[str, str]:
        files = {f"{self.folder}/METADATA": self.metadata, f"{self.folder}/INSTALLER": "paddock\n"}
        if self.entry_points:
            files[f"{self.folder}/entry_points.txt"] = self.entry_points
        record = "".join(f"{path},sha256={_record_hash(text)},{len(text.encode())}\n" for path, text in files.items())
        return {**files, f"{self.folder}/RECORD": f"{record}{self.folder}/RECORD,,\n"}

    @property
    def digest(self) -> str:
        """The digest that identifies it in the cache."""
        content = "".join(f"{path}\0{text}\0" for path, text in sorted(self.files.items()))
        return "sha256:" + hashlib.sha256(content.encode()).hexdigest()

    def write(self, folder: Path) -> None:
        """Write the `.dist-info` folder into `folder`."""
        (folder / self.folder).mkdir()
        for path, text in self.files.items():
            (folder / path).write_text(text, encoding="utf-8")

    def provide(self, cache: SourceCache) -> Path:
        """Return the folder of the cache that has the metadata, for a worker's `sys.path`.

        Raises:
            CacheError: it cannot be put there.
        """
        from paddock_sources.cache import Bucket

        return cache.store(Bucket.METADATA).add(self.digest, self.write)


def distribution_metadata(tree_root: Path, commit: str) -> Metadata | None:
    """Return the metadata of the tree whose root is `tree_root`; None when it does not name a distribution.

    `commit` is the commit, or the digest of the tree.

    Raises:
        SourceError: its values are not valid for a distribution.
    """
    path = tree_root / "pyproject.toml"
    try:
        project = read_project(tree_root)
    except RequirementsError as error:
        raise _malformed(path, error.problem) from error
    if "name" not in project:
        return None
    name = project["name"]
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _malformed(path, "`project.name` is not the name of a distribution")
    version = _version(project, commit, path)
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += _optional_line("Summary", project, "description", path)
    lines += _optional_line("Requires-Python", project, "requires-python", path)
    lines += [f"Requires-Dist: {line}" for line in _requirements(project, path)]
    return Metadata(name, version, "\n".join(lines) + "\n", _entry_points(project, path))


def _version(project: Mapping[str, Any], commit: str, path: Path) -> str:
    from packaging.version import InvalidVersion, Version

    written = project.get("version")
    if written is None:
        match = _COMMIT.fullmatch(commit)
        return f"0+{match[1]}" if match is not None else "0"
    try:
        if not isinstance(written, str) or len(written) > _MAX_LENGTH:
            raise InvalidVersion("not a text")
        return str(Version(written))
    except (InvalidVersion, ValueError) as error:
        raise _malformed(path, "`project.version` is not a version") from error


def _optional_line(header: str, project: Mapping[str, Any], key: str, path: Path) -> list[str]:
    value = project.get(key)
    if value is None:
        return []
    # Another line would be another header.
    if not isinstance(value, str) or len(value) > _MAX_LENGTH or not value.isprintable():
        raise _malformed(path, f"`project.{key}` is not a line of text")
    return [f"{header}: {value}"]


def _requirements(project: Mapping[str, Any], path: Path) -> list[str]:
    written = project.get("dependencies", [])
    if not isinstance(written, list) or len(written) > _MAX_REQUIREMENTS:
        raise _malformed(path, "`project.dependencies` is not a list of a reasonable size")
    try:
        return [str(parsed_requirement(text if isinstance(text, str) else "")) for text in written]
    except ValueError as error:
        raise _malformed(path, f"an entry of `project.dependencies` is no requirement: {error}") from error


def _entry_points(project: Mapping[str, Any], path: Path) -> str:
    groups = project.get("entry-points", {})
    if not isinstance(groups, dict):
        raise _malformed(path, "`project.entry-points` is not a table")
    sections = dict(groups)
    for key, group in (("scripts", "console_scripts"), ("gui-scripts", "gui_scripts")):
        if key in project:
            sections[group] = project[key]
    text, count = "", 0
    for group, entries in sections.items():
        if not _GROUP.fullmatch(group) or len(group) > _MAX_LENGTH or not isinstance(entries, dict):
            raise _malformed(path, "a group of `project.entry-points` has an odd name or is no table")
        count += len(entries)
        if count > _MAX_ENTRY_POINTS:
            raise _malformed(path, f"it has more than {_MAX_ENTRY_POINTS} entry points")
        text += f"[{group}]\n"
        for name, target in entries.items():
            if not _ENTRY_NAME.fullmatch(name) or not isinstance(target, str) or not _TARGET.fullmatch(target):
                raise _malformed(path, f"an entry point of `{group}` does not name an object of a module")
            if len(name) + len(target) > _MAX_LENGTH:
                raise _malformed(path, f"an entry point of `{group}` is too long")
            text += f"{name} = {target}\n"
    return text


def _record_hash(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def _malformed(path: Path, problem: str) -> SourceError:
    """Return the error for static metadata that cannot be written as a distribution's."""
    return SourceError(f"`{path}` describes no distribution: {problem}", code="DistributionMetadataError")
