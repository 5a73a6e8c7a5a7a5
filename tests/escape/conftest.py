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
from paddock.selftest.attack_session import AttackSession
from paddock.selftest.control import OutsideControl, OutsideResult
from paddock.selftest.testbed.testbed import AttackTestbed
from paddock.selftest.unconfined import unconfined_attackers
from paddock_sandbox.profile import IsolationLevel

_GONE_SECONDS = 60.0  # hit only by what does not end

Shown = Callable[[Attack], OutsideResult]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """Fail a file of tests that leaves a process, dead or alive; grandchildren may end a moment later."""
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    yield
    left = [process for process in psutil.Process().children() if process.pid not in before]
    assert not left, f"still there: {left}"
    below = [process for process in psutil.Process().children(recursive=True) if process.pid not in before]
    _, alive = psutil.wait_procs(below, timeout=_GONE_SECONDS)
    assert not alive, f"still there: {alive}"


@pytest.fixture(scope="module")
def stage() -> Iterator[AttackTestbed]:
    with AttackTestbed() as stage:
        yield stage
    assert not stage.folder.exists()


@pytest.fixture(scope="module")
def shown() -> Iterator[Shown]:
    """Return what an attack comes to outside; each is performed there once.

    On a stage of its own: what is put back in the place of a file that an attack removed is another file, and not the
    one that a module was shown when it started.
    """
    with AttackTestbed() as stage, unconfined_attackers(stage) as attackers:
        control = OutsideControl(stage, attackers)

        @functools.cache
        def outside(name: str) -> OutsideResult:
            return control.perform(next(attack for attack in CATALOGUE if attack.name == name))

        yield lambda attack: outside(attack.name)


class Arenas:
    """The attacker at one level after another, each started once for the tests that follow one another there."""

    def __init__(self, stage: AttackTestbed) -> None:
        self._testbed = stage
        self._level: IsolationLevel | None = None
        self._attack_session: AttackSession | None = None
        self._unavailable: dict[IsolationLevel, IsolationUnavailableError] = {}

    async def at(self, level: IsolationLevel) -> AttackSession:
        """Return it at a level; skips where the level is not to be had."""
        if level in self._unavailable:
            skip_or_fail(level, self._unavailable[level])
        if self._attack_session is None or self._level != level:
            await self.close()
            together = [attack for attack in CATALOGUE if level in attack.only_at and attack.sign is not Sign.LIFE]
            attack_session = AttackSession(level, self._testbed, together)
            try:
                await attack_session.__aenter__()
            except IsolationUnavailableError as error:
                self._unavailable[level] = error
                skip_or_fail(level, error)
            self._level, self._attack_session = level, attack_session
        return self._attack_session

    async def close(self) -> None:
        """End the present one."""
        attack_session, self._attack_session = self._attack_session, None
        if attack_session is not None:
            await attack_session.__aexit__(None, None, None)


@pytest.fixture(scope="module")
async def attack_sessions(stage: AttackTestbed) -> AsyncIterator[Arenas]:
    attack_sessions = Arenas(stage)
    yield attack_sessions
    await attack_sessions.close()
