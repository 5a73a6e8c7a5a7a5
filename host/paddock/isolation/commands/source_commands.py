"""Run git and the installers of packages shut in as modules are: with the files and hosts they need, and no others.

One worker for a session of commands, at the strongest isolation level that this machine has; all that its commands
connect to goes through a gate of the host's. What is called in threads meets here what belongs to the host's loop:
sessions begin and end on that, commands are carried by the thread that asked for them. When the host gives this up, or
is cancelled, every worker ends with all that runs in it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import AsyncExitStack, contextmanager, suppress
from itertools import count
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import anyio
import anyio.from_thread
import anyio.to_thread

from paddock.audit import AuditLog
from paddock.isolation.commands.command_means import CommandMeans
from paddock.isolation.commands.command_worker import CommandWorker, check_cancelled
from paddock.isolation.machine import Machine
from paddock.isolation.planner import failure_of
from paddock.workers.probe import Unavailable
from paddock_sandbox.profile import ISOLATION_LEVELS, IsolationLevel
from paddock_sources.commands.command_runner import CommandAccess, CommandError, CommandSession

_GLANCE_SECONDS: Final = 0.1  # between two looks at whether anybody still waits
_STOP_SECONDS: Final = 20.0  # for every worker to end; each is killed long before

_T = TypeVar("_T")


class SourceCommands:
    """A `CommandRunner` whose commands are shut in. Entered on the host's loop, and used in threads.

    Args:
        environ: the host's own environment.
        minimum: the weakest level that will do; `none` only if the operator said so.
        isolation: the one level that will do, where the operator named it.
        means: what to make workers with; by default it makes its own when the first is needed.
        audit: is told of each connection.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        minimum: IsolationLevel = "landlock",
        isolation: IsolationLevel | None = None,
        means: CommandMeans | None = None,
        audit: AuditLog | None = None,
    ) -> None:
        self._environ = environ
        self._levels = (isolation,) if isolation else ISOLATION_LEVELS[: ISOLATION_LEVELS.index(minimum) + 1]
        self._lent = means
        self._audit = audit or AuditLog.silent()
        self._means: CommandMeans | None = None
        self._level: IsolationLevel | None = None
        self._lack: tuple[str, tuple[str, ...]] | None = None  # why there is no level, and what to do
        self._numbers = count(1)
        self._sessions: set[CommandWorker] = set()
        self._beginnings: set[asyncio.Task[Any]] = set()
        self._is_over = True

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._making = asyncio.Lock()
        self._stack = AsyncExitStack()
        self._is_over = False
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_over = True
        with anyio.CancelScope(shield=True):
            for beginning in self._beginnings:
                beginning.cancel()
            with anyio.move_on_after(_STOP_SECONDS):
                await asyncio.gather(*self._beginnings, return_exceptions=True)
                for session in self._sessions:
                    session.ended_for = session.ended_for or "its host ended"
                await asyncio.gather(*(session.end() for session in self._sessions), return_exceptions=True)
            await self._stack.aclose()

    @contextmanager
    def open(self, access: CommandAccess) -> Iterator[CommandSession]:
        """Return a place where commands can be run; see `CommandRunner.open`."""
        if threading.get_ident() == getattr(self, "_thread", None):
            raise RuntimeError("commands are run in threads, not on the host's loop")
        session = self._on_loop(access.name, self._begin(access), check_cancelled)
        try:
            yield session
        except BaseException:
            with suppress(CommandError):  # why it is left is what matters: nobody uses what was written
                self._leave(session)
            raise
        else:
            self._leave(session)
        finally:
            session.close()

    def _leave(self, session: CommandWorker) -> None:
        if not self._is_over:  # else the host sees to it itself
            session.end_from_thread()

    def _on_loop(self, name: str, coroutine: Coroutine[Any, Any, _T], check: Callable[[], None]) -> _T:
        if self._is_over or self._loop.is_closed():
            coroutine.close()
            raise CommandError(name, "it cannot be run: its host is ending")
        future: Future[_T] = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            while True:
                check()
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

    async def _begin(self, access: CommandAccess) -> CommandWorker:
        if self._is_over:
            raise CommandError(access.name, "it cannot be run: its host is ending")
        task = asyncio.current_task()
        assert task is not None
        self._beginnings.add(task)
        try:
            means = await self._get_means()
            level = await self._find_level(access.name, means)
            session = CommandWorker(access, level)
            self._sessions.add(session)
            session.on_end = self._sessions.discard
            try:
                await session.begin(means, means.folder / f"commands-{next(self._numbers)}", self._audit)
            except BaseException:
                await session.end()
                session.close()
                raise
            return session
        finally:
            self._beginnings.discard(task)

    async def _get_means(self) -> CommandMeans:
        async with self._making:
            if self._means is None:
                self._means = self._lent
            if self._means is None:
                self._means = await self._stack.enter_async_context(CommandMeans.of_ones_own())
            return self._means

    async def _find_level(self, name: str, means: CommandMeans) -> IsolationLevel:
        """Return the strongest level that can be had.

        Raises:
            CommandError: none that would do can be had; it says why not.
        """
        async with self._making:
            if self._level is None and self._lack is None:
                await self._try_levels(means)
        if self._level is not None:
            return self._level
        assert self._lack is not None
        problem, hints = self._lack
        raise CommandError(name, problem, hints=hints)

    async def _try_levels(self, means: CommandMeans) -> None:
        """Find out, once, which level can be had, or why none can."""
        failures = []
        for level in self._levels:
            found = None if level == "none" else (await means.try_levels([level])).findings[level]
            if not isinstance(found, Unavailable):
                self._level = level
                return
            failures.append((level, failure_of(found, Machine.look(self._environ))))
        told = "; ".join(f"{level}: {failure.describe()}" for level, failure in failures)
        hints = dict.fromkeys(failure.fix for _, failure in failures if failure.fix)
        self._lack = (
            f"it handles what strangers wrote, and cannot be shut in on this machine: {told}",
            (*hints, "`paddock doctor` says what is missing, and what would help"),
        )
