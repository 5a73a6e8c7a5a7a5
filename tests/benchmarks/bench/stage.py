"""A session's means with fixture modules on them: real workers, mounted and called as a session would."""

from __future__ import annotations

import asyncio
import compileall
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import paddock_sdk
from bench.sampling import Block
from bench.timing import repeated
from paddock import Session
from paddock.authorization.authorizer import Authorizer
from paddock.isolation.sandbox_host import SandboxHost
from paddock.plan.model import EntryPlace, Kind, ModuleEntry
from paddock.policy.files.policy import Policy
from paddock.session.module import HostedModule
from paddock.session.resources import SessionResources, StartOptions
from paddock.session.runtime import SessionCore, SessionRuntime
from paddock_sources import FileSource

MODULES = Path(__file__).resolve().parent.parent / "modules"
_REFERENCE = Path(__file__).resolve().parents[3] / "modules"
SMALL_PLAN: dict[str, Any] = {
    "session": {"orchestrator": "loop-basic", "context": "context-simple"},
    "providers": [{"module": "provider-mock", "config": {"fallback": "You said: {prompt}"}}],
}


def tasks_file(folder: Path, number: int) -> Path:
    """Write so many small tasks."""
    path = folder / "tasks.jsonl"
    path.write_text("".join(json.dumps({"id": f"t{one}", "prompt": "hello"}) + "\n" for one in range(number)))
    return path


def turns_of(session: Session, turns: int) -> Block:
    """Return a block of so many turns, of a conversation that begins empty."""
    context = session.coordinator.get("context")

    async def block() -> list[float]:
        await context.clear()  # else each turn carries those before it
        return await repeated(lambda: session.execute("hello"), turns)()

    return block


class Stage:
    """Modules come on as they are asked for, and stay."""

    def __init__(self, session_runtime: SessionRuntime, resources: SessionResources) -> None:
        self._session_runtime = session_runtime
        self._resources = resources
        self.coordinator = session_runtime.coordinator
        self._entries = 0

    @classmethod
    @asynccontextmanager
    async def open(cls) -> AsyncIterator[Stage]:
        """Yield a stage; its processes end with it."""
        for folder in (MODULES, _REFERENCE, Path(paddock_sdk.__path__[0])):
            compileall.compile_dir(folder, quiet=1)  # workers write no bytecode; what is installed comes with its own
        core = SessionCore(SimpleNamespace(session_id="bench", parent_id=None, config={}))
        async with (
            SandboxHost.started() as host,
            SessionResources.open(StartOptions(Path.cwd(), os.environ), host) as resources,
            SessionRuntime.open(core, resources) as session_runtime,
        ):
            yield cls(session_runtime, resources)

    async def cast(
        self, kind: Kind, module: str, config: dict[str, Any] | None = None, **options: Any
    ) -> Callable[[], Awaitable[HostedModule]]:
        """Return what starts a fixture module, or a reference module, and has it mounted.

        By then its plan entry is read, its code found, and decided what it is shut into.
        """
        self._entries += 1
        place = EntryPlace(kind, f"{kind}s[{self._entries}]", MODULES)
        folder = next(one / module for one in (MODULES, _REFERENCE) if (one / module).is_dir())
        written = {"module": module, "source": str(folder), "config": config or {}, **options}
        entry = ModuleEntry.read(written, place)
        resolution = FileSource(folder).resolve(module)
        authorizer = await Authorizer.at_work(self._resources.options.working_dir, os.environ, Policy())
        authorization = await authorizer.authorize_call(entry, resolution, None)
        await self._resources.plan_sandboxes(replace(authorization, accepts_weaker=True))
        return partial(self._session_runtime.start, authorization.modules[0])

    async def start(
        self, kind: Kind, module: str, config: dict[str, Any] | None = None, **options: Any
    ) -> HostedModule:
        """Start a fixture module and have it mounted."""
        return await (await self.cast(kind, module, config, **options))()

    async def stop(self, modules: Iterable[HostedModule], tools: Iterable[str]) -> None:
        """End modules and forget their tools, or every later module would be told of all that came before it."""
        await asyncio.gather(*(module.stop() for module in modules))
        for name in tools:
            self.coordinator.unmount("tools", name)

    def tool(self, name: str) -> Any:
        """Return the host's stand-in for a mounted tool."""
        return self.coordinator.get("tools", name)
