"""The two places a scenario is acted out in: a plain process, and sandboxed workers behind a host.

The code that runs is the same files in both; what differs is who mounts it. The session is called the same in both, so
that outcomes can be compared as they are.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final, Protocol

import anyio

from paddock import Session
from paddock_sdk.in_process.session import AmplifierSession
from paddock_sdk.kernel.coordinator import ModuleCoordinator

PLAIN: Final = "plain process"
ACROSS: Final = "across the boundary"
PLACES: Final = (PLAIN, ACROSS)

SESSION_ID: Final = "semantics"
FOLDER: Final = Path(__file__).parents[2] / "fixtures/semantics/amplifier-module-scenarios"
STAGE: Final = {"module": "loop-scenarios", "permissions": {"hooks": ["*"], "mount": ["providers"]}}
MEMORY: Final = {"module": "context-memory"}
COMPANION: Final = {"module": "hooks-companion", "permissions": {"emit": ["*"], "call": ["tools"]}}

_SECONDS: Final = 200  # for one whole session in a test; hit only by a hang


class Place(Protocol):
    """An open session somewhere."""

    name: str
    coordinator: ModuleCoordinator

    async def run(self, scenario: str, **given: Any) -> Any:
        """Act a scenario out and return its outcome."""
        ...


class OpenPlace(Protocol):
    """Opens a session with some modules; `prepare` is the application's word before any of them is mounted."""

    def __call__(
        self,
        plan: dict[str, Any] | None = None,
        *,
        prepare: Callable[[ModuleCoordinator], object] | None = None,
        **options: Any,
    ) -> AbstractAsyncContextManager[Place]: ...


def plan_of(*, session: dict[str, Any] | None = None, **sections: Any) -> dict[str, Any]:
    """Return a plan of the stage, the memory and the given sections; hooks are the companion unless said otherwise."""
    return {
        "session": {"orchestrator": STAGE, "context": MEMORY, **(session or {})},
        "hooks": [COMPANION],
        **sections,
    }


class _Opened:
    def __init__(self, name: str, session: Any) -> None:
        self.name = name
        self.session = session
        self.coordinator: ModuleCoordinator = session.coordinator

    async def run(self, scenario: str, **given: Any) -> Any:
        with anyio.fail_after(_SECONDS):
            return json.loads(await self.session.execute(json.dumps({"scenario": scenario, "given": given})))


def opener(name: str, working_dir: Path) -> OpenPlace:
    """Return what opens sessions in a place of that name."""

    @asynccontextmanager
    async def in_a_plain_process(
        plan: dict[str, Any] | None = None,
        *,
        prepare: Callable[[ModuleCoordinator], object] | None = None,
        approval: Any = None,
        display: Any = None,
        **options: Any,
    ) -> AsyncIterator[Place]:
        session = AmplifierSession(
            plan or plan_of(),
            session_id=SESSION_ID,
            approval_system=approval,
            display_system=display,
            **options,
        )
        if prepare is not None:
            prepare(session.coordinator)
        async with session:
            yield _Opened(name, session)

    @asynccontextmanager
    async def across_the_boundary(
        plan: dict[str, Any] | None = None,
        *,
        prepare: Callable[[ModuleCoordinator], object] | None = None,
        **options: Any,
    ) -> AsyncIterator[Place]:
        session = Session(
            _sourced(plan or plan_of()),
            session_id=SESSION_ID,
            working_dir=working_dir,
            trust_plan=True,
            **options,
        )
        if prepare is not None:
            prepare(session.coordinator)
        async with session:
            yield _Opened(name, session)

    return in_a_plain_process if name == PLAIN else across_the_boundary


def _sourced(plan: dict[str, Any]) -> dict[str, Any]:
    """Return the plan with the scenarios' folder as the source of every module that has none."""

    def sourced(entry: Any) -> Any:
        return {"source": str(FOLDER), **entry} if isinstance(entry, dict) else entry

    session = {
        key: sourced(value) if key in ("orchestrator", "context") else value for key, value in plan["session"].items()
    }
    lists = {key: [sourced(entry) for entry in plan.get(key, ())] for key in ("providers", "tools", "hooks")}
    return {**plan, **lists, "session": session}


@contextlib.contextmanager
def at_home(home: Path) -> Any:
    """Have a session that outlives single tests find no real home, and this process the scenarios."""
    import pytest

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
            patch.delenv(name, raising=False)
        yield patch
