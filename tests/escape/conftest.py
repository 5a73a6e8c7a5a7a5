"""A stage to attack, and the attacker in a session at each level, for as many tests as can share them."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing

import psutil
import pytest

from escape.reachable import skip_or_fail
from paddock.errors import IsolationUnavailableError
from paddock.selftest import CATALOGUE, Attack, AttackOutcome
from paddock.selftest.attack import Sign
from paddock.selftest.attack_session import AttackSession
from paddock.selftest.control import OutsideControl, OutsideResult
from paddock.selftest.testbed.testbed import AttackTestbed
from paddock.selftest.unconfined import UnconfinedAttackers
from paddock_sandbox.profile import IsolationLevel
from support.examples import IN_FULL

_GONE_SECONDS = 60.0  # hit only by what does not end
_ATTACK_SECONDS = 200.0  # for an attack, and the start of a session; less than pytest gives the test
_TOGETHER = 40  # attacks that share a session
# Families that the host alone holds off, the filter of system calls, or what watches over a module: the same at each.
_SAME_AT_EACH = ("identity", "kernel", "messages", "resources", "way out")

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
    with AttackTestbed() as stage, closing(UnconfinedAttackers(stage)) as attackers:
        control = OutsideControl(stage, attackers)

        @functools.cache
        def outside(name: str) -> OutsideResult:
            return control.perform(next(attack for attack in CATALOGUE if attack.name == name))

        yield lambda attack: outside(attack.name)


@functools.cache
def attacks_at(level: IsolationLevel) -> list[Attack]:
    """Return the attacks of the catalogue that are tried while a session at the level runs."""
    return [
        attack
        for attack in CATALOGUE
        if level in attack.only_at
        and attack.sign is not Sign.LIFE
        and (IN_FULL or level != "landlock" or attack.family not in _SAME_AT_EACH)
    ]


class AttackSessions:
    """The attackers of some attacks at one level, started once for the tests that follow one another there.

    They are few, so that a test which comes upon another level waits for the start of a few modules and no more.
    """

    def __init__(self, stage: AttackTestbed) -> None:
        self._testbed = stage
        self._together: tuple[IsolationLevel, list[Attack]] | None = None
        self._attack_session: AttackSession | None = None
        self._unavailable: dict[IsolationLevel, IsolationUnavailableError] = {}

    async def perform(self, attack: Attack, level: IsolationLevel) -> AttackOutcome:
        """Perform an attack at a level; skips where the level is not to be had.

        After an attack that runs out of its time, or fails in another way, the next one gets a session of its own.
        """
        try:
            async with asyncio.timeout(_ATTACK_SECONDS):
                attack_session = await self.session_of(attack, level)
                return await attack_session.perform(attack)
        except BaseException:
            await self.close()
            raise

    async def session_of(self, attack: Attack, level: IsolationLevel) -> AttackSession:
        """Return the session that an attack is performed in; skips where the level is not to be had."""
        if level in self._unavailable:
            skip_or_fail(level, self._unavailable[level])
        together = (level, _neighbours_of(attack, level))
        if self._attack_session is None or self._together != together:
            await self.close()
            attack_session = AttackSession(level, self._testbed, together[1])
            try:
                await attack_session.__aenter__()
            except IsolationUnavailableError as error:
                self._unavailable[level] = error
                skip_or_fail(level, error)
            self._together, self._attack_session = together, attack_session
        return self._attack_session

    async def close(self) -> None:
        """End the present session."""
        attack_session, self._attack_session = self._attack_session, None
        if attack_session is not None:
            async with asyncio.timeout(_GONE_SECONDS):
                await attack_session.__aexit__(None, None, None)


def _neighbours_of(attack: Attack, level: IsolationLevel) -> list[Attack]:
    """Return the attacks of the catalogue that share a session with one."""
    attacks = attacks_at(level)
    begins = attacks.index(attack) // _TOGETHER * _TOGETHER
    return attacks[begins : begins + _TOGETHER]


@pytest.fixture(scope="module")
async def attack_sessions(stage: AttackTestbed) -> AsyncIterator[AttackSessions]:
    attack_sessions = AttackSessions(stage)
    yield attack_sessions
    await attack_sessions.close()
