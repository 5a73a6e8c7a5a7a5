"""A module's home: private, but for what is granted of the user's own, which it finds there by the names it knows."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.command_line import require_level
from integration.conftest import WriteModule
from integration.probe import call_once, tool_code
from paddock_sandbox.profile import IsolationLevel

_DIARY = tool_code(
    "diary",
    """
    diary = Path.home() / ".diary" / "entries.txt"
    diary.parent.mkdir(exist_ok=True)
    with diary.open("a") as file:
        file.write(input["note"] + ";")
    (Path.home() / "scrap").write_text("of no further use")
    other = Path.home() / ".ssh"
    return ToolResult(output={"diary": diary.read_text(), "home": os.environ["HOME"], "other": other.exists()})
    """,
)


@pytest.fixture(params=("ns", "landlock", "none"))
def level(request: pytest.FixtureRequest) -> IsolationLevel:
    return require_level(request.param)


@pytest.fixture
def home() -> Iterator[Path]:
    """A user's home; not below /tmp, of which modules have one of their own."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="paddock-test-") as folder:
        home = Path(os.path.realpath(folder))
        for name in ("work", ".diary", ".ssh"):
            (home / name).mkdir()
        yield home


async def note(source: str, home: Path, level: IsolationLevel, text: str, **permissions: Any) -> dict[str, Any]:
    outcome = await call_once(source, "diary", {"note": text}, home=home, permissions=permissions, isolation=level)
    assert outcome.result.success, outcome.result.error
    output: dict[str, Any] = json.loads(json.dumps(outcome.result.output))
    return output


@pytest.mark.exhaustive("landlock")
async def test_what_is_granted_of_the_users_home_is_found_in_the_modules_own(
    write_module: WriteModule, home: Path, level: IsolationLevel
) -> None:
    source = write_module("tool-diary", _DIARY)
    for text in ("one", "two"):
        told = await note(source, home, level, text, write=["~/.diary"])
    assert told["diary"] == (home / ".diary/entries.txt").read_text() == "one;two;"
    assert not told["other"]
    assert told["home"] != str(home) and not (home / "scrap").exists()


async def test_without_such_a_grant_the_users_home_stays_as_it_is(
    write_module: WriteModule, home: Path, level: IsolationLevel
) -> None:
    told = await note(write_module("tool-diary", _DIARY), home, level, "one")
    assert told["diary"] == "one;"
    assert list((home / ".diary").iterdir()) == []
