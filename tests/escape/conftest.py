"""A stage to attack, and the attacker in a session at each level, for as many tests as can share them."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator

import psutil
import pytest

from escape.reachable import skip_or_fail
from paddock.errors import IsolationUnavailableError
from paddock.selftest import CATALOGUE, Attack
from paddock.selftest.attack import Sign
from paddock.selftest.attack_session import Arena
from paddock.selftest.control import Control, perform_outside
from paddock.selftest.testbed.testbed import Stage
from paddock_sandbox.profile import IsolationLevel

Shown = Callable[[Attack], Control]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """Fail a file of tests that leaves a process, dead or alive."""
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    yield
    left = [process for process in psutil.Process().children(recursive=True) if process.pid not in before]
    assert not left, f"still there: {left}"


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        yield stage
    assert not stage.folder.exists()


@pytest.fixture(scope="module")
def shown() -> Iterator[Shown]:
    """Return what an attack comes to outside; each is performed there once.

    On a stage of its own: what is put back in the place of a file that an attack removed is another file, and not the
    one that a module was shown when it started.
    """
    with Stage() as stage:

        @functools.cache
        def outside(name: str) -> Control:
            return perform_outside(next(attack for attack in CATALOGUE if attack.name == name), stage)

        yield lambda attack: outside(attack.name)


class Arenas:
    """The attacker at one level after another, each started once for the tests that follow one another there."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._level: IsolationLevel | None = None
        self._arena: Arena | None = None
        self._unavailable: dict[IsolationLevel, IsolationUnavailableError] = {}

    async def at(self, level: IsolationLevel) -> Arena:
        """Return it at a level; skips where the level is not to be had."""
        if level in self._unavailable:
            skip_or_fail(level, self._unavailable[level])
        if self._arena is None or self._level != level:
            await self.close()
            together = [attack for attack in CATALOGUE if level in attack.only_at and attack.sign is not Sign.LIFE]
            arena = Arena(level, self._stage, together)
            try:
                await arena.__aenter__()
            except IsolationUnavailableError as error:
                self._unavailable[level] = error
                skip_or_fail(level, error)
            self._level, self._arena = level, arena
        return self._arena

    async def close(self) -> None:
        """End the present one."""
        arena, self._arena = self._arena, None
        if arena is not None:
            await arena.__aexit__(None, None, None)


@pytest.fixture(scope="module")
async def arenas(stage: Stage) -> AsyncIterator[Arenas]:
    arenas = Arenas(stage)
    yield arenas
    await arenas.close()
