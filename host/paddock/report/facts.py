"""The facts about one session: what each module was granted, used, was refused and took, and when.

They come from the session's record, its journal and the audit log. What one of these does not have is `None` or a note,
never a guess: a grant that nobody could see used is not called unused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal

from pydantic_core import to_jsonable_python

from paddock.errors import KindError
from paddock.isolation.record import ModuleRecord, SessionInUseError, SessionRecord, SessionRecords
from paddock.plan.grant_use import SEEN_BY_HOST, SEEN_BY_MODULE, GrantState, states_of
from paddock.plan.limits import limit_written
from paddock.plan.permissions import FAMILIES, Permissions, grants_of, permissions_line, without_value
from paddock.plan.problems import path_text
from paddock.report.audit_lines import AuditLine, lines_on
from paddock.session.journals.journal_file import JournalError
from paddock.session.journals.journal_folder import Journals
from paddock.session.journals.kept_session import KeptCall, KeptSession, KeptTurn

_MOST_CALLS: Final = 1000  # of the facts for scripts
_NO_JOURNAL: Final = "no journal was kept of this session: its turns and the calls of its tools are not recorded"

State = Literal["running", "ended", "its host was killed"]


@dataclass(frozen=True, slots=True)
class GrantFact:
    """A grant, whether it was used, and who says so: `Paddock` or `the module`; nobody for what is not known."""

    family: str
    grant: str
    state: GrantState
    seen_by: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """An act that was refused, so many times; `grant` is the line that would allow it."""

    at: datetime
    operation: str
    target: str
    reason: str
    grant: str
    times: int
    seen_by: str


@dataclass(frozen=True, slots=True)
class Life:
    """One process of a module, and how it ended; None as long as it has not, or where that is not recorded."""

    began: datetime
    ended: datetime | None
    message: str
    limit: str
    was_ordinary: bool


@dataclass(frozen=True, slots=True)
class Connections:
    """Connections of a module to one destination, with the grant that allowed them, and bytes both ways."""

    destination: str
    rule: str
    outcome: str
    times: int
    up: int
    down: int


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool, with its outcome."""

    module: str
    tool: str
    began: datetime
    ended: datetime | None
    outcome: str


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn, with its prompt and its outcome."""

    prompt: str
    began: datetime
    ended: datetime | None
    outcome: str


@dataclass(frozen=True, slots=True)
class ModuleFacts:
    """One module; what is None was not recorded. `unused` is a line of a plan, and `unseen` what it says nothing of.

    Modules of one name at the places `shared_with` have some of its audit lines in common with it.
    """

    name: str
    kind: str
    place: str
    shared_with: tuple[str, ...]
    source: str
    pin: str
    level: str
    grants: tuple[GrantFact, ...]
    unused: str | None
    unseen: tuple[str, ...]
    programs: tuple[str, ...] | None
    limits: Mapping[str, str]
    peak_memory_bytes: int | None
    cpu_seconds: float | None
    calls: int | None
    restarts: int | None
    refusals: tuple[Refusal, ...]
    refusals_left_out: int
    lives: tuple[Life, ...]
    connections: tuple[Connections, ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """One session; `notes` say what is not recorded."""

    session: str
    state: State
    plan: str | None
    working_dir: str
    accepted: str | None
    began: datetime
    ended: datetime | None
    notes: tuple[str, ...]
    modules: tuple[ModuleFacts, ...]
    turns: tuple[Turn, ...]
    calls: tuple[Call, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the facts for scripts; of the calls, the latest."""
        facts: dict[str, Any] = to_jsonable_python(replace(self, calls=self.calls[-_MOST_CALLS:]))
        return {**facts, "calls_left_out": max(len(self.calls) - _MOST_CALLS, 0)}

    def calls_of(self, module: ModuleFacts) -> list[Call]:
        """Return the calls of one module's tools; those of agents' are in journals of their own."""
        return [call for call in self.calls if call.module == module.name and not _is_of_agent(module.place)]

    def module(self, name: str) -> ModuleFacts:
        """Return the facts on the module that goes by a name.

        Raises:
            KindError: there is none.
        """
        found = next((one for one in self.modules if name in (one.name, one.place)), None)
        if found is None:
            names = [one.name for one in self.modules]
            hint = f"its modules are {', '.join(names)}"
            raise KindError("NothingToReportError", f"session `{self.session}` has no module `{name}`", hints=[hint])
        return found


def facts_of(record: SessionRecord, environ: Mapping[str, str] | None = None) -> Facts:
    """Return what is known of a session."""
    lines, missing = lines_on(record.id, environ)
    kept, problem = _kept(record.id, environ)
    started, was_lost = None, False
    for line in lines:
        started = line if line.event == "session.started" else started
        was_lost |= line.event == "session.lost"
    pins: dict[str, Any] = {} if started is None else dict(started.modules)
    if kept is not None:
        pins |= {name: one.model_dump() for name, one in kept.metas[-1].modules.items()}
    told, shared = _by_place(record, lines)
    modules = (_module(one, told[one.place], pins, shared[one.place]) for one in record.modules)
    return Facts(
        session=record.id,
        state=_state(record, was_lost, environ),
        plan=record.plan,
        working_dir=record.working_dir,
        accepted=None if started is None else started.accepted,
        began=record.started,
        ended=record.ended,
        notes=(*problem, *missing),
        modules=tuple(modules),
        turns=() if kept is None else tuple(map(_turn, kept.turns)),
        calls=() if kept is None else tuple(map(_call, kept.calls.values())),
    )


def _by_place(
    record: SessionRecord, lines: Sequence[AuditLine]
) -> tuple[dict[str, list[AuditLine]], dict[str, dict[str, None]]]:
    """Return the lines on each module by its place in the plan, and the places with which it shares some of them."""
    named: dict[str, list[str]] = defaultdict(list)
    for module in record.modules:
        named[module.name].append(module.place)
    begun = {line.sub_session: line for line in lines if line.event == "sub_session.started"}
    told: dict[str, list[AuditLine]] = defaultdict(list)
    shared: dict[str, dict[str, None]] = defaultdict(dict)
    for line in lines:
        meant = _meant(named[line.module], line.sub_session, begun, record.id)
        for place in meant:
            told[place].append(line)
            shared[place].update(dict.fromkeys(other for other in meant if other != place))
    return told, shared


def _meant(places: Sequence[str], sub_session: str, begun: Mapping[str, AuditLine], session: str) -> Sequence[str]:
    """Return those of the places of one name that a line of a sub-session is about: where it is not known, all.

    A sub-session has its agent's own modules, and else those of the session that started it.
    """
    left = dict(begun) if len(places) > 1 else {}
    while sub_session in left:  # each once: a log may have been edited
        one = left.pop(sub_session)
        own = [place for place in places if place.startswith(f"{path_text('agents', one.agent or '')}.")]
        if own:
            return own
        sub_session = one.parent
    ours = [place for place in places if not _is_of_agent(place)]
    return ours if ours and sub_session in ("", session) else places


def _is_of_agent(place: str) -> bool:
    return place.startswith(("agents.", "agents["))


def _kept(session: str, environ: Mapping[str, str] | None) -> tuple[KeptSession | None, list[str]]:
    try:
        return Journals(environ=environ).read(session)[0], []
    except FileNotFoundError:
        return None, [_NO_JOURNAL]
    except JournalError as error:
        return None, [f"{error.summary}: turns and calls of tools are not recorded"]


def _state(record: SessionRecord, was_lost: bool, environ: Mapping[str, str] | None) -> State:
    if record.ended is not None:
        return "its host was killed" if was_lost else "ended"
    try:
        SessionRecords(environ=environ).check_free(record.id)
    except SessionInUseError:
        return "running"
    return "its host was killed"


# -- one module ----------------------------------------------------------------------------


def _module(
    module: ModuleRecord, lines: Sequence[AuditLine], pins: Mapping[str, Any], shared: Iterable[str]
) -> ModuleFacts:
    used = [line for line in lines if line.event == "module.used"]
    connections = [line for line in lines if line.event == "egress.connection"]
    shared = tuple(shared)
    of_grants = [] if shared else used  # places of one module's grants say nothing of another's
    places = {family: {place for line in of_grants for place in line.grants.get(family, ())} for family in FAMILIES}
    unseen = _unseen(module, of_grants)
    grants = [*states_of(module.permissions, places, unseen)]
    pin = pins.get(module.place) or pins.get(module.name)
    return ModuleFacts(
        name=module.name,
        kind=module.kind,
        place=module.place,
        shared_with=shared,
        source=module.source,
        pin=str(pin.get("commit") or pin.get("tree") or "") if isinstance(pin, dict) else "",
        level=module.level,
        grants=(*_of_source(module), *(_grant(*one) for one in grants)),
        unused=_unused(grants) if used else None,
        unseen=unseen,
        programs=tuple(dict.fromkeys(name for line in used for name in line.programs)) if used else None,
        limits={name: limit_written(name, value) for name, value in module.limits.items() if value is not None},
        peak_memory_bytes=max((line.peak_memory_bytes or 0 for line in used), default=0) or None,
        cpu_seconds=sum(line.cpu_seconds for line in used) if used else None,
        calls=sum(line.calls for line in used) if used else None,
        restarts=sum(line.restarts for line in used) if used else None,
        refusals=_refusals(lines),
        refusals_left_out=max((line.count for line in lines if line.event == "denials.left_out"), default=0),
        lives=_lives(lines),
        connections=_connections(connections),
    )


def _unseen(module: ModuleRecord, used: Sequence[AuditLine]) -> tuple[str, ...]:
    """Return the families of grants of whose use too little is known to call one unused."""
    granted = grants_of(module.permissions)
    unseen = {family for line in used for family in line.unseen} if used else {*SEEN_BY_HOST, *SEEN_BY_MODULE}
    if granted.run or [*_of_source(module)]:
        unseen |= {"read", "write"}  # nobody sees what programs open
    if module.level == "none":
        unseen |= {*SEEN_BY_MODULE, "net"}
    return tuple(family for family in FAMILIES if family in unseen and getattr(granted, family))


def _of_source(module: ModuleRecord) -> Iterator[GrantFact]:
    """Yield what came with the source of an MCP server."""
    if module.source.startswith("mcp+"):
        yield GrantFact(
            "run",
            f"the server, which reads its own files (from {module.source})",
            "not known",
            "",
        )


def _grant(family: str, grant: Any, state: GrantState) -> GrantFact:
    who = "Paddock" if family in SEEN_BY_HOST else "the module"
    return GrantFact(family, _text_of(family, grant), state, who if "used" in state else "")


def _unused(grants: Sequence[tuple[str, Any, GrantState]]) -> str:
    """Return the grants that were not seen used as a line of a plan; empty if there is none."""
    left: dict[str, tuple[Any, ...]] = {}
    for family, grant, state in grants:
        if state == "not seen used":
            left[family] = (*left.get(family, ()), grant)
    return permissions_line(Permissions().model_copy(update=left)) if left else ""


def _text_of(family: str, grant: Any) -> str:
    if family == "secrets":
        return f"{grant.name}, inserted by Paddock at {grant.inject}" if grant.inject else str(grant.name)
    return without_value(grant) if family == "env" else str(grant)


def _refusals(lines: Sequence[AuditLine]) -> tuple[Refusal, ...]:
    """Return each refused act once, with the highest count that was recorded of it."""
    found: dict[tuple[str, str, str], Refusal] = {}
    for line in lines:
        if line.event == "denial":
            act = (line.operation, line.target, line.reason)
            first = found[act].at if act in found else line.time
            who = "Paddock" if line.seen_by == "host" else "the module"
            found[act] = Refusal(first, *act, line.grant, line.times, who)
    return tuple(found.values())


def _lives(lines: Sequence[AuditLine]) -> tuple[Life, ...]:
    lives: list[Life] = []
    begun: dict[str, datetime] = {}  # a module has a process in each sub-session at once
    for line in lines:
        if line.event == "module.started":
            begun[line.sub_session] = line.time
        elif line.event == "module.ended":
            end, hit = line.report, line.report.limit
            limit = "" if hit is None else f"{hit.name}, {hit.observed} seen" if hit.observed else hit.name
            began = begun.pop(line.sub_session, line.time)
            lives.append(Life(began, line.time, end.message, limit, end.reason == "exited"))
    return (*lives, *(Life(began, None, "", "", True) for began in begun.values()))


def _connections(lines: Sequence[AuditLine]) -> tuple[Connections, ...]:
    found: dict[tuple[str, str, str], Connections] = {}
    for line in lines:
        to = (line.destination, line.rule, line.outcome)
        known = found.get(to) or Connections(*to, 0, 0, 0)
        found[to] = replace(known, times=known.times + 1, up=known.up + line.up, down=known.down + line.down)
    return tuple(found.values())


# -- the conversation ----------------------------------------------------------------------


def _turn(turn: KeptTurn) -> Turn:
    return Turn(turn.prompt, _time(turn.began), None if turn.ended is None else _time(turn.ended), turn.outcome)


def _call(call: KeptCall) -> Call:
    ended = None if call.ended is None else _time(call.ended)
    return Call(call.module, call.tool, _time(call.began), ended, call.outcome)


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
