"""The modules that one session mounts, section by section, and the configuration that its modules see.

The first session mounts what its plan lists; a sub-session mounts what was made of that for its agent. All of these
entries were authorised with the plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from paddock.plan.model import ModuleEntry, MountPlan
from paddock.plan.permissions import without_value


@dataclass(frozen=True, slots=True)
class SessionPlan:
    """`raw` is the configuration that all modules see; its lists match those of entries index by index.

    It has no values of variables, which are for one module. `overrides` replace values in the configuration of
    the entry at a place; no references are followed in them.
    `passed_on` is about how many bytes of it and of `raw` come from modules, those of the sessions above included.
    """

    raw: dict[str, Any]
    orchestrator: ModuleEntry
    context: ModuleEntry
    providers: tuple[ModuleEntry, ...]
    tools: tuple[ModuleEntry, ...]
    hooks: tuple[ModuleEntry, ...]
    overrides: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    passed_on: int = 0

    @classmethod
    def of(cls, plan: MountPlan) -> Self:
        """Return the session plan of a plan."""
        return cls(_without_values(plan.raw), plan.orchestrator, plan.context, plan.providers, plan.tools, plan.hooks)

    def entries(self) -> Iterator[ModuleEntry]:
        """Yield the entries in the order in which they are mounted."""
        yield self.orchestrator
        yield self.context
        yield from self.providers
        yield from self.tools
        yield from self.hooks

    def at(self, kind: str, index: int) -> ModuleEntry | None:
        """Return the entry of a kind by its place in its section, if there is one."""
        found = [entry for entry in self.entries() if entry.kind == kind]
        return found[index] if index < len(found) else None


def _without_values(raw: Any) -> Any:
    """Return a copy of a part of a configuration, in which variables of `permissions` have no values."""
    if isinstance(raw, list):
        return [_without_values(one) for one in raw]
    if not isinstance(raw, dict):
        return raw
    shown = {key: _without_values(value) for key, value in raw.items()}
    if isinstance(granted := shown.get("permissions"), dict) and isinstance(granted.get("env"), list):
        granted["env"] = [without_value(one) if isinstance(one, str) else one for one in granted["env"]]
    return shown
