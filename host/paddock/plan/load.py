"""Turn a plan's text into a `MountPlan`, or into the list of everything wrong with it.

Keys inside `session` and module entries are all known or an error; other top-level keys are passed on with a note,
unless they look like a misspelt key of Paddock's. Nothing is resolved, fetched or started, and the only file read is
the plan.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from paddock.errors import KindError, PlanError, PlanProblem
from paddock.plan import EXTENDS
from paddock.plan.entry_reading import SECTIONS, EntryReading
from paddock.plan.formats.document import conversion_of, read_document
from paddock.plan.model import Agent, EntryPlace, ModuleEntry, MountPlan, PlanWide, entries_over
from paddock.plan.plain_data import PlainData
from paddock.plan.problems import must_be, path_text
from paddock.plan.source_map import Positions
from paddock_sources import SourceError
from paddock_sources.constraints import MAX_CONSTRAINTS
from paddock_sources.lock.lock_file import LOCK_FILE, LockFile

if TYPE_CHECKING:
    from paddock.plan.bundles.extending import Extended
    from paddock.plan.bundles.trees import PinnedTrees

TreesOf = Callable[[Path, LockFile], AbstractContextManager["PinnedTrees"]]
"""Opens the trees of bundles for a plan in a folder, with the lock file that is there."""

_READ_ELSEWHERE: Final = {  # with what a plan has in its place
    "bundle": ("is for bundles", "take it out; a plan that builds on a bundle has `extends: ADDRESS`"),
    "includes": ("is for bundles", "write `extends: ADDRESS`, or a list of addresses"),
    "permissions": (
        "is for one module",
        "write it in the entry of that module: - {module: tool-filesystem, permissions: workspace}",
    ),
    "mcpServers": ("is read by clients of MCP, and not by Paddock", "take it out; a plan names modules"),
}
_OF_CLIENTS: Final = frozenset({"mcpServers", "servers", "context_servers"})  # tables of MCP servers
_TOP_KEYS = (
    *("session", "providers", "tools", "hooks", "agents", "orchestrator", "context"),
    *PlanWide.model_fields,
    EXTENDS,
)

_UNWRITTEN = "the plan"  # the name, in messages, of a plan without a file

_EXAMPLE = "write session: {orchestrator: loop-basic, context: context-simple}"
_KEYS: Final = (
    "session",
    "orchestrator",
    "context",
    *SECTIONS,
    "description",
    "instruction",
    "system",
)


def load_plan(
    plan: Path | str | Mapping[str, object],
    *,
    written: bytes | None = None,
    converts: bool = False,
    environ: Mapping[str, str] | None = None,
    trees_of: TreesOf | None = None,
) -> MountPlan:
    """Return the plan in a file (`.yaml`, `.yml`, `.json`) or in a mapping; a file may be `written`.

    One in `.toml` is read only for a caller that `converts` it. Relative sources start from the file's folder, those of
    a mapping from the current one. References to secrets are not checked here: whether they are granted and set depends
    on the operator's further grants.

    The bundles that it extends are those that the lock file beside it pins, as the cache of the user with `environ` has
    them; by default that of this process. A caller that fetches what is missing gives `trees_of`, from the folder and
    the lock file.

    Raises:
        PlanError: with every problem found.
        KindError: it extends bundles, and the lock file beside it cannot be relied on.
    """
    trees_of = trees_of or partial(_pinned_trees, os.environ if environ is None else environ)
    if isinstance(plan, (str, Path)):
        path = Path(plan)
        document = read_document(path, written, converts=converts)
        origin = path.resolve()
        digest = _digest(b"file", os.fsencode(origin), document.written)
        reading = _Reading(origin.parent, origin, document.positions, trees_of)
        loaded = reading.mount_plan(document.content, lambda raw: digest)
    else:
        reading = _Reading(Path.cwd(), None, Positions(_UNWRITTEN), trees_of)
        loaded = reading.mount_plan(plan, partial(_digest_of_mapping, Path.cwd()))
    if loaded is None or reading.problems:
        raise reading.error()
    return loaded


@contextmanager
def _pinned_trees(environ: Mapping[str, str], base: Path, lock: LockFile) -> Iterator[PinnedTrees]:
    from paddock.plan.bundles.trees import PinnedTrees  # most plans extend nothing
    from paddock_sources.cache import SourceCache

    with SourceCache.of_user(environ) as cache:
        yield PinnedTrees(cache, lock, base)


def _digest_of_mapping(base: Path, raw: Mapping[str, Any]) -> str:
    # The digest includes the folder, where relative sources start: the same text elsewhere names other code.
    canonical = json.dumps(raw, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return _digest(b"mapping", os.fsencode(base), canonical.encode("ascii"))


def _digest(*parts: bytes) -> str:
    digest = sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)  # with lengths, so that no two plans read as the same bytes
    return f"sha256:{digest.hexdigest()}"


def _too_many_constraints(plan: MountPlan) -> PlanProblem | None:
    """Return a problem where entries have more constraints than are compared; a list that is repeated counts once.

    Each list of an entry is compared with those of the plan and the settings, and a plan needs no consent for that.
    """
    lists: dict[tuple[str, ...], str] = {}
    for entry in plan.entries():
        if entry.constraints:
            lists.setdefault(entry.constraints, entry.path)
    if sum(map(len, lists)) <= MAX_CONSTRAINTS:
        return None
    path = path_text(lists.popitem()[1], "constraints")
    hint = "write at the top of the plan, once, what holds for several"
    return PlanProblem(path, f"together with the other entries has more than {MAX_CONSTRAINTS} constraints", hint)


class _Reading:
    """One reading of one plan."""

    def __init__(self, base: Path, origin: Path | None, positions: Positions, trees_of: TreesOf) -> None:
        self._entries = EntryReading(base)
        self._base = base
        self._origin = origin
        self._positions = positions
        self._trees_of = trees_of

    @property
    def problems(self) -> list[PlanProblem]:
        """The problems found so far."""
        return self._entries.problems

    def error(self) -> PlanError:
        """Return the error with all problems."""
        error = PlanError(self.problems)
        if self._origin is not None:
            error.locate(self._positions.file, self._positions.spot_of)
        return error

    def mount_plan(self, written: object, digest_of: Callable[[Mapping[str, Any]], str]) -> MountPlan | None:
        """Return the plan, or None when a problem leaves nothing to return."""
        if not isinstance(written, Mapping):
            self.problems.append(must_be("a table", written, "", _EXAMPLE))
            return None
        if self._origin is not None and _OF_CLIENTS.intersection(written) and not {"session", EXTENDS} & {*written}:
            hint = f"`{conversion_of(Path(self._positions.file))}` writes a plan that has them"
            self.problems.append(PlanProblem("", "is a client's list of MCP servers, and no plan", hint))
            return None
        plain = PlainData()
        raw: dict[str, Any] = plain.copy(written)
        digest = digest_of(raw)
        entries = self._entries
        bundles = None
        if EXTENDS in raw and not plain.problems:
            self._check_own(raw)
            if self.problems:
                return None
            whole = self._extended(raw)
            raw, bundles, self._positions = whole.content, whole.bundles, whole.positions
            digest = _digest(digest.encode(), whole.digest.encode())
            entries.notes.extend(whole.notes)
        entries.notes += [f"`{key}` is passed on to the modules as it is" for key in self._passed_on(raw)]
        session = self._session(raw)
        orchestrator = self._session_module("orchestrator", session, raw)
        context = self._session_module("context", session, raw)
        modules = {section: entries.section(section, raw) for section in SECTIONS}
        plan_wide = entries.plan_wide(raw)
        instruction = entries.instruction(session)
        own = Agent("", orchestrator, context, modules["providers"], modules["tools"], modules["hooks"], raw)
        agents = read_agents(raw.get("agents", {}), own, entries)
        # A part that could not be copied is missing in the copy, so problems about its absence are noise.
        places = {problem.path for problem in plain.problems}
        self.problems[:] = [*plain.problems, *(problem for problem in self.problems if problem.path not in places)]
        if self.problems or orchestrator is None or context is None:
            return None
        plan = MountPlan(
            orchestrator=orchestrator,
            context=context,
            providers=own.providers,
            tools=own.tools,
            hooks=own.hooks,
            agents=agents,
            raw=raw,
            origin=self._origin,
            digest=digest,
            positions=self._positions,
            notes=tuple(entries.notes),
            constraints=plan_wide.constraints,
            totals=plan_wide.limits,
            instruction=instruction,
            bundles=bundles,
        )
        problem = _too_many_constraints(plan)
        if problem is not None:
            self.problems.append(problem)
        return plan if problem is None else None

    def _passed_on(self, raw: Mapping[str, Any]) -> list[str]:
        """Return the keys that other programs may understand, and report the rest of those that are not known."""
        unknown = [*self._entries.check_keys(raw, _TOP_KEYS)]
        self.problems.extend(PlanProblem(key, *_READ_ELSEWHERE[key]) for key in unknown if key in _READ_ELSEWHERE)
        return [key for key in unknown if key not in _READ_ELSEWHERE]

    def _check_own(self, raw: Mapping[str, Any]) -> None:
        """Report what is wrong in a plan's own keys and entries, before its bundles are fetched."""
        self._passed_on(raw)
        own = EntryReading(self._base)
        for section, kind in SECTIONS.items():
            written = raw.get(section)
            for index, one in enumerate(written if isinstance(written, list) else ()):
                if isinstance(one, dict) and "module" in one:  # others may be named by their instance alone
                    own.entry(dict(one), EntryPlace(kind, path_text(section, index), self._base))
        self.problems.extend(own.problems)

    def _extended(self, raw: Mapping[str, Any]) -> Extended:
        from paddock.plan.bundles.extending import extended  # most plans extend nothing

        try:
            with self._trees_of(self._base, LockFile.read(self._base / LOCK_FILE)) as trees:
                return extended(raw, self._positions, self._base, trees)
        except SourceError as error:
            raise KindError.of_sources(error) from error
        except PlanError as error:
            error.locate(self._positions.file, self._positions.spot_of)
            raise

    def _session(self, raw: dict[str, Any]) -> dict[str, Any]:
        if "session" not in raw:
            self.problems.append(PlanProblem("session", "is missing", _EXAMPLE))
            return {}
        session = raw["session"]
        if not isinstance(session, dict):
            self.problems.append(must_be("a table", session, "session", _EXAMPLE))
            return {}
        self._entries.check_session(session, "session")
        for key in ("orchestrator", "context"):
            if session.get(key) is None:
                self.problems.append(PlanProblem(f"session.{key}", "is missing", _EXAMPLE))
        return session

    def _session_module(
        self, key: Literal["orchestrator", "context"], session: dict[str, Any], raw: dict[str, Any]
    ) -> ModuleEntry | None:
        if session.get(key) is None:
            return None
        read, entry = self._entries.session_module(key, session, raw)
        if isinstance(session[key], str) and entry is not None:
            session[key] = entry
            if "source" in entry:
                session[f"{key}_source"] = entry["source"]
        return read


def read_agents(written: object, own: Agent, reading: EntryReading) -> dict[str, Agent]:
    """Return the agents of a plan by their names; `own` has the plan's modules. The reading collects the problems.

    An entry that is a list is no agent: other programs take it for folders to look in.
    """
    if not isinstance(written, dict):
        reading.problems.append(must_be("a table", written, "agents"))
        return {}
    agents: dict[str, Agent] = {}
    for name, table in written.items():
        path = path_text("agents", name)
        if not str(name).strip():
            reading.problems.append(
                PlanProblem("agents", "an agent has no name", "give it a name, by which modules start it")
            )
        elif isinstance(table, list):
            reading.notes.append(f"`{path}` is passed on to the modules as it is; no agents are looked for there")
        elif not isinstance(table, dict):
            reading.problems.append(must_be("a table", table, path, "write {description: …, instruction: …}"))
        else:
            agents[name] = _read(name, table, path, own, reading.of_agent(name))
    return agents


def _read(
    name: str,
    raw: dict[str, Any],
    path: str,
    own: Agent,
    reading: EntryReading,
) -> Agent:
    table = copy.deepcopy(raw)  # a copy in which sources become absolute
    for _ in reading.check_keys(table, _KEYS, path):
        pass  # other keys of an agent are for the modules that start it
    for key in ("description", "instruction"):
        if not isinstance(table.get(key, ""), str):
            reading.problems.append(must_be("text", table[key], path_text(path, key)))
    _check_system(table, path, reading)
    if "agents" in table:
        reading.notes.append(f"`{path}.agents` has no effect: every agent may start those of the plan")
    session = table.get("session", {})
    if not isinstance(session, dict):
        reading.problems.append(must_be("a table", session, path_text(path, "session")))
        session = {}
    reading.check_session(session, path_text(path, "session"))
    return Agent(
        name,
        _session_module("orchestrator", session, table, path, own.orchestrator, reading),
        _session_module("context", session, table, path, own.context, reading),
        entries_over(own.providers, reading.section("providers", table, path)),
        entries_over(own.tools, reading.section("tools", table, path)),
        entries_over(own.hooks, reading.section("hooks", table, path)),
        raw,
    )


def _check_system(table: Mapping[str, Any], path: str, reading: EntryReading) -> None:
    system = table.get("system", {})
    place = path_text(path, "system")
    if not isinstance(system, dict):
        reading.problems.append(must_be("a table", system, place, "write system: {instruction: …}"))
    elif not isinstance(system.get("instruction", ""), str):
        reading.problems.append(must_be("text", system["instruction"], path_text(place, "instruction")))


def _session_module(
    key: Literal["orchestrator", "context"],
    session: Mapping[str, Any],
    table: Mapping[str, Any],
    path: str,
    base: ModuleEntry | None,
    reading: EntryReading,
) -> ModuleEntry | None:
    """Return the orchestrator or context in which an agent differs, None if it uses the plan's.

    An entry that names no module means the plan's module, with the settings of the entry.
    """
    written = session.get(key)
    if written is None and key not in table:
        return None
    if base is not None and written is None:
        session = {**session, key: base.module}
    elif base is not None and isinstance(written, dict) and "module" not in written:
        session = {**session, key: {"module": base.module, **written}}
    read, _ = reading.session_module(key, session, table, path)
    return read.over(base) if read is not None and base is not None and read.module == base.module else read
