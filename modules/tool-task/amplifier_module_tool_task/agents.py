"""The agents of the plan, as the coordinator's `config["agents"]` lists them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MAX_DESCRIPTION = 300  # characters of each agent, in a text that the model reads with every request


def agents_of(coordinator: Any) -> dict[str, Any]:
    """Return the agents by name; none where the plan has none."""
    config = getattr(coordinator, "config", None)
    agents = config.get("agents") if isinstance(config, Mapping) else None
    return {str(name): agent for name, agent in agents.items()} if isinstance(agents, Mapping) else {}


def listed(agents: Mapping[str, Any]) -> str:
    """Return the agents for the model, a line for each."""
    return "\n".join(f"- {name}: {_description(agent)}" for name, agent in agents.items())


def _description(agent: Any) -> str:
    written = agent.get("description") if isinstance(agent, Mapping) else None
    text = " ".join(str(written or "no description").split())
    return text if len(text) <= _MAX_DESCRIPTION else f"{text[:_MAX_DESCRIPTION]}…"
