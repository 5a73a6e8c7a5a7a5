"""The modules of one session, and the handling of calls to a module that died.

A tool's call ends as a failed result, a provider's as an error that may be tried again, an orchestrator's turn as an
error. The context is started again and restored, and the call is made once more. Any module that is called later is
started again first. This is the session's table of failures; it decides, and asks the module and the journal to act.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final
from weakref import WeakKeyDictionary

import anyio

from paddock.errors import ModuleError, ModuleLoadError, code_of, statement_of
from paddock.plan.units import size_text
from paddock.rpc.calls import RoutedCall
from paddock.rpc.marshal import Marshaller
from paddock.rpc.peer import CallPolicy, Encoded, Handle, Peer
from paddock.session.journals.context_journal import ContextJournal
from paddock.session.journals.kept_session import KeptSession, Meta
from paddock.session.journals.session_journal import SessionJournal
from paddock.session.module import HostedModule, InSession
from paddock.session.state.coordinator import HostedCoordinator
from paddock.workers.exit_report import ExitReport
from paddock_sdk.contract.boundary_errors import ModuleGoneError, OverLimitError
from paddock_sdk.contract.llm_errors import ProviderUnavailableError
from paddock_sdk.contract.models import ToolResult
from paddock_sdk.protocol import RemoteProtocolError
from paddock_sdk.protocol.caps import weight_of
from paddock_sdk.protocol.frames import Buffer

Follow = Callable[[Peer, HostedModule], None]

_CONTEXT_TRIES: Final = 3  # lives of a context that one call may cost before the call fails
_LOOK_SECONDS: Final = 0.01
_LAST_LOOKS: Final = 700  # at a turn that was given up; our own loops take six seconds for its last steps at most


def failed_result(error: Exception, report: ExitReport | None = None) -> ToolResult:
    """Return a tool's failed result in place of an answer: the error and, after a death, the report."""
    report = getattr(error, "report", None) or report
    failure = {
        "type": code_of(error),
        "message": statement_of(error),
        "report": report.as_dict() if isinstance(report, ExitReport) else None,
    }
    return ToolResult(success=False, error=failure)


class HostedModules:
    """Every module of the session, by the worker that is, or was, its own: `of` returns it."""

    def __init__(
        self, marshaller: Marshaller, journal: ContextJournal, session_journal: SessionJournal | None = None
    ) -> None:
        self.all: list[HostedModule] = []
        self._by_path: dict[str, HostedModule] = {}
        self._marshaller = marshaller
        self._journal = journal
        self._session_journal = session_journal
        self._of_context = CallPolicy(self._admit, self._note, journal.release, outlives_caller=True)
        self._of_tools = CallPolicy(answer_max=journal.result_max)
        self._by_peer: WeakKeyDictionary[Peer, HostedModule] = WeakKeyDictionary()  # as long as a caller asks for one
        self.of = self._by_peer.__getitem__
        self.followers: list[Follow] = []  # called with each new life of a module, before any call of it
        self.in_session = InSession(
            self._on_start,
            self._restore_context,
            self._policy_of,
        )

    def add(self, module: HostedModule) -> None:
        """Take a module into the session."""
        self.all.append(module)
        self._by_path[module.entry.path] = module
        if module.kind == "context":
            self._journal.bound(module.limits.conversation_max)

    def _on_start(self, peer: Peer, module: HostedModule) -> None:
        self._by_peer[peer] = module
        for follow in self.followers:
            follow(peer, module)

    def at(self, path: str) -> HostedModule | None:
        """Return the module of the entry at a place in the plan, if it was taken on."""
        return self._by_path.get(path)

    def _policy_of(self, module: HostedModule, point: str, name: str | None) -> CallPolicy | None:
        match point:
            case "context":
                return self._of_context
            case "tools" if self._session_journal is not None and name is not None:
                return self._of_tools.also(self._session_journal.policy_of(module.name, name))
            case "tools":
                return self._of_tools
        return None

    # -- the router's side -----------------------------------------------------------------

    def on_violation(self, peer: Peer, error: RemoteProtocolError) -> None:
        """End the module that broke the protocol."""
        self.of(peer).on_violation(error)

    def on_lost(self, peer: Peer) -> None:
        """Handle a module whose connection is gone."""
        self.of(peer).on_lost(peer)

    def on_overdue(self, call: RoutedCall, method: str) -> None:
        """End the module that has kept a call too long; one in a debugger gets the time of a whole call anew."""
        module, now = self.of(call.owner), asyncio.get_running_loop().time()
        is_last = call.is_over_all_time(now) and not call.is_cancelled
        process = module.supervisor.process
        if is_last and process is not None and process.is_traced:
            call.limit_all_time(now, call.owner.call_max)
        else:
            module.on_overdue(method, "call_max" if is_last else "runtime_max")

    async def revive(self, handle: Handle, method: str) -> Encoded | None:
        """Start the owner of `handle` again; return a stand-in for its answer when it stays dead.

        Raises:
            ModuleError: it stays dead, and its kind has no stand-in.
            ModuleGoneError: it lives, but what `handle` stood for is of its earlier life.
        """
        module = self.of(handle.owner)
        try:
            await module.start()
        except ModuleError as exc:
            return self._instead(module, handle, method, exc)
        if not handle.owner.is_open:
            raise ModuleGoneError(f"module `{module.name}` was started again; this object was of its earlier life")
        return None

    async def answer_for(self, call: RoutedCall, method: str, tries: int) -> Encoded | None:
        """Return a stand-in for a lost answer, None to make the call again.

        Raises:
            ModuleDiedError: nothing stands in for it.
        """
        module = self.of(call.handle.owner)
        died = await module.death(call.handle.owner, method)
        if module.kind == "context" and module.mounted_at(call.handle) == "context":
            if tries >= _CONTEXT_TRIES:
                raise died
            return await self._call_context_again(module, call, method, tries, died)
        return self._instead(module, call.handle, method, died)

    async def _call_context_again(
        self, module: HostedModule, call: RoutedCall, method: str, tries: int, died: ModuleError
    ) -> Encoded | None:
        while True:
            try:
                instead = await self.revive(call.handle, method)
                break
            except ModuleLoadError:  # it died again while it got its messages back, which is one more life
                tries += 1
                if tries >= _CONTEXT_TRIES:
                    raise
        if instead is not None:
            return instead
        if method == "add_message":
            was_taken = await self._journal.ends_with(call.handle, call.message, module.ask_mounted)
            if was_taken is None:
                raise died  # sent again, it might be there twice
            if was_taken:
                self._journal.note(method, call.message, 0)
                return self._marshaller.encode(None)
        return None

    def _instead(self, module: HostedModule, handle: Handle, method: str, error: ModuleError) -> Encoded:
        """Return the stand-in for an answer that will not come, by the module's kind.

        Raises:
            ModuleError: `error` itself, where nothing does.
        """
        point = module.mounted_at(handle)
        if point == "tools" and method == "execute":
            return self._marshaller.encode(failed_result(error))
        if point == "providers":
            # No seconds to wait: it is started again when it is next called.
            raise ProviderUnavailableError(
                error.paddock_statement(), provider=module.name, retryable=True, retry_after=0.0
            ) from error
        raise error

    def instead_of(self, call: RoutedCall, method: str, weight: int, most: int) -> Encoded | None:
        """Return a failed result in place of a tool's that is too large to become part of the conversation."""
        if method != "execute":
            return None
        name = self.of(call.owner).name
        left = size_text(self._journal.room)
        problem = (
            f"`{name}` answered with {size_text(weight)}, counted as memory, and a result may have {size_text(most)} "
            f"now: a sixteenth of the {left} that the conversation has left for results; ask it for less at a time, "
            "or clear the conversation"
        )
        return self._marshaller.encode(failed_result(OverLimitError(problem)))

    def _admit(self, method: str, message: Encoded, caller: Peer | None) -> int:
        module = self._by_peer.get(caller) if caller is not None else None  # none: the application, or another session
        if self._session_journal is not None and method != "get_messages":
            self._session_journal.check()
        return self._journal.admit(method, message, module is None or module.kind == "orchestrator")

    def _note(self, method: str, message: Encoded, number: int, answer: Buffer) -> None:
        self._journal.note(method, message, number)
        if self._session_journal is not None and number:
            self._session_journal.check()

    async def restore_context(self) -> None:
        """Bring the session's context to where the journal has it; what a context kept beyond that is noted."""
        for module in self.all:
            await self._restore_context(module, notes_more=True)

    async def _restore_context(self, module: HostedModule, *, notes_more: bool = False) -> None:
        handle = module.handle_at("context")
        if handle is not None:
            await self._journal.restore(handle, module.ask_mounted, notes_more=notes_more)

    def give_back_state(self, kept: KeptSession, now: Meta, coordinator: HostedCoordinator) -> Iterator[str]:
        """Give modules back what they left in `session_state`; yield, for people, what is not resumed and why.

        It comes back as if its module had written it: the module is charged for it, and owns no more than before. It
        does so only where a module of the same name and source is there, and nobody has set the key.
        """
        by_name = {module.name: module for module in self.all}
        for key, one in kept.state.items():
            module = by_name.get(one.module)
            if one.is_live:
                problem = f"an object of {one.module}"
            elif module is None or now.modules[module.name].source != one.source:
                problem = f"{one.module}, which left it, is gone or of another source"
            else:
                problem = self._give_back(key, one.change, module, coordinator)
            if problem:
                yield f'not resumed: session_state["{key}"]: {problem}'

    def _give_back(self, key: str, change: bytes, module: HostedModule, coordinator: HostedCoordinator) -> str:
        """Return what stood in the way, nothing if it is there now."""
        item = [("state", key)]
        try:
            match self._marshaller.codec.decode(change):
                case [[[found], [value]]] if found == key:
                    module.quota.check(weight_of(change), item, item)
                case _:
                    return "its value cannot be read"
        except (RemoteProtocolError, OverLimitError, ValueError) as error:
            return str(error)
        if not coordinator.give_back_state(module.peer, module.authority, key, [[key], [value]]):
            return "it has been set since, or is the application's"
        return ""

    async def turn_ended(self) -> None:
        """Wait until the orchestrator has ended its turn, also one that was given up.

        One that goes on for longer than the last steps of a turn take is not waited for.
        """
        loops = [one for one in self.all if one.kind == "orchestrator" and one.is_running]
        for _ in range(_LAST_LOOKS):
            if not any(one.peer.channel.connection.outgoing for one in loops):
                return
            await anyio.sleep(_LOOK_SECONDS)
