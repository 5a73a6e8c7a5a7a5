"""Run git, uv and the programs for packages in the same sandbox as modules: with the files and hosts they need, and no
others.

There is one worker for a session of commands, at the strongest isolation level of this machine. All connections of its
commands go through a gate of the host's. Callers are threads, while the host's objects belong to its loop: sessions
begin and end on the loop, and commands are carried by the calling thread. When the host releases this, or is cancelled,
every worker ends with all that runs in it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Self

import anyio

from paddock.audit import AuditLog
from paddock.isolation.commands.cancellation import check_cancelled
from paddock.isolation.machine import Machine
from paddock.isolation.sandbox_host import SandboxHost, failure_of
from paddock.workers.probe import Unavailable
from paddock_sandbox.profile import ISOLATION_LEVELS, IsolationLevel
from paddock_sources.commands.command_runner import CommandAccess, CommandError, CommandSession

if TYPE_CHECKING:
    from paddock.isolation.commands.command_worker import CommandWorker

_GLANCE_SECONDS: Final = 0.1  # between two looks at whether the caller still waits
_STOP_SECONDS: Final = 20.0  # for every worker to end; each is killed long before


class SourceCommands:
    """A `CommandRunner` whose commands are sandboxed; made on the host's loop by `started`, and used in threads."""

    def __init__(
        self,
        environ: Mapping[str, str],
        levels: Sequence[IsolationLevel],
        audit: AuditLog | None,
        steps: AsyncExitStack,
        host: SandboxHost | None,
    ) -> None:
        """`levels` are acceptable, the strongest first; `steps` release the host that is made where `host` is none."""
        self._environ = environ
        self._levels = levels
        self._host = host
        self._audit = audit
        self._steps = steps
        self._level: IsolationLevel | None = None
        self._lack: tuple[str, tuple[str, ...]] | None = None  # why there is no level, and a fix
        self._workers: set[CommandWorker] = set()
        self._beginnings: set[asyncio.Task[Any]] = set()
        self._is_over = False
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._making = asyncio.Lock()

    @classmethod
    @asynccontextmanager
    async def started(
        cls,
        environ: Mapping[str, str],
        *,
        minimum: IsolationLevel = "landlock",
        isolation: IsolationLevel | None = None,
        audit: AuditLog | None = None,
        host: SandboxHost | None = None,
    ) -> AsyncIterator[Self]:
        """Run commands until this is left; nothing is started before the first.

        Args:
            environ: the host's own environment.
            minimum: the weakest acceptable level; `none` only if the operator named it.
            isolation: the only acceptable level, where the operator named it.
            audit: gets a record of each connection.
            host: starts the workers, and outlives this; without one, the first command makes one for commands only.
        """
        levels = (isolation,) if isolation else ISOLATION_LEVELS[: ISOLATION_LEVELS.index(minimum) + 1]
        steps = AsyncExitStack()
        commands = cls(environ, levels, audit, steps, host)
        try:
            yield commands
        finally:
            with anyio.CancelScope(shield=True):
                await commands._end()
                await steps.aclose()

    @contextmanager
    def open(self, access: CommandAccess) -> Iterator[CommandSession]:
        """Return a place where commands can run; see `CommandRunner.open`."""
        if threading.get_ident() == self._thread:
            raise RuntimeError("commands are run in threads, not on the host's loop")
        worker = self._on_loop(access.name, self._begin(access))
        try:
            yield worker
        except BaseException:
            with suppress(CommandError):  # the reason for leaving matters; the output is not used
                self._leave(worker)
            raise
        else:
            self._leave(worker)
        finally:
            worker.close()

    def _leave(self, worker: CommandWorker) -> None:
        if not self._is_over:  # else the host sees to it itself
            worker.end_from_thread()
            self._workers.discard(worker)

    def _on_loop(self, name: str, coroutine: Coroutine[Any, Any, CommandWorker]) -> CommandWorker:
        if self._is_over or self._loop.is_closed():
            coroutine.close()
            raise CommandError(name, "it cannot be run: its host is ending")
        future: Future[CommandWorker] = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            while True:
                check_cancelled()
                try:
                    return future.result(_GLANCE_SECONDS)
                except TimeoutError:
                    if future.done():
                        raise
                    if self._loop.is_closed():
                        raise CommandError(name, "it cannot be run: its host has ended") from None
        except CancelledError:
            raise CommandError(name, "it was ended with its host") from None
        except BaseException:
            future.cancel()
            raise

    # -- on the loop -----------------------------------------------------------------------------

    async def _end(self) -> None:
        """End every worker with all that runs in it, and start none."""
        self._is_over = True
        for beginning in self._beginnings:
            beginning.cancel()
        with anyio.move_on_after(_STOP_SECONDS):
            await asyncio.gather(*self._beginnings, return_exceptions=True)
            await asyncio.gather(
                *(worker.end("its host ended") for worker in list(self._workers)), return_exceptions=True
            )

    async def _begin(self, access: CommandAccess) -> CommandWorker:
        if self._is_over:
            raise CommandError(access.name, "it cannot be run: its host is ending")
        task = asyncio.current_task()
        assert task is not None
        self._beginnings.add(task)
        try:
            async with self._making:
                if self._host is None:
                    self._host = await self._steps.enter_async_context(SandboxHost.started(for_commands=True))
                if self._level is None and self._lack is None:
                    first = await self._first_worker(access, self._host)
                    if first is not None:
                        return first
            if self._level is None:
                assert self._lack is not None
                problem, hints = self._lack
                raise CommandError(access.name, problem, hints=hints)
            return await self._start(access, self._level, self._host)
        finally:
            self._beginnings.discard(task)

    async def _first_worker(self, access: CommandAccess, host: SandboxHost) -> CommandWorker | None:
        """Try the strongest level by starting the worker at it, and return that worker.

        Return None if that failed, or if the level was tried before; `_level` or `_lack` is set then.
        """
        strongest = self._levels[0]
        if strongest != "none" and strongest not in host.sandbox_support.findings:
            try:
                worker = await self._start(access, strongest, host, is_trial=True)
            except CommandError:
                pass  # the level failed, or what this worker needs; the trials show which
            else:
                self._level = strongest
                return worker
        await self._try_levels(host)
        return None

    async def _start(
        self, access: CommandAccess, level: IsolationLevel, host: SandboxHost, *, is_trial: bool = False
    ) -> CommandWorker:
        # Only here, since most sessions find all their code on this machine.
        from paddock.isolation.commands.command_worker import CommandWorker

        worker = await CommandWorker.started(access, level, host, self._audit, is_trial=is_trial)
        self._workers.add(worker)
        return worker

    async def _try_levels(self, host: SandboxHost) -> None:
        """Find out, once, the strongest level that works, or why none does."""
        failures = []
        for level in self._levels:
            found = None if level == "none" else (await host.try_levels([level])).findings[level]
            if not isinstance(found, Unavailable):
                self._level = level
                return
            failures.append((level, failure_of(found, Machine.look(self._environ))))
        reasons = "; ".join(f"{level}: {failure.describe()}" for level, failure in failures)
        hints = dict.fromkeys(failure.fix for _, failure in failures if failure.fix)
        self._lack = (
            f"it handles what strangers wrote, and cannot be shut in on this machine: {reasons}",
            (*hints, "`paddock doctor` says what is missing, and what would help"),
        )
