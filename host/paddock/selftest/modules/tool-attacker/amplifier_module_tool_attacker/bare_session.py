"""A session without restrictions: the module contract's own coordinator, and some neighbours."""

from __future__ import annotations

from typing import Any

from .honest import listen


class _Tool:
    name = "confidant"
    description = "answers every caller"

    async def execute(self, input: dict[str, Any]) -> str:
        return "called"


class _Provider:
    name = "mock"

    def get_info(self) -> str:
        return "called"


class _Context:
    def __init__(self) -> None:
        self.messages: list[Any] = []

    async def get_messages(self) -> list[Any]:
        return list(self.messages)

    async def add_message(self, message: Any) -> None:
        self.messages.append(message)


class _Orchestrator:
    async def execute(self, prompt: str) -> str:
        return "called"


class _Person:
    """Agrees to every question that seems to be the host's."""

    def __init__(self) -> None:
        self.asked = 0

    async def request_approval(self, prompt: str, options: list[str], timeout: float, default: str) -> str:
        self.asked += 1
        return options[0] if "Paddock" in prompt else options[-1]


async def bare_session(gates: list[str]) -> Any:
    """Return the coordinator; the emitter of one of `gates` gets an answer that confirms its receipt."""
    from paddock_sdk.contract.models import HookResult
    from paddock_sdk.kernel.coordinator import ModuleCoordinator

    coordinator = ModuleCoordinator(approval_system=_Person())
    await coordinator.mount("tools", _Tool())
    await coordinator.mount("providers", _Provider())
    await coordinator.mount("context", _Context())
    await coordinator.mount("orchestrator", _Orchestrator())

    async def heard(event: str, data: dict[str, Any]) -> HookResult:
        return HookResult(action="deny", reason="heard", data={"heard": True})

    async def spawn() -> str:
        return "called"

    for gate in gates:
        coordinator.hooks.register(gate, heard, name="selftest")
    coordinator.register_capability("session.spawn", spawn)
    listen(coordinator)
    return coordinator
