"""The session plan of an agent: made from its parent's modules, the plan's entry for the agent, and a module's wishes.

Every entry was authorised with the plan. Wishes come from modules: they choose among those entries, take some away, and
are data for the orchestrator and the provider. No wish adds code, a source, a grant or a limit.

No wish removes a module that may guard a gate. A module's behaviour in one session does not show its behaviour in
another, so only the plan counts. A hook may be left out if its entry has `on_failure: continue`, which means that a
gate works without it. A tool may be left out if its entry has that too, or if it is not granted a gate's handler. So
the guards of a session guard all sessions below it.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from paddock.plan.model import Agent, ModuleEntry, entries_placed
from paddock.plan.plain_data import merged
from paddock.session.session_plan import SessionPlan
from paddock.session.sub_sessions.provider_preference import preferred
from paddock.session.sub_sessions.spawn_request import SpawnRequest
from paddock_sdk.contract import events

_LISTED: Final = ("orchestrator", "context", "providers", "tools", "hooks", "agents", "session")
_GATES: Final = (events.TOOL_PRE, events.PROMPT_SUBMIT)
_OF_MODULES: Final = ("orchestrator", "context", "orchestrator_source", "context_source")


def plan_of(parent: SessionPlan, agent: Agent | None, request: SpawnRequest) -> SessionPlan:
    """Return the session plan of an agent; without an agent, it is like the parent's."""
    orchestrator, context = parent.orchestrator, parent.context
    providers, tools, hooks = parent.providers, parent.tools, parent.hooks
    own: frozenset[str] = frozenset()
    if agent is not None:
        orchestrator, context = agent.orchestrator or orchestrator, agent.context or context
        providers = entries_placed(providers, agent.providers)
        tools, hooks = entries_placed(tools, agent.tools), entries_placed(hooks, agent.hooks)
        own = frozenset(entry.path for entry in agent.entries())
    tools = tuple(entry for entry in tools if entry.path in own or may_guard(entry) or request.tools.admits(entry))
    hooks = tuple(entry for entry in hooks if entry.path in own or may_guard(entry) or request.hooks.admits(entry))
    overrides = {path: dict(config) for path, config in parent.overrides.items()}
    payload = request.payload
    if payload.orchestrator_config:
        overrides[orchestrator.path] = merged(overrides.get(orchestrator.path, {}), payload.orchestrator_config)
    choice = preferred(providers, request.preferences)
    if choice is not None:
        overrides[choice[0].path] = merged(overrides.get(choice[0].path, {}), choice[1])
    raw = _configuration(parent.raw, {} if agent is None else agent.raw, payload.metadata)
    raw["session"] |= {"orchestrator": _shown(orchestrator, overrides), "context": _shown(context, overrides)}
    for section, entries in (("providers", providers), ("tools", tools), ("hooks", hooks)):
        raw[section] = [_shown(entry, overrides) for entry in entries]
    lasting = parent.passed_on + payload.lasting
    return SessionPlan(raw, orchestrator, context, providers, tools, hooks, overrides, lasting)


def may_guard(entry: ModuleEntry) -> bool:
    """Whether a gate may be shut by an entry's module, or for lack of it."""
    if entry.on_failure == "continue":
        return False
    return entry.kind == "hook" or any(
        fnmatchcase(gate, pattern) for gate in _GATES for pattern in entry.permissions.hooks
    )


def _configuration(parent: Mapping[str, Any], agent: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a configuration besides its modules."""
    kept = {key: value for key, value in parent.items() if key not in _LISTED}
    passed_on = {key: value for key, value in agent.items() if key not in _LISTED}
    raw = copy.deepcopy(merged(kept, passed_on))
    raw["agents"] = copy.deepcopy(parent.get("agents", {}))
    session = merged(parent["session"], agent.get("session", {}))
    raw["session"] = copy.deepcopy({key: value for key, value in session.items() if key not in _OF_MODULES})
    if metadata:
        raw["session"]["metadata"] = merged(raw["session"].get("metadata") or {}, metadata)
    return raw


def _shown(entry: ModuleEntry, overrides: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return an entry as a table of the configuration."""
    shown: dict[str, Any] = {"module": entry.module}
    if entry.source is not None:
        shown["source"] = entry.source
    if entry.instance_id is not None:
        shown["instance_id"] = entry.instance_id
    return {**shown, "config": merged(entry.config, overrides.get(entry.path, {}))}
