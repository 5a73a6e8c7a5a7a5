"""The modules that a plan of a folder can name, each with the configuration and the permissions that fit it.

They are the shipped ones, those whose code is in a folder, and those of repositories and packages, which are fetched
and pinned when they are named. They are read as data: none of their code runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from paddock.authorization.suggestions.advice import advice_of
from paddock.authorization.suggestions.proposal import context_of_new_entries, fitted
from paddock.errors import KindError, ModuleMissingError
from paddock.plan.model import Kind
from paddock.plan.writing import PlannedModule
from paddock.policy.owner import Owner
from paddock_sources import (
    BuiltinUri,
    FileSource,
    FolderUri,
    Resolver,
    SourceError,
    kind_of_id,
    parse_source,
)
from paddock_sources.errors import without_credentials
from paddock_sources.manifest.read import HeldModules
from paddock_sources.similar_names import near

if TYPE_CHECKING:
    from paddock.cli.sources.found_module import FoundModule

    FetchModule = Callable[[str, Path], FoundModule]
    """Fetches the module of a source as a person wrote it, for a plan in a folder."""

SCRIPTED: Final = "provider-mock"
"""The provider that needs neither a model nor a key."""

_SOURCES: Final = (
    "name its code: `git+https://…`, `./folder`, or a package of the index with its version, as `name==1.0`"
)

FOLDER_PREFIX: Final = "amplifier-module-"

# The purposes of shipped modules, as questions and the comments of a plan state them; other modules have none.
PURPOSES: Final[Mapping[str, str]] = {
    "loop-basic": "asks the provider, runs the tools that it calls for, and so on until it answers",
    "context-simple": "keeps the conversation",
    "provider-mock": "plays a script instead of asking a model; replace it to get real answers",
    "tool-bash": "runs shell commands",
    "tool-filesystem": "reads, writes and edits text files",
    "tool-search": "searches files by content and by name",
    "tool-task": "hands work to the plan's agents",
    "tool-todo": "keeps the list of what is left to do",
    "tool-web": "fetches pages as readable text",
    "hooks-approval": "asks you before a tool does more than read files and plan; refuses where it cannot ask",
    "hooks-logging": "writes the events of the session to a file",
    "hooks-status-context": "tells the model the date, the folder and the state of git",
}


class ModuleCatalogue:
    """The modules that a plan in `folder` can name: the shipped ones, those in folders, and those that are fetched."""

    def __init__(
        self, folder: Path, environ: Mapping[str, str], fetch: FetchModule, *, is_unread: bool = False
    ) -> None:
        self.fetched: list[FoundModule] = []  # those to be locked beside the plan
        self._folder = folder
        self._fetch = fetch
        self._resolver = Resolver(environ, base=folder)
        self._known = context_of_new_entries(environ, Path.cwd(), is_unread=is_unread)

    def known(self, kind: Kind) -> tuple[str, ...]:
        """Return the names for modules of a kind: ids of shipped ones, and folders here with a module's name."""
        shipped = [module_id for module_id in self._resolver.list() if kind_of_id(module_id) == kind]
        found = [path.name for path in sorted(Path.cwd().glob(f"{FOLDER_PREFIX}*")) if path.is_dir()]
        beside = [f"./{name}" for name in found if kind_of_id(name.removeprefix(FOLDER_PREFIX)) == kind]
        return (*shipped, *beside)

    def module(self, kind: Kind, written: str, also: Sequence[str] = ()) -> PlannedModule:
        """Return the module for the id of a shipped one, for a folder, a repository or a package.

        `also` are further names that the caller takes: the error for an unknown name lists them.

        Raises:
            PaddockError: it names none, or one of another kind, or it could not be fetched.
        """
        try:
            uri = parse_source(Owner.current(os.environ).with_home(written))
            shipped = uri.module_id if isinstance(uri, BuiltinUri) else uri.bare_id
            if isinstance(uri, FolderUri):
                folder, base = uri.folder.absolute(), self._folder.resolve()
                ids = HeldModules.read(folder).ids(folder.resolve().name)
                of_kind = (one for one in ids if kind_of_id(one) == kind)
                resolution = FileSource(folder).resolve(next(of_kind, ids[0]))
                root = resolution.root  # as the plan names it: relative to its own folder where it is below that
                source: str | None = f"./{root.relative_to(base)}" if root.is_relative_to(base) else str(root)
            elif isinstance(uri, BuiltinUri) or shipped in self._resolver.list():
                resolution, source = self._resolver.resolve(shipped), None
            else:
                return self._fetched(kind, written, shipped or None, also)
        except SourceError as error:
            raise ModuleMissingError.of(written, error) from error
        _check_kind(written, resolution.kind, kind)
        config = {"fallback": "You said: {prompt}"} if resolution.module_id == SCRIPTED else {}
        purpose = PURPOSES.get(resolution.module_id, "")
        planned = PlannedModule(kind, resolution.module_id, source, config, purpose=purpose)
        return fitted(planned, advice_of(resolution), self._known)

    def _fetched(
        self, kind: Kind, written: str, installed: str | None = None, also: Sequence[str] = ()
    ) -> PlannedModule:
        """Return a module that is fetched or, by the name `installed`, a package that is installed here."""
        try:
            found = self._fetch(written, self._folder)
        except KindError as error:
            if installed is None:
                raise
            known = (*also, *self.known(kind))
            hints = [f"did you mean `{one}`?" for one in near(installed, known)]
            if not installed.isdecimal():
                hints.append(_SOURCES)
            there_are = f"of kind {kind} there are: {', '.join(known) or 'none'}"
            raise not_usable(f"no module `{installed}` is shipped", *hints, detail=there_are) from error
        _check_kind(written, found.kind, kind)
        self.fetched = [*(one for one in self.fetched if one.key != found.key), found]
        return fitted(PlannedModule(kind, found.module_id, found.written), found.advice, self._known)


def not_usable(problem: str, *hints: str, detail: str = "") -> KindError:
    """Return the error for a module or service that a plan cannot have."""
    return KindError("ModuleNotUsableError", problem, detail=[detail] if detail else [], hints=hints)


def _check_kind(written: str, found: str, kind: Kind) -> None:
    if found != kind:
        raise not_usable(f"`{without_credentials(written)}` is of kind {found}, not {kind}")
