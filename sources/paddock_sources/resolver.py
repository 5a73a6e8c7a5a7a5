"""Decide where a module's code comes from: the first layer that has an answer wins.

The layers, in order: the environment variable `AMPLIFIER_MODULE_<ID>` of whoever runs the host, the source that the
plan names, the reference modules by bare id. A layer whose answer turns out wrong ends the search: going on would run
other code than was asked for. Every failure is one `UnresolvedError` that lists each layer tried and what it said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Protocol

from .builtin import BuiltinSource
from .errors import Attempt, SourceError, SourceUnavailableError, UnresolvedError
from .file import FileSource
from .module_id import checked_module_id, environment_variable_of_id
from .resolution import Resolution
from .uri import BuiltinUri, FolderUri, GitUri, SourceUri


class Source(Protocol):
    """Anything that can say where a module's code is."""

    def resolve(self, module_id: str) -> Resolution:
        """Return where the code of `module_id` is.

        Raises:
            SourceError: it is not there, or not safe to use.
        """
        ...


@dataclass(frozen=True, slots=True)
class _Proposal:
    """What a layer answered: the text of a source, or why it has none."""

    layer: str
    source: str | None
    reason: str = ""


class Resolver:
    """Resolves module ids with the variables in `environ`; relative folders start at `base`, or the current one."""

    def __init__(
        self, environ: Mapping[str, str], *, base: Path | None = None, builtin: BuiltinSource | None = None
    ) -> None:
        self._environ = environ
        self._base = base
        self._builtin = builtin if builtin is not None else BuiltinSource()

    def resolve(self, module_id: str, source: str | None = None) -> Resolution:
        """Return where the code of `module_id` is, given the source that its plan entry names, if any.

        Raises:
            ModuleIdError: `module_id` cannot be an id.
            UnresolvedError: no layer had an answer, or the first that had one was wrong.
        """
        module_id = checked_module_id(module_id)
        attempts: list[Attempt] = []
        for proposal in self._proposals(module_id, source):
            if proposal.source is None:
                attempts.append(Attempt(proposal.layer, "", proposal.reason))
                continue
            try:
                uri = SourceUri.parse(proposal.source).anchored(self._base or Path.cwd())
                return replace(self.open(uri).resolve(module_id), layer=proposal.layer)
            except SourceError as error:
                answer = "; ".join([error.summary, *error.detail])
                attempts.append(Attempt(proposal.layer, proposal.source, answer))
                raise UnresolvedError(module_id, source, attempts, hints=error.hints) from error
        hints = [f"name its source: `- module: {module_id}` with `source: ./folder`"]
        close = get_close_matches(module_id, self._builtin.list(), n=1)
        if close:
            hints.insert(0, f"did you mean `{close[0]}`?")
        raise UnresolvedError(module_id, source, attempts, hints=hints)

    def open(self, uri: SourceUri) -> Source:
        """Return the source that an address stands for.

        Raises:
            SourceUnavailableError: this version cannot fetch from such an address.
        """
        match uri:
            case BuiltinUri():
                return _Renamed(self._builtin, uri.module_id)
            case FolderUri():
                return FileSource(uri.folder)
            case GitUri():
                hints = ["clone the repository and name the folder: `source: /path/to/clone`"]
                raise SourceUnavailableError(uri.text, "a git repository", hints=hints)
            case _:
                hints = [f"a folder is written `./{uri.text}`", "unpack the package and name its folder"]
                raise SourceUnavailableError(uri.text, "an installed package", hints=hints)

    def list(self) -> tuple[str, ...]:
        """Return the ids of the reference modules, sorted."""
        return self._builtin.list()

    def _proposals(self, module_id: str, source: str | None) -> Iterator[_Proposal]:
        variable = environment_variable_of_id(module_id)
        override = self._environ.get(variable)
        yield _Proposal(f"environment variable {variable}", override or None, "not set")
        yield _Proposal("source of the plan entry", source, "none given")
        if module_id in self._builtin.list():
            yield _Proposal("builtin modules", f"builtin:{module_id}")
        else:
            shipped = ", ".join(self._builtin.list()) or "none"
            yield _Proposal("builtin modules", None, f"no module of that id (there are: {shipped})")


@dataclass(frozen=True, slots=True)
class _Renamed:
    """A reference module under an id of the plan's choosing, as in `module: my-loop, source: builtin:loop-basic`."""

    source: BuiltinSource
    shipped_id: str

    def resolve(self, module_id: str) -> Resolution:
        return replace(self.source.resolve(self.shipped_id), module_id=module_id)
