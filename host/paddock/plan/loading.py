"""Turn a plan that somebody wrote into a `MountPlan`, or into the list of everything wrong with it.

Keys inside `session` and module entries are all known or an error; other top-level keys are passed on with a note,
unless they look like a misspelt one of ours. Nothing is resolved, fetched or started, and the only file read is the
plan.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from paddock.errors import PlanError, PlanProblem

from .document import read_document
from .malformed_references import malformed_references
from .models import ENTRY_KEYS, EntryPlace, Kind, ModuleEntry, MountPlan
from .plain_data import PlainData
from .positions import Positions
from .problems import must_be, path_text, unknown_key

_SECTIONS: dict[str, Kind] = {"providers": "provider", "tools": "tool", "hooks": "hook"}
_TOP_KEYS = ("session", "providers", "tools", "hooks", "agents", "orchestrator", "context")
_SESSION_KEYS = (
    "orchestrator",
    "context",
    "orchestrator_source",
    "context_source",
    "injection_budget_per_turn",
    "injection_size_limit",
    "metadata",
    "raw",
)
_RESOLVER_KEYS = ("module-source-resolver", "module_source_resolver", "resolver", "resolvers")

# High enough that keys applications really add (`session_id`) pass, low enough for `tool`, `provider` and `sesion`.
_NEARLY_THE_SAME = 0.85

_UNWRITTEN = "the plan"  # where one that is no file is told of

_EXAMPLE = "write session: {orchestrator: loop-basic, context: context-simple}"


def load_plan(plan: Path | str | Mapping[str, object], *, environ: Mapping[str, str]) -> MountPlan:
    """Return the plan in a file (`.yaml`, `.yml`, `.json`, `.toml`) or in a mapping.

    Relative sources start from the file's folder, those of a mapping from the current one. Whether references to
    secrets are granted and set is not asked here: it depends on what else the operator gives. `environ` has no effect.

    Raises:
        PlanError: with every problem found.
    """
    if isinstance(plan, (str, Path)):
        path = Path(plan)
        document = read_document(path)
        origin = path.resolve()
        reading = _Reading(origin.parent, origin, document.positions)
        loaded = reading.mount_plan(document.content, partial(_digest_of_file, origin, document.written))
    else:
        reading = _Reading(Path.cwd(), None, Positions(_UNWRITTEN))
        loaded = reading.mount_plan(plan, partial(_digest_of_mapping, Path.cwd()))
    if loaded is None or reading.problems:
        raise reading.error()
    return loaded


def _digest_of_file(origin: Path, written: bytes, raw: Mapping[str, Any]) -> str:
    return _digest(b"file", os.fsencode(origin), written)


def _digest_of_mapping(base: Path, raw: Mapping[str, Any]) -> str:
    # With the folder, for its relative sources start there: the same words elsewhere name other code.
    canonical = json.dumps(raw, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return _digest(b"mapping", os.fsencode(base), canonical.encode("ascii"))


def _digest(*parts: bytes) -> str:
    digest = sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)  # with lengths, so that no two plans read as the same bytes
    return f"sha256:{digest.hexdigest()}"


class _Reading:
    """One reading of one plan: what was found wrong, and what is worth telling."""

    def __init__(self, base: Path, origin: Path | None, positions: Positions) -> None:
        self.problems: list[PlanProblem] = []
        self._notes: list[str] = []
        self._base = base
        self._origin = origin
        self._positions = positions

    def error(self) -> PlanError:
        """Return the error that tells everything found wrong."""
        error = PlanError(self.problems)
        if self._origin is not None:
            error.locate(self._positions.file, self._positions.line_of)
        return error

    def mount_plan(self, written: object, digest_of: Callable[[Mapping[str, Any]], str]) -> MountPlan | None:
        """Return the plan, or None when a problem leaves nothing to return."""
        if not isinstance(written, Mapping):
            self.problems.append(must_be("a table", written, "", _EXAMPLE))
            return None
        plain = PlainData()
        raw: dict[str, Any] = plain.copy(written)
        digest = digest_of(raw)
        self._check_top_keys(raw)
        session = self._session(raw)
        orchestrator = self._session_module("orchestrator", session, raw)
        context = self._session_module("context", session, raw)
        modules = {section: self._section(section, kind, raw) for section, kind in _SECTIONS.items()}
        self._check_instances(raw.get("providers"))
        agents = raw.get("agents", {})
        if not isinstance(agents, dict):
            self.problems.append(must_be("a table", agents, "agents"))
        self._put_first(plain.problems)
        if self.problems or orchestrator is None or context is None:
            return None
        return MountPlan(
            orchestrator=orchestrator,
            context=context,
            providers=modules["providers"],
            tools=modules["tools"],
            hooks=modules["hooks"],
            agents=agents,
            raw=raw,
            origin=self._origin,
            digest=digest,
            positions=self._positions,
            notes=tuple(self._notes),
        )

    def _put_first(self, problems: list[PlanProblem]) -> None:
        # A part that could not be copied is absent from the copy; what was then said about its absence is noise.
        places = {problem.path for problem in problems}
        self.problems = [*problems, *(problem for problem in self.problems if problem.path not in places)]

    def _check_top_keys(self, raw: dict[str, Any]) -> None:
        for key in raw:
            if key in _TOP_KEYS:
                continue
            if key in _RESOLVER_KEYS:
                hint = "a resolver decides which code is trusted: it belongs to the application, not to a plan"
                self.problems.append(PlanProblem(path_text(key), "a plan cannot bring a resolver", hint))
            elif get_close_matches(key.lower(), _TOP_KEYS, n=1, cutoff=_NEARLY_THE_SAME):
                self.problems.append(unknown_key(key, _TOP_KEYS, ""))
            else:
                self._notes.append(f"`{key}` is passed on to the modules as it is")

    def _session(self, raw: dict[str, Any]) -> dict[str, Any]:
        if "session" not in raw:
            self.problems.append(PlanProblem("session", "is missing", _EXAMPLE))
            return {}
        session = raw["session"]
        if not isinstance(session, dict):
            self.problems.append(must_be("a table", session, "session", _EXAMPLE))
            return {}
        for key in session:
            if key not in _SESSION_KEYS:
                self.problems.append(unknown_key(key, _SESSION_KEYS, "session"))
        for key in ("injection_budget_per_turn", "injection_size_limit"):
            value = session.get(key)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
                self.problems.append(PlanProblem(f"session.{key}", "must be a whole number, not below zero"))
        metadata, raw_wanted = session.get("metadata"), session.get("raw")
        if metadata is not None and not isinstance(metadata, dict):
            self.problems.append(must_be("a table", metadata, "session.metadata"))
        if raw_wanted is not None and not isinstance(raw_wanted, bool):
            self.problems.append(must_be("true or false", raw_wanted, "session.raw"))
        for key in ("orchestrator", "context"):
            if session.get(key) is None:
                self.problems.append(PlanProblem(f"session.{key}", "is missing", _EXAMPLE))
        return session

    def _session_module(
        self, key: Literal["orchestrator", "context"], session: dict[str, Any], raw: dict[str, Any]
    ) -> ModuleEntry | None:
        written = session.get(key)
        if written is None:
            return None
        path = f"session.{key}"
        if not isinstance(written, str):
            for unused in (f"{path}_source" if f"{key}_source" in session else "", key if key in raw else ""):
                if unused:
                    self._notes.append(f"`{unused}` has no effect: `{path}` is a table and has its own")
            return self._entry(written, EntryPlace(key, path, self._base))
        renamed = {"module": path, "source": f"{path}_source", "config": f"{key}.config"}
        entry = {"module": written, "config": self._string_form_config(key, raw)}
        if session.get(f"{key}_source") is not None:
            entry["source"] = session[f"{key}_source"]
        read = self._entry(entry, EntryPlace(key, path, self._base, renamed))
        session[key] = entry
        if "source" in entry:
            session[f"{key}_source"] = entry["source"]
        return read

    def _string_form_config(self, key: str, raw: dict[str, Any]) -> Any:
        """Return the configuration that a module written as a bare id has, in the top-level table `key`."""
        table = raw.get(key)
        if table is None:
            return {}
        if not isinstance(table, dict):
            self.problems.append(must_be("a table", table, key))
            return {}
        for name in table:
            if name in ENTRY_KEYS and name != "config":
                hint = f"write session.{key} as a table: {{module: …, {name}: …}}"
                self.problems.append(PlanProblem(f"{key}.{name}", "has no effect here", hint))
            elif name != "config":
                self._notes.append(f"`{path_text(key, name)}` is passed on to the modules as it is")
        config = table.get("config")
        return {} if config is None else config

    def _section(self, section: str, kind: Kind, raw: dict[str, Any]) -> tuple[ModuleEntry, ...]:
        written = raw.get(section, [])
        if not isinstance(written, list):
            hint = (
                "write one `- module: <id>` for each"
                if isinstance(written, (str, dict))
                else "leave it out, or write []"
            )
            self.problems.append(must_be("a list", written, section, hint))
            return ()
        entries: list[ModuleEntry] = []
        for index, item in enumerate(written):
            entry = self._entry(item, EntryPlace(kind, f"{section}[{index}]", self._base))
            if entry is not None:
                entries.append(entry)
        return tuple(entries)

    def _entry(self, written: Any, place: EntryPlace) -> ModuleEntry | None:
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
        if entry.on_failure is not None and place.kind != "hook":
            problem = f"is for hooks; this is a {place.kind}"
            self.problems.append(PlanProblem(f"{place.path}.on_failure", problem, "leave it out"))
        if entry.instance_id is not None and place.kind != "provider":
            self._notes.append(f"`{place.path}.instance_id` has no effect: it names an instance of a provider")
        return entry

    def _check_instances(self, providers: object) -> None:
        """Report every provider but the first that is listed again without a name to tell it apart by."""
        unnamed: dict[str, str] = {}
        for index, item in enumerate(providers if isinstance(providers, list) else ()):
            if not isinstance(item, dict) or item.get("instance_id") is not None:
                continue
            module = item.get("module")
            if not isinstance(module, str):
                continue
            if module in unnamed:
                message = f"`{module}` is already listed without an instance_id, at {unnamed[module]}"
                self.problems.append(PlanProblem(f"providers[{index}]", message, "give it an instance_id of its own"))
            unnamed.setdefault(module, f"providers[{index}]")
