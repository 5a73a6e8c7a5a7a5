"""A source tree's dependencies, read from its static `pyproject.toml`.

Only PEP 621's table and uv's table of sources are read, under caps; `[build-system]` is ignored. Packages that a worker
has by itself are left out. Dependencies that are git references are returned apart; other addresses are refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock_sources.constraints import PROVIDED
from paddock_sources.environment.contract import check_contract
from paddock_sources.environment.errors import RequirementsError
from paddock_sources.environment.interpreter import Interpreter
from paddock_sources.environment.project_file import project_in, read_project_file
from paddock_sources.environment.siblings import Siblings
from paddock_sources.environment.uv_sources import UvSources
from paddock_sources.errors import OwnRightsError, SourceError, SourceUriError
from paddock_sources.uri import GitUri, parse_source

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_MAX_REQUIREMENTS = 1000
_MAX_LENGTH = 1024  # characters of one; real ones are below 200, and judging them does not always take linear time
_MAX_EXTRAS = 100
# A requirement without markers and addresses: nothing in it has a special meaning to uv.
_PLAIN = re.compile(r"[A-Za-z0-9._-]+(?:\[[A-Za-z0-9._,-]+\])?[A-Za-z0-9.*+!=<>~,_-]*")


@dataclass(frozen=True, slots=True)
class DirectRequirement:
    """A dependency on the code of a repository, under the name it is to have; `is_beside`: on that of the same one."""

    name: str
    uri: GitUri
    extras: tuple[str, ...] = ()
    is_beside: bool = False


@dataclass(frozen=True, slots=True)
class Requirements:
    """`index` are requirements for the index, each one plain line; `direct` are those on repositories."""

    name: str | None
    version: str | None
    index: tuple[str, ...] = ()
    direct: tuple[DirectRequirement, ...] = ()

    @staticmethod
    def of(
        tree_root: Path,
        python: Interpreter,
        *,
        extras: Collection[str] = (),
        more: Collection[str] = (),
        may_name_local: bool = False,
        siblings: Siblings | None = None,
    ) -> Requirements:
        """Return the dependencies of the tree whose root is `tree_root`, with these of its extras, and these `more`.

        Projects that are its `siblings` in a repository are taken from there. Only a tree that the user wrote
        (`may_name_local`) may name repositories in folders of this machine, and those that are reached with the user's
        keys.

        Raises:
            RequirementsError: they are not static, or not accepted.
            PythonVersionError: the code does not run on `python`.
            ContractVersionError: it asks for an unknown version of the module contracts.
        """
        path = tree_root / "pyproject.toml"
        document = read_project_file(tree_root)
        project = project_in(document, path)
        name, version = _text(project, "name", path), _text(project, "version", path)
        _check_python(project, name, path, python)
        if "dependencies" in _texts(project.get("dynamic", []), "project.dynamic", path):
            raise RequirementsError(
                path,
                "they are worked out by its build, which is never run",
                hints=["list them in `project.dependencies`, and take the word out of `project.dynamic`"],
            )
        sources = UvSources.of(path, document, normalised)
        more = (*more, *(siblings.unwritten(tree_root) if siblings is not None else ()))
        reading = _Reading(path, project, name, python, may_name_local, sources, more, siblings)
        return Requirements(name, version, *reading.split(reading.applying(frozenset(map(normalised, extras)))))

    def joined(self, *others: Requirements) -> Requirements:
        """Return these together with others, as the contents of one environment."""
        together = (self, *others)
        return Requirements(
            self.name,
            self.version,
            tuple(dict.fromkeys(line for one in together for line in one.index)),
            tuple(dict.fromkeys(direct for one in together for direct in one.direct)),
        )


class _Reading:
    """One reading of one project's dependencies."""

    def __init__(
        self,
        path: Path,
        project: Mapping[str, Any],
        name: str | None,
        python: Interpreter,
        may_name_local: bool,
        sources: UvSources,
        more: Collection[str],
        siblings: Siblings | None,
    ) -> None:
        self._path = path
        self._siblings = siblings
        self._sources = sources
        self._name = normalised(name or "")
        self._python = python
        self._may_name_local = may_name_local
        self._dependencies = [*_texts(project.get("dependencies", []), "project.dependencies", path), *more]
        optional = project.get("optional-dependencies", {})
        if not isinstance(optional, dict) or len(optional) > _MAX_EXTRAS:
            raise RequirementsError(path, "`project.optional-dependencies` is not a table of a reasonable size")
        self._optional = {normalised(extra): (extra, texts) for extra, texts in optional.items()}

    def applying(self, extras: frozenset[str]) -> Iterator[Requirement]:
        """Yield the requirements that apply here; an extra may name further extras of the same project."""
        wanted, seen = [*sorted(extras)], set(extras)
        yield from self._that_apply(self._dependencies, extras)
        while wanted:
            written, texts = self._optional.get(extra := wanted.pop(), (extra, []))
            texts = _texts(texts, f"project.optional-dependencies.{written}", self._path)
            for requirement in self._that_apply(texts, frozenset({extra})):
                if self._name and normalised(requirement.name) == self._name:
                    further = {normalised(one) for one in requirement.extras} - seen
                    wanted.extend(sorted(further))
                    seen |= further
                else:
                    yield requirement

    def split(self, requirements: Iterable[Requirement]) -> tuple[tuple[str, ...], tuple[DirectRequirement, ...]]:
        """Return those for the index, and those on repositories."""
        index: dict[str, None] = {}
        direct: dict[DirectRequirement, None] = {}
        for requirement in requirements:
            if normalised(requirement.name) in PROVIDED:
                check_contract(self._name or str(self._path.parent), requirement)
                continue
            beside = self._siblings.of(requirement) if self._siblings is not None else None
            if beside is not None:
                extras = tuple(sorted(map(normalised, requirement.extras)))
                direct[DirectRequirement(normalised(requirement.name), beside, extras, is_beside=True)] = None
                continue
            address = requirement.url or self._sources.address_of(normalised(requirement.name), self._holds)
            if address is None:
                index[self._plain(requirement)] = None
            else:
                direct[self._direct(requirement, address)] = None
        return tuple(index), tuple(direct)

    def _that_apply(self, texts: Iterable[str], extras: frozenset[str]) -> Iterator[Requirement]:
        for text in texts:
            try:
                requirement = parsed_requirement(text)
                if applies(requirement, self._python, extras):
                    yield requirement
            except ValueError as error:
                raise RequirementsError(self._path, f"`{text[:80]}` is no requirement ({error})") from error

    def _holds(self, text: str) -> bool:
        return applies(parsed_requirement(text), self._python)

    def _plain(self, requirement: Requirement) -> str:
        extras = ",".join(sorted(map(normalised, requirement.extras)))
        line = normalised(requirement.name) + (f"[{extras}]" if extras else "") + str(requirement.specifier)
        if not _PLAIN.fullmatch(line):
            raise RequirementsError(self._path, f"`{line[:80]}` has a character that no version has")
        return line

    def _direct(self, requirement: Requirement, url: str) -> DirectRequirement:
        name = normalised(requirement.name)
        if not url.startswith("git+"):
            raise RequirementsError(
                self._path,
                f"`{name}` is wanted from an address that is no git repository",
                hints=["a dependency comes from the package index, or from `git+https://host/path@ref`"],
            )
        try:
            uri = parse_source(url)
        except SourceUriError as error:
            raise RequirementsError(self._path, f"`{name}`: {error.summary}", hints=error.hints) from error
        assert isinstance(uri, GitUri)  # the prefix guarantees it
        if not self._may_name_local and not uri.url.startswith("https://"):
            raise OwnRightsError.of_requirement(self._path, name, uri.text)
        return DirectRequirement(name, uri, tuple(sorted(map(normalised, requirement.extras))))


def parsed_requirement(text: str) -> Requirement:
    """Parse an untrusted requirement.

    Raises:
        ValueError: it is invalid, or beyond the limits.
    """
    from packaging.requirements import InvalidRequirement, Requirement

    if len(text) > _MAX_LENGTH:
        raise ValueError("it is too long")
    if not text.isprintable():
        raise ValueError("it has an unprintable character")
    try:
        return Requirement(text)
    except InvalidRequirement as error:
        raise ValueError(str(error).splitlines()[0]) from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def applies(requirement: Requirement, python: Interpreter, extras: Collection[str] = ()) -> bool:
    """Return whether a requirement's marker holds there, with any of these extras.

    Raises:
        ValueError: the marker compares values that cannot be compared.
    """
    from packaging.markers import UndefinedComparison, UndefinedEnvironmentName

    if requirement.marker is None:
        return True
    try:
        return any(requirement.marker.evaluate({**python.markers, "extra": extra}) for extra in (*extras, ""))
    except (UndefinedComparison, UndefinedEnvironmentName, RecursionError) as error:
        raise ValueError("its marker cannot be judged") from error


def _check_python(project: Mapping[str, Any], name: str | None, path: Path, python: Interpreter) -> None:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    requires = _text(project, "requires-python", path)
    if not requires:
        return
    try:
        fits = SpecifierSet(requires).contains(python.version, prereleases=True)
    except (InvalidSpecifier, ValueError) as error:
        raise RequirementsError(path, f"`requires-python` is `{requires[:80]}`, which is no set of versions") from error
    if not fits:
        raise SourceError(
            f"`{name or path.parent}` needs Python {requires}, and modules are run by Python {python.version}",
            code="PythonVersionError",
            hints=["install paddock-host for a Python that the module takes, or take another version of the module"],
        )


def _text(project: Mapping[str, Any], key: str, path: Path) -> str | None:
    value = project.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > _MAX_LENGTH or not value.isprintable():
        raise RequirementsError(path, f"`project.{key}` is not a line of text")
    return value


def _texts(value: object, what: str, path: Path) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise RequirementsError(path, f"`{what}` is not a list of texts")
    if len(value) > _MAX_REQUIREMENTS:
        raise RequirementsError(path, f"`{what}` has more than {_MAX_REQUIREMENTS} entries")
    return value


def normalised(name: str) -> str:
    """Return a distribution's name as it is compared."""
    return re.sub(r"[-_.]+", "-", name).lower()
