"""Compile the sandbox of one worker: the profile that its process applies to itself, from its grants.

It decides nothing and starts nothing. Every path is followed here, once; none in a profile is a link. All problems with
an entry's grants are one error, which names each place in the plan and a replacement.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from paddock.errors import PlanError, PlanProblem
from paddock.isolation.enforcement import LEVELS_WITH_NAMESPACES
from paddock.isolation.fixed_paths import FixedPaths
from paddock.isolation.mount_table import MountTable
from paddock.isolation.network import WorkerNetwork
from paddock.isolation.private_places import NO_PLACES, PrivatePlaces
from paddock.isolation.runtime_paths import RuntimePaths
from paddock.isolation.watchlist import Watchlist
from paddock.plan.model import ModuleEntry
from paddock.plan.permissions import grants_of
from paddock.plan.problems import NotAcceptedError, path_text
from paddock.policy.grants import Brought, Grants
from paddock.policy.guarded_paths import GuardedPaths, keeps, runner_of, when_made
from paddock.policy.guarded_places import A_READER
from paddock.policy.limits import ResourceLimits
from paddock.policy.outer_repository import OuterRepository, outer_repositories
from paddock.policy.owner import Owner
from paddock.policy.path_walk import GrantedPath
from paddock.policy.programs import SYSTEM_FOLDERS, Program, configuration_of
from paddock.workers.limits.tree_limits import TreeLimits
from paddock_sandbox.profile import IsolationLevel, Mount, NetworkAccess, SandboxProfile
from paddock_sandbox.rlimits import Rlimit
from paddock_sources import Resolution

# The mounts of guarded places and of the folders on the way; the runtime's own are thirty, and at most 240 fit.
_MAX_PROTECTED: Final = 160
_MAX_HELD: Final = 40
_MAX_WAYS: Final = 40  # of the former for the folders on the way to excluded places, which take none themselves
_MAX_SHOWN: Final = 5
_MAX_HOME_LINKS: Final = 64
_TASKS_OF_OURS: Final = 2  # its init, and the worker itself
_THREAD_BYTES: Final = 72 << 20  # of addresses, next to none of it memory: a stack and an arena of the allocator
_LOCKED_BYTES: Final = 64 << 10
_PENDING_SIGNALS: Final = 1024  # and timers, which take as much memory as they like otherwise
_MAX_RLIMIT: Final = 2**63 - 1
# Below `/etc`, what common runtimes read whenever they start. Those of Java are what its folder in `/usr` has links to:
# it does not start without some of them.
_OF_JAVA: Final = ("java-*/*", "java-*/security/*")
_READ_AT_START: Final = ("ssl/openssl.cnf", "pki/tls/openssl.cnf", "python3*/sitecustomize.py", *_OF_JAVA)


@dataclass(frozen=True, slots=True)
class Confinement:
    """A profile, and its sources: `grants`, the guarded paths in them, and which of these are `protected`.

    `held` are links through which other programs reach a guarded path; they stay in their places. `folder` is the
    module's start folder: the working directory if it may see any of it, else its private folder. `unseen` are the
    repositories that git would need besides. `is_short` says that there is more to keep than there may be mounts.
    """

    profile: SandboxProfile
    folder: Path
    grants: Grants = field(default_factory=Grants)
    guarded: tuple[GuardedPaths, ...] = ()
    protected: tuple[Path, ...] = ()
    held: tuple[Path, ...] = ()
    home: Path = Path("/")
    unseen: tuple[OuterRepository, ...] = ()
    is_short: bool = False

    def lines(self) -> tuple[str, ...]:
        """Return the grants, and the parts left out of them, as a person sees them."""
        kept = (f"not write {path}" for path in self.protected)
        return (*self.grants.lines(), *kept, *(f"not replace {link}" for link in self.held), *self._notes())

    def remarks(self) -> tuple[str, ...]:
        """Return those lines that the author of the grants may not expect: links, and paths that stay open."""
        return (*self.grants.linked(), *self._notes())

    def home_links(self) -> dict[str, str]:
        """Return the links in the module's own home to its grants in the user's home, by relative names.

        Modules know these places as `~/…`, and their grants name them so.
        """
        located = (path for program in self.grants.by_path for path in program.located)
        within = (path for path in (*self.grants.paths, *located) if self.home in path.spelled.parents)
        links = {str(path.spelled.relative_to(self.home)): str(path.path) for path in within}
        return dict(sorted(links.items())[:_MAX_HOME_LINKS])

    def watchlist(self) -> Watchlist:
        """Return the present state of guarded paths that can still change, to be compared afterwards."""
        return Watchlist.take(self.guarded, self.home, (*self.protected, *self.held), self._granted())

    def _granted(self) -> set[Path]:
        return {path.path for path in self.grants.writes}

    @property
    def left_open(self) -> tuple[Path, ...]:
        """Guarded paths without protection: at a level without mounts, and beyond the possible number of mounts."""
        granted = self._granted()
        closed = dict.fromkeys(path for one in self.guarded for path in one.closed(granted))
        links = dict.fromkeys(link for one in self.guarded for link in one.links_to_hold(granted))
        held, protected = frozenset(self.held), frozenset(self.protected)
        opened = frozenset(place for one in self.guarded for place in one.open)
        folders = frozenset((*granted, *(one.folder for one in self.guarded)))
        unheld = dict.fromkeys(link for link in links if link not in held and not keeps(protected, opened, link))
        reached = ((path, Path(os.path.realpath(path))) for path in closed if path not in unheld)
        # A module can change the target of a guarded path where that lies in a folder which it may write to.
        changeable = (
            path for path, real in reached if not keeps(protected, opened, real) and _is_within(real, folders)
        )
        return (*changeable, *unheld)

    @property
    def shortage(self) -> str:
        """A message for people if there are more paths than can be protected; else empty."""
        kept, exposed = len({*self.protected, *self.held}), len(self.left_open) if self.is_short else 0
        return f"only {kept} places that other programs run are kept as they are, {exposed} are not" if exposed else ""

    def _notes(self) -> Iterator[str]:
        for program in self.grants.left_out:
            yield (
                f"note: `{program.name}` is left out, since it brings what may not be shown here: "
                f"{program.describe()}; programs that need it do not start"
            )
        yield from (f"note: {one.describe()}" for one in self.unseen)
        yield from self._open_secrets()
        exposed = sorted(self.left_open, key=lambda path: runner_of(path) == A_READER)  # the most dangerous first
        if shortage := self.shortage:
            yield f"{shortage}:"
        for path in exposed[:_MAX_SHOWN]:
            yield f"note: {runner_of(path)} may run {path}, and nothing keeps it from being written"
        if len(exposed) > _MAX_SHOWN:
            yield f"note: so it is with {len(exposed) - _MAX_SHOWN} more"
        for one in self.guarded:
            if not one.is_complete:
                yield f"note: {one.folder} may hold more that other programs run than was found in it"

    def _open_secrets(self) -> Iterator[str]:
        """Yield lines about secret files that may be read although a preset excludes them."""
        excluded, by_mounts = self.grants.exclusions, self.profile.level in LEVELS_WITH_NAMESPACES
        read = (*excluded.left_open, *(() if by_mounts else (one.place for one in excluded.found)))
        why = "beyond those that can be" if by_mounts else f"at level {self.profile.level}, which excludes none"
        if read:
            more = f" and {len(read) - 1} more" if len(read) > 1 else ""
            yield f"note: {read[0]}{more} can be read: your secret files are not excluded {why}"
        for folder in excluded.incomplete:
            yield f"note: {folder} may hold more secret files than were found in it, which can be read"


def confine(
    entry: ModuleEntry,
    *,
    level: IsolationLevel,
    resolution: Resolution,
    working_dir: Path,
    runtime_paths: RuntimePaths,
    limits: ResourceLimits,
    owner: Owner,
    scratch: Path,
    home: Path | None = None,
    network: WorkerNetwork | None = None,
    modules: Iterable[Resolution] = (),
    kept: Iterable[Path] = (),
    earlier: Collection[GuardedPaths] = (),
    holds_links: bool = True,
    lets_see: Callable[[Program], bool] = lambda program: True,
    found: Grants | None = None,
    private: PrivatePlaces = NO_PLACES,
    covers: Path | None = None,
) -> Confinement:
    """Return the sandbox of a plan entry's module at `level`.

    `working_dir` is absolute and without links; `scratch` is the private folder as the worker will know it, `home` one
    that is kept for it when it ends. Without a `network` no socket can be made. No module of a session may change the
    code of one of its `modules`, nor the files and folders to be `kept`. Paths that were found guarded `earlier`,
    before modules could add any, come first. `holds_links` is whether a link can be made a mount. `lets_see` decides
    whether the module may be shown a program that its entry does not name, which it finds where it may run all that it
    sees. `found` are the entry's grants where they were followed before; they must not lead elsewhere by now. What is
    `private` is shown to nobody; what covers it is made in the folder `covers`, if the module is to be started.

    Raises:
        PlanError: something cannot be granted as it is written.
    """
    by_mounts = level in LEVELS_WITH_NAMESPACES
    fixed = FixedPaths.of(resolution, modules, runtime_paths.installation, kept)

    def check(granted: GrantedPath, is_written: bool) -> None:
        if level != "none":
            private.refuse(granted, by_mounts=by_mounts)
            if is_written:
                fixed.refuse(granted, by_mounts=by_mounts)

    source = Path(resolution.source)
    if level != "none" and source.is_absolute() and private.meet(source.resolve()):
        said = f"the code of module `{resolution.module_id}` is around Paddock's own folders, or in them: `{source}`"
        raise PlanError([PlanProblem(path_text(entry.path, "source"), said, "keep the code in a folder of its own")])
    grants = found
    if grants is None:
        grants = Grants.of(entry, working_dir, owner, check, lets_see)
        try:
            grants = replace(grants, brought=Brought.of(resolution, working_dir, owner, check))
        except NotAcceptedError as error:
            problem = PlanProblem(path_text(entry.path, "source"), error.problem, error.accepted)
            raise PlanError([problem], code="GrantError") from error
    if level == "none":
        profile = compile_profile(level, grants, runtime_paths, limits, scratch)
        return Confinement(profile, working_dir, grants, home=owner.home)

    for one in grants.exclusions.found:
        code = next((code for code in fixed.codes if code.root.is_relative_to(one.place)), None)
        if code is not None:
            said = f"`{one.written}` excludes `{one.place}`, where the code of module `{code.module_id}` is"
            hint = "exclude less, or keep the code elsewhere"
            raise PlanError([PlanProblem(path_text(entry.path, "permissions"), said, hint)], code="GrantError")
    folders = (path.path for path in grants.writes if path.is_directory)
    guarded = tuple(GuardedPaths.find(folder, owner.home).with_earlier(earlier) for folder in folders)
    wanted = _kept_first(guarded, grants, earlier, GuardedPaths.to_protect) if by_mounts else ()
    links = _kept_first(guarded, grants, earlier, GuardedPaths.links_to_hold) if by_mounts and holds_links else ()
    closed = dict.fromkeys(one.place for one in grants.exclusions.found)
    ways = _within(dict.fromkeys(place.parent for place in closed), grants, _MAX_WAYS)
    spent = len(_mounts_for(ways, grants))
    protected, held = _within(wanted, grants, _MAX_PROTECTED - spent), _within(links, grants, _MAX_HELD)
    located = (path for program in grants.by_path for path in program.located)
    profile = compile_profile(
        level,
        grants,
        runtime_paths,
        limits,
        scratch,
        network,
        home=home,
        code=(resolution.repository or fixed.codes[0].root, *resolution.further_code),
        fixed=(*fixed.inside(path.path for path in grants.writes), *protected, *held),
        opened=(place for one in guarded for place in one.open),
        closed={place: place.parent in ways for place in closed},
        covered=private.covers([path.path for path in (*grants.paths, *located)], home, covers),
    )
    folder = working_dir if _sees_any_of(working_dir, grants) else scratch
    unseen = tuple(outer_repositories(grants_of(entry.permissions), working_dir, owner))
    is_short = (len(wanted), len(links)) > (len(protected), len(held))
    return Confinement(profile, folder, grants, guarded, protected, held, owner.home, unseen, is_short)


def compile_profile(
    level: IsolationLevel,
    grants: Grants,
    runtime_paths: RuntimePaths,
    limits: ResourceLimits,
    scratch: Path,
    network: WorkerNetwork | None = None,
    *,
    home: Path | None = None,
    code: Iterable[Path] = (),
    fixed: Iterable[Path] = (),
    opened: Iterable[Path] = (),
    closed: Mapping[Path, bool] | None = None,
    covered: Mapping[Path, Path] | None = None,
) -> SandboxProfile:
    """Return the profile of a worker, for a module or for commands, with these grants.

    It may read `code`, and change nothing that is `fixed` inside its writable folders, but for what is `opened` in it.
    Links that are `fixed` stay in place. With namespaces it cannot open what is `closed`, nor, where
    that is true, move a folder on the way there; and it sees, in place of what is `covered`, the folder that covers it.
    """
    if level == "none":
        return SandboxProfile(level=level, scratch=str(scratch))
    by_mounts = level in LEVELS_WITH_NAMESPACES
    table = MountTable()
    _show_runtime(table, runtime_paths, grants, by_mounts=by_mounts)
    runs_all = grants.programs is None
    for path in grants.paths:
        table.grant(path.path, writable=path in grants.writes, mappable=runs_all)
    if home is not None:
        table.grant(home, writable=True, mappable=runs_all)
    for place in fixed:
        if place.is_symlink():
            table.hold(place)
        else:
            table.fix(place, mappable=runs_all)
    for place in opened:
        table.grant(place, writable=True, mappable=runs_all)
    for folder in code:
        table.fix(folder, mappable=True)
    for source, target in network.files if network is not None else ():
        table.fix(source, target)
    if by_mounts:
        for place, cover in (covered or {}).items():
            table.cover(place, cover)
        for place, holds_way in (closed or {}).items():
            table.close(place, holds_way=holds_way)
        _show_spellings(table, grants)
    places = table.places()
    return SandboxProfile(
        level=level,
        mounts=places.mounts if by_mounts else _by_source(places.mounts),
        programs=grants.executable(),
        rlimits=_rlimits(limits, level),
        scratch=str(scratch),
        tmp_bytes=limits.tmp_max,
        network=None if network is None else NetworkAccess(network.ports, network.serves),
        links=places.links if by_mounts else (),
        closed=places.closed if by_mounts else (),
    )


def tree_limits_of(profile: SandboxProfile, limits: ResourceLimits, cpu_quota: float | None) -> TreeLimits:
    """Return the limits of all processes of a worker with this profile together.

    `cpu_quota` comes apart, since a command has none: `limits` always has a number.
    """
    has_namespaces = profile.level in LEVELS_WITH_NAMESPACES
    return TreeLimits(
        limits.memory_max,
        limits.tasks_max,
        cpu_quota,
        watches_tasks=not has_namespaces,  # with them, an rlimit counts
        private_folder=profile.scratch if has_namespaces else "",
        runs_programs=bool(profile.programs),
    )


def _show_runtime(
    table: MountTable,
    runtime_paths: RuntimePaths,
    grants: Grants,
    *,
    by_mounts: bool,
) -> None:
    located = grants.by_path
    seen = [path.path for path in (*grants.paths, *(path for program in located for path in program.located))]
    if grants.may_run:
        show_system(table, grants.programs, grants.beside)
        for program in located:
            for place in program.located:
                table.grant(place.path, mappable=True)
            _show_files(table, program)
        seen.append(Path("/usr"))
        for path in (path for pattern in _READ_AT_START for path in Path("/etc").glob(pattern)):
            if path.is_file() and path.stat().st_mode & stat.S_IROTH:
                table.grant(path.resolve(), path)
        if not by_mounts:
            named = None if grants.programs is None else (*grants.programs, *grants.located, *grants.brought.programs)
            for path in configuration_of(named):
                table.grant(path)
    runtime_paths.show(table, by_mounts=by_mounts, seen=seen)


def _show_spellings(table: MountTable, grants: Grants) -> None:
    """Show granted paths under the names they were granted by, where no visible link leads there.

    This comes after everything else in the table, so that kept places are kept under each name. Outer names come first,
    since nothing can be mounted by way of a link.
    """
    for path in sorted(grants.paths, key=lambda granted: granted.spelled.parts):
        if not table.is_seen(path.spelled):
            table.alias(path.path, path.spelled)
    # A link on the way that is seen leads to a name that has to be there as well.
    located = (path for program in grants.by_path for path in program.located)
    names = {name: path.path for path in located for name in (path.spelled, *path.others)}
    for name in sorted(names, key=lambda name: name.parts):
        if not table.is_seen(name):
            table.alias(names[name], name)


def _kept_first(
    guarded: Iterable[GuardedPaths],
    grants: Grants,
    earlier: Iterable[GuardedPaths],
    wanted: Callable[[GuardedPaths, Collection[Path]], tuple[Path, ...]],
) -> tuple[Path, ...]:
    """Return the paths to be kept, in the order of their claim to a mount.

    Those that were found earlier come first, then the oldest, then those that a table names. A module can make more,
    also for the next session, but none that is older than what was there before it.
    """
    granted = {path.path for path in grants.writes}
    known = {path for one in earlier for path in wanted(one, granted)}
    found = dict.fromkeys(path for one in guarded for path in wanted(one, granted))
    if len(found) <= _MAX_HELD:
        return tuple(found)
    return tuple(sorted(found, key=lambda path: (path not in known, when_made(path), runner_of(path) == A_READER)))


def _within(paths: Iterable[Path], grants: Grants, most: int) -> tuple[Path, ...]:
    """Return as many of the paths, the first before the others, as take at most so many mounts."""
    kept: list[Path] = []
    mounts: set[Path] = set()
    for path in paths:
        needed = mounts | _mounts_for([path], grants)
        if len(needed) <= most:
            kept.append(path)
            mounts = needed
    return tuple(kept)


def _mounts_for(paths: Iterable[Path], grants: Grants) -> set[Path]:
    """Return the paths, and the folders on the way to them, as far as they are in folders that may be written to."""
    folders = frozenset(path.path for path in grants.writes)
    return {one for path in paths for one in (path, *path.parents) if _is_within(one.parent, folders)}


def _by_source(mounts: Iterable[Mount]) -> tuple[Mount, ...]:
    """Return each place once, under its name outside the sandbox, with the sum of its rights."""
    places: dict[str, Mount] = {}
    for mount in mounts:
        other = places.get(mount.source, mount)
        writable, mappable = mount.writable or other.writable, mount.mappable or other.mappable
        places[mount.source] = Mount(mount.source, mount.source, writable, mappable)
    return tuple(places.values())


def _sees_any_of(folder: Path, grants: Grants) -> bool:
    seen = (*grants.paths, *(program.located[0] for program in grants.by_path))
    places = (place for path in seen for place in (path.path, path.spelled))
    return any(folder.is_relative_to(place) or place.is_relative_to(folder) for place in places)


def _rlimits(limits: ResourceLimits, level: IsolationLevel) -> tuple[Rlimit, ...]:
    # Far more addresses than memory: libraries reserve more than they touch. Stops only absurd amounts, on
    # machines where nothing counts memory at once.
    addresses = 4 * limits.memory_max + (1 << 30) + limits.tasks_max * _THREAD_BYTES
    values = {
        "NOFILE": limits.open_files_max,
        "FSIZE": limits.file_size_max,
        "AS": addresses,
        "MEMLOCK": _LOCKED_BYTES,
        "MSGQUEUE": 0,
        "SIGPENDING": _PENDING_SIGNALS,
    }
    if level in LEVELS_WITH_NAMESPACES:
        values["NPROC"] = limits.tasks_max + _TASKS_OF_OURS
    return tuple(Rlimit(name, min(value, _MAX_RLIMIT)) for name, value in values.items())


def show_system(table: MountTable, programs: Iterable[Program] | None, beside: Iterable[Program] = ()) -> None:
    """Show a worker the system's folders of programs and what these need; it may execute `programs`, None: all.

    It may execute those in `beside` as well, which lie outside these folders.

    Only libraries and executable programs can be mapped into memory as code, so that a loader cannot be made to start
    another file.
    """
    for link in SYSTEM_FOLDERS:
        folder = Path(os.path.realpath(link))
        if folder.is_dir():
            is_library = folder.name.startswith("lib")
            for spelling in {Path(link), folder}:
                table.grant(folder, spelling, mappable=programs is None or is_library)
    table_of_links = Path("/etc/alternatives")
    if table_of_links.is_dir():
        table.grant(table_of_links)
    for program in (*(programs or ()), *beside):
        table.grant(program.home, mappable=True)
        _show_files(table, program)


def _show_files(table: MountTable, program: Program) -> None:
    for file in program.files:
        for spelling in _spellings(file):
            table.grant(file, spelling, mappable=True)


def _spellings(file: Path) -> Iterator[Path]:
    """Yield the names of a file by way of the links in the root folder: `/usr/bin/dash` is `/bin/dash` as well."""
    yield file
    for link in map(Path, SYSTEM_FOLDERS):
        if link.is_symlink() and file.is_relative_to(real := Path(os.path.realpath(link))):
            yield link / file.relative_to(real)


def _is_within(path: Path, places: frozenset[Path]) -> bool:
    return path in places or not places.isdisjoint(path.parents)
