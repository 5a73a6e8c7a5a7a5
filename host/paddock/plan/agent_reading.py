"""Read the agents of a plan: tables that list, like a plan, the differing modules of one kind of further session."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from paddock.errors import PlanProblem
from paddock.plan.entry_reading import SECTIONS, EntryReading
from paddock.plan.model import Agent, ModuleEntry, entries_over
from paddock.plan.problems import must_be, path_text

_KEYS: Final = (
    "session",
    "orchestrator",
    "context",
    *SECTIONS,
    "description",
    "instruction",
    "system",
)


@dataclass(frozen=True, slots=True)
class OwnEntries:
    """The modules of a plan itself, as far as they could be read."""

    orchestrator: ModuleEntry | None
    context: ModuleEntry | None
    providers: tuple[ModuleEntry, ...]
    tools: tuple[ModuleEntry, ...]
    hooks: tuple[ModuleEntry, ...]


def read_agents(written: object, own: OwnEntries, reading: EntryReading) -> dict[str, Agent]:
    """Return the agents of a plan by their names; the reading collects the problems.

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


def _read(name: str, raw: dict[str, Any], path: str, own: OwnEntries, reading: EntryReading) -> Agent:
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
        _section("providers", table, path, own.providers, reading),
        _section("tools", table, path, own.tools, reading),
        _section("hooks", table, path, own.hooks, reading),
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


def _section(
    section: str, table: Mapping[str, Any], path: str, base: Sequence[ModuleEntry], reading: EntryReading
) -> tuple[ModuleEntry, ...]:
    return entries_over(base, reading.section(section, table, path))
