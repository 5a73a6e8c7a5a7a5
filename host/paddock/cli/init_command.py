"""Write a plan that runs: ask which provider and which tools it has, or take that from options.

Modules are those that are shipped, and those whose code is in a folder; nothing is fetched and nothing of them run. A
question that no option answers is asked on a terminal, and elsewhere has its default. A plan that is there already
stays as it is.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Final

import click

from paddock.errors import ModuleMissingError, PaddockError
from paddock.plan.models import EntryPlace, Kind, ModuleEntry, MountPlan
from paddock.plan.permissions import Permissions
from paddock.plan.writing import PlanExistsError, PlannedModule, plan_text, write_plan
from paddock.policy import Owner
from paddock.policy.advice import advice_of
from paddock.policy.needs import Circumstances
from paddock.policy.proposal import propose
from paddock.policy.secret_sources import SecretSources
from paddock.text import escape
from paddock_sources import (
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

from . import failure
from .json_output import print_json
from .line_input import ask, confirm
from .render import Screen

_FOLDER_PREFIX: Final = "amplifier-module-"
_EXTENSIONS: Final = (".yaml", ".yml")
_PROVIDER: Final = "provider-mock"
_TOOLS: Final = ("tool-filesystem",)
_NO_TOOL: Final = "none"
_LOG: Final = "logs/session.jsonl"
_PROMPT: Final = "What is in this folder?"

# What the shipped ones are for, and what they need; of others, what they need is proposed by what they are.
_PURPOSES: Final[Mapping[str, str]] = {
    "loop-basic": "asks the provider, runs the tools that it calls for, and so on until it answers",
    "context-simple": "keeps the conversation",
    "provider-mock": "plays a script instead of asking a model; replace it to get real answers",
    "tool-filesystem": "reads, writes and edits text files",
    "hooks-logging": "writes the events of the session to a file",
}


class ModuleNotUsableError(PaddockError):
    """Raised for what somebody names as a module and a plan cannot run."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class _Wishes:
    """What the plan is to have."""

    provider: PlannedModule
    tools: tuple[PlannedModule, ...]
    logs: bool

    def modules(self) -> list[PlannedModule]:
        """Return all modules of the plan."""
        hooks = [_logging()] if self.logs else []
        return [
            _shipped("orchestrator", "loop-basic"),
            _shipped("context", "context-simple"),
            self.provider,
            *self.tools,
            *hooks,
        ]


def run_init(
    plan: Path,
    provider: str | None,
    tools: Sequence[str],
    logs: bool | None,
    *,
    asks_nothing: bool,
    replaces: bool,
    as_json: bool,
) -> int:
    """Write the plan and return the exit code."""
    if plan.suffix.lower() not in _EXTENSIONS:
        raise click.UsageError(
            f"`{escape(str(plan))}`: the plan is written as YAML; name it {plan.stem or 'plan'}.yaml"
        )
    screen = Screen(sys.stderr)
    catalogue = Catalogue(plan.absolute().parent, os.environ)
    person = None if asks_nothing or as_json or not (sys.stdin.isatty() and screen.is_terminal) else screen
    try:
        if not replaces and os.path.lexists(plan):
            raise PlanExistsError(plan)  # before anybody is asked
        wishes = _wishes(catalogue, provider, tools, logs, person)
        modules = wishes.modules()
        if person is not None and not _is_wanted(plan, modules, person):
            person.note("nothing was written")
            return 1
        written = write_plan(plan, plan_text(modules), replace=replaces)
        if wishes.logs:
            (Path.cwd() / _LOG).parent.mkdir(exist_ok=True)
    except (click.ClickException, click.Abort):
        raise
    except Exception as error:  # the top of a command: what nobody foresaw is told as what it is
        screen.text(failure.text(error))
        if as_json:
            print_json({"plan": None, "error": failure.as_dict(error)})
        return failure.exit_code(error)
    _tell(plan, modules, written, as_json=as_json)
    return 0


class _AnyName:
    """Holds every name: a key that is not there yet is one that the plan is to have all the same."""

    def __contains__(self, name: object) -> bool:
        return True


class Catalogue:
    """The modules that a plan in `folder` can name: the shipped ones, and those in folders."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._folder = folder
        self._resolver = Resolver(environ, base=folder)
        self._known = Circumstances(Path.cwd().resolve(), Owner.current(environ), environ, _AnyName())

    def known(self, kind: Kind) -> tuple[str, ...]:
        """Return what can be named of a kind: ids of shipped modules, and folders here that are called as modules."""
        shipped = [module_id for module_id in self._resolver.list() if kind_of_id(module_id) == kind]
        found = [path.name for path in sorted(Path.cwd().glob(f"{_FOLDER_PREFIX}*")) if path.is_dir()]
        beside = [f"./{name}" for name in found if kind_of_id(name.removeprefix(_FOLDER_PREFIX)) == kind]
        return (*shipped, *beside)

    def module(self, kind: Kind, written: str) -> PlannedModule:
        """Return the module that somebody named: by the id of a shipped one, or by a folder.

        Raises:
            ModuleNotUsableError: it names none, or one of another kind, or one that would have to be fetched.
        """
        try:
            uri = SourceUri.parse(os.path.expanduser(written) if written.startswith("~/") else written)
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
            raise ModuleNotUsableError(f"`{written}` is of kind {resolution.kind}, not {kind}")
        planned = PlannedModule(kind, resolution.module_id, source, purpose=_PURPOSES.get(resolution.module_id, ""))
        return fitted(planned, resolution, self._known)

    def _in_folder(self, kind: Kind, folder: Path) -> Resolution:
        """Return the module in a folder, under the id that its entry points, or else its package, give it."""
        named = folder.resolve().name.replace("_", "-").removeprefix(_FOLDER_PREFIX)
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


def _not_fetched(kind: Kind, uri: GitUri) -> ModuleNotUsableError:
    return ModuleNotUsableError(
        f"`{without_credentials(uri.text)}` is a git repository, which is fetched by a command of its own",
        hints=[
            f"write the plan without that {kind} first",
            f"then `paddock add {shlex.quote(without_credentials(uri.text))} --to PLAN` fetches, pins and adds it",
        ],
    )


def _not_shipped(kind: Kind, name: str, known: Sequence[str]) -> ModuleNotUsableError:
    close = get_close_matches(name, known, n=1)
    return ModuleNotUsableError(
        f"no module `{name}` is shipped",
        detail=[f"of kind {kind} there are: {', '.join(known) or 'none'}"],
        hints=[
            *(f"did you mean `{one}`?" for one in close),
            f"fetch its code and name the folder: `--{kind} ./{_FOLDER_PREFIX}{name}`",
        ],
    )


# -- what the modules need -----------------------------------------------------------------


def fitted(module: PlannedModule, resolution: Resolution, known: Circumstances) -> PlannedModule:
    """Return a module with the configuration and the permissions that fit it, and what it goes without."""
    if module.module == _PROVIDER:
        module = replace(module, config={"fallback": "You said: {prompt}"})
    place = EntryPlace(module.kind, "", resolution.root)
    entry = ModuleEntry.read({"module": module.module, "config": dict(module.config)}, place)
    needs = propose(entry, advice_of(resolution), known)
    # What is proposed is told as lacking as well, since nothing is granted by that; here it is granted.
    left = () if needs.lines else needs.lacks
    return replace(module, permissions=needs.permissions, lacks=left)


def _shipped(kind: Kind, module_id: str) -> PlannedModule:
    return PlannedModule(kind, module_id, purpose=_PURPOSES[module_id])


def _logging() -> PlannedModule:
    return replace(
        _shipped("hook", "hooks-logging"),
        config={"path": _LOG},
        permissions=Permissions(write=(f"./{Path(_LOG).parent}",)),
    )


def _secrets_of(modules: Sequence[PlannedModule]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(secret.name for module in modules for secret in module.permissions.secrets))


def _needs_trust(modules: Sequence[PlannedModule]) -> bool:
    return any(module.permissions.net or module.permissions.secrets or module.permissions.env for module in modules)


# -- questions -----------------------------------------------------------------------------


def _wishes(
    catalogue: Catalogue, provider: str | None, tools: Sequence[str], logs: bool | None, person: Screen | None
) -> _Wishes:
    """Return what options say, and for the rest what the person says, or the default."""
    if provider is not None or person is None:
        chosen = catalogue.module("provider", provider or _PROVIDER)
    else:
        (chosen,) = _ask(catalogue, "provider", "Which provider answers?", _PROVIDER, person, several=False)
    if tools or person is None:
        wanted = _tools(catalogue, tools or _TOOLS)
    else:
        question = "Which tools may it use? Several have commas between them; `none`: no tool."
        wanted = _ask(catalogue, "tool", question, ", ".join(_TOOLS), person, several=True)
    if logs is None:
        question = f"Keep a log of the session's events in ./{_LOG}?"
        logs = person is not None and confirm(person, question, default=False)
    return _Wishes(chosen, wanted, logs)


def _ask(
    catalogue: Catalogue, kind: Kind, question: str, default: str, person: Screen, *, several: bool
) -> tuple[PlannedModule, ...]:
    known = catalogue.known(kind)
    person.title(question)
    person.labelled([(f"  {number}) ", _described(one)) for number, one in enumerate(known, start=1)])
    person.note(f"or the folder of another module's code, as in ./{_FOLDER_PREFIX}{kind}-…")

    def chosen(typed: str) -> tuple[PlannedModule, ...]:
        parts = typed.split(",") if several else [typed]
        named = [_numbered(part.strip(), known) for part in parts if part.strip()]
        return _tools(catalogue, named) if several else (catalogue.module(kind, named[0] if named else default),)

    return ask(person, "number, id or folder", default, chosen)


def _tools(catalogue: Catalogue, written: Sequence[str]) -> tuple[PlannedModule, ...]:
    modules = [catalogue.module("tool", one) for one in written if one != _NO_TOOL]
    return tuple({module.module: module for module in modules}.values())


def _numbered(typed: str, known: Sequence[str]) -> str:
    if typed.isascii() and typed.isdigit() and 1 <= int(typed[:6]) <= len(known):
        return known[int(typed[:6]) - 1]
    return typed


def _described(module: str) -> str:
    purpose = _PURPOSES.get(module, "")
    return f"{module}: {purpose}" if purpose else module


def _is_wanted(plan: Path, modules: Sequence[PlannedModule], person: Screen) -> bool:
    person.title(f"{plan} is to have")
    person.labelled([*map(_granted, modules)])
    return confirm(person, "Write it?", default=True)


# -- what was written ----------------------------------------------------------------------


def _granted(module: PlannedModule) -> tuple[str, str]:
    written = module.permissions.as_written()
    grants = (
        written if isinstance(written, str) else ", ".join(f"{family} {_text(one)}" for family, one in written.items())
    )
    return f"  {module.module}  ", f"granted: {grants or 'nothing'}"


def _text(grants: Sequence[object]) -> str:
    return " and ".join(str(one["name"]) if isinstance(one, Mapping) else str(one) for one in grants)


def _tell(plan: Path, modules: Sequence[PlannedModule], written: MountPlan, *, as_json: bool) -> None:
    secrets = SecretSources.load(os.environ)
    missing = [name for name in _secrets_of(modules) if name not in secrets]
    command = shlex.join(["paddock", "run", str(plan), _PROMPT])
    if as_json:
        told = [
            {
                "kind": module.kind,
                "module": module.module,
                "source": module.source,
                "permissions": module.permissions.as_written(),
            }
            for module in modules
        ]
        print_json(
            {"plan": str(written.origin), "modules": told, "secrets_not_set": missing, "next": command, "error": None}
        )
        return
    screen = Screen(sys.stdout)
    screen.title(f"{plan} is written; its comments say what each grant is for")
    screen.labelled([*map(_granted, modules)])
    if _needs_trust(modules):
        screen.note(
            "it asks once whether you accept what the plan grants; where nobody can be asked, add `--trust-plan`"
        )
    screen.title("next")
    screen.text("".join(f"  export {name}=…\n" for name in missing) + f"  {escape(command)}")
