"""The other parts of an attacked session, which notice acts in a name that is not the attacker's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from paddock.session.requester import current_requester
from paddock.session.session import ModuleStatus, Session
from paddock_sdk.contract import events
from paddock_sdk.contract.models import HookResult

GATES: Final = (events.TOOL_PRE, events.PROMPT_SUBMIT, events.LLM_REQUEST, events.SESSION_END)
"""The events that guards listen to."""

_LISTENER: Final = "selftest"
_POINTS: Final = ("tools", "providers")
_PLACES: Final = ("orchestrator", "context")
_CAPABILITIES: Final = ("session.spawn", "session.working_dir")


class SimulatedUser:
    """A person who agrees only to questions that seem to be the host's."""

    async def request_approval(self, prompt: str, options: list[str], timeout: float, default: str) -> str:
        """Return the first of the options if only the host seems to ask, else the last."""
        requester = current_requester()
        knows_better = requester is not None and prompt.startswith(f"{requester.kind} {requester.name} ")
        return options[-1] if knows_better else options[0]


class SessionObservers:
    """The other parts of an open session."""

    def __init__(self, session: Session) -> None:
        self._coordinator = session.coordinator
        for gate in GATES:
            self._coordinator.hooks.register(gate, _heard, name=_LISTENER)
        self._coordinator.register_capability("session.spawn", _spawn)

    def look(self, modules: Sequence[ModuleStatus]) -> Mapping[str, object]:
        """Return the objects that others rely on, by name; the first tool is honest, as is everything but tools.

        `modules` is the present state of the session's modules, which takes long to find out.
        """
        coordinator = self._coordinator
        seen: dict[str, object] = {f"the {place}": coordinator.get(place) for place in _PLACES}
        for point in _POINTS:
            seen |= {f"{name} of the {point}": mounted for name, mounted in coordinator.get(point).items()}
        seen |= {f"the capability {name}": coordinator.get_capability(name) for name in _CAPABILITIES}
        tools = [status for status in modules if status.kind == "tool"]
        for status in (*(other for other in modules if other.kind != "tool"), *tools[:1]):
            seen[f"the process of the honest {status.kind}"] = len(status.exit_reports)
        listening = coordinator.hooks.list_handlers()
        return seen | {f"who listens to {gate}": tuple(listening.get(gate, ())) for gate in GATES}

    def changes(self, before: Mapping[str, object], modules: Sequence[ModuleStatus]) -> tuple[str, ...]:
        """Return the differences since the last look."""
        now = self.look(modules)
        return tuple(f"{name} is another's" for name in {**before, **now} if now.get(name) != before.get(name))


async def _heard(event: str, data: dict[str, Any]) -> HookResult:
    return HookResult(action="deny", reason="heard", data={"heard": True})


async def _spawn() -> str:
    return "called"
