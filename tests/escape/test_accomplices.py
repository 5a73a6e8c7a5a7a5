"""Two modules that help each other get no further than one: what was granted to one is not moved by the other."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from escape.one_tool import call, folder_of, open_session
from paddock import Session
from paddock.selftest import LEVELS

pytestmark = pytest.mark.usefixtures("warm_starts")

_MOVER = """
    import os

    async def act(input):
        os.rename(input["folder"], input["folder"] + ".moved")
        os.symlink(input["target"], input["folder"])
        return "moved"
"""
_READER = """
    import os

    async def act(input):
        if input.get("die"):
            os._exit(1)
        with open(input["path"]) as file:
            return file.read()
"""


def _read(path: str) -> str:
    return Path(path).read_text()


@pytest.fixture(params=LEVELS)
async def session(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Session]:
    workspace = tmp_path / "work"
    (workspace / "data").mkdir(parents=True)
    (workspace / "data" / "key").write_text("granted")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("canary")
    tools: list[dict[str, Any]] = [
        {"module": "tool-mover", "source": folder_of(tmp_path, "mover", _MOVER), "permissions": {"write": ["."]}},
        {"module": "tool-reader", "source": folder_of(tmp_path, "reader", _READER), "permissions": {"read": ["data"]}},
    ]
    async with open_session(request.param, workspace, tools) as session:
        yield session


async def test_a_granted_folder_replaced_by_a_link_is_not_followed(session: Session, tmp_path: Path) -> None:
    data, secret = str(tmp_path / "work" / "data"), str(tmp_path / "secret")
    path = os.path.join(data, "key")
    assert (await call(session, "reader", path=path)).output == "granted"
    assert (await call(session, "mover", folder=data, target=secret)).output == "moved"
    assert _read(path) == "canary", "whoever follows the link reads what was not granted"
    assert not (await call(session, "reader", die=True)).success
    for place in (path, os.path.join(secret, "key")):
        again = await call(session, "reader", path=place)
        assert not again.success
        assert "canary" not in str(again)


_STARTS = 4  # a module that ends more often is quarantined
_FLIPPER = """
    import ctypes, os, threading, time

    libc = ctypes.CDLL(None, use_errno=True)
    EXCHANGE = 2
    ended = threading.Event()

    def flip(one, other):
        while not ended.is_set():
            libc.renameat2(-100, one.encode(), -100, other.encode(), EXCHANGE)
            time.sleep(0.005)

    async def act(input):
        if input.get("end"):
            ended.set()
            return "ended"
        os.symlink(input["target"], input["folder"] + ".other")
        threading.Thread(target=flip, args=(input["folder"], input["folder"] + ".other"), daemon=True).start()
        return "flips"
"""


@pytest.mark.costly
@pytest.mark.parametrize("level", LEVELS)
async def test_a_folder_on_the_way_that_becomes_a_link_is_not_followed(level: str, tmp_path: Path) -> None:
    workspace, secret = tmp_path / "work", tmp_path / "secret"
    for folder, text in ((workspace / "x" / "data", "granted"), (secret / "data", "canary")):
        folder.mkdir(parents=True)
        (folder / "key").write_text(text)
    tools: list[dict[str, Any]] = [
        {"module": "tool-mover", "source": folder_of(tmp_path, "mover", _FLIPPER), "permissions": {"write": ["."]}},
        {
            "module": "tool-reader",
            "source": folder_of(tmp_path, "reader", _READER),
            "permissions": {"read": ["x/data"]},
        },
    ]
    granted, forbidden = (str(folder / "data" / "key") for folder in (workspace / "x", secret))
    seen = []
    async with open_session(level, workspace, tools) as session:
        assert (await call(session, "reader", path=granted)).output == "granted"
        assert (await call(session, "mover", folder=str(workspace / "x"), target="../secret")).output == "flips"
        for _ in range(_STARTS):
            await call(session, "reader", die=True)
            seen += [str(await call(session, "reader", path=path)) for path in (granted, forbidden)]
        await call(session, "mover", end=True)
    assert not [one for one in seen if "canary" in one]
