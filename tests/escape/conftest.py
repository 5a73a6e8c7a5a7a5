"""A stage to attack, and the attacker in a session at each level, for as many tests as can share them."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import cast

import psutil
import pytest

from paddock.errors import IsolationUnavailableError
from paddock.selftest import CATALOGUE, Attack
from paddock.selftest.arena import Arena
from paddock.selftest.attack import Sign
from paddock.selftest.control import Control, perform_outside
from paddock.selftest.stage import Stage
from paddock_sandbox.profile import IsolationLevel

Shown = Callable[[Attack], Control]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    with Stage() as stage:
        yield stage
    left = [process for process in psutil.Process().children(recursive=True) if process.pid not in before]
    assert not left, f"still there: {left}"
    assert not stage.folder.exists()


@pytest.fixture(scope="module")
def shown(stage: Stage) -> Shown:
    """Return what an attack comes to outside; each is performed there once."""

    @functools.cache
    def outside(name: str) -> Control:
        return perform_outside(next(attack for attack in CATALOGUE if attack.name == name), stage)

    return lambda attack: outside(attack.name)


@pytest.fixture(scope="module")
def level(request: pytest.FixtureRequest) -> IsolationLevel:
    return cast(IsolationLevel, request.param)


@pytest.fixture(scope="module")
async def arena(level: IsolationLevel, stage: Stage) -> AsyncIterator[Arena]:
    """Every attack at one level; skips where the level is not to be had, with what a worker met that tried."""
    together = [attack for attack in CATALOGUE if level in attack.only_at and attack.sign is not Sign.LIFE]
    try:
        arena = await Arena(level, stage, together).__aenter__()
    except IsolationUnavailableError as error:
        pytest.skip(str(error))
    yield arena
    await arena.__aexit__(None, None, None)
