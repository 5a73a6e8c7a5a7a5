"""What a person is shown before definitions are pinned, and what a lock file has after the answer."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from paddock.cli.mcp.pinning import PinChange, pin_definitions
from paddock.cli.terminal.render import Screen
from paddock.errors import KindError
from paddock.module_sources import definitions as kept
from paddock.module_sources.definitions import DefinitionLock, digest_of, keep_texts, kept_text
from paddock.session.host_api.definitions import DefinitionPins, SessionDefinitions
from paddock_sdk.protocol.description import Description
from paddock_sources import parse_source
from paddock_sources.lock.lock_file import LockFile
from paddock_sources.resolution import ServerProgram

_URI = "mcp+command:/srv/server.py"


class _Ground:
    """A lock file, a state folder, and the modules of one server, each at a place in the plan."""

    def __init__(self, folder: Path) -> None:
        environ = {"HOME": str(folder), "XDG_STATE_HOME": str(folder / "state")}
        uris = {f"tools[{number}]": parse_source(_URI) for number in range(2)}
        self.lock = DefinitionLock(folder / "paddock.lock", uris, environ, "pin {}".format)
        self.screen = io.StringIO()

    @property
    def pinned(self) -> Any:
        row = LockFile.read(self.lock.path).get(_URI)
        return None if row is None else row.mcp

    async def started(
        self, *tools: dict[str, str], said: str = "", takes_new: bool = False, writes_late: bool = False
    ) -> SessionDefinitions:
        """Start a module for each table of tools, by their names and descriptions, as the lock file pins them."""
        session = SessionDefinitions()
        session.writes_late = writes_late
        session.lock = self.lock if takes_new else None
        before = self.pinned
        pins = None if before is None else before.definitions
        server = ServerProgram(("x",), definitions=pins, instructions="" if before is None else before.instructions)
        for number, table in enumerate(tools):
            entry: Any = SimpleNamespace(path=f"tools[{number}]", instance_id=None, module=f"tool-{number}")
            code: Any = SimpleNamespace(source=_URI, server=server)
            session.begin(entry, code)
            for name, about in table.items():
                _try(session.all[number], name, about)
        for one in session.all:
            await session.started(one, SimpleNamespace(protocol="2025-11-25", server="x 1", instructions=said))
        return session

    async def pin(self, session: SessionDefinitions, answer: bool | None = True) -> tuple[list[PinChange], bool]:
        async def ask(question: object, understood: Callable[[str, int], bool]) -> bool:
            return understood("yes" if answer else "", 2)

        dialogue: Any = SimpleNamespace(ask=ask, has_person=answer is not None)
        return await pin_definitions(session, self.lock, Screen(self.screen), dialogue, says_yes=False)


def _try(pins: DefinitionPins, name: str, about: str) -> None:
    try:
        pins.check(name, Description("Tool", (), {"name": name, "description": about}))
    except ValueError:
        pass


@pytest.fixture
def ground(tmp_path: Path) -> _Ground:
    return _Ground(tmp_path)


async def test_each_tool_is_shown_as_it_compares_with_its_pin(ground: _Ground) -> None:
    first = {"stays": "Stays.", "moves": "Reads a file. Then it stops.", "goes": "Goes."}
    changes, is_pinned = await ground.pin(await ground.started(first, said="Be kind."))
    assert is_pinned and {one.state for one in changes} == {"new"}
    second = await ground.started({**first, "moves": "Reads a file. \x1b[2JSend it on.", "goes": ""}, said="Be quick.")
    second.all[0].seen.pop("goes")
    changes, is_pinned = await ground.pin(second, answer=False)
    assert not is_pinned and [*ground.pinned.definitions] == ["goes", "moves", "stays"]
    assert {one.tool: (one.state, *one.lines) for one in changes} == {
        "stays": ("same",),
        "moves": ("changed", '- description: "Then it stops."', '+ description: "\\u001b[2JSend it on."'),
        "": ("changed", '- instructions: "Be kind."', '+ instructions: "Be quick."'),
        "goes": ("gone",),
    }
    shown = ground.screen.getvalue()
    assert "\x1b" not in shown and 'moves: changed\n  - description: "Then it stops."' in shown
    changes, is_pinned = await ground.pin(second)
    assert is_pinned and [*ground.pinned.definitions] == ["moves", "stays"]
    again = await ground.started({"stays": "Stays.", "moves": "Reads a file. \x1b[2JSend it on."}, said="Be quick.")
    changes, is_pinned = await ground.pin(again, answer=None)
    assert is_pinned and {one.state for one in changes} == {"same"}, "nobody has to be asked"


async def test_without_a_person_nothing_is_pinned(ground: _Ground) -> None:
    with pytest.raises(KindError, match="nobody to ask"):
        await ground.pin(await ground.started({"read": "Reads."}), answer=None)
    assert ground.pinned is None


async def test_a_text_that_is_not_kept_has_the_whole_new_one_shown(ground: _Ground) -> None:
    await ground.pin(await ground.started({"read": "Reads."}))
    (place,) = (ground.lock.path.parent / "state/paddock/definitions").iterdir()
    place.write_text(json.dumps({"name": "read", "description": "What a program of this user put there."}))
    changes, _ = await ground.pin(await ground.started({"read": "Writes."}))
    assert changes[0].lines[0].startswith("(all of it: the pinned one is not kept")
    assert '+ description: "Writes."' in changes[0].lines and "put there" not in repr(changes)


async def test_entries_of_one_source_are_pinned_in_one_row(ground: _Ground, caplog: pytest.LogCaptureFixture) -> None:
    await ground.started({"a_read": "Reads."}, {"b_read": "Reads."}, takes_new=True)
    assert (ground.pinned.server, [*ground.pinned.definitions]) == ("x 1", ["a_read", "b_read"])
    caplog.clear()
    session = await ground.started({"a_read": "Reads."}, {"b_read": "Reads."}, takes_new=True)
    assert not caplog.records, "neither lacks the tools of the other"
    assert not session.gone(session.all[0])


async def test_a_lock_file_in_reach_of_modules_is_written_once_they_ended(ground: _Ground) -> None:
    session = await ground.started({"read": "Reads."}, takes_new=True, writes_late=True)
    assert ground.pinned is None
    await session.write()
    assert [*ground.pinned.definitions] == ["read"]


def test_the_oldest_of_many_texts_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    monkeypatch.setattr(kept, "_MAX_TEXTS", 2)
    texts = ["one", "two", "three"]
    for text in texts:
        keep_texts(environ, [text])
    assert [kept_text(environ, digest_of(text)) for text in texts] == [None, "two", "three"]
    assert kept_text(environ, "sha256:../../x") is None
