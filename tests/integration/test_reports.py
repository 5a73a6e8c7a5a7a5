"""`paddock report` and `paddock why --unused` about a session that ran, that runs, and that never was."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from host.egress.ground import serving
from integration.command_line import paddock
from integration.conftest import OpenSession, WriteModule
from integration.tricky_tool import json_output
from paddock.session.journals.journal_folder import Journals

pytestmark = pytest.mark.usefixtures("commands_end")

_LOOKING = """
    import socket
    from pathlib import Path

    from amplifier_core.models import ToolResult

    class Look:
        name = "look"
        description = "looks"

        def __init__(self, coordinator):
            self.coordinator = coordinator

        async def execute(self, input):
            Path(input["used"], "file").read_text()
            self.opened = socket.create_connection(("127.0.0.1", input["port"]))
            self.opened.sendall(b"{hello}\\n")
            self.opened.recv(1)
            await self.coordinator.hooks.emit("llm:request", {})
            open(input["refused"])

    async def mount(coordinator, config):
        await coordinator.mount("tools", Look(coordinator))
"""
_HEARING = """
    from amplifier_core.models import HookResult

    async def hear(event, data):
        return HookResult(action="continue")

    async def mount(coordinator, config):
        coordinator.hooks.register("llm:request", hear)
"""


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """Have a server that says one byte to each client."""

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"!")
        await reader.read()

    async with serving(greet) as port:
        yield port


@pytest.mark.costly
async def test_what_a_module_used_and_was_refused_is_on_the_page(
    open_session: OpenSession, write_module: WriteModule, port: int, tmp_path: Path
) -> None:
    for name in ("used", "unused", "refused"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    granted = {
        "read": [f"{tmp_path}/unused", f"{tmp_path}/used"],
        "net": ["a.example.org", f"127.0.0.1:{port}"],
        "emit": ["llm:*", "tool:*"],
    }
    entry = {"module": "tool-look", "source": write_module("tool-look", _LOOKING), "permissions": granted}
    acts = {"used": f"{tmp_path}/used", "port": port, "refused": f"{tmp_path}/refused/file"}
    order = {"tool": "look", "input": acts}
    work = tmp_path / "work"
    hook = {
        "module": "hooks-hear",
        "source": write_module("hooks-hear", _HEARING),
    }  # an event is sent where one hears it
    async with open_session(tools=[entry], hooks=[hook], journal=Journals()) as session:
        await session.execute(json.dumps(order))
        running = json_output(paddock("report", session.session_id, "--json"))["report"]
    assert running["state"] == "running" and _module(running)["unused"] is None
    done = paddock("report", "-C", str(work), "-o", "page.html", "--json", cwd=work)
    facts = json_output(done)["report"]
    assert (done.returncode, facts["state"], facts["session"]) == (0, "ended", session.session_id)
    found = _module(facts)
    states = {one["grant"]: (one["state"], one["seen_by"]) for one in found["grants"] if one["family"] != "write"}
    assert states[f"{tmp_path}/used"] == ("used", "the module")
    assert states[f"{tmp_path}/unused"] == ("not seen used", "the module")
    assert states[f"127.0.0.1:{port}"] == ("used", "Paddock")  # it was open up to the end
    assert states["a.example.org"] == ("not seen used", "Paddock")
    assert (states["llm:*"], states["tool:*"]) == (("used", "Paddock"), ("not seen used", "Paddock"))
    assert [one["target"] for one in found["refusals"]] == [f"{tmp_path}/refused/file"]
    assert [turn["outcome"] for turn in facts["turns"]] == ["answer"]
    assert [call["tool"] for call in facts["calls"]] == ["look"]
    page = work / "page.html"
    assert page.stat().st_mode & 0o777 == 0o600 and f"{tmp_path}/refused/file" in page.read_text()
    assert "it is there already" in paddock("report", "-o", str(page), cwd=work).stderr
    lines = json_output(paddock("why", "--unused", "tool-look", "--json", cwd=work))["modules"][0]["unused"]
    assert f"{tmp_path}/unused" in lines and "tool:*" in lines and f'"{tmp_path}/used"' not in lines
    author = paddock("report", "--for-author", "tool-look", "-o", "author.html", cwd=work)
    assert author.returncode == 0 and "read the page before you pass it on" in author.stderr
    assert str(order) not in (work / "author.html").read_text()


def _module(facts: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in facts["modules"] if one["name"] == "tool-look")
    return found


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("report",), 1, "no session is known that ran in"),
        (("report", "nobody"), 1, "no session `nobody` is known"),
        (("why", "--unused"), 1, "no session is known that ran in"),
        (("why", "--unused", "x", "read", "/a"), 2, "--unused is about what a session used"),
    ],
)
def test_a_session_that_never_was_is_not_reported(words: tuple[str, ...], code: int, said: str, tmp_path: Path) -> None:
    done = paddock(*words, cwd=tmp_path)
    assert done.returncode == code and said in done.stderr and not list(tmp_path.glob("report*"))
