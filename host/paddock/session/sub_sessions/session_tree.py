"""All the sub-sessions of one session: their plans, their number, and the conversations of those that ended.

Conversations are kept in memory for as long as the first session lasts; beyond a bound the oldest are forgotten. Where
the first session has a journal, they outlive the host, each in a journal of its own: what a sub-session may do is in
the present plan, to which only its starter's wishes, its messages and its open tool calls come from there.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import anyio.to_thread

from paddock.authorization.authorizer import AuthorizedModule
from paddock.errors import KindError
from paddock.isolation.record import stem_of
from paddock.plan.model import Agent
from paddock.plan.units import size_text
from paddock.policy.journal_rule import JournalRule
from paddock.policy.limits import SUB_SESSIONS_MAX
from paddock.session.journals.journal_folder import Journals
from paddock.session.journals.kept_session import KeptSession, KeptSpawn
from paddock.session.journals.session_journal import SessionJournal
from paddock.session.resources import SessionResources
from paddock.session.session_plan import SessionPlan
from paddock.session.sub_sessions.spawn_payload import weight
from paddock_sources.similar_names import near

SELF: Final = "self"  # as the name of an agent: the requesting session, once more

_DEPTH_MAX: Final = 8  # sessions below the first
_KEPT_BYTES: Final = 64 << 20  # of all conversations together, with their sessions' plans
_KEPT_MAX: Final = 256  # conversations
_JOURNAL_BYTES: Final = 64 << 20  # of all their journals together, when another begins
_AGENT_IN_ID: Final = 64  # characters of an agent's name in the ids of its sessions
_NOT_IN_IDS: Final = re.compile(r"[^A-Za-z0-9.-]+", re.ASCII)
_BESIDE: Final = 8192  # for lists of entries and the like

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class SubSessionState:
    """One sub-session over all its turns; `transcript` are its messages after the last one, None before the first.

    The transcript is encoded, and holds no reference to its session. `instruction` is what its model gets before
    anything else. `history` is what its parent gave it at the start, and is released with that. `wishes` is what the
    starter asked for, encoded; None if that is no data.
    """

    id: str
    parent_id: str
    agent: str
    plan: SessionPlan
    self_delegation_depth: int
    instruction: str
    history: tuple[dict[str, Any], ...]
    transcript: bytes | None = None
    wishes: bytes | None = None

    def said(self, transcript: bytes) -> None:
        """Keep the conversation so far, which begins with the given history."""
        self.transcript = transcript
        self.history = ()

    def size(self) -> int:
        """Return about how many bytes of memory it takes once it has ended, rounded up."""
        data = len(self.transcript or b"") + len(self.wishes or b"")
        return data + weight(self.plan.raw, self.plan.overrides, self.history) + _BESIDE


class SessionTree:
    """The sub-sessions of one application's session.

    `authorized` is what was decided of each entry, by its place in the plan.
    """

    def __init__(
        self,
        first: str,
        session_resources: SessionResources,
        authorized: Mapping[str, AuthorizedModule],
        agents: Mapping[str, Agent],
        journal: SessionJournal | None = None,
    ) -> None:
        self.session_resources = session_resources
        self.authorized = authorized
        self._first = first
        self._agents = agents
        self._alive: set[str] = set()
        self._kept: dict[str, tuple[SubSessionState, int]] = {}  # each with its size, the oldest first
        self._kept_bytes = 0
        self._journal = journal
        self._journals = None if journal is None else Journals.below(journal.path)
        is_resumed = journal is not None and journal.kept is not None
        self._earlier = {*self._journals.ids()} if is_resumed and self._journals is not None else set()  # by file

    def agent(self, name: str) -> Agent | None:
        """Return an agent of the plan, None for the requesting session itself.

        Raises:
            ValueError: the plan has no such agent.
        """
        if name in self._agents:
            return self._agents[name]
        if name == SELF:
            return None
        close = near(name, self._agents)
        meant = f"; did you mean `{close[0]}`?" if close else ""
        known = ", ".join([*self._agents, SELF])
        raise ValueError(f"the plan has no agent `{name:.100}`, it has: {known}{meant}")

    def check_depth(self, depth: int) -> None:
        """Refuse a session that is nested too deeply.

        Raises:
            RuntimeError: it would be.
        """
        if depth > _DEPTH_MAX:
            raise RuntimeError(f"sub-sessions are nested {_DEPTH_MAX} deep already, and may not be deeper")

    def new_id(self, parent: str, agent: str, wanted: str | None) -> str:
        """Return the id of a new sub-session: the wanted one, or a new one.

        Raises:
            ValueError: another session has it.
        """
        if wanted is None:
            return f"{parent}-{secrets.token_hex(8)}_{_NOT_IN_IDS.sub('-', agent)[:_AGENT_IN_ID]}"
        if wanted == self._first or wanted in {*self._alive, *self._kept} or stem_of(wanted) in self._earlier:
            raise ValueError(f"there is a session `{wanted}` already; `session.resume` goes on with one that has ended")
        return wanted

    @contextmanager
    def alive(self, id: str) -> Iterator[None]:
        """Count a session among those that run.

        Raises:
            RuntimeError: there are as many as there may be, or it is one of them.
        """
        if id in self._alive:
            raise RuntimeError(f"session `{id}` is running")
        if len(self._alive) >= SUB_SESSIONS_MAX:
            raise RuntimeError(f"{SUB_SESSIONS_MAX} sub-sessions are running, and there may not be more at one time")
        self._alive.add(id)
        try:
            yield
        finally:
            self._alive.discard(id)

    def keep(self, conversation: SubSessionState) -> None:
        """Keep the conversation of a session that ended, to resume it; beyond the bound the oldest are forgotten."""
        self._forget(conversation.id)
        self._earlier.discard(stem_of(conversation.id))
        size = conversation.size()
        self._kept[conversation.id] = conversation, size
        self._kept_bytes += size
        while self._kept_bytes > _KEPT_BYTES or len(self._kept) > _KEPT_MAX:
            self._forget(next(iter(self._kept)))

    async def journal_of(self, conversation: SubSessionState) -> SessionJournal | None:
        """Return the journal in which a sub-session's next turn outlives the host, for the caller to close.

        There is none where the first session has none, or where its starter's wishes are no data.

        Raises:
            OSError, KindError: a policy requires it, and it cannot be used.
        """
        first, journals, wishes = self._journal, self._journals, conversation.wishes
        if first is None or journals is None or wishes is None:
            return None
        try:
            journal = await anyio.to_thread.run_sync(_opened, journals, conversation)
        except (OSError, KindError) as error:
            if first.rule.required:
                raise
            _log.warning("sub-session `%s` is not kept: %s", conversation.id, error)
            return None
        first.begin_below(journal, conversation.id, KeptSpawn(conversation.parent_id, conversation.agent, wishes))
        return journal

    def read_earlier(self, parent: str, id: str) -> KeptSession | None:
        """Return what is kept of a session that `parent` started before the host of that time ended, if it did.

        Raises:
            ValueError: it cannot be used.
        """
        if self._journals is None or stem_of(id) not in self._earlier:
            return None
        try:
            kept, _ = self._journals.read(id)
        except (OSError, KindError) as error:
            _log.warning("sub-session `%s` cannot be gone on with: %s", id, error)
            raise ValueError(f"session `{id}` is not kept any more; `session.spawn` starts another") from error
        return kept if kept.spawn is not None and (kept.id, kept.spawn.parent) == (id, parent) else None

    def _forget(self, id: str) -> None:
        _, size = self._kept.pop(id, (None, 0))
        self._kept_bytes -= size

    def kept(self, parent: str, id: str) -> SubSessionState:
        """Return the kept conversation of a session that `parent` started.

        Raises:
            ValueError: it started none of that id that has ended, or that is remembered.
        """
        conversation, _ = self._kept.get(id, (None, 0))
        if conversation is None or conversation.parent_id != parent:
            raise ValueError(
                f"there is no session `{id:.200}` to go on with: this one started none of that id that has ended, or "
                f"it is forgotten, as the latest {_KEPT_MAX} are kept, of {size_text(_KEPT_BYTES)} together; "
                "`session.spawn` starts another"
            )
        return conversation


def _opened(journals: Journals, conversation: SubSessionState) -> SessionJournal:
    with suppress(FileNotFoundError):
        if conversation.transcript is not None:
            return journals.resumed(conversation.id)
        journals.delete(conversation.id)  # it is of one that did not begin, or that is forgotten
    journal = SessionJournal(journals.create(conversation.id))
    journals.prune(JournalRule(size=_JOURNAL_BYTES), _KEPT_MAX)
    return journal
