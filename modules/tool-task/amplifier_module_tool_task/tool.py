"""The tool `task`: start a sub-session of an agent, or continue one, and return its answer.

The application starts the sub-sessions, by its capabilities `session.spawn` and `session.resume`. Any reason for no
answer is a failed result, except a cancellation: that ends the sub-session, and propagates. Calls that run side by side
share nothing.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Mapping
from typing import Any

from amplifier_core.models import ToolResult

from .settings import Settings

logger = logging.getLogger(__name__)

SPAWNED, RESUMED, COMPLETED = EVENTS = ("task:agent_spawned", "task:agent_resumed", "task:agent_completed")

_MAX_DESCRIPTION = 300  # characters of each agent, in a text that the model reads with every request
_NAME_IN_ID = 32  # characters of an agent's name; ids of nested sessions contain each other
HOW_TO_HAVE_AGENTS = (
    "add them to the plan: `agents: {researcher: {description: finds things out, instruction: You search.}}`"
)


class Failure(Exception):
    """Why nothing was delegated, in words the model can act on; turned into a failed result."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class TaskTool:
    """Delegation for one session."""

    name = "task"

    def __init__(self, coordinator: Any, settings: Settings) -> None:
        self._coordinator = coordinator
        self._settings = settings

    @property
    def description(self) -> str:
        """The purpose of the tool, with the agents that exist now."""
        agents = agents_of(self._coordinator)
        if not agents:
            return "Hand work to an agent. There are no agents in this session, so this tool cannot be used."
        return (
            "Hand work to an agent, which does it in a conversation of its own and returns its answer. It knows "
            "nothing of this conversation: the instruction has to say everything it needs. Independent tasks can be "
            "handed out side by side. With the `session_id` of an earlier result, the same agent goes on where it "
            f"stopped. Agents:\n{_listed(agents)}"
        )

    @property
    def input_schema(self) -> dict[str, Any]:
        """The input, with the names of the agents there are now."""
        names = list(agents_of(self._coordinator))
        return {
            "type": "object",
            "properties": {
                "agent": {
                    "type": "string",
                    **({"enum": names} if names else {}),
                    "description": "Who is to do it; left out with a session_id.",
                },
                "instruction": {"type": "string", "minLength": 1, "description": "What is to be done, in full."},
                "session_id": {"type": "string", "description": "The session of an earlier result, to go on with it."},
            },
            "required": ["instruction"],
        }

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Delegate, and return the answer with the id of the session."""
        try:
            given = input if isinstance(input, dict) else {}
            instruction = _text(given, "instruction") or _text(given, "prompt")
            if not instruction:
                raise Failure("invalid_input", "`instruction` is missing: say what is to be done.")
            session_id = _text(given, "session_id")
            if session_id:
                result = await self._resume(session_id, instruction)
            else:
                result = await self._spawn(_text(given, "agent"), instruction)
        except Failure as failure:
            return ToolResult(success=False, error={"type": failure.kind, "message": str(failure)})
        return ToolResult(success=True, output=result)

    async def _spawn(self, agent: str, instruction: str) -> dict[str, Any]:
        agents = agents_of(self._coordinator)
        if not agents:
            raise Failure("no_agents", f"The plan has no agents to hand work to; {HOW_TO_HAVE_AGENTS}.")
        if agent not in agents:
            asked = f"There is no agent `{agent[:100]}`" if agent else "`agent` is missing"
            raise Failure("unknown_agent", f"{asked}. The agents are:\n{_listed(agents)}")
        spawn = self._capability("session.spawn")
        parent = self._coordinator.session
        session_id = _new_id(str(self._coordinator.session_id), agent)
        return await self._delegated(
            SPAWNED,
            {"agent": agent, "sub_session_id": session_id},
            spawn,
            agent_name=agent,
            instruction=instruction,
            parent_session=parent,
            agent_configs=agents,
            sub_session_id=session_id,
            tool_inheritance=_without("exclude_tools", self._settings.exclude_tools),
            hook_inheritance=_without("exclude_hooks", self._settings.exclude_hooks),
        )

    async def _resume(self, session_id: str, instruction: str) -> dict[str, Any]:
        resume = self._capability("session.resume")
        return await self._delegated(
            RESUMED, {"sub_session_id": session_id}, resume, sub_session_id=session_id, instruction=instruction
        )

    def _capability(self, name: str) -> Any:
        found = self._coordinator.get_capability(name)
        if found is None:
            raise Failure(
                "not_available",
                f"This session offers no `{name}`, so work cannot be handed to agents. Where the host offers it for a "
                f"plan with agents, {HOW_TO_HAVE_AGENTS}.",
            )
        return found

    async def _delegated(self, began: str, about: dict[str, Any], act: Any, **arguments: Any) -> dict[str, Any]:
        """Call a capability between its two events; the second one comes however the call ends.

        Raises:
            Failure: the sub-session could not be started, or failed.
        """
        about = {**about, "parent_session_id": self._coordinator.session_id}
        await self._emit(began, about)
        ended: dict[str, Any] = {"success": False}
        try:
            answer = await act(**arguments)
            if not isinstance(answer, dict):
                raise TypeError(f"it answered with a {type(answer).__name__}, not with an object")
            ended = {"success": True, "status": answer.get("status")}
        except Exception as error:  # the application's or the agent's; the model reads it, and goes on
            ended["error"] = {"type": type(error).__name__, "msg": str(error)}
            raise Failure("delegation_failed", f"The agent gave no answer: {error}") from error
        finally:
            await self._emit(COMPLETED, {**about, **ended})
        return self._output(answer, about["sub_session_id"])

    def _output(self, answer: dict[str, Any], session_id: str) -> dict[str, Any]:
        """Return the model's part of the application's answer."""
        text, most = str(answer.get("output") or ""), self._settings.max_answer_characters
        if len(text) > most:
            text = f"{text[:most]}… [{len(text) - most} more characters; ask the agent for a shorter answer]"
        output = {"response": text, "session_id": answer.get("session_id") or session_id}
        for key in ("status", "turn_count"):
            if answer.get(key) is not None:
                output[key] = answer[key]
        return output

    async def _emit(self, event: str, data: dict[str, Any]) -> None:
        try:
            await self._coordinator.hooks.emit(event, data)
        except Exception:  # a handler's failure does not undo the delegation
            logger.warning("tool-task: could not emit %s", event, exc_info=True)


def _text(given: dict[str, Any], key: str) -> str:
    value = given.get(key)
    if value is not None and not isinstance(value, str):
        raise Failure("invalid_input", f"`{key}` must be a text, not {type(value).__name__}.")
    return (value or "").strip()


def _new_id(parent: str, agent: str) -> str:
    """Return the id of a sub-session, as the community writes them: the parent's, a random number, the agent."""
    return f"{parent}-{secrets.token_hex(8)}_{re.sub('[^A-Za-z0-9.-]+', '-', agent)[:_NAME_IN_ID]}"


def _without(key: str, names: tuple[str, ...]) -> dict[str, list[str]]:
    return {key: list(names)} if names else {}


def agents_of(coordinator: Any) -> dict[str, Any]:
    """Return the agents by name; empty if the plan has none."""
    config = getattr(coordinator, "config", None)
    agents = config.get("agents") if isinstance(config, Mapping) else None
    return {str(name): agent for name, agent in agents.items()} if isinstance(agents, Mapping) else {}


def _listed(agents: Mapping[str, Any]) -> str:
    """Return the agents for the model, a line for each."""
    return "\n".join(f"- {name}: {_description(agent)}" for name, agent in agents.items())


def _description(agent: Any) -> str:
    written = agent.get("description") if isinstance(agent, Mapping) else None
    text = " ".join(str(written or "no description").split())
    return text if len(text) <= _MAX_DESCRIPTION else f"{text[:_MAX_DESCRIPTION]}…"
