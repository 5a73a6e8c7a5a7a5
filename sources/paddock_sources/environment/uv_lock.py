"""A module's own `uv.lock`, read as data: the versions that its author tested it with.

Only the packages that the project needs here are read: from the project on, along the dependencies whose markers hold.
They come from an index, or from a repository at a commit. Any other origin is refused by name. A lock chooses versions
alone: packages come from the user's own index, and repositories as if the project had named them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from paddock_sources.bounded_toml import TomlError, read_toml
from paddock_sources.constraints import PROVIDED, Constraint
from paddock_sources.environment.interpreter import Interpreter
from paddock_sources.environment.locked import LockedDistribution
from paddock_sources.environment.requirements import Requirements, applies, normalised, parsed_requirement
from paddock_sources.errors import ManifestError, SourceError
from paddock_sources.lock.locked_module import LockedDependency
from paddock_sources.tree import SourceTree

UV_LOCK: Final = "uv.lock"

_VERSIONS: Final = (1,)  # of the format; revisions of one can be read by all that know the version
_MAX_BYTES: Final = 8 << 20
_MAX_PACKAGES: Final = 5000
_MAX_EDGES: Final = 1000  # of one package
_MAX_FILES: Final = 2000  # of one package
_MAX_MARKERS: Final = 10_000  # different ones that are judged; the largest of locks have some hundreds
_MAX_TEXT: Final = 4200
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?")
_VERSION: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z.!+_-]{0,127}")
_HASH: Final = re.compile(r"sha256:[0-9a-f]{64}")
_GIT: Final = re.compile(r"(?P<url>[^?#]+)(?:\?[^#]*)?#(?P<commit>[0-9a-f]{40}|[0-9a-f]{64})")
_OWN: Final = ("virtual", "editable", "directory")  # how uv names the project itself, and others of its workspace
_REFUSED: Final = {
    "path": "a file beside the project",
    "directory": "a folder beside the project",
    "editable": "a folder beside the project",
    "virtual": "a folder beside the project",
    "url": "an archive at an address",
}
_WITHOUT: Final = "or take `dependencies: locked` out, and have the versions chosen here"


def _not_taken(path: Path, problem: str, *, code: str = "UvLockError", hints: Iterable[str] = ()) -> SourceError:
    """Return the error for a `uv.lock` that cannot be followed; `code` is the kind of reason."""
    return SourceError(f"the versions of `{path}` cannot be taken: {problem}", code=code, hints=hints)


@dataclass(frozen=True, slots=True)
class UvPackage:
    """A package that the lock has: `commit` and `url` are those of its repository, empty for one of an index."""

    name: str
    version: str
    hashes: tuple[str, ...] = ()
    url: str = ""
    commit: str = ""


@dataclass(frozen=True, slots=True)
class UvLock:
    """What the lock at `path` has for a project on this machine; names are normalised."""

    path: Path
    packages: Mapping[str, UvPackage]

    @staticmethod
    def read(root: Path, top: Path, needs: Requirements, python: Interpreter, extras: Collection[str] = ()) -> UvLock:
        """Return the lock of the project in `root`: the file in it, or in the nearest folder up to `top`.

        Raises:
            SourceError: there is none, it is not understood, or it does not fit the project.
        """
        path, content = _found(root, top)
        try:
            document = read_toml(content)
        except TomlError as error:
            raise _not_taken(path, f"it is {error.problem}") from error
        version = document.get("version")
        if isinstance(version, bool) or version not in _VERSIONS:
            shown = str(version)[:20] if isinstance(version, int) else "none that is known"
            raise _not_taken(
                path,
                f"it is of version {shown}, and this Paddock knows version {_VERSIONS[-1]}",
                code="UvLockVersionError",
                hints=["lock the module with another uv", _WITHOUT],
            )
        lock = UvLock(path, _Graph(path, document, python).needed_by(needs.name or "", extras))
        for line in needs.index:
            requirement = parsed_requirement(line)
            package = lock.packages.get(normalised(requirement.name))
            if package is None or not requirement.specifier.contains(package.version, prereleases=True):
                raise lock._not_covered(requirement.name, f"`{line}`")
        return lock

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """The versions of its packages of an index, as constraints."""
        return tuple(
            Constraint(one.name, f"=={one.version}", "the module's uv.lock")
            for one in self.packages.values()
            if not one.commit
        )

    def commit_of(self, name: str, url: str) -> str:
        """Return the commit of a repository that the project names.

        Raises:
            SourceError: the lock has another origin for it, or none.
        """
        package = self.packages.get(name)
        if package is None or _repository(package.url) != _repository(url):
            raise self._not_covered(name, f"the repository {url}")
        return package.commit

    def check_repositories(self, named: Collection[str]) -> None:
        """Refuse a package from a repository that no project file names.

        Raises:
            SourceError: there is one.
        """
        for one in self.packages.values():
            if one.commit and one.name not in named:
                raise _not_taken(
                    self.path,
                    f"`{one.name}` in it comes from the repository {one.url}, which no project file names",
                    code="UvLockSourceError",
                    hints=[
                        f"name it in the module's pyproject.toml: `{one.name} @ git+{one.url}`",
                        _WITHOUT,
                    ],
                )

    def narrowed(self, chosen: Sequence[LockedDistribution]) -> tuple[LockedDistribution, ...]:
        """Return packages of the index with only those of their hashes that the lock has, where it has any.

        Raises:
            SourceError: the lock lacks a package, or has other files of it.
        """
        found = []
        for one in chosen:
            package = self.packages.get(one.name)
            if package is None or package.commit:
                raise self._not_covered(one.name, f"`{one.name}` {one.version}")
            hashes = tuple(digest for digest in one.hashes if not package.hashes or digest in package.hashes)
            if not hashes:
                raise _not_taken(
                    self.path,
                    f"the index has other files of `{one.name}` {one.version} than the lock",
                    code="HashMismatchError",
                    hints=["find out what changed at the index", _WITHOUT],
                )
            found.append(LockedDistribution(one.name, one.version, hashes))
        return tuple(found)

    def difference(self, locked: Iterable[LockedDependency]) -> str | None:
        """Return how one of these locked dependencies differs from the lock's, if one does."""
        for one in locked:
            package = self.packages.get(normalised(one.name))
            if package is None:
                return f"{one.name} {one.version}, which the module's {self.path.name} does not have"
            if package.commit != one.commit or (not one.commit and package.version != one.version):
                here, there = one.commit[:12] or one.version, package.commit[:12] or package.version
                return f"{one.name} {here}, where the module's {self.path.name} has {there}"
            if package.hashes and not set(one.hashes) <= set(package.hashes):
                return f"{one.name} {one.version} with other files than the module's {self.path.name} has"
        return None

    def _not_covered(self, name: str, wanted: str) -> SourceError:
        package = self.packages.get(normalised(name))
        there = f"has {package.version}" if package is not None else "does not have it"
        return _not_taken(
            self.path,
            f"{wanted} is needed, and the lock {there}",
            code="UvLockCoverageError",
            hints=["bring the module's lock up to date: `uv lock` in its folder", _WITHOUT],
        )


def _found(root: Path, top: Path) -> tuple[Path, bytes]:
    folder = root
    while True:
        try:
            content = SourceTree(folder).read(UV_LOCK, limit_bytes=_MAX_BYTES)
        except ManifestError as error:
            raise _not_taken(folder / UV_LOCK, error.problem) from error
        if content is not None:
            return folder / UV_LOCK, content
        if folder == top or top not in folder.parents:
            break
        folder = folder.parent
    raise _not_taken(
        root / UV_LOCK,
        "there is no such file in the module's folder or repository",
        code="UvLockMissingError",
        hints=["write one: `uv lock` in the module's folder", _WITHOUT],
    )


@dataclass(frozen=True, slots=True)
class _Edge:
    name: str
    extras: tuple[str, ...]
    marker: str
    version: str


class _Graph:
    """The packages of one lock; each is read when something needs it."""

    def __init__(self, path: Path, document: Mapping[str, Any], python: Interpreter) -> None:
        self._path = path
        self._python = python
        written = self._tables(document.get("package", []), "package", _MAX_PACKAGES)
        self._by_name: dict[str, list[Mapping[str, Any]]] = {}
        # An edge may lead to the same package as thousands of others, and a marker be on each.
        self._reached: dict[tuple[str, str], tuple[Mapping[str, object], UvPackage]] = {}
        self._judged: dict[str, bool] = {}
        for one in written:
            self._by_name.setdefault(normalised(self._text(one, "name", _NAME)), []).append(one)

    def needed_by(self, project: str, extras: Collection[str]) -> dict[str, UvPackage]:
        """Return what a project needs here, by name, without the project itself.

        Raises:
            SourceError: the lock has no such project, or something of it is not understood or not accepted.
        """
        own = normalised(project)
        root = next((one for one in self._by_name.get(own, ()) if self._source(one).keys() & set(_OWN)), None)
        if root is None:
            raise _not_taken(
                self._path,
                f"it has no project `{project or '(without a name)'}`",
                code="UvLockCoverageError",
                hints=["lock the module itself: `uv lock` in its folder", _WITHOUT],
            )
        found: dict[str, UvPackage] = {}
        of_project = self._needs(root)
        first = ("", *map(normalised, extras))
        waiting = [edge for extra in first for edge in self._edges(of_project.get(extra, []))]
        seen = {(own, extra) for extra in first}  # package and extra: each is followed once
        while waiting:
            edge = waiting.pop()
            if edge.name in PROVIDED:
                continue
            if edge.name == own:  # one of its extras is made of others
                new = [extra for extra in edge.extras if (own, extra) not in seen]
                seen.update((own, extra) for extra in new)
                waiting += [more for extra in new for more in self._edges(of_project.get(extra, []))]
                continue
            if (edge.name, edge.version) not in self._reached:
                there = self._package(edge)
                self._reached[edge.name, edge.version] = self._needs(there), self._accepted(edge.name, there)
            needs, package = self._reached[edge.name, edge.version]
            if found.setdefault(edge.name, package) != package:
                raise self._error(f"it has two versions of `{edge.name}` for one Python")
            for extra in ("", *edge.extras):
                if extra in needs and (edge.name, extra) not in seen:
                    seen.add((edge.name, extra))
                    waiting += self._edges(needs[extra])
        return found

    def _package(self, edge: _Edge) -> Mapping[str, Any]:
        """Return the package that an edge leads to."""
        named = self._by_name.get(edge.name, ())
        fitting = [one for one in named if not edge.version or one.get("version") == edge.version]
        fitting = [one for one in fitting if self._is_for_here(one)] if len(fitting) > 1 else fitting
        if len(fitting) != 1:
            problem = f"more than one `{edge.name}`" if fitting else f"no `{edge.name}`, which something in it needs"
            raise self._error(f"it has {problem}")
        return fitting[0]

    def _is_for_here(self, package: Mapping[str, Any]) -> bool:
        markers = package.get("resolution-markers", [])
        if not isinstance(markers, list) or len(markers) > _MAX_EDGES:
            raise self._error("`resolution-markers` is not a list of a reasonable size")
        return not markers or any(self._holds(str(marker)) for marker in markers)

    def _accepted(self, name: str, written: Mapping[str, Any]) -> UvPackage:
        from packaging.version import InvalidVersion, Version

        source = self._source(written)
        refused = next((kind for kind in _REFUSED if kind in source), None)
        if refused is not None:
            raise _not_taken(
                self._path,
                f"`{name}` in it comes from {_REFUSED[refused]} (`{refused}`)",
                code="UvLockSourceError",
                hints=[f"have the module name a repository or a package of the index for `{name}`", _WITHOUT],
            )
        version = self._text(written, "version", _VERSION)
        try:
            Version(version)
        except InvalidVersion:
            raise self._error(f"the version of `{name}` has a form that uv does not write") from None
        if "git" in source:
            match = _GIT.fullmatch(source["git"])
            if match is None:
                raise self._error(f"the repository of `{name}` has no commit")
            return UvPackage(name, version, (), match["url"], match["commit"])
        if source.keys() != {"registry"}:
            raise self._error(f"the source of `{name}` is of no known kind")
        return UvPackage(name, version, tuple(self._hashes(written, name)))

    def _source(self, written: Mapping[str, Any]) -> Mapping[str, str]:
        source = written.get("source", {})
        texts = isinstance(source, dict) and all(isinstance(one, str) for one in source.values())
        if not texts or any(len(one) > _MAX_TEXT for one in source.values()):
            raise self._error(f"the source of `{str(written.get('name'))[:80]}` is not a table of texts")
        return dict(source)

    def _hashes(self, written: Mapping[str, Any], name: str) -> Iterator[str]:
        files = [*self._tables(written.get("wheels", []), f"wheels of {name}", _MAX_FILES)]
        files += [written["sdist"]] if isinstance(written.get("sdist"), dict) else []
        for file in files:
            digest = file.get("hash")
            if digest is None:
                continue
            if not isinstance(digest, str) or not _HASH.fullmatch(digest):
                raise self._error(f"`{name}` has a file whose hash is not `sha256:…`")
            yield digest

    def _needs(self, package: Mapping[str, Any]) -> Mapping[str, object]:
        """Return what a package lists as needed, by its extras; under the empty name what it always needs."""
        optional = package.get("optional-dependencies", {})
        if not isinstance(optional, dict):
            raise self._error("`optional-dependencies` is not a table")
        by_extra = {normalised(extra): listed for extra, listed in optional.items()}
        return {**by_extra, "": package.get("dependencies", [])}

    def _edges(self, listed: object) -> Iterator[_Edge]:
        """Yield those of the listed dependencies that are needed here."""
        for one in self._tables(listed, "dependencies", _MAX_EDGES):
            edge = self._edge(one)
            if not edge.marker or self._holds(edge.marker):
                yield edge

    def _edge(self, written: Mapping[str, Any]) -> _Edge:
        extras = written.get("extra", [])
        if not isinstance(extras, list) or not all(isinstance(one, str) for one in extras):
            raise self._error("`extra` is not a list of texts")
        marker, version = written.get("marker", ""), written.get("version", "")
        if not isinstance(marker, str) or not isinstance(version, str):
            raise self._error("`marker` or `version` of a dependency is not text")
        return _Edge(normalised(self._text(written, "name", _NAME)), tuple(map(normalised, extras)), marker, version)

    def _holds(self, marker: str) -> bool:
        if marker not in self._judged:
            if len(self._judged) == _MAX_MARKERS:
                raise self._error(f"it has more than {_MAX_MARKERS} different markers")
            try:
                self._judged[marker] = applies(parsed_requirement(f"x; {marker}"), self._python)
            except ValueError as error:
                raise self._error(f"a marker in it cannot be judged: {error}") from error
        return self._judged[marker]

    def _text(self, written: Mapping[str, Any], key: str, form: re.Pattern[str]) -> str:
        value = written.get(key)
        if not isinstance(value, str) or not form.fullmatch(value):
            raise self._error(f"a `{key}` in it has a form that uv does not write")
        return value

    def _tables(self, written: object, what: str, most: int) -> Sequence[Mapping[str, Any]]:
        if not isinstance(written, list) or len(written) > most or not all(isinstance(one, dict) for one in written):
            raise self._error(f"`{what}` is not a list of at most {most} tables")
        return written

    def _error(self, problem: str) -> SourceError:
        return _not_taken(self._path, problem, hints=["lock the module anew: `uv lock` in its folder", _WITHOUT])


def _repository(url: str) -> str:
    """Return a repository's address as two of them are compared."""
    return url.removeprefix("git+").removesuffix("/").removesuffix(".git").lower()
