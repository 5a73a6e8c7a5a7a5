"""A loader whose modules are functions, and a plan to go with it."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from paddock_sdk.kernel.coordinator import ModuleCoordinator
from paddock_sdk.kernel.loading import ReadyQueue

MountFunction = Callable[[ModuleCoordinator, dict[str, Any]], Awaitable[Any]]


class Orchestrator:
    """Answers with `answer`, raises it, or calls it with what it was executed with."""

    def __init__(self, answer: Any = "answer") -> None:
        self.answer = answer
        self.calls: list[dict[str, Any]] = []

    async def execute(self, **given: Any) -> Any:
        self.calls.append(given)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return await self.answer(**given) if callable(self.answer) else self.answer


class FunctionLoader(ReadyQueue):
    """Loads modules that are mount functions in a dict; a module that is an exception cannot be loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.orchestrator = Orchestrator()
        self.modules: dict[str, MountFunction | BaseException] = {
            "loop": self.mounts("orchestrator", self.orchestrator),
            "memory": self.mounts("context", "the context"),
        }
        self.loaded: list[tuple[str, Any, Any]] = []
        self.ready: dict[str, Any] = {}

    @staticmethod
    def mounts(point: str, obj: Any, name: str | None = None, cleanup: Any = None) -> MountFunction:
        async def mount(coordinator: ModuleCoordinator, config: dict[str, Any]) -> Any:
            await coordinator.mount(point, obj, name)
            return cleanup

        return mount

    async def load(
        self, module_id: str, config: Any = None, source_hint: Any = None, coordinator: Any = None
    ) -> Callable[[ModuleCoordinator], Awaitable[Any]]:
        self.loaded.append((module_id, config, source_hint))
        module = self.modules[module_id]
        if isinstance(module, BaseException):
            raise module

        async def mount(coordinator: ModuleCoordinator) -> Any:
            returned = await module(coordinator, config)
            if module_id in self.ready:
                self.enqueue_on_session_ready(module_id, self.ready[module_id])
            return returned

        return mount


@pytest.fixture
def loader() -> FunctionLoader:
    return FunctionLoader()


@pytest.fixture
def plan() -> dict[str, Any]:
    return copy.deepcopy({"session": {"orchestrator": "loop", "context": "memory"}})
