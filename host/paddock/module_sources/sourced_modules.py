"""The modules that a folder's lock file is about: those of a plan, or, without a plan, those in the file.

The sources of a plan's modules are those that a session would take, by every layer that may name one. This file reads
names, settings and the lock file, and no module code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Self

from paddock.errors import KindError, PaddockError
from paddock.plan import USUAL_PLAN
from paddock.plan.model import ModuleEntry, MountPlan
from paddock.policy.evaluate import refuse_sources
from paddock.policy.files.grants import GrantsFile
from paddock.policy.files.policy import Policy
from paddock.policy.files.sources import load_source_settings
from paddock.policy.owner import Owner
from paddock.policy.pins import Pin, Pins
from paddock.policy.trust import PlanAcceptance, with_places
from paddock_sources import (
    BuiltinUri,
    PackageUri,
    Resolver,
    SourceError,
    SourceUri,
    SourceUriError,
    parse_source,
)
from paddock_sources.builtin import shipped
from paddock_sources.cache import SourceCache
from paddock_sources.constraints import NO_RULES, DependencyRules
from paddock_sources.lock.lock_file import LOCK_FILE, LockedModule, LockFile
from paddock_sources.mirrors import Mirrors
from paddock_sources.similar_names import near

_USUAL_LAYERS: Final = ("source of the plan entry", "builtin modules", "installed packages")  # as resolvers name them


NO_SUCH_MODULE: Final = "NoSuchModuleError"
"""The code of the error for a name that fits no module of a plan or lock file, or several."""


@dataclass(frozen=True, slots=True)
class SourcedModule:
    """A module and its source: `key` is that of the lock file, `locked` is the file's record under it.

    `entry` is the plan's. Without a plan there is none, `ids` are those of all modules in the source, and `name` is
    their list, or the name of the source if its code is not in the cache. `layer` is the layer that replaced the plan's
    source, if one did; `written_key` is then the key of the source in the plan, if it has one. `rules` are those of all
    entries with this source.
    """

    name: str
    uri: SourceUri
    key: str
    locked: LockedModule | None
    entry: ModuleEntry | None = None
    layer: str | None = None
    written_key: str | None = None
    ids: tuple[str, ...] = ()
    rules: DependencyRules = NO_RULES

    @property
    def keys(self) -> frozenset[str]:
        """This module's keys in the lock file: also that of a source which another replaces."""
        return frozenset((self.key,) if self.written_key is None else (self.key, self.written_key))

    @property
    def place(self) -> str | None:
        """The place of the entry in the plan."""
        return self.entry.path if self.entry is not None else None

    def is_meant_by(self, written: str, folder: Path) -> bool:
        """Return whether this text names the module: by its id, or by its source, with the ref or without."""
        if written in (self.name, *self.ids) or written in self.keys:
            return True
        try:
            uri = parse_source(written).anchored(Path.cwd()).held()
            key = uri.key(folder)
        except SourceUriError:
            return False
        if isinstance(uri, PackageUri) and not isinstance(self.uri, PackageUri):
            return False  # the name of a package looks like the id of any module
        any_version = self.uri.at_any_version()
        return key in self.keys or (any_version is not None and key == any_version.key(folder))


@dataclass(frozen=True, slots=True)
class UnresolvedModule:
    """A module of a plan for which no layer has a valid source."""

    entry: ModuleEntry
    error: SourceError


@dataclass(frozen=True, slots=True)
class SourcedModules:
    """The modules of one folder: its lock file, the plan if one is given, and the modules of the two.

    Shipped modules that are named only by id and have no dependencies are left out: there is nothing to lock or fetch.
    """

    folder: Path
    plan: MountPlan | None
    lock: LockFile
    modules: tuple[SourcedModule, ...]
    unresolved: tuple[UnresolvedModule, ...] = ()
    mirrors: Mirrors = field(default_factory=Mirrors)

    @classmethod
    def read(cls, plan: Path | None, folder: Path, environ: Mapping[str, str]) -> Self:
        """Return the modules of a plan, by the lock file beside it; without a plan those locked in `folder`.

        The settings of the user who has `environ` precede the plan, as in a session.

        Raises:
            PlanError: the plan has problems.
            PolicyFileError: the user's settings cannot be trusted or understood.
            LockFileError: the lock file cannot be trusted or understood.
            SourceError: constraints of the plan contradict each other.
        """
        loaded = _load(plan, environ) if plan is not None else None
        folder = loaded.origin.parent if loaded is not None and loaded.origin is not None else folder.resolve()
        lock = LockFile.read(folder / LOCK_FILE)
        settings = load_source_settings(environ)
        if loaded is None:
            return cls(folder, None, lock, tuple(_locked(lock, folder, environ)), mirrors=settings.mirrors)
        resolver = Resolver(environ, base=folder, settings=settings, installed=_find_installed)
        found = tuple(_planned(loaded, lock, folder, resolver))
        return cls(
            folder,
            loaded,
            lock,
            tuple(_with_rules([one for one in found if isinstance(one, SourcedModule)], loaded)),
            tuple(one for one in found if isinstance(one, UnresolvedModule)),
            settings.mirrors,
        )

    @property
    def lock_path(self) -> Path:
        return self.folder / LOCK_FILE

    @property
    def unused(self) -> tuple[LockedModule, ...]:
        """The locked sources that no module of the plan uses, whichever layer names its source."""
        used = {key for module in self.modules for key in module.keys}
        return tuple(locked for locked in self.lock.modules if locked.source not in used)

    @property
    def bundles(self) -> tuple[SourcedModule, ...]:
        """The repositories of bundles that are locked, in the form of modules without an entry."""
        uris = ((row, row.uri(self.folder)) for row in self.lock.bundles)
        return tuple(SourcedModule(f"bundles of {name_of(uri)}", uri, row.source, row) for row, uri in uris)

    @property
    def mirror_notes(self) -> tuple[str, ...]:
        """From which mirrors these modules and bundles are fetched, in words."""
        return self.mirrors.notes(one.uri for one in (*self.modules, *self.bundles))

    def as_locked(self, environ: Mapping[str, str]) -> Self:
        """Return the sources in the lock file, by the plan's names for their modules where it has them."""
        users = [(key, one.entry) for one in self.modules for key in one.keys]
        found = [
            replace(one, name=entry.module, entry=entry) if entry is not None else one
            for one in _locked(self.lock, self.folder, environ)
            for entry in [entry for key, entry in users if key == one.key] or [None]
        ]
        return replace(self, plan=None, modules=tuple(found), unresolved=())

    def by_source(self) -> Mapping[str, SourcedModule]:
        """Return one module of each source."""
        return {module.key: module for module in reversed(self.modules)}

    def meant(self, written: str) -> tuple[SourcedModule, ...]:
        """Return the modules that an id or a source names.

        Raises:
            KindError: none is.
        """
        found = tuple(module for module in self.modules if module.is_meant_by(written, self.folder))
        if not found:
            known = ", ".join(dict.fromkeys(module.name for module in self.modules))
            where = f"`{self.plan.origin}`" if self.plan is not None else f"`{self.lock_path}`"
            close = near(written, [module.name for module in self.modules])
            if close:
                hint = f"did you mean `{close[0]}`?"
            elif known:
                hint = f"known there: {known}"
            else:
                hint = "nothing is locked there; `-C DIR` names another folder"
                if self.plan is not None:
                    hint = "none of its modules has a source of its own, nor that id; `paddock list` shows them"
            raise KindError(NO_SUCH_MODULE, f"there is no module `{written}` in {where}", hints=[hint])
        return found

    def refuse_by(self, policy: Policy) -> None:
        """Refuse forbidden sources before any request about them is sent.

        Raises:
            PolicyRefusedError: a rule refuses one of them.
        """
        sources = {f"{module.place}.source" if module.place else module.name: pinned(module) for module in self.modules}
        refuse_sources(sources, policy, self.plan.positions if self.plan is not None else None)


def pinned(module: SourcedModule) -> str:
    """Return a module's source as rules judge it: a locked source counts as pinned."""
    return module.uri.at_commit() if module.locked is None else module.uri.at_commit(module.locked.commit)


def name_of(uri: SourceUri) -> str:
    """Return the name of a source: the id that a module in it would have by its name."""
    return uri.short_name.replace("_", "-").removeprefix("amplifier-module-")


def _planned(
    plan: MountPlan, lock: LockFile, folder: Path, resolver: Resolver
) -> Iterator[SourcedModule | UnresolvedModule]:
    for entry in plan.entries():
        try:
            chosen = resolver.choose(entry.module, entry.source)
            key = chosen.uri.key(folder)
        except SourceError as error:
            yield UnresolvedModule(entry, error)
            continue
        if chosen.layer in _USUAL_LAYERS:
            uri = chosen.uri
            is_named_by_id = entry.source is None and isinstance(uri, BuiltinUri)
            if not is_named_by_id or shipped().has_dependencies(entry.module):
                yield SourcedModule(entry.module, chosen.uri, key, lock.get(key), entry)
            continue
        written = None if entry.source is None else parse_source(entry.source).key(folder)
        yield SourcedModule(entry.module, chosen.uri, key, lock.get(key), entry, chosen.layer, written)


def _with_rules(modules: Sequence[SourcedModule], plan: MountPlan) -> Iterator[SourcedModule]:
    """Yield modules with their rules: a lock file has one record of a source, which several entries may take."""
    rules_of = plan.rules_by_entry()
    by_key: dict[str, DependencyRules] = {}
    for one in modules:
        if one.entry is not None:
            by_key[one.key] = by_key.get(one.key, NO_RULES).joined(rules_of(one.entry))
    for one in modules:
        yield replace(one, rules=by_key.get(one.key, NO_RULES))


def rules_of_source(
    plan: MountPlan,
    uri: SourceUri,
    folder: Path,
    environ: Mapping[str, str],
) -> DependencyRules:
    """Return the rules of all entries of a plan in `folder` that take a source, not yet judged.

    Raises:
        PolicyFileError: the user's settings cannot be trusted or understood.
    """
    settings = load_source_settings(environ)
    return _rules_of(plan, uri, folder, Resolver(environ, base=folder, settings=settings, installed=_find_installed))


def _rules_of(plan: MountPlan, uri: SourceUri, folder: Path, resolver: Resolver) -> DependencyRules:
    """Return the rules of all entries of a plan that take a source, as a run has them, not yet judged."""
    key = uri.key(folder)
    rules_of = plan.rules_by_entry()
    found = []
    for entry in plan.entries():
        with suppress(SourceError):  # an entry without a source takes no other's
            if resolver.choose(entry.module, entry.source).uri.key(folder) == key:
                found.append(rules_of(entry))
    return DependencyRules.together(*found)


def _find_installed(module_id: str) -> str | None:
    from paddock_sources.environment.installed import InstalledDistributions

    found = InstalledDistributions().find(module_id)
    return found.name if found is not None else None


def _locked(lock: LockFile, folder: Path, environ: Mapping[str, str]) -> Iterator[SourcedModule]:
    if not lock.modules:
        return
    from paddock.module_sources.provisioning import offline_provisioner  # no plan's list or check needs it

    with SourceCache.of_user(environ) as cache:
        provisioner = offline_provisioner(environ, cache)
        for locked in lock.modules:
            uri = locked.uri(folder).held()
            try:
                ids = provisioner.supply(uri).module_ids(uri, locked)
            except SourceError:  # its code is not in the cache, and nothing is fetched to learn a name
                ids = ()
            yield SourcedModule(", ".join(ids) or name_of(uri), uri, locked.source, locked, ids=ids)


@dataclass(frozen=True, slots=True)
class NamedSource:
    """The source of a module that `file`, a folder's plan or lock file, names; `text` is its whole address.

    `is_accepted` says that the user accepted the plan as it is, with the pins of `lock`, its lock file. Otherwise the
    source is the word of the one who wrote the file, and good for a hint alone. `rules` are those of all entries of the
    plan that take the source; they may contradict each other.
    """

    module_id: str
    text: str
    file: Path
    lock: LockFile
    is_accepted: bool = False
    rules: DependencyRules = NO_RULES


def named_sources(written: str, folder: Path, environ: Mapping[str, str]) -> tuple[NamedSource, ...]:
    """Return the sources that the folder's plan, or else its lock file, has for the tool that goes by `written`.

    There are none where a shipped or installed module has that id, or a setting of the user's names its source: these
    come first, so that a folder of a stranger's cannot put other code in their place.

    Raises:
        PolicyFileError: the user's settings, or the record of accepted plans, cannot be trusted or understood.
        LockFileError: the lock file cannot be trusted or understood.
        PlanError: the folder's plan has problems, and nothing else has a tool of that name.
    """
    try:
        if not parse_source(written).bare_id:
            return ()
    except SourceUriError:
        return ()
    folder = folder.resolve()
    resolver = Resolver(environ, base=folder, settings=load_source_settings(environ), installed=_find_installed)
    try:
        resolver.choose(written)
        return ()
    except SourceError:
        pass
    lock = LockFile.read(folder / LOCK_FILE)
    plan, problem = _usual_plan(folder, environ)
    found = [
        (entry.module, parse_source(entry.source).anchored(folder))
        for entry in (() if plan is None else plan.entries())
        if entry.source is not None and written in (entry.module, entry.instance_id)
    ]
    if plan is not None and found:
        is_accepted = _is_accepted(plan, _pins(plan, lock, folder, resolver), folder, environ)
        return tuple(
            NamedSource(name, uri.text, folder / USUAL_PLAN, lock, is_accepted, _rules_of(plan, uri, folder, resolver))
            for name, uri in dict.fromkeys(found)
        )
    locked = tuple(
        NamedSource(written, module.uri.text, folder / LOCK_FILE, lock)
        for module in _locked(lock, folder, environ)
        if written in module.ids
    )
    if problem is not None and not locked:
        raise problem
    return locked


def ids_in_files(folder: Path, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names that modules have in the folder's plan and lock file, for hints; of a broken file none."""
    plan, _ = _usual_plan(folder, environ)
    named = () if plan is None else (entry.instance_id or entry.module for entry in plan.entries())
    try:
        locked = [name for module in _locked(LockFile.read(folder / LOCK_FILE), folder, environ) for name in module.ids]
    except (PaddockError, SourceError):
        locked = []
    return tuple(dict.fromkeys([*named, *locked]))


def _load(plan: Path, environ: Mapping[str, str]) -> MountPlan:
    from paddock.plan.load import load_plan  # only here: a call of a tool by its source reads no plan

    return load_plan(plan, environ=environ)


def _usual_plan(folder: Path, environ: Mapping[str, str]) -> tuple[MountPlan | None, PaddockError | None]:
    """Return the folder's plan, if it has one, or why that cannot be read."""
    plan = folder / USUAL_PLAN
    try:
        return (_load(plan, environ) if plan.is_file() else None), None
    except PaddockError as error:
        return None, error


def _is_accepted(plan: MountPlan, pins: Pins, working_dir: Path, environ: Mapping[str, str]) -> bool:
    from paddock.isolation.mentioned_files import with_instruction  # only here: a call by a plan's name for its module
    from paddock.isolation.private_places import PrivatePlaces

    owner = Owner.current(environ)
    instructed = with_instruction(plan, working_dir, owner, lambda: PrivatePlaces.of_user(environ))
    judged = with_places(instructed, working_dir, owner)
    acceptance = PlanAcceptance.of(judged, GrantsFile.of_user(environ))
    return acceptance.trust.accepted and not acceptance.moved(pins)


def _pins(plan: MountPlan, lock: LockFile, folder: Path, resolver: Resolver) -> Pins:
    """Return the pins of a plan's sources, as a session that is about to start finds them."""
    pins: dict[str, Pin | None] = {}
    for module in _planned(plan, lock, folder, resolver):
        if isinstance(module, SourcedModule):
            pins[module.key] = None if module.locked is None else Pin.of(module.locked)
    return pins
