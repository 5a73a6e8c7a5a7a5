"""What a plan's modules would be granted, found out without starting any of them.

It makes the same decisions as for a session, in the same order, except for the isolation level. Only a trial shows
which level a machine supports, so a module whose entry names none gets the strongest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from paddock.authorization.preflight import check_working_dir
from paddock.errors import KindError, ModuleMissingError, PlanError, PolicyRefusedError, Refusal
from paddock.isolation.compile import confine
from paddock.isolation.mentioned_files import with_instruction
from paddock.isolation.private_places import PrivatePlaces
from paddock.isolation.record import ModuleRecord, SessionRecord
from paddock.isolation.runtime_paths import RuntimePaths
from paddock.module_sources.provisioning import offline_provisioner
from paddock.plan.load import load_plan
from paddock.plan.model import ModuleEntry, MountPlan
from paddock.plan.permissions import Permissions
from paddock.policy.evaluate import EvaluationContext, evaluate
from paddock.policy.files.grants import GrantsFile
from paddock.policy.files.policy import Policy
from paddock.policy.grant_request import ModuleRequest
from paddock.policy.grants import Grants
from paddock.policy.owner import Owner
from paddock.policy.rule import BUILT_IN, Rule
from paddock.policy.trust import PlanAcceptance, Trust, with_places
from paddock.workers.runtime import WorkerRuntime
from paddock.workers.scratch import PrivateFolder
from paddock_sandbox.profile import IsolationLevel
from paddock_sources import Resolution, Resolver, SourceError
from paddock_sources.cache import SourceCache
from paddock_sources.errors import NoFetching
from paddock_sources.lock.lock_file import LOCK_FILE, LockFile
from paddock_sources.locked_sources import LockedSources

_STRONGEST: Final[IsolationLevel] = "ns"
_LOOKS_ONLY: Final = NoFetching(
    "nothing is fetched to answer this",
    lambda is_locked: f"fetch it while there is a network: `paddock {'sync' if is_locked else 'lock'} PLAN`",
)
_AS_IF_ACCEPTED: Final = Trust(True, Rule(BUILT_IN, "you have not accepted the plan; the answer is as if you had"))


class _EverySecret(Mapping[str, str]):
    """Treats every secret as set: grants do not depend on whether one is."""

    def __getitem__(self, name: str) -> str:
        return ""

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


@contextmanager
def located_paths() -> Iterator[RuntimePaths]:
    """Find what workers run from, and Paddock itself."""
    folder = PrivateFolder()
    try:
        located = WorkerRuntime.locate()
        yield RuntimePaths.locate(located.interpreter, located.packages, folder.path)
    finally:
        folder.remove()


class Preview:
    """A plan in a working directory, whose modules are looked at one by one."""

    def __init__(
        self, plan: Path, working_dir: Path, environ: Mapping[str, str], runtime_paths: RuntimePaths, cache: SourceCache
    ) -> None:
        """Read the plan, its lock file, the policy, and the user's acceptance of the plan.

        Code is looked for in `cache`, and nothing is fetched.

        Raises:
            PlanError: the plan has problems.
            PolicyFileError: a file of the operator's cannot be relied on.
            KindError: the lock file cannot be relied on.
        """
        self.plan: MountPlan = load_plan(plan, environ=environ)
        self._working_dir = check_working_dir(working_dir)
        self._owner = Owner.current(environ)
        self._private = PrivatePlaces.of_user(environ)
        self._policy = Policy.load(environ)
        instructed = with_instruction(self.plan, self._working_dir, self._owner, lambda: self._private)
        accepted = with_places(instructed, self._working_dir, self._owner)
        self._acceptance = PlanAcceptance.of(accepted, GrantsFile.of_user(environ))
        self._runtime_paths = runtime_paths
        base = self.plan.origin.parent if self.plan.origin is not None else Path.cwd()
        provisioner = offline_provisioner(environ, cache, _LOOKS_ONLY)
        try:
            sources = LockedSources(provisioner, LockFile.read(base / LOCK_FILE), base)
        except SourceError as error:
            raise KindError.of_sources(error) from error
        self._resolver = Resolver(
            environ,
            base=base,
            settings=provisioner.settings,
            installed=provisioner.find_installed,
            provide=sources.provide,
        )
        for entry in self.plan.entries():
            with suppress(SourceError):  # told of an entry when it is asked about
                sources.bind(self._resolver.choose(entry.module, entry.source).uri, entry.server_rules)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the plan's modules."""
        return tuple(entry.instance_id or entry.module for entry in self.plan.entries())

    def record(self, name: str) -> SessionRecord:
        """Return the record of the plan's session with only the modules that go by `name`.

        Raises:
            PolicyRefusedError: a policy refuses their grants.
            PlanError: the plan's grants for them are impossible.
            ModuleMissingError: their code is not to be found.
        """
        modules = [
            self._module(entry)
            for entry in self.plan.entries()
            if name in (entry.path, entry.instance_id, entry.module)
        ]
        return SessionRecord.begin(
            "",
            modules,
            working_dir=self._working_dir,
            home=self._owner.home,
            plan=self.plan.origin,
            digest=self.plan.digest,
        )

    def _module(self, entry: ModuleEntry) -> ModuleRecord:
        try:
            resolution = self._resolver.resolve(entry.module, entry.source)
        except SourceError as error:
            raise ModuleMissingError.of(entry.module, error) from error
        trust = self._acceptance.trust if self._acceptance.trust.accepted else _AS_IF_ACCEPTED
        given = self._acceptance.given(entry, resolution.source)
        held = self._acceptance.held(entry)
        request = ModuleRequest(held, resolution.source, given, None, resolution.commit, resolution.tree)
        context = EvaluationContext(
            self._policy, trust, self._working_dir, self._owner, _EverySecret(), self.plan.positions
        )
        (decision,) = evaluate([request], context)
        level = entry.isolation or _STRONGEST
        confinement = confine(
            decision.entry,
            level=level,
            resolution=resolution,
            working_dir=self._working_dir,
            runtime_paths=self._runtime_paths,
            limits=decision.limits,
            owner=self._owner,
            scratch=Path("/tmp" if level == "bwrap" else "/scratch"),  # noqa: S108 - in a root of its own
            modules=self._codes(),
            kept=() if self.plan.origin is None else kept_with(self.plan.origin),
            lets_see=decision.paths.lets_see,
            private=self._private,
        )
        decision.paths.check(confinement.grants)
        return ModuleRecord.of(
            decision.entry,
            resolution,
            confinement,
            decision.limits,
            decision.consulted,
            written=entry.permissions,
            positions=self.plan.positions,
        )

    def _codes(self) -> Iterator[Resolution]:
        """Yield where the code of the plan's modules is, as far as it is there."""
        for entry in self.plan.entries():
            with suppress(SourceError):
                yield self._resolver.resolve(entry.module, entry.source)


def kept_with(plan: Path) -> tuple[Path, ...]:
    """Return a plan's file and, if there is one, its lock file, neither of which any module may change."""
    lock = plan.parent / LOCK_FILE
    return (plan, lock) if lock.is_file() else (plan,)


def refusals_of(
    record: SessionRecord, module: ModuleRecord, permissions: Permissions, environ: Mapping[str, str]
) -> tuple[Refusal, ...]:
    """Return the objections of this machine's policy to these permissions of a module.

    Raises:
        PolicyFileError: a policy cannot be relied on.
    """
    entry = module.entry.model_copy(update={"permissions": permissions})
    owner = Owner.current(environ)
    context = EvaluationContext(Policy.load(environ), _AS_IF_ACCEPTED, Path(record.working_dir), owner, _EverySecret())
    try:
        (decision,) = evaluate([ModuleRequest(entry, module.source)], context)
        decision.paths.check(Grants.of(entry, context.working_dir, owner, lambda granted, is_written: None))
    except PolicyRefusedError as error:
        return error.refusals
    except PlanError:
        pass  # something else of it has changed since; that is reported when it is run
    return ()
