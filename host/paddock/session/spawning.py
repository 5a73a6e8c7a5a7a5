"""The sub-sessions that a session starts for its modules, each with workers of its own.

`spawn` and `resume` are what modules call. A sub-session lives for one turn and is gone when it returns. It is also
gone when it fails, when the call that asked for it is cancelled or its module dies, and when its parent session ends.
Its conversation is kept, so that it can be resumed. No argument of a module widens what the accepted plan allows.

If a sub-session is ended early, all below it end at the same time, each with its own announcement and its modules'
cleanup functions. One time limit holds for all of them, however deep they are nested; then the rest is killed.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict
from functools import partial
from typing import Any, Final

import anyio
import anyio.to_thread

from paddock.audit import AuditLog
from paddock.errors import statement_of
from paddock.rpc.calls import current, holding
from paddock.session.hosted_session import HostedSession
from paddock.session.journals.context_journal import closing_messages, opening, tables
from paddock.session.journals.kept_session import KeptSession, KeptSpawn
from paddock.session.journals.resume import CallOutcomes
from paddock.session.proxies.hook import HookProxy
from paddock.session.runtime import SessionRuntime
from paddock.session.shutdown import ShutdownDeadlines
from paddock.session.sub_sessions.agent_plan import plan_of
from paddock.session.sub_sessions.session_tree import SessionTree, SubSessionState
from paddock.session.sub_sessions.spawn_payload import SpawnPayload
from paddock.session.sub_sessions.spawn_request import SpawnRequest, text
from paddock.workers.worker_host import run_undisturbed
from paddock_sdk.contract import events
from paddock_sdk.kernel.hooks import HookRegistry
from paddock_sdk.protocol import LocalProtocolError

SPAWN: Final = "session.spawn"
RESUME: Final = "session.resume"
_DEPTH: Final = "self_delegation_depth"

_ENDING_SECONDS: Final = 5.0  # for a session that is ended early, with all below it, before it is killed
_MAX_STATUS: Final = 100  # characters
_LAST_WORDS_SECONDS: Final = 5.0  # for the context to return its messages

_log = logging.getLogger(__name__)


class SubSessions:
    """Starts sub-sessions of `parent`, which is `depth` sessions below the first and runs on `session_runtime`."""

    def __init__(
        self,
        parent: HostedSession,
        session_runtime: SessionRuntime,
        session_tree: SessionTree,
        depth: int = 0,
    ) -> None:
        self._parent = parent
        self._session_runtime = session_runtime
        self._session_tree = session_tree
        self._audit = session_tree.session_resources.options.audit
        self._depth = depth
        self._running: set[asyncio.Task[dict[str, Any] | Exception]] = set()
        self._living: dict[str, tuple[SessionRuntime, SubSessions]] = {}
        self._is_over = False

    def offer(self) -> None:
        """Let those of the session's modules with the grant start sub-sessions.

        If the application offers a way of its own to start them, that one stays.
        """
        coordinator = self._parent.coordinator
        for name, start in ((SPAWN, self.spawn), (RESUME, self.resume)):
            if coordinator.get_capability(name) is None:
                coordinator.register_capability(name, start)

    async def spawn(
        self,
        agent_name: str,
        instruction: str,
        parent_session: Any = None,
        agent_configs: Any = None,
        sub_session_id: str | None = None,
        tool_inheritance: Any = None,
        hook_inheritance: Any = None,
        orchestrator_config: Any = None,
        parent_messages: Any = None,
        provider_preferences: Any = None,
        self_delegation_depth: int = 0,
        session_metadata: Any = None,
        use_subprocess: bool = False,
        **ignored: Any,
    ) -> dict[str, Any]:
        """Run one turn of a new session of an agent, and return its result.

        The agent is the plan's, even if `agent_configs` describes it otherwise, and every session's modules are in
        processes.

        Raises:
            TypeError, ValueError: the request is invalid, or names something that does not exist.
            RuntimeError: no more sub-sessions may be started.
            Exception: the turn's own.
        """
        wishes = {
            "tool_inheritance": tool_inheritance,
            "hook_inheritance": hook_inheritance,
            "orchestrator_config": orchestrator_config,
            "session_metadata": session_metadata,
            "self_delegation_depth": self_delegation_depth,
        }
        request = await self._read(
            agent_name=agent_name,
            instruction=instruction,
            sub_session_id=sub_session_id,
            parent_messages=parent_messages,
            provider_preferences=provider_preferences,
            **wishes,
        )
        self._check_parent(parent_session)
        conversation = self._begun(request)
        preferences = [asdict(one) for one in request.preferences]  # which may be objects
        conversation.wishes = self._encoded({**wishes, "provider_preferences": preferences})
        return await self._run(conversation, request.instruction)

    async def _read(
        self, *, orchestrator_config: object, parent_messages: object, session_metadata: object, **others: Any
    ) -> SpawnRequest:
        """Return the request in these keywords.

        Raises:
            TypeError, ValueError: the request is invalid.
        """
        payload = await anyio.to_thread.run_sync(  # which may be much, and must not hold up the loop
            partial(
                SpawnPayload.read,
                orchestrator_config=orchestrator_config,
                parent_messages=parent_messages,
                session_metadata=session_metadata,
                above=self._parent.plan.passed_on,
            )
        )
        return SpawnRequest.read(payload=payload, **others)

    def _begun(self, request: SpawnRequest) -> SubSessionState:
        """Return a session as the present plan has it for a request.

        Raises:
            ValueError: the plan has no such agent, or there is a session of that id.
            RuntimeError: it would be nested too deeply.
        """
        agent = self._session_tree.agent(request.agent)
        self._session_tree.check_depth(self._depth + 1)
        parent_id = self._parent.session_id
        return SubSessionState(
            id=self._session_tree.new_id(parent_id, request.agent, request.id),
            parent_id=parent_id,
            agent=request.agent,
            plan=plan_of(self._parent.plan, agent, request),
            self_delegation_depth=request.self_delegation_depth,
            instruction=self._parent.instruction if agent is None else agent.instruction,
            history=request.payload.messages,
        )

    async def resume(self, sub_session_id: str, instruction: str, **ignored: Any) -> dict[str, Any]:
        """Run one more turn of a session that this one started, and return its result.

        Raises:
            TypeError, ValueError: there is no such session.
            RuntimeError: it is running, or no more sub-sessions may be started.
            Exception: the turn's own.
        """
        id, parent_id = text("sub_session_id", sub_session_id), self._parent.session_id
        kept = await anyio.to_thread.run_sync(self._session_tree.read_earlier, parent_id, id)
        if kept is not None and kept.spawn is not None:
            self._session_tree.keep(await self._begun_earlier(kept, kept.spawn))
        conversation = self._session_tree.kept(parent_id, id)
        return await self._run(conversation, text("instruction", instruction))

    async def _begun_earlier(self, kept: KeptSession, spawn: KeptSpawn) -> SubSessionState:
        """Return a session of an earlier host, made again as the present plan has it: only wishes are of that time.

        Tool calls that were open when that host ended are answered in its conversation.

        Raises:
            TypeError, ValueError: the plan has no such agent any more, or the wishes are none.
            RuntimeError: it would be nested too deeply.
        """
        wishes = self._session_runtime.marshaller.codec.decode(spawn.wishes)
        request = await self._read(
            agent_name=spawn.agent, instruction="", sub_session_id=None, parent_messages=None, **wishes
        )
        conversation = self._begun(request)
        conversation.id, conversation.wishes = kept.id, spawn.wishes
        messages = kept.messages()
        if messages:  # else it was ended before its first turn had begun
            outcomes = CallOutcomes(kept, self._session_runtime.marshaller)
            conversation.transcript = self._encoded([*messages, *outcomes.closing(messages)])
            audit = self._audit.of_sub_session(kept.id)
            audit.record("session.resumed", interrupted=kept.was_interrupted, calls=list(outcomes.lines))
        return conversation

    def _encoded(self, value: object) -> bytes | None:
        """Return a value as data, None if it is none."""
        try:
            return self._session_runtime.marshaller.codec.encode(value, live_objects=False)[0]
        except LocalProtocolError:
            return None

    async def aclose(self) -> None:
        """End every running sub-session, and all below them, within one time limit; start no other."""
        self._is_over = True
        with anyio.CancelScope(shield=True):
            await self._end(self._running.copy(), self._living)

    async def _end(self, tasks: Collection[asyncio.Task[Any]], ids: Collection[str]) -> None:
        """Cancel turns, and wait for their cleanup; those that take too long are killed.

        `ids` are those of their sessions.
        """
        for task in tasks:
            _cancel(task)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=_ENDING_SECONDS)
            if late:
                _log.warning("%d sub-sessions did not end in %g s, and are killed", len(late), _ENDING_SECONDS)
                await self._kill(tuple(ids))
                await asyncio.wait(late)

    async def _kill(self, ids: Collection[str]) -> None:
        """End the processes of sub-sessions, and of all below them, at once."""
        async with anyio.create_task_group() as killing:
            for id in ids:
                if id in self._living:
                    session_runtime, below = self._living[id]
                    killing.start_soon(session_runtime.kill)
                    killing.start_soon(below._kill, tuple(below._living))

    def _check_parent(self, session: Any) -> None:
        """Refuse to start a session in the name of another session than the requesting one.

        Raises:
            ValueError: the request names another.
        """
        named = getattr(session, "session_id", None)
        if session is not None and named != self._parent.session_id:
            raise ValueError("parent_session is the session that asks, `coordinator.session`, and no other")

    async def _run(self, conversation: SubSessionState, instruction: str) -> dict[str, Any]:
        """Run a turn in a task of its own; a cancellation reaches it once, and then it may clean up."""
        if self._is_over:
            raise RuntimeError("the session is over")
        with self._session_tree.alive(conversation.id):
            # Made for the application: its modules' acts serve no call, so that no right is borrowed.
            context = contextvars.copy_context()
            context.run(current.set, None)
            task = self._session_runtime.beside(self._turn(conversation, instruction), context)
            self._running.add(task)
            task.add_done_callback(self._running.discard)
            try:
                with holding(current.get()):
                    await asyncio.wait([task])
            except asyncio.CancelledError:
                await self._end([task], [conversation.id])
                raise
            if task.cancelled():
                raise RuntimeError(f"session `{conversation.id}` was ended with the one that started it")
            outcome = task.result()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def _turn(self, conversation: SubSessionState, instruction: str) -> dict[str, Any] | Exception:
        audit = self._audit.of_sub_session(conversation.id)
        audit.record("sub_session.started", parent=conversation.parent_id, agent=conversation.agent)
        try:
            return await self._live(conversation, instruction, audit)
        except Exception as error:  # raised where the turn was asked for
            _log.info("sub-session `%s` failed: %s", conversation.id, statement_of(error))
            return error
        finally:
            audit.record("sub_session.ended")

    async def _live(self, conversation: SubSessionState, instruction: str, audit: AuditLog) -> dict[str, Any]:
        session = self._prepared(conversation)
        resources = self._session_tree.session_resources
        async with AsyncExitStack() as stack:
            stack.callback(self._living.pop, conversation.id, None)  # until its last process has ended
            journal = await self._session_tree.journal_of(conversation)
            if journal is not None:
                stack.callback(journal.close)
            session_runtime = await stack.enter_async_context(
                SessionRuntime.open(session.core, resources, audit=audit, name=conversation.agent, journal=journal)
            )
            session.attach_runtime(self._session_tree.authorized, session_runtime)
            report = _TurnReport(session.coordinator.hooks)
            own = self._parent.coordinator.cancellation
            own.register_child(session.coordinator.cancellation)
            stack.callback(own.unregister_child, session.coordinator.cancellation)
            below = SubSessions(session, session_runtime, self._session_tree, self._depth + 1)
            below.offer()
            self._living[conversation.id] = session_runtime, below
            stack.push_async_callback(_end, session, session_runtime.deadlines, below)
            await session.start()
            await _remind(session, session_runtime, conversation)
            if journal is not None:
                await stack.enter_async_context(journal.during(instruction))
            try:
                try:
                    output = await session.execute(instruction)
                except Exception:
                    self._keep(conversation, session_runtime, await _messages(session, session_runtime))
                    raise
                self._keep(conversation, session_runtime, await _messages(session, session_runtime))
            except asyncio.CancelledError:  # of the turn, or of reading its result: the context is not waited for
                self._keep(conversation, session_runtime, session_runtime.journal.messages())
                raise
            was_cancelled = session.coordinator.cancellation.is_cancelled
        return {
            "output": output,
            "session_id": conversation.id,
            "status": "cancelled" if was_cancelled else report.status,
            "turn_count": report.turn_count,
            "metadata": report.metadata,
        }

    def _prepared(self, conversation: SubSessionState) -> HostedSession:
        """Return the session, with what its parent's application provides."""
        parent = self._parent.hosted
        session = HostedSession(
            conversation.plan,
            self._session_tree.session_resources.options.working_dir,
            conversation.id,
            conversation.parent_id,
            approval_system=parent.approval_system,
            display_system=parent.display_system,
            is_resumed=conversation.transcript is not None,
        )
        session.instruction = conversation.instruction
        for name, value in parent.application_capabilities().items():
            if not isinstance(getattr(value, "__self__", None), SubSessions):  # which each session has for itself
                session.coordinator.register_capability(name, value)
        session.coordinator.session_state.update(parent.application_state())
        session.coordinator.register_capability(_DEPTH, conversation.self_delegation_depth)
        for event, handler, priority, name in parent.hooks.registrations():
            if not isinstance(handler, (HookProxy, _TurnReport)):
                session.coordinator.hooks.register(event, handler, priority, name)
        return session

    def _keep(self, conversation: SubSessionState, session_runtime: SessionRuntime, present: object) -> None:
        messages = tables(present)
        try:  # as data alone: an object in it would keep the session that ends, and be of no use to the next
            transcript, _ = session_runtime.marshaller.codec.encode(
                [*messages, *closing_messages(messages)], live_objects=False
            )
        except LocalProtocolError as error:  # a context may hold anything
            _log.warning("sub-session `%s` cannot be resumed from here: %s", conversation.id, error)
            return
        conversation.said(transcript)
        self._session_tree.keep(conversation)


class _TurnReport:
    """An orchestrator's report at the end of a turn, received as any hook would receive it, until the session ends.

    It is untrusted: anything that does not fit the contract's form is replaced by the default.
    """

    def __init__(self, hooks: HookRegistry) -> None:
        self.status = "success"
        self.turn_count = 1
        self.metadata: dict[str, Any] = {}
        hooks.register(events.ORCHESTRATOR_COMPLETE, self)

    async def __call__(self, event: str, data: Mapping[str, Any]) -> None:
        match data:
            case {"status": str() as status} if len(status) <= _MAX_STATUS:
                self.status = status
        match data:
            case {"turn_count": int() as turns} if turns >= 0:
                self.turn_count = turns
        match data:
            case {"metadata": dict() as metadata}:
                self.metadata = metadata


async def _remind(session: HostedSession, session_runtime: SessionRuntime, conversation: SubSessionState) -> None:
    """Set a session's context to its earlier conversation, or to the history that it starts with."""
    context = session.coordinator.get("context")
    if conversation.transcript is not None:
        await _tell(context, session_runtime, session_runtime.marshaller.codec.decode(conversation.transcript))
        return
    if conversation.history:
        await _tell(context, session_runtime, list(conversation.history))
    if conversation.instruction:
        await context.add_message({"role": "system", "content": conversation.instruction})


async def _tell(context: Any, session_runtime: SessionRuntime, messages: list[Any]) -> None:
    known = opening(messages, session_runtime.marshaller)
    await context.set_messages(messages[:known])
    for message in messages[known:]:
        await context.add_message(message)


async def _messages(session: HostedSession, session_runtime: SessionRuntime) -> object:
    """Return the messages of a session's context; if the context does not answer, those of the journal."""
    try:
        with anyio.fail_after(_LAST_WORDS_SECONDS):
            messages = await session.coordinator.get("context").get_messages()
    except Exception as error:  # the module's
        _log.info("the context of `%s` did not return its messages: %s", session.session_id, error)
        return session_runtime.journal.messages()
    return messages if isinstance(messages, list) else session_runtime.journal.messages()


async def _end(session: HostedSession, deadlines: ShutdownDeadlines, below: SubSessions) -> None:
    """End a session and those below it; a turn that ended already is not affected by a cancellation."""
    task = asyncio.current_task()
    is_hurried = task is not None and task.cancelling() > 0
    await run_undisturbed(_end_side_by_side(session, deadlines, below, is_hurried=is_hurried))


async def _end_side_by_side(
    session: HostedSession, deadlines: ShutdownDeadlines, below: SubSessions, *, is_hurried: bool
) -> None:
    """End several sessions at the same time, so that none waits for another's modules."""
    async with anyio.create_task_group() as side_by_side:
        side_by_side.start_soon(below.aclose)
        await deadlines.run(session.cleanup, is_hurried=is_hurried)


def _cancel(task: asyncio.Task[Any]) -> None:
    """Cancel a task that was not cancelled yet: a second time would interrupt its cleanup."""
    if not task.cancelling():
        task.cancel()
