"""What is behind a session: its run time, which no application sees, and the processes of its modules."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable

import anyio
import pytest

from paddock import Session
from paddock.session.module import HostedModule
from paddock.session.runtime import SessionRuntime
from paddock.workers.supervisor import Supervisor

_SECONDS = 60  # until a killed module is known to have ended; hit only by a hang


def runtime_of(session: Session) -> SessionRuntime:
    """Return the run time of a session."""
    kernel = session._kernel
    assert kernel is not None
    return kernel.runtime


async def kill(session: Session, *, kind: str | None = None, name: str | None = None) -> None:
    """Kill the process of the module of a kind or of a name, and return once the session knows."""
    modules = runtime_of(session).modules.all
    module: HostedModule = next(one for one in modules if one.kind == kind or one.name == name)
    process = module.supervisor.process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    await process.wait()
    with anyio.fail_after(_SECONDS):
        while module.is_running:
            await anyio.sleep(0.01)


def call_after_goodbye(monkeypatch: pytest.MonkeyPatch, act: Callable[[str], Awaitable[None]]) -> None:
    """From now on, call `act` with the name of each module that the host has said goodbye to, and not yet seen end."""
    stop = Supervisor.stop

    async def stop_and_act(supervisor: Supervisor, goodbye: Callable[[], Awaitable[None]] | None = None) -> None:
        async def say() -> None:
            assert goodbye is not None
            await goodbye()
            await act(supervisor.spec.name)

        await stop(supervisor, None if goodbye is None else say)

    monkeypatch.setattr(Supervisor, "stop", stop_and_act)
