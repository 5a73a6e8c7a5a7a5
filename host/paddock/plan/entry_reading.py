"""Read the module entries of a plan, or of the part of one that stands at some place in it.

Entries become values. All their problems are collected, and each value passed on without being understood is noted. A
plan and each agent in it list their modules in the same way, so the same rules read both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import ValidationError

from paddock.errors import PlanError, PlanProblem
from paddock.plan.instruction import Instruction
from paddock.plan.limits import Limits, Totals
from paddock.plan.model import ENTRY_KEYS, EntryPlace, Kind, ModuleEntry, PlanWide
from paddock.plan.problems import must_be, path_text, problems_of, unknown_key
from paddock.plan.secret_references import malformed_references
from paddock_sources.similar_names import near

SECTIONS: Final[Mapping[str, Kind]] = {"providers": "provider", "tools": "tool", "hooks": "hook"}

SESSION_KEYS: Final = (
    "orchestrator",
    "context",
    "orchestrator_source",
    "context_source",
    "injection_budget_per_turn",
    "injection_size_limit",
    "metadata",
    "raw",
)
_IN_ENTRY: Final = "it is for one module: write it in its entry, - {module: tool-filesystem, limits: {memory_max: 1G}}"
_TELL: Final = "write instruction: text, or instruction: {file: ./AGENTS.md}"
_RESOLVER_KEYS: Final = ("module-source-resolver", "module_source_resolver", "resolver", "resolvers")


class EntryReading:
    """One reading of one plan's entries: its problems and its notes."""

    def __init__(self, base: Path, whole: EntryReading | None = None, agent: str | None = None) -> None:
        self.problems: list[PlanProblem] = [] if whole is None else whole.problems
        self.notes: list[str] = [] if whole is None else whole.notes
        self._base = base
        self._agent = agent

    def of_agent(self, name: str) -> EntryReading:
        """Return the part of this reading for one agent."""
        return EntryReading(self._base, self, name)

    def check_keys(self, table: Mapping[str, Any], known: Sequence[str], path: str = "") -> Iterator[str]:
        """Report unknown keys of a plan or an agent; yield those that other programs may understand."""
        for key in table:
            if key in known:
                continue
            if key in _RESOLVER_KEYS:
                hint = "a resolver decides which code is trusted: it belongs to the application, not to a plan"
                self.problems.append(PlanProblem(path_text(path, key), "a plan cannot bring a resolver", hint))
            elif near(key.lower(), known):
                self.problems.append(unknown_key(key, known, path))
            else:
                yield key

    def plan_wide(self, raw: Mapping[str, Any]) -> PlanWide:
        """Return what a plan says about all its modules."""
        try:
            return PlanWide.model_validate({key: raw[key] for key in PlanWide.model_fields if key in raw})
        except ValidationError as error:
            for problem in problems_of(error, "", {"limits": tuple(Totals.model_fields)}, {}):
                of_module = (problem.at or "").removeprefix("limits.") in Limits.model_fields
                self.problems.append(replace(problem, hint=_IN_ENTRY) if of_module else problem)
            return PlanWide()

    def check_session(self, session: Mapping[str, Any], path: str) -> None:
        """Report problems of the table `session`, apart from the modules it names; an agent's has no instruction."""
        known = SESSION_KEYS if self._agent is not None else (*SESSION_KEYS, "instruction")
        for key in session:
            if key not in known:
                self.problems.append(unknown_key(key, known, path))
        for key in ("injection_budget_per_turn", "injection_size_limit"):
            value = session.get(key)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
                self.problems.append(PlanProblem(path_text(path, key), "must be a whole number, not below zero"))
        metadata, raw_wanted = session.get("metadata"), session.get("raw")
        if metadata is not None and not isinstance(metadata, dict):
            self.problems.append(must_be("a table", metadata, path_text(path, "metadata")))
        if raw_wanted is not None and not isinstance(raw_wanted, bool):
            self.problems.append(must_be("true or false", raw_wanted, path_text(path, "raw")))

    def instruction(self, session: Mapping[str, Any]) -> Instruction:
        """Return the instruction in a plan's table `session`."""
        match session:
            case {"instruction": str() as text} if text.strip():
                return Instruction(text)
            case {"instruction": {"file": str() as file, **rest}} if file.strip() and not rest:
                return Instruction(file=file)
            case {"instruction": _}:
                problem = PlanProblem(
                    "session.instruction", "must be text, or a table with the name of a `file`", _TELL
                )
                self.problems.append(problem)
        return Instruction()

    def session_module(
        self,
        key: Literal["orchestrator", "context"],
        session: Mapping[str, Any],
        around: Mapping[str, Any],
        path: str = "",
    ) -> tuple[ModuleEntry | None, dict[str, Any] | None]:
        """Return a session's module, and its entry as a table; a bare id is only part of one.

        `around` is the plan, or the agent, at `path`, that contains the table `session`.
        """
        written = session.get(key)
        place = path_text(path, "session", key)
        if not isinstance(written, str):
            for unused in (f"{place}_source" if f"{key}_source" in session else "", key if key in around else ""):
                if unused:
                    unused_path = unused if unused != key else path_text(path, key)
                    self.notes.append(f"`{unused_path}` has no effect: `{place}` is a table and has its own")
            read = self.entry(written, EntryPlace(key, place, self._base, agent=self._agent))
            return read, written if isinstance(written, dict) else None
        renamed = {"module": place, "source": f"{place}_source", "config": path_text(path, key, "config")}
        entry = {"module": written, "config": self._string_form_config(key, around, path)}
        if session.get(f"{key}_source") is not None:
            entry["source"] = session[f"{key}_source"]
        return self.entry(entry, EntryPlace(key, place, self._base, renamed, self._agent)), entry

    def _string_form_config(self, key: str, around: Mapping[str, Any], path: str) -> Any:
        """Return the configuration of a module written as a bare id: the table `key` beside `session`."""
        table = around.get(key)
        if table is None:
            return {}
        if not isinstance(table, dict):
            self.problems.append(must_be("a table", table, path_text(path, key)))
            return {}
        for name in table:
            if name in ENTRY_KEYS and name != "config":
                hint = f"write session.{key} as a table: {{module: …, {name}: …}}"
                self.problems.append(PlanProblem(path_text(path, key, name), "has no effect here", hint))
            elif name != "config":
                self.notes.append(f"`{path_text(path, key, name)}` is passed on to the modules as it is")
        config = table.get("config")
        return {} if config is None else config

    def section(self, section: str, around: Mapping[str, Any], path: str = "") -> tuple[ModuleEntry, ...]:
        """Return the entries of one list of a plan, or of the agent at `path`."""
        written = around.get(section, [])
        if not isinstance(written, list):
            hint = (
                "write one `- module: <id>` for each"
                if isinstance(written, (str, dict))
                else "leave it out, or write []"
            )
            self.problems.append(must_be("a list", written, path_text(path, section), hint))
            return ()
        if section == "providers":
            self._check_instances(written, path_text(path, section))
        entries: list[ModuleEntry] = []
        for index, item in enumerate(written):
            place = EntryPlace(SECTIONS[section], path_text(path, section, index), self._base, agent=self._agent)
            entry = self.entry(item, place)
            if entry is not None:
                entries.append(entry)
        return tuple(entries)

    def entry(self, written: Any, place: EntryPlace) -> ModuleEntry | None:
        """Return the entry, and make the source in `written` absolute as it is in the entry."""
        try:
            entry = ModuleEntry.read(written, place)
        except PlanError as error:
            self.problems.extend(error.problems)
            if isinstance(written, dict):
                self.problems.extend(malformed_references(written.get("config"), place.config_path))
            return None
        if entry.source is not None:
            written["source"] = entry.source
        self.problems.extend(malformed_references(entry.config, place.config_path))
        if entry.on_failure is not None and place.kind != "hook" and not entry.permissions.hooks:
            problem = f"is for hooks and what is granted `hooks`; this is a {place.kind}"
            self.problems.append(PlanProblem(f"{place.path}.on_failure", problem, "leave it out"))
        if entry.instance_id is not None and place.kind != "provider":
            self.notes.append(f"`{place.path}.instance_id` has no effect: it names an instance of a provider")
        return entry

    def _check_instances(self, providers: list[Any], path: str) -> None:
        """Report each further provider with the same id and no name that distinguishes it."""
        unnamed: dict[str, str] = {}
        for index, item in enumerate(providers):
            if not isinstance(item, dict) or item.get("instance_id") is not None:
                continue
            module = item.get("module")
            if not isinstance(module, str):
                continue
            place = path_text(path, index)
            if module in unnamed:
                message = f"`{module}` is already listed without an instance_id, at {unnamed[module]}"
                self.problems.append(PlanProblem(place, message, "give it an instance_id of its own"))
            unnamed.setdefault(module, place)
