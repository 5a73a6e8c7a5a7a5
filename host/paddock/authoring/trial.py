"""Run one throw-away worker with one job over a module: it starts, gets a request, answers once, and ends.

It is sandboxed as the module would be in a session that grants it nothing, or only what the job needs, by the same
rules and at the same levels. Its answer is untrusted: it is bounded here, and the caller checks it. Any end before the
answer is an error that says how; nothing of it outlives `run`, and every wait in it is bounded.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import anyio
import msgpack

from paddock.audit import AuditLog
from paddock.authoring.module_folder import ModuleFolder
from paddock.authoring.provided import FetchOptions, TrialNeeds, provided
from paddock.authorization.authorizer import Authorizer
from paddock.errors import ModuleDiedError
from paddock.isolation.planner import OnConfined
from paddock.plan.model import EntryPlace, Kind, ModuleEntry
from paddock.session.recorder import StartRecord
from paddock.session.resources import StartOptions
from paddock.session.startup import ConfinedModules, ModuleAtHand, confined
from paddock.workers.exit_report import ExitReason, LimitHit
from paddock.workers.output import OutputLine
from paddock.workers.process import ModuleProcess
from paddock.workers.supervisor import Supervisor
from paddock_sandbox.profile import IsolationLevel
from paddock_sdk.worker.trial import LENGTH, MAX_ANSWER_BYTES
from paddock_sources import Resolution

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class TrialSpec:
    """The job of a worker: the function it runs, its request, and the grants that this needs.

    `doing` describes it in a few words, for the report on a worker that did not finish.
    """

    entry: str
    request: Mapping[str, Any]
    doing: str
    permissions: Mapping[str, object]
    limits: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class TrialContext:
    """Whose policy applies to trials, how missing code is fetched, and how the workers run.

    `limits`, `isolation`, the module's `config` and the variables `env` (NAME or NAME=VALUE) are those that the user
    names; `on_line` is called with each line that a worker prints.
    """

    authorizer: Authorizer
    fetch_options: FetchOptions
    limits: Mapping[str, object] = field(default_factory=dict)
    isolation: IsolationLevel | None = None
    on_line: Callable[[OutputLine], None] | None = None
    on_confined: OnConfined | None = None
    config: Mapping[str, object] = field(default_factory=dict)
    env: Sequence[str] = ()


async def run_trial(
    trial_context: TrialContext,
    folder: ModuleFolder,
    kind: Kind,
    needs: TrialNeeds,
    trial_of: Callable[[Resolution], TrialSpec],
    read: Callable[[Resolution, Any], _Answer],
) -> _Answer:
    """Return the worker's answer, as `read` converts it from plain data; `trial_of` describes the job.

    Both get the place of the worker's copy of the module.

    Raises:
        ModuleDiedError: it ended, or was ended, before it answered, or gave an answer that `read` refuses with a
            `ValueError`.
        PaddockError: a requirement is unavailable, or it could not be started, or not under the operator's policy.
    """
    authorizer, fetch_options = trial_context.authorizer, trial_context.fetch_options
    async with provided(folder, authorizer.policy, fetch_options, needs) as (resolution, host):
        trial = trial_of(resolution)
        trial = replace(trial, request={**trial.request, "config": dict(trial_context.config)})
        permissions = {**trial.permissions, **({"env": [*trial_context.env]} if trial_context.env else {})}
        entry = ModuleEntry.read(
            {
                "module": resolution.module_id,
                "source": str(resolution.root),
                "permissions": permissions,
                "limits": {**trial.limits, **trial_context.limits},
            },
            EntryPlace(kind, "", resolution.root),
        )
        options = StartOptions(
            resolution.root,
            fetch_options.environ,
            trial_context.isolation,
            fetch_options.audit or AuditLog.silent(),
            on_confined=trial_context.on_confined,
        )
        request = ModuleAtHand(entry, resolution, options)
        async with confined(request, authorizer, StartRecord(), host=host) as modules:
            return await _run(modules, trial, partial(read, resolution), trial_context.on_line)


async def _run(
    modules: ConfinedModules,
    trial: TrialSpec,
    read: Callable[[Any], _Answer],
    on_line: Callable[[OutputLine], None] | None,
) -> _Answer:
    (module,) = modules.authorization.modules
    sandboxes = modules.resources.sandboxes
    sandboxed = sandboxes.of(module.entry)
    supervisor = modules.resources.supervisor(
        module,
        sandboxed,
        sandboxes.networks,
        on_line=on_line,
        worker_entry=trial.entry,
    )
    goodbye = None
    try:
        process = await supervisor.start()
        try:
            answer = await _answer_of(supervisor, process, trial, read, sandboxed.limits.runtime_max)
        finally:
            process.rpc.close()
        goodbye = _nothing
        return answer
    finally:
        with anyio.CancelScope(shield=True):
            await supervisor.stop(goodbye)


async def _nothing() -> None:
    """Send no goodbye: a worker that has answered ends by itself, and any other is not waited for."""


async def _answer_of(
    supervisor: Supervisor,
    process: ModuleProcess,
    trial: TrialSpec,
    read: Callable[[Any], _Answer],
    seconds: float,
) -> _Answer:
    """Send the worker its request, and return its answer."""
    supervisor.note_call(trial.doing)
    loop = asyncio.get_running_loop()
    request: bytes = msgpack.packb(dict(trial.request))
    try:
        with anyio.fail_after(seconds):
            await loop.sock_sendall(process.rpc, LENGTH.pack(len(request)) + request)
            (size,) = LENGTH.unpack(await _exactly(process.rpc, LENGTH.size))
            if size > MAX_ANSWER_BYTES:
                raise ValueError("it is too long")
            return read(msgpack.unpackb(await _exactly(process.rpc, size)))
    except TimeoutError:
        supervisor.end(ExitReason.TIMEOUT, LimitHit("runtime_max", seconds, "", "host timer"))
    except OSError:  # also the end of the stream
        pass
    except ValueError:  # also from msgpack, for input it cannot read
        supervisor.end(ExitReason.PROTOCOL, detail="it gave a malformed answer")
    raise ModuleDiedError(supervisor.spec.name, await supervisor.report(process))


async def _exactly(rpc: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = await asyncio.get_running_loop().sock_recv(rpc, size - len(data))
        if not piece:
            raise ConnectionResetError("the worker is gone")
        data += piece
    return bytes(data)
