"""What a running session writes to its journal: its hosts, its turns, its conversation, and the calls of its tools.

A message is in the file before its caller hears that the context has it; a call of a tool is there before the tool
hears of it, and its answer before the caller does. Values of the session's secrets are overwritten in the file. A
journal that cannot be written is given nothing more, so that it has no gap: the session goes on, and says so once.
Where a policy requires the journal, the session does not go on.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from paddock import __version__
from paddock.authorization.authorizer import Authorization
from paddock.plan.model import MountPlan
from paddock.plan.permissions import Permissions
from paddock.plan.problems import StrictModel
from paddock.policy.journal_rule import JournalRule
from paddock.policy.secrets.values import NO_SECRETS, SecretValues
from paddock.rpc.peer import CallPolicy, Encoded, Peer
from paddock.session.journals.journal_file import JournalError, JournalFile, Kind, Record
from paddock.session.journals.journal_store import JournalEntry, JournalStore
from paddock.session.journals.kept_session import (
    Call,
    End,
    KeptModule,
    KeptSession,
    KeptSpawn,
    Meta,
    Result,
    Spawn,
    State,
    Turn,
    encoded,
)
from paddock.session.journals.quarantines import Quarantines
from paddock.session.state.session_state import WrittenState
from paddock.workers.worker_host import run_undisturbed
from paddock_sdk.contract.boundary_errors import OverLimitError
from paddock_sdk.protocol.frames import Buffer
from paddock_sources.errors import without_credentials

_SMALL: Final = 4 << 20  # bytes of a file that is not worth rewriting
_GROWTH: Final = 3  # times the size after the last rewriting
_LONGEST_ERROR: Final = 1000  # characters
_OF_CONVERSATION: Final = (Kind.ADD, Kind.SET, Kind.CLEAR)
_REPLACED: Final = (*_OF_CONVERSATION, Kind.STATE, Kind.SPAWN)  # kinds of which later records replace earlier ones

_log = logging.getLogger(__name__)


class SessionJournal(JournalStore):
    """Writes one session's journal; as a store of the conversation, it also keeps the entries at hand.

    Args:
        file: the journal, which this closes.
        kept: what the journal told when it was opened; None for a new one.
    """

    def __init__(self, file: JournalFile, kept: KeptSession | None = None) -> None:
        super().__init__()
        self.path = file.path
        self.kept = kept
        self.rule = JournalRule()
        self.problem: OSError | None = None
        self.quarantines: Quarantines | None = None  # of a session for itself; sub-sessions have none
        self._file = file
        self._secrets: SecretValues = NO_SECRETS
        self._calls = max(kept.calls, default=0) if kept is not None else 0
        self._turn = len(kept.turns) if kept is not None else 0
        self._host = len(kept.metas) + 1 if kept is not None else 1
        self._open: set[int] = set()
        self._meta: Meta | None = None  # of this host, once the session has begun
        self._shrink_at = max(_SMALL, _GROWTH * file.size)
        if kept is not None:
            super().replace(kept.entries)

    def begin(self, meta: Meta, secrets: SecretValues) -> None:
        """Write that a host begins, and overwrite the values of these secrets from here on."""
        self._secrets = secrets
        self._meta = meta
        self._note(Kind.META, meta)

    def append(self, entry: JournalEntry) -> None:
        """Add an entry of the conversation."""
        super().append(entry)
        self._write(Kind.ADD if entry.method == "add_message" else Kind.SET, _without_objects(entry.message))

    def replace(self, entries: Any) -> None:
        """Have these entries, of which there is one at most, in place of the conversation."""
        super().replace(entries)
        for entry in entries:
            self._write(Kind.SET, _without_objects(entry.message))
        if not entries:
            self._write(Kind.CLEAR, b"")

    def check(self) -> None:
        """Refuse to go on without a journal that a policy requires.

        Raises:
            OverLimitError: what was written last is not in it, and nothing will be.
        """
        if self.rule.required and self.problem is not None:
            raise OverLimitError(
                f"the session's journal, which a policy requires, cannot be written: {self.problem}; make room for "
                f"{self.path}, and resume the session"
            )

    @asynccontextmanager
    async def during(self, prompt: str) -> AsyncIterator[None]:
        """Write the beginning of a turn and, when this is left, its outcome.

        Raises:
            JournalError: a policy requires the journal, and it cannot be written.
        """
        self._turn += 1
        self._note(Kind.TURN, Turn(prompt=prompt, turn=self._turn, host=self._host))
        await self._sync()
        if self.rule.required and self.problem is not None:
            hint = "a policy requires it (`paddock policy show`): make room there, and resume the session"
            raise JournalError(self.path, str(self.problem), hint)
        try:
            yield
        except BaseException as error:
            await self._end("error" if isinstance(error, Exception) else "cancelled", error)
            raise
        await self._end("answer")

    def state(self, written: Iterable[WrittenState]) -> None:
        """Write what was left in `session_state`, as of now; nothing of what the application or an object is there."""
        for one in written:
            head = State(key=one.key, module=one.writer, is_live=one.is_live)
            has_data = one.writer and not one.is_live and one.message is not None
            self._note(Kind.STATE, head, one.message or b"" if has_data else b"")

    def begin_below(self, journal: SessionJournal, id: str, spawn: KeptSpawn) -> None:
        """Begin the journal of a sub-session, under the same rule and with the same secrets."""
        assert self._meta is not None, "a session begins before its sub-sessions"
        journal.rule = self.rule
        journal.begin(self._meta.model_copy(update={"session": id}), self._secrets)
        head = Spawn(id=id, parent=spawn.parent, agent=spawn.agent, wishes=len(spawn.wishes))
        journal._note(Kind.SPAWN, head, spawn.wishes)

    async def _end(self, outcome: str, error: BaseException | None = None) -> None:
        """Write the outcome of the turn; what no longer counts may leave the file, also if the caller is cancelled."""
        told = "" if error is None else str(error)[:_LONGEST_ERROR]
        self._note(Kind.END, End(outcome=outcome, error=told, turn=self._turn, host=self._host))
        if self._file.size > self._shrink_at and self.problem is None:
            await run_undisturbed(self._shrink())
        elif self.rule.outlives_power:
            await run_undisturbed(self._sync())

    def policy_of(self, module: str, tool: str) -> CallPolicy:
        """Return what records the calls of a tool."""

        def admit(method: str, message: Encoded, caller: Peer | None) -> int:
            if method != "execute":
                return 0
            self._calls += 1
            self._note(Kind.CALL, Call(call=self._calls, module=module, tool=tool), bytes(message.body))
            self.check()
            self._open.add(self._calls)
            return self._calls

        return CallPolicy(admit, self._answered, self._over, settle=self._settle if self.rule.outlives_power else None)

    def close(self) -> None:
        """Release the file; one of a session that never began is removed."""
        if self.kept is None and self._meta is None:
            self.path.unlink(missing_ok=True)
        if self._meta is not None:
            self._write(Kind.OVER, b"")
        self._file.close()

    def _answered(self, method: str, message: Encoded, number: int, answer: Buffer) -> None:
        if number:
            self._open.discard(number)
            self._note(Kind.RESULT, Result(call=number), bytes(answer))

    def _over(self, number: int) -> None:
        if number in self._open:
            self._open.discard(number)
            self._note(Kind.RESULT, Result(call=number))

    def _note(self, kind: Kind, head: StrictModel, rest: bytes = b"") -> None:
        """Write a record of a form, in which a secret may be a word or a number."""
        self._append(kind, encoded(head, self._secrets.overwrite(rest), self._secrets.mask))

    async def _settle(self) -> None:
        await self._sync()
        self.check()

    async def _sync(self) -> None:
        """Have what was written outlive a power failure, where a policy says so."""
        if self.problem is None and self.rule.outlives_power:
            try:
                await self._file.sync()
            except OSError as error:
                self._fail(error)

    def _write(self, kind: Kind, body: bytes) -> None:
        self._append(kind, self._secrets.overwrite(body))

    def _append(self, kind: Kind, body: bytes) -> None:
        if self.problem is not None:
            return
        try:
            self._file.append(kind, body)
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        self.problem = error
        self._file.mark_missing()
        _log.warning("the session's journal cannot be written, and misses what happens from here on: %s", error)

    async def _shrink(self) -> None:
        try:
            await self._file.rewrite(_still_counting)
        except OSError as error:
            _log.info("the session's journal could not be made shorter: %s", error)
        if self.problem is not None:  # of a record that was written meanwhile
            self._file.mark_missing()
        self._shrink_at = max(_SMALL, _GROWTH * self._file.size)


def meta_of(plan: MountPlan, session_id: str, authorization: Authorization, working_dir: os.PathLike[str]) -> Meta:
    """Return what a host writes when it begins a session."""
    modules: dict[str, KeptModule] = {}
    for module in authorization.modules:
        code, entry = module.resolution, module.entry
        modules[entry.instance_id or entry.module if entry.agent is None else entry.path] = KeptModule(
            kind=entry.kind,
            source=without_credentials(code.source),
            commit=code.commit or "",
            tree=code.tree or "",
            grants=_grants(entry.permissions),
        )
    origin = None if plan.origin is None else str(plan.origin)
    return Meta(
        paddock=__version__,
        session=session_id,
        pid=os.getpid(),
        plan=origin,
        digest=authorization.digest,
        working_dir=str(working_dir),
        modules=modules,
    )


def _grants(permissions: Permissions) -> dict[str, Any]:
    return permissions.model_dump(mode="json", exclude_defaults=True)


def _without_objects(message: Encoded) -> bytes:
    """Return the body of a message; nothing of one with live objects, which end with their processes."""
    return b"" if message.handles else bytes(message.body)


def _still_counting(records: Sequence[Record]) -> Iterator[Record]:
    latest: dict[object, int] = {}  # the places of records that later ones replace, by what they are of
    for at, record in enumerate(records):
        match record.kind:
            case Kind.SET | Kind.CLEAR:
                latest["conversation"] = at
            case Kind.STATE:
                latest[Kind.STATE, json.loads(record.body.partition(b"\n")[0])["key"]] = at
            case Kind.SPAWN:
                latest[Kind.SPAWN] = at
    places = {*latest.values()}
    for at, record in enumerate(records):
        is_said = record.kind in _OF_CONVERSATION and at >= latest.get("conversation", 0)
        if is_said or at in places or record.kind not in _REPLACED:
            yield _without_answer(record)


def _without_answer(record: Record) -> Record:
    """Return a record without the answer of a call: every call of a turn that has ended is in the conversation."""
    if record.kind != Kind.RESULT:
        return record
    head, answer, _ = record.body.partition(b"\n")
    return record._replace(body=head + (b"\n" + b"\xc0" if answer else b""))
