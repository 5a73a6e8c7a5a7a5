"""The contents of a session's journal, for those who read it: the session's turns, messages, and calls of tools.

A journal holds text of modules and of people, and may come from another version of Paddock. A record that is not of its
kind's form is an error that names the journal; nothing of a module's text decides anything here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from pydantic import Field, ValidationError

from paddock.plan.problems import StrictModel
from paddock.rpc.marshal import Marshaller
from paddock.rpc.peer import Encoded
from paddock.session.journals.context_journal import messages_of, tables
from paddock.session.journals.journal_file import JournalError, Kind, Record
from paddock.session.journals.journal_store import JournalEntry

_LATEST: Final = 253_402_300_800  # the year 10000, which no text of a time has
_Head = TypeVar("_Head", bound=StrictModel)
_METHODS: Final = {Kind.ADD: "add_message", Kind.SET: "set_messages"}


class KeptModule(StrictModel):
    """A module of a session: its code, and what it was granted, as a plan would state it."""

    kind: str
    source: str
    commit: str = ""
    tree: str = ""
    grants: dict[str, Any] = Field(default_factory=dict)

    @property
    def may_send(self) -> bool:
        """Whether it may connect to anything."""
        return bool(self.grants.get("net"))


class Meta(StrictModel):
    """What a host writes when it begins or resumes a session; modules go by their names."""

    paddock: str
    session: str
    pid: int
    plan: str | None
    digest: str
    working_dir: str
    modules: dict[str, KeptModule]


class Place(StrictModel):
    """The number of a turn in its session, and that of its host; 0 where it is not told.

    By these, the last records of a file tell how many there are.
    """

    turn: int = 0
    host: int = 0


class Turn(Place):
    """A prompt."""

    prompt: str


class End(Place):
    """The outcome of a turn: `answer`, `error` or `cancelled`, with the error's text."""

    outcome: str
    error: str = ""


class Call(StrictModel):
    """A call of a tool, by the number that its result names."""

    call: int
    module: str
    tool: str


class Result(StrictModel):
    """The end of a call; its answer follows, if it had one."""

    call: int


class State(StrictModel):
    """A key of `session_state` after a turn, and the module that wrote it; the change that sets the key follows.

    Nothing follows for a key that is gone, is the application's (which is no module), or has a live object.
    """

    key: str
    module: str
    is_live: bool = False


class KeptState(NamedTuple):
    """What a module of a source left under a key of `session_state`: a change, or a live object, which is not kept."""

    module: str
    source: str
    change: bytes
    is_live: bool


class Spawn(StrictModel):
    """That the journal is a sub-session's; so many bytes of its starter's `wishes` follow."""

    id: str
    parent: str
    agent: str
    wishes: int = Field(ge=0)


class KeptSpawn(NamedTuple):
    """What made a sub-session: who started it, its agent, and its starter's wishes."""

    parent: str
    agent: str
    wishes: bytes


class KeptCall(NamedTuple):
    """A call of a tool: its input, encoded, and its answer; `place` is that of its record.

    `ended` is None for one whose end was not recorded, and `answer` is None for one that ended without an answer.
    """

    module: str
    tool: str
    input: bytes
    began: float
    place: int
    ended: float | None = None
    answer: bytes | None = None

    @property
    def outcome(self) -> str:
        """`ended`, `failed or stopped`, or `unknown`."""
        if self.ended is None:
            return "unknown"
        return "failed or stopped" if self.answer is None else "ended"


class KeptTurn(NamedTuple):
    """A turn; `end` is None for one that was cut off."""

    began: float
    prompt: str
    ended: float | None = None
    end: End | None = None

    @property
    def outcome(self) -> str:
        """That of its end, or `interrupted`."""
        return "interrupted" if self.end is None else self.end.outcome


@dataclass(slots=True)
class KeptSession:
    """One session, read from its journal; `metas` are those of its hosts, the latest last.

    `places` are those of the records of `entries`, `since` is that of the last turn's beginning (-1 before the first),
    `reached` says which turn and host the last record of a turn is of. A sub-session has a `spawn`. With `is_cut`,
    something is missing since `last`, which a host that goes on with the session has moved to the file `torn`. A
    session `was_interrupted` if its last host did not end it.
    """

    path: Path
    metas: list[Meta] = field(default_factory=list)
    began: float = 0.0
    last: float = 0.0
    turns: list[KeptTurn] = field(default_factory=list)
    entries: list[JournalEntry] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    calls: dict[int, KeptCall] = field(default_factory=dict)
    state: dict[str, KeptState] = field(default_factory=dict)
    spawn: KeptSpawn | None = None
    since: int = -1
    reached: Place = field(default_factory=Place)
    is_cut: bool = False
    torn: Path | None = None
    was_interrupted: bool = False

    @property
    def id(self) -> str:
        return self.metas[-1].session

    @property
    def turn_count(self) -> int:
        """How many turns it has: not all need have been read, and none has a number in an old file."""
        return max(self.reached.turn, len(self.turns))

    @property
    def interruption(self) -> str:
        """When its last host was killed, for people; empty if it was not."""
        if not self.was_interrupted:
            return ""
        when = "during" if self.turns and self.turns[-1].end is None else "after"
        return f"its host was killed {when} turn {self.turn_count}" if self.turns else "its host was killed"

    def was_said_in(self, folder: Path) -> bool:
        """Whether it has a turn, and its modules worked in a folder: one in which nothing was said is none to go on."""
        return bool(self.turns) and self.metas[-1].working_dir == str(folder)

    def open_calls(self) -> list[KeptCall]:
        """Return the calls whose end was not recorded: what they did is not known."""
        return [call for call in self.calls.values() if call.ended is None]

    def messages(self) -> list[dict[str, Any]]:
        """Return the messages of the conversation, without what is no table: a context may take that as well."""
        return tables(messages_of(self.entries, Marshaller()))

    def count_messages(self) -> int:
        """Return about how many messages there are: those that were added one by one are not read for it."""
        together = [entry for entry in self.entries if entry.method == "set_messages"]
        return len(self.entries) - len(together) + len(messages_of(together, Marshaller()))


def kept_session(path: Path, records: Sequence[Record]) -> KeptSession:
    """Return what the records of a journal tell.

    Raises:
        JournalError: one is not of its kind's form, or the first tells nothing of the session.
    """
    kept = KeptSession(path)
    for place, record in enumerate(records):
        try:
            if not 0 <= record.at < _LATEST:
                raise ValueError("no clock tells such a time")
            _take(kept, place, record)
        except (ValidationError, ValueError, KeyError, IndexError, RecursionError) as error:
            raise JournalError(path, f"its record {place + 1} is not of its form") from error
        kept.last = record.at
    if not kept.metas:
        raise JournalError(path, "it tells nothing of its session")
    kept.began = records[0].at
    return kept


def _take(kept: KeptSession, place: int, record: Record) -> None:
    if record.kind in _METHODS:
        if record.kind == Kind.SET:
            kept.entries.clear()
            kept.places.clear()
        if record.body:  # else it holds live objects, which have ended
            kept.entries.append(JournalEntry(_METHODS[Kind(record.kind)], Encoded(record.body)))
            kept.places.append(place)
        return
    head, _, rest = record.body.partition(b"\n")
    match record.kind:
        case Kind.META:
            kept.metas.append(_head(Meta, head))
            kept.was_interrupted = True  # until it is over
        case Kind.OVER:
            kept.was_interrupted = False
        case Kind.TURN:
            kept.reached = turn = _head(Turn, head)
            kept.turns.append(KeptTurn(record.at, turn.prompt))
            kept.since = place
        case Kind.END:
            kept.reached = end = _head(End, head)
            kept.was_interrupted = kept.was_interrupted and end.turn > 0  # version 1 has no `OVER`, and no numbers
            kept.turns[-1] = kept.turns[-1]._replace(ended=record.at, end=end)
        case Kind.CLEAR:
            kept.entries.clear()
            kept.places.clear()
        case Kind.CALL:
            call = _head(Call, head)
            kept.calls[call.call] = KeptCall(call.module, call.tool, rest, record.at, place)
        case Kind.STATE:
            state = _head(State, head)
            kept.state.pop(state.key, None)
            if state.module and (rest or state.is_live):
                module = kept.metas[-1].modules.get(state.module)  # there is none of a name with a secret in it
                source = "" if module is None else module.source
                kept.state[state.key] = KeptState(state.module, source, rest, state.is_live)
        case Kind.SPAWN:
            spawn = _head(Spawn, head)
            kept.spawn = KeptSpawn(spawn.parent, spawn.agent, rest[: spawn.wishes])
        case Kind.RESULT:
            number = _head(Result, head).call
            if number in kept.calls:  # else it is before what was read
                kept.calls[number] = kept.calls[number]._replace(ended=record.at, answer=rest or None)


def _head(model: type[_Head], written: bytes) -> _Head:
    # By a reader that takes halves of characters: modules choose texts, and paths need not be UTF-8.
    return model.model_validate(json.loads(written))


def time_text(at: float) -> str:
    """Return a time of a record for scripts."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def encoded(head: StrictModel, rest: bytes = b"", mask: Callable[[str], str] = str) -> bytes:
    """Return the body of a record; `mask` is applied to the texts of its head, and to no name or number of the form."""
    facts = masked(head.model_dump(mode="json"), mask)
    return json.dumps(facts).encode() + (b"\n" + rest if rest else b"")


def masked(value: Any, mask: Callable[[str], str]) -> Any:
    """Return JSON's own types with `mask` applied to their texts, and to no key."""
    match value:
        case str():
            return mask(value)
        case dict():
            return {key: masked(item, mask) for key, item in value.items()}
        case list() | tuple():
            return [masked(item, mask) for item in value]
    return value
