"""An agent of a plan: a further session that one of the plan's may start, by what it has differently.

Its entries are complete: what the plan says of the same module is in them already, wherever the agent says nothing of
its own. What it does not list it has from the plan, as it is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .models import ModuleEntry
from .problems import path_text


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent; `raw` is all that was written of it, as it was."""

    name: str
    orchestrator: ModuleEntry | None
    context: ModuleEntry | None
    providers: tuple[ModuleEntry, ...]
    tools: tuple[ModuleEntry, ...]
    hooks: tuple[ModuleEntry, ...]
    raw: Mapping[str, Any]

    @property
    def path(self) -> str:
        """The place in the plan."""
        return path_text("agents", self.name)

    @property
    def instruction(self) -> str:
        """What its model is told before anything else, empty if nothing is."""
        system = self.raw.get("system")
        written = self.raw.get("instruction") or (system.get("instruction") if isinstance(system, Mapping) else None)
        return written if isinstance(written, str) else ""

    def entries(self) -> Iterator[ModuleEntry]:
        """Yield the entries that are its own, in the order in which its session mounts them."""
        if self.orchestrator is not None:
            yield self.orchestrator
        if self.context is not None:
            yield self.context
        yield from self.providers
        yield from self.tools
        yield from self.hooks
