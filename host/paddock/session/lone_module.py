"""One module without an orchestrator or a context around it: found, authorised, confined, started, ended.

A single call and a server for a client both open their module here. When `opened` is left, also by a cancellation,
nothing of the module is left running.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Final

from paddock.authorization.authorizer import Authorization, AuthorizedModule, Authorizer
from paddock.errors import ModuleMissingError, PaddockError
from paddock.isolation.commands.cancellation import check_cancelled
from paddock.isolation.planner import SandboxPlanner
from paddock.isolation.sandbox_host import SandboxHost
from paddock.module_sources.provisioning import SourceOptions
from paddock.module_sources.resolve import ModuleSources
from paddock.plan import USUAL_PLAN
from paddock.plan.model import EntryPlace, ModuleEntry
from paddock.plan.permissions import grants_of
from paddock.policy.files.policy import Policy
from paddock.policy.secrets.values import NO_SECRETS, SecretValues
from paddock.session.module import HostedModule
from paddock.session.recorder import StartRecord
from paddock.session.resources import SessionResources, StartOptions
from paddock.session.runtime import SessionCore, SessionRuntime
from paddock.session.startup import FoundCode, PlanRequest, confined, how_to_pin
from paddock_sdk.contract.approval import ApprovalSystem, DisplaySystem
from paddock_sources import SourceError, parse_source
from paddock_sources.cache import SourceCache
from paddock_sources.constraints import NO_RULES, DependencyRules
from paddock_sources.lock.lock_file import LockFile
from paddock_sources.module_id import kind_of_id
from paddock_sources.uri import BuiltinUri

_ANY_TOOL: Final = "tool"  # stands for the module, whose id only its code says

_log = logging.getLogger(__name__)


class CalledModule:
    """The module at a source: found as the lock file of `options.locks` pins it, authorised by flags.

    `written` is the rest of its entry, as a plan writes it. `module_id` is its id where an accepted plan named the
    source: the user's keys are then not lent.
    """

    def __init__(
        self,
        source: str,
        written: Mapping[str, object],
        options: StartOptions,
        *,
        sources: SourceOptions | None = None,
        module_id: str | None = None,
        lock: LockFile | None = None,
        rules: DependencyRules | None = None,
    ) -> None:
        self.secrets: SecretValues = NO_SECRETS
        self.live_from: Path | None = None
        self.options = options
        self._source = source
        self._written = written
        self._base = Path.cwd()
        self._source_options = sources or SourceOptions()
        self._module_id = module_id
        self._lock = lock
        self._rules = rules or NO_RULES

    async def check(self, authorizer: Authorizer) -> None:
        """Refuse what the flags alone show to be wrong, before anything is fetched.

        Raises:
            PlanError: a flag cannot be understood, or names a variable or a secret that is not set.
        """
        authorizer.check_call(grants_of(self._entry_of({"module": _ANY_TOOL}).permissions))

    def _remedy(self, module: str) -> str:
        """Say what a person does about definitions of the module's tools that are not pinned."""
        plan = self.options.working_dir / USUAL_PLAN
        if plan.is_file():
            return how_to_pin(plan, module)
        forget = shlex.join(["paddock", "remove", self._source])
        return f"if it is right, `{forget}` forgets the pins, and the next start takes new ones"

    @asynccontextmanager
    async def resolved(self, authorizer: Authorizer, host: SandboxHost) -> AsyncIterator[FoundCode]:
        """Provide the code for as long as this is open."""
        options = self.options
        with SourceCache.of_user(options.environ, check=check_cancelled) as cache:
            sources = ModuleSources(
                cache,
                options.environ,
                self._base,
                options.locks,
                authorizer.policy,
                self._source_options,
                options.audit,
                host=host,
                lends_keys=self._module_id is None,
                lock=self._lock,
            )
            entry = await self._entry(sources)
            (found,) = (await sources.resolve([entry], rules=self._rules_of)).values()
            if isinstance(found, ModuleMissingError):
                raise found
            self.live_from = found.root if found.is_live else None
            yield FoundCode(
                (entry,), {entry.path: found}, lock=sources.write, definitions=sources.definitions(self._remedy)
            )

    async def authorize(
        self, authorizer: Authorizer, code: FoundCode, sandbox_planner: SandboxPlanner
    ) -> Authorization:
        """Decide what the module may do."""
        (entry,) = code.entries
        authorization = await authorizer.authorize_call(entry, code.by_path[entry.path], self.options.isolation)
        self.secrets = authorization.secrets
        return authorization

    def _rules_of(self, entry: ModuleEntry) -> DependencyRules:
        return self._rules.joined(entry.server_rules)

    async def _entry(self, sources: ModuleSources) -> ModuleEntry:
        """Return the plan entry that stands for the module.

        Raises:
            ModuleMissingError: the source names no module, or it is unavailable.
            PolicyRefusedError: no module may come from there.
            PlanError: the configuration or a limit is not accepted.
        """
        named: dict[str, object] = {}
        try:
            uri = parse_source(self._source).anchored(self._base)
            if uri.bare_id:
                named["module"] = uri.bare_id
            elif isinstance(uri, BuiltinUri):
                named |= {"module": uri.module_id, "source": uri.text}
            elif self._module_id is not None:
                named |= {"module": self._module_id, "source": uri.text}
            else:
                ids = await sources.module_ids(uri)
                tool = next((one for one in ids if kind_of_id(one) == "tool"), ids[0])
                named |= {"module": tool, "source": uri.text}
        except SourceError as error:
            raise ModuleMissingError.of(self._source, error) from error
        return self._entry_of(named)

    def _entry_of(self, named: Mapping[str, object]) -> ModuleEntry:
        """Return the plan entry of the flags with what `named` says of the module."""
        return ModuleEntry.read({**self._written, **named}, EntryPlace("tool", "", self._base))


@dataclass(frozen=True, slots=True)
class OpenedModule:
    """A module that can be started, and the runtime that it runs on."""

    authorized: AuthorizedModule
    resources: SessionResources
    runtime: SessionRuntime

    async def start(self) -> HostedModule:
        """Start and mount the module, and notify it that everything is mounted; it works without that.

        Raises:
            ModuleError: it cannot be started.
        """
        module = await self.runtime.start(self.authorized)
        if module.wants_session_ready:
            try:
                await module.session_ready()
            except Exception as error:  # module code
                _log.warning("on_session_ready of module `%s` failed: %s", module.name, error)
        return module

    async def clean_up(self) -> None:
        """Run what was registered to be run at the end, within its bound."""
        await self.runtime.deadlines.run(self.runtime.coordinator.cleanup)


@asynccontextmanager
async def opened(
    request: CalledModule | PlanRequest,
    policy: Policy | None,
    recorder: StartRecord,
    *,
    approval: ApprovalSystem | None = None,
    display: DisplaySystem | None = None,
) -> AsyncIterator[OpenedModule]:
    """Provide a module within the operator's policy, which `policy` can only narrow.

    Raises:
        PaddockError: it is missing, or is not allowed; nothing was started.
    """
    options = request.options
    authorizer = await Authorizer.at_work(options.working_dir, options.environ, policy)
    options.audit.obey(*authorizer.policy.audit)
    with recorder.refusals(PaddockError):
        await request.check(authorizer)
    async with confined(request, authorizer, options, recorder) as modules:
        # Modules read these three; the facts of a whole session are empty.
        session = SimpleNamespace(session_id=options.session, parent_id=None, config={"session": {}})
        core = SessionCore(session, options.working_dir, approval=approval, display=display)
        async with SessionRuntime.open(core, modules.resources) as runtime:
            yield OpenedModule(modules.authorization.modules[0], modules.resources, runtime)
