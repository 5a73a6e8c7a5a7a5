"""The modules that a plan of a folder can name, each with the configuration and the permissions that fit it.

They are the shipped ones, and those whose code is in a folder. They are read as data: nothing is fetched,
and none of their code runs.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from paddock.authorization.suggestions.advice import advice_of
from paddock.authorization.suggestions.needs import ProposalContext
from paddock.authorization.suggestions.proposal import propose
from paddock.errors import KindError, ModuleMissingError
from paddock.plan.model import EntryPlace, Kind, ModuleEntry
from paddock.plan.writing import PlannedModule
from paddock.policy.owner import Owner
from paddock_sources import (
    BuiltinSource,
    FileSource,
    FolderUri,
    GitUri,
    ModuleIdError,
    ModuleManifest,
    PackageUri,
    Resolution,
    Resolver,
    SourceError,
    SourceUri,
    checked_module_id,
    kind_of_id,
)
from paddock_sources.errors import without_credentials
from paddock_sources.module_id import PACKAGE_PREFIX

SCRIPTED: Final = "provider-mock"
"""The provider that needs neither a model nor a key."""

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
}


class _AnyName:
    """Contains every name, so that a key is proposed for the plan before its variable is set."""

    def __contains__(self, name: object) -> bool:
        return True


class ModuleCatalogue:
    """The modules that a plan in `folder` can name: the shipped ones, and those in folders."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._folder = folder
        self._resolver = Resolver(environ, base=folder)
        self._known = ProposalContext(Path.cwd().resolve(), Owner.current(environ), environ, _AnyName())

    def known(self, kind: Kind) -> tuple[str, ...]:
        """Return the names for modules of a kind: ids of shipped ones, and folders here with a module's name."""
        shipped = [module_id for module_id in self._resolver.list() if kind_of_id(module_id) == kind]
        found = [path.name for path in sorted(Path.cwd().glob(f"{FOLDER_PREFIX}*")) if path.is_dir()]
        beside = [f"./{name}" for name in found if kind_of_id(name.removeprefix(FOLDER_PREFIX)) == kind]
        return (*shipped, *beside)

    def shipped(self, kind: Kind) -> tuple[Resolution, ...]:
        """Return the shipped modules of a kind.

        Raises:
            SourceError: one of them cannot be read.
        """
        builtin = BuiltinSource()
        return tuple(builtin.resolve(module_id) for module_id in builtin.list() if kind_of_id(module_id) == kind)

    def module(self, kind: Kind, written: str) -> PlannedModule:
        """Return the module for the id of a shipped one, or for a folder.

        Raises:
            KindError: it names none, or one of another kind, or one that would have to be fetched.
        """
        try:
            uri = SourceUri.parse(Owner.current(os.environ).with_home(written))
            match uri:
                case FolderUri():
                    resolution = self._in_folder(kind, uri.folder.absolute())
                    source: str | None = self._relative(resolution.root)
                case GitUri():
                    raise _not_fetched(kind, uri)
                case PackageUri() if uri.name not in self._resolver.list():
                    raise _not_shipped(kind, uri.name, self.known(kind))
                case _:
                    resolution, source = self._resolver.resolve(uri.text.removeprefix("builtin:")), None
        except SourceError as error:
            raise ModuleMissingError.of(written, error) from error
        if resolution.kind != kind:
            raise KindError("ModuleNotUsableError", f"`{written}` is of kind {resolution.kind}, not {kind}")
        planned = PlannedModule(kind, resolution.module_id, source, purpose=PURPOSES.get(resolution.module_id, ""))
        return fitted(planned, resolution, self._known)

    def _in_folder(self, kind: Kind, folder: Path) -> Resolution:
        """Return the module in a folder, under the id that its entry points, or else its package, give it."""
        named = folder.resolve().name.replace("_", "-").removeprefix(FOLDER_PREFIX)
        try:
            checked_module_id(named)
        except ModuleIdError:
            named = kind
        manifest = ModuleManifest.read(folder, named)
        package = manifest.package.removeprefix(PACKAGE_PREFIX).replace("_", "-")
        declared = tuple(manifest.entry_points) or (package,)
        of_kind = (one for one in declared if kind_of_id(one) == kind)
        return FileSource(folder).resolve(named if named in declared else next(of_kind, declared[0]))

    def _relative(self, folder: Path) -> str:
        """Return a folder as the plan names it: relative to the plan's own where it is below that."""
        base = self._folder.resolve()
        return f"./{folder.relative_to(base)}" if folder.is_relative_to(base) else str(folder)


def _not_fetched(kind: Kind, uri: GitUri) -> KindError:
    return KindError(
        "ModuleNotUsableError",
        f"`{without_credentials(uri.text)}` is a git repository, which is fetched by a command of its own",
        hints=[
            f"write the plan without that {kind} first",
            f"then `paddock add {shlex.quote(without_credentials(uri.text))} --to PLAN` fetches, pins and adds it",
        ],
    )


def _not_shipped(kind: Kind, name: str, known: Sequence[str]) -> KindError:
    close = get_close_matches(name, known, n=1)
    return KindError(
        "ModuleNotUsableError",
        f"no module `{name}` is shipped",
        detail=[f"of kind {kind} there are: {', '.join(known) or 'none'}"],
        hints=[
            *(f"did you mean `{one}`?" for one in close),
            *([] if name.isdecimal() else [f"fetch its code and name the folder: `--{kind} ./{FOLDER_PREFIX}{name}`"]),
        ],
    )


def fitted(module: PlannedModule, resolution: Resolution, known: ProposalContext) -> PlannedModule:
    """Return a module with fitting configuration and permissions, and with what it still lacks."""
    if module.module == SCRIPTED:
        module = replace(module, config={"fallback": "You said: {prompt}"})
    place = EntryPlace(module.kind, "", resolution.root)
    entry = ModuleEntry.read({"module": module.module, "config": dict(module.config)}, place)
    needs = propose(entry, advice_of(resolution), known)
    # `propose` lists what it proposes as lacking too, since it grants nothing; the plan grants it.
    left = () if needs.lines else needs.lacks
    return replace(module, permissions=needs.permissions, lacks=left)
