"""Each test twice: its scenario runs in a plain process and in sandboxed workers, and has one outcome."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psutil
import pytest

from integration.semantics.places import FOLDER, PLACES, OpenPlace, Place, at_home, opener


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """Fail a file whose sessions leave a process; while a shared session lasts, processes come and go."""
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    yield
    assert [process for process in psutil.Process().children(recursive=True) if process.pid not in before] == []


@pytest.fixture(scope="module")
def _grounds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder to work in, for sessions that serve several tests."""
    folder = tmp_path_factory.mktemp("semantics")
    (folder / "home").mkdir()
    (folder / "work").mkdir()
    with at_home(folder / "home") as patch:
        patch.syspath_prepend(str(FOLDER))
        yield folder / "work"


@pytest.fixture(scope="module", params=PLACES)
def open_place(request: pytest.FixtureRequest, _grounds: Path) -> OpenPlace:
    """Open a session of one's own."""
    return opener(request.param, _grounds)


@pytest.fixture(scope="module")
async def place(open_place: OpenPlace, anyio_backend: str) -> AsyncIterator[Place]:
    """A session that all tests of a file share: whatever a scenario registers, it takes away again."""
    async with open_place() as opened:
        yield opened
