"""Plan the sandbox of each module of a session: for all of them before any is started.

The planner finds out once what this machine can do, by trying it, and asks the policy about each entry. All problems
are found before the first process of a module exists, and reported together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import anyio.to_thread

from paddock.authorization.authorizer import Authorization, AuthorizedModule
from paddock.errors import LevelFailure, PlanError, PlanProblem, PolicyRefusedError, Refusal
from paddock.isolation.compile import Confinement, confine, tree_limits_of
from paddock.isolation.denials.attempt import AttemptJudge
from paddock.isolation.denials.explained_module import ExplainedModule
from paddock.isolation.enforcement import LEVELS_WITH_NAMESPACES, require_enforced
from paddock.isolation.fixed_paths import FixedPaths
from paddock.isolation.levels import choose_level
from paddock.isolation.machine import Machine
from paddock.isolation.network import Networks, WorkerNetwork
from paddock.isolation.persistent_home import PersistentHome
from paddock.isolation.private_places import NO_PLACES, PrivatePlaces
from paddock.isolation.sandbox_host import SandboxHost, failure_of
from paddock.isolation.watchlist import Watchlist
from paddock.plan.model import ModuleEntry
from paddock.plan.permissions import Permissions, grants_of
from paddock.plan.problems import path_text
from paddock.plan.secret_references import names_referred_to
from paddock.policy.grants import Grants
from paddock.policy.guarded_paths import GuardedPaths, runner_of
from paddock.policy.guarded_places import A_READER
from paddock.policy.limits import ResourceLimits
from paddock.policy.owner import Owner
from paddock.policy.programs import SEARCH_PATH
from paddock.policy.rule import FLOOR
from paddock.policy.secrets.values import NO_SECRETS, SecretValues
from paddock.workers.limits.tree_limits import TreeLimits
from paddock.workers.probe import Available, Unavailable
from paddock_sandbox.mounts import NO_LINKS
from paddock_sandbox.profile import IsolationLevel
from paddock_sources import Resolution

OnConfined = Callable[[Sequence[tuple[ModuleEntry, Confinement]]], None]
"""Called with the sandbox of each module, when all is planned and no module is started."""

_MAX_CHANGES: Final = 50  # lines about hidden names of no table, of thousands that a module may make
_TRIED_IN_TURN: Final[tuple[IsolationLevel, ...]] = ("ns", "bwrap", "landlock")
# A repository may only be read unless it is granted by itself: git is to look at it without writing to it. Its folder
# may be a mount beside the granted one.
_GIT_THAT_READS: Final = {"GIT_OPTIONAL_LOCKS": "0", "GIT_DISCOVERY_ACROSS_FILESYSTEM": "1"}
_PASSED_ON: Final = ("LANG", "LC_ALL", "TZ")  # language and time zone reveal nothing that answers do not
# Programs that start a thread or a job for each processor, and see no quota, are told the number of those they have.
_TOLD_PROCESSORS: Final = (
    *("CMAKE_BUILD_PARALLEL_LEVEL", "GOMAXPROCS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"),
    *("PYTHON_CPU_COUNT", "RAYON_NUM_THREADS", "UV_THREADPOOL_SIZE"),
    "JOBS",  # node-gyp's; of `npm_config_jobs` npm says at each command that it is unknown
)


@dataclass(frozen=True, slots=True)
class SandboxedModule:
    """The sandbox of one module, and its limits."""

    confinement: Confinement
    limits: ResourceLimits
    environ: Mapping[str, str]
    home: Path | None = None  # the folder of its own that is kept when it ends, if any is

    @property
    def level(self) -> IsolationLevel:
        return self.confinement.profile.level

    @property
    def tree_limits(self) -> TreeLimits:
        """The limits of all of the module's processes together."""
        return tree_limits_of(self.confinement.profile, self.limits, self.limits.cpu_quota)


@dataclass(frozen=True, slots=True)
class _PlannedModule:
    """The decision about one module: `codes` are the code of all modules, which it may not change."""

    module: AuthorizedModule
    level: IsolationLevel
    secrets: SecretValues
    codes: tuple[Resolution, ...]


@dataclass(frozen=True, slots=True)
class SessionPaths:
    """Where a session is: the folder its modules work in, and the host's environment.

    `kept` are files that no module may change, `private` are places that none sees.
    """

    working_dir: Path
    environ: Mapping[str, str]
    kept: tuple[Path, ...] = ()
    private: PrivatePlaces = NO_PLACES


class SandboxPlanner:
    """The sandboxes of the modules of a session and of its sub-sessions.

    Args:
        place: where the session is.
        host: the means of making sandboxes.
        networks: opens the network of a module that was granted hosts.
        isolation: the level of entries that name none, accepted by the operator; the strongest available by default.
        on_confined: called with the decision about all modules.
    """

    def __init__(
        self,
        place: SessionPaths,
        host: SandboxHost,
        networks: Networks,
        *,
        isolation: IsolationLevel | None = None,
        on_confined: OnConfined | None = None,
    ) -> None:
        self.host = host
        self.private = place.private
        self._place = place
        self._networks = networks
        self._isolation = isolation
        self._on_confined = on_confined
        self._owner = Owner.current(place.environ)
        self._planned: dict[str, _PlannedModule] = {}
        self._sandboxes: dict[str, SandboxedModule] = {}
        self._subjects: dict[str, ExplainedModule] = {}
        self._watchlists: list[Watchlist] = []
        self._shortages: list[str] = []
        self._guarded: dict[Path, GuardedPaths] = {}  # the guarded paths of each folder at the first look

    async def plan_sandboxes(self, authorization: Authorization) -> None:
        """Decide on a sandbox for each authorised module.

        Raises:
            PaddockError: a level does not work, or is too low.
            PolicyRefusedError: a policy's rule forbids the result.
            PlanError: grants or limits cannot be given; all are named.
        """
        await self._probe_sandbox_support([module.entry for module in authorization.modules])
        codes = tuple(module.resolution for module in authorization.modules)
        controllers = self.host.workers.groups.controllers
        refused: list[PlanError | PolicyRefusedError] = []
        asked: list[tuple[_PlannedModule, WorkerNetwork | None]] = []
        for module in authorization.modules:
            level = choose_level(
                module.entry,
                reachable=self.host.sandbox_support.reachable,
                failures=self._failures(),
                trusted=authorization.accepts_weaker,
                named=self._isolation,
                floor=module.decision.floor,
            )
            with _added_to(refused):
                require_enforced(module.entry, module.decision.limits, level, controllers)
            with _added_to(refused):
                planned = _PlannedModule(module, level, authorization.secrets, codes)
                asked.append((planned, self._network_of(planned, self._networks)))
        confined = await anyio.to_thread.run_sync(self._confined, asked, refused)
        if self._on_confined is not None:
            self._on_confined(confined)

    def keep(self, files: Iterable[Path]) -> None:
        """Let no module change these files either; to be called before any decision."""
        self._place = replace(self._place, kept=(*self._place.kept, *files))

    def of(self, entry: ModuleEntry) -> SandboxedModule:
        """Return the decision about an entry."""
        return self._sandboxes[entry.path]

    def another(self, entry: ModuleEntry, networks: Networks, folder: Path) -> SandboxedModule:
        """Return a sandbox for one more worker of an entry; its own parts are in `networks` and `folder`.

        Raises:
            PlanError: something cannot be granted any more.
        """
        planned = self._planned[entry.path]
        sandboxed = self._sandboxes[entry.path]
        network = sandboxed.confinement.profile.network
        if planned.level in LEVELS_WITH_NAMESPACES and (network is None or not network.ports):
            return sandboxed  # each worker's own things are in its namespaces
        # Uses the paths that were judged: a module may have replaced one by a link since.
        found = sandboxed.confinement.grants
        return self._sandbox_for(planned, self._network_of(planned, networks), folder, found)

    def judge_of(self, entry: ModuleEntry, sandboxed: SandboxedModule, networks: Networks) -> AttemptJudge:
        """Return the judge of one worker of an entry: its private folder and its gate may be its own."""
        subject = replace(self._subjects[entry.path], profile=sandboxed.confinement.profile)
        gate = networks.gate_of(entry)
        is_names = gate.is_names if gate is not None else lambda address: False
        return AttemptJudge(subject, is_names, self._place.environ)

    def changes(self) -> tuple[str, ...]:
        """Return, for people, the changes in granted folders to files that other programs run by themselves."""
        reports = [watchlist.report() for watchlist in self._watchlists]
        changes = {change: None for report in reports for change in report.changes}
        named = [change for change in changes if runner_of(change.path) != A_READER]
        others = [change for change in changes if change not in named]
        said = "during the run; programs of yours may run what is in it: look at it first"
        lines = [*self._shortages, *(f"{one.path} {one.what} {said}" for one in (*named, *others[:_MAX_CHANGES]))]
        if len(others) > _MAX_CHANGES:
            lines.append(f"so it is with {len(others) - _MAX_CHANGES} more hidden names")
        if not all(report.is_complete for report in reports):
            lines.append("a granted folder may hold more such files than were found in it")
        return tuple(dict.fromkeys(lines))

    def _confined(
        self,
        asked: Iterable[tuple[_PlannedModule, WorkerNetwork | None]],
        refused: list[PlanError | PolicyRefusedError],
    ) -> list[tuple[ModuleEntry, Confinement]]:
        """Make the sandboxes of all modules, unless some were `refused` before; blocks, as paths are followed.

        Raises:
            PlanError, PolicyRefusedError: some are refused.
        """
        for planned, network in asked:
            with _added_to(refused):
                self._note(planned, self._sandbox_for(planned, network, self.host.workers.folder))
        _raise_all(refused)
        confined = [(planned.module.entry, self.of(planned.module.entry).confinement) for planned, _ in asked]
        self._watch(confined)
        return confined

    def _watch(self, confined: Sequence[tuple[ModuleEntry, Confinement]]) -> None:
        """Note the guarded paths in the grants as they are before any module runs."""
        for entry, confinement in confined:
            if confinement.shortage:
                self._shortages.append(f"{entry.module}: {confinement.shortage}")
            self._watchlists.append(confinement.watchlist())
            for guarded in confinement.guarded:
                self._guarded.setdefault(guarded.folder, guarded)

    def _note(self, planned: _PlannedModule, sandboxed: SandboxedModule) -> None:
        module, entry = planned.module, planned.module.entry
        self._planned[entry.path] = planned
        self._sandboxes[entry.path] = sandboxed
        self._subjects[entry.path] = ExplainedModule(
            entry=entry,
            profile=sandboxed.confinement.profile,
            working_dir=self._place.working_dir,
            owner=self._owner,
            fixed=FixedPaths.of(module.resolution, planned.codes, self.host.paths.installation, self._place.kept),
            protected=sandboxed.confinement.protected,
            unseen=sandboxed.confinement.unseen,
            references=names_referred_to(entry.config, grants_of(entry.permissions)),
        )

    def _network_of(self, planned: _PlannedModule, networks: Networks) -> WorkerNetwork | None:
        """Open the network of a module, if it was granted hosts.

        Raises:
            PlanError: a grant of it is not possible.
        """
        module = planned.module
        decision = module.decision
        return networks.open(
            module.entry,
            planned.level,
            planned.secrets,
            decision.closed_networks,
            is_written=decision.loopback_is_written,
        )

    def _sandbox_for(
        self, planned: _PlannedModule, network: WorkerNetwork | None, folder: Path, found: Grants | None = None
    ) -> SandboxedModule:
        """Return a sandbox for a module, with the grants that were `found` before or by following them now; blocks.

        Raises:
            PlanError: something cannot be granted as it is written.
            PolicyRefusedError: a path leads elsewhere by now, to a place that no rule allows.
        """
        module, level = planned.module, planned.level
        entry, limits = module.entry, module.decision.limits
        scratch, home = self.host.scratch(level, folder), self._home(module)
        tried = self.host.sandbox_support.findings.get(level)
        confinement = confine(
            entry,
            level=level,
            resolution=module.resolution,
            working_dir=self._place.working_dir,
            runtime_paths=self.host.paths,
            limits=limits,
            owner=self._owner,
            scratch=scratch,
            home=home,
            network=network,
            modules=planned.codes,
            kept=(*self._place.kept, self.host.folder),
            earlier=self._guarded.values(),
            holds_links=isinstance(tried, Available) and NO_LINKS not in tried.missing,
            lets_see=module.decision.paths.lets_see,
            found=found,
            private=self._place.private,
            covers=self.host.workers.folder,
        )
        module.decision.paths.check(confinement.grants)
        environ = dict(network.environ) if network is not None else {}
        environ |= environment_of(
            entry.permissions,
            self._place.environ,
            str(scratch),
            planned.secrets,
            home=None if home is None else str(home),
            folders=confinement.grants.search_path(),
            cpu_quota=limits.cpu_quota,
        )
        return SandboxedModule(confinement, limits, environ, home)

    def _home(self, module: AuthorizedModule) -> Path | None:
        """Return the folder that is kept for a module, if its entry has `state: keep`.

        Raises:
            PlanError: it cannot be made.
        """
        if module.entry.state != "keep":
            return None
        whose = PersistentHome.of(module.entry, module.resolution.source, self._place.working_dir)
        try:
            return whose.make(self._place.environ)
        except OSError as error:
            problem = f"its folder cannot be made: {error}"  # which names the place
            hint = "set HOME or XDG_STATE_HOME to a folder that you may write to"
            raise PlanError([PlanProblem(path_text(module.entry.path, "state"), problem, hint)]) from error

    async def weaker_level(self, entries: Iterable[ModuleEntry]) -> IsolationLevel | None:
        """Return the level that these entries' modules would run at if a person accepted one below the floor.

        None where that is not needed, or none works.
        """
        unnamed = [entry for entry in entries if entry.isolation is None and self._isolation is None]
        await self._probe_sandbox_support(unnamed)
        reachable = self.host.sandbox_support.reachable
        if not unnamed or not reachable.isdisjoint(FLOOR):
            return None
        return next((level for level in _TRIED_IN_TURN if level in reachable), None)

    async def _probe_sandbox_support(self, entries: Iterable[ModuleEntry]) -> None:
        """Try the levels that matter: the named ones, and for the other entries the strongest that works."""
        named = {entry.isolation or self._isolation for entry in entries}
        await self.host.try_levels(level for level in _TRIED_IN_TURN if level in named)
        for level in _TRIED_IN_TURN:
            if None in named and self.host.sandbox_support.reachable.isdisjoint(FLOOR):
                await self.host.try_levels([level])

    def _failures(self) -> dict[IsolationLevel, LevelFailure]:
        machine = Machine.look(self._place.environ)
        return {
            level: failure_of(found, machine)
            for level, found in self.host.sandbox_support.findings.items()
            if isinstance(found, Unavailable)
        }


@contextmanager
def _added_to(refused: list[PlanError | PolicyRefusedError]) -> Iterator[None]:
    """Keep a refusal, so that those of all modules are reported together."""
    try:
        yield
    except (PlanError, PolicyRefusedError) as error:
        refused.append(error)


def _raise_all(refused: Sequence[PlanError | PolicyRefusedError]) -> None:
    """Raise the refusals of several modules as one error."""
    if len(refused) == 1:
        raise refused[0]
    problems: list[PlanProblem] = [problem for error in refused for problem in error.problems]
    refusals: list[Refusal] = [
        one for error in refused if isinstance(error, PolicyRefusedError) for one in error.refusals
    ]
    if refusals:
        raise PolicyRefusedError(refusals, problems=problems)
    if problems:
        raise PlanError(problems)


def environment_of(
    permissions: Permissions,
    host: Mapping[str, str],
    scratch: str,
    secrets: SecretValues = NO_SECRETS,
    *,
    home: str | None = None,
    folders: Iterable[str] = (),
    cpu_quota: float = 1.0,
) -> dict[str, str]:
    """Return the whole environment of a worker whose private folder is `scratch`, and its home too unless it has one.

    Programs are looked for in `folders` first, and told the processors in `cpu_quota`. A grant `NAME` passes on the
    host's variable, if it has it; `NAME=VALUE` sets one, also in place of ours, with the granted ones of `secrets` for
    the references in it.
    """
    granted = grants_of(permissions)
    environ = {name: host[name] for name in _PASSED_ON if name in host}
    environ |= {
        "PATH": ":".join((*folders, *SEARCH_PATH)),
        "HOME": home or scratch,
        "TMPDIR": scratch,
        **_GIT_THAT_READS,
        **dict.fromkeys(_TOLD_PROCESSORS, str(math.ceil(cpu_quota))),
        "MAKEFLAGS": f"-j{math.ceil(cpu_quota)}",
    }
    for grant in granted.env:
        name, is_set, value = grant.partition("=")
        if is_set:
            environ[name] = secrets.expanded(value, granted)
        elif name in host:
            environ[name] = host[name]
    return environ
