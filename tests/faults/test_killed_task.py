"""A coding task outlives its hosts: killed at drawn moments and resumed by the command line, it ends as if none was."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coding_agent.demonstration import find_python
from faults.building_model import DONE, PROGRAM, TESTS, BuildingModel
from faults.conversation import problems_of
from host.authoring.installed_wheels import offer
from integration.command_line import Terminal, nothing_outlives_its_command
from integration.tricky_tool import plan_of
from modules import shipped
from paddock.session.journals.journal_folder import Journals
from sources.index_server import IndexServer
from vendors.openai_dialect import OpenAIDialect
from vendors.server import VendorServer

_KILLS = 20
_PARTS = 14  # more than twenty hosts get done before they are killed
_START_SECONDS = 3.0  # in which a host has started, or nearly so
_STEP_SECONDS = 0.25  # in which the tools have done what one answer asks for, or nearly so
_SECONDS = 120  # hit only by a hang
_PROMPT = "Build the parts, and count each in total.py."
_COMMAND = [sys.executable, "-c", "from paddock.cli import main; main()"]


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An index with what the provider depends on, as it is installed here."""
    with IndexServer() as index:
        offer(index, *shipped.installed_for(shipped.project("provider-openai")["dependencies"]))
        monkeypatch.setenv("UV_DEFAULT_INDEX", index.url)
        yield


def _server(python: str) -> VendorServer:
    model = BuildingModel(lambda: server.answers[-1].body, _PARTS, python)
    server = VendorServer(model, OpenAIDialect())
    return server


def _project(folder: Path, server: VendorServer, python: str, loop: str, context: object) -> Path:
    """Make the folder of a task, with its plan."""
    folder.mkdir()
    (folder / "total.py").write_text(PROGRAM)
    (folder / "test_total.py").write_text(TESTS)
    provider = {"default_model": "builder-1", "base_url": server.url, "api_key": "none"}
    plan_of(
        folder,
        session={"orchestrator": {"module": loop, "config": {"max_iterations": -1}}, "context": context},
        providers=[
            {
                "module": "provider-openai",
                "config": provider,
                "permissions": {"net": [f"127.0.0.1:{server.port}"]},
            }
        ],
        tools=[
            {"module": "tool-filesystem", "permissions": "workspace"},
            {"module": "tool-bash", "permissions": {"read": ["."], "write": ["."], "run": ["bash", python]}},
        ],
    )
    return folder


def _whole_task(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a host that nobody kills do the task, whose plan a person accepts."""
    monkeypatch.chdir(folder)
    with Terminal("run", "plan.json", _PROMPT, seconds=_SECONDS) as terminal:
        _agree(terminal)
        assert terminal.exit_code() == 0, terminal.shown
        assert DONE in terminal.shown, terminal.shown[-3000:]


def _agree(terminal: Terminal) -> None:
    terminal.until("and Enter:")
    terminal.type("yes\n")


def _has_asked(server: VendorServer, requests: int, seconds: float) -> bool:
    """Whether a server was asked for so many answers, within so many seconds."""
    deadline = time.monotonic() + seconds
    while len(server.answers) < requests and time.monotonic() < deadline:
        time.sleep(0.005)
    return len(server.answers) >= requests


def _killed_host(draw: random.Random, server: VendorServer, number: int) -> str:
    """Have a host go on with the session, kill it at a drawn moment, and return what it told of the resume."""
    before = len(server.answers)
    command = [*_COMMAND, "run", "--resume", "last", f"Go on, {number}."]
    host = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    requests = draw.randint(0, 2)
    if requests == 0:
        time.sleep(draw.uniform(0, _START_SECONDS))
    else:
        assert _has_asked(server, before + requests, _SECONDS), host.poll()
        time.sleep(draw.uniform(0, _STEP_SECONDS))
    host.kill()
    _, told = host.communicate(timeout=_SECONDS)
    assert host.returncode == -9, told.decode()
    return told.decode()


def _files(folder: Path) -> dict[str, str]:
    return {one.name: one.read_text() for one in folder.iterdir() if one.suffix in (".py", ".txt")}


@pytest.mark.exhaustive  # twenty hosts, each with a vendor's library
@pytest.mark.usefixtures("packages")
@pytest.mark.parametrize(
    ("seed", "loop", "context"),
    [(1, "loop-basic", "context-simple"), (2, "loop-streaming", {"module": "context-persistent", "state": "keep"})],
)
def test_a_task_whose_hosts_are_killed_ends_as_one_whose_host_was_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, loop: str, context: object
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    python, draw = find_python(), random.Random(seed)
    with nothing_outlives_its_command(tmp_path / "scratch", monkeypatch), _server(python) as whole:
        _whole_task(_project(tmp_path / "whole", whole, python, loop, context), monkeypatch)
    told: list[str] = []
    with nothing_outlives_its_command(tmp_path / "scratch2", monkeypatch), _server(python) as server:
        monkeypatch.chdir(_project(tmp_path / "killed", server, python, loop, context))
        with Terminal("run", "plan.json", _PROMPT, seconds=_SECONDS) as terminal:
            _agree(terminal)
            assert _has_asked(server, 1, _SECONDS), terminal.shown
            time.sleep(draw.uniform(0, _STEP_SECONDS))
        before: list[dict[str, Any]] = []
        for number in range(1, _KILLS):
            told.append(_killed_host(draw, server, number))
            messages = Journals().read(Journals().find("last"))[0].messages()
            assert messages[: len(before)] == before
            before = messages
        last = subprocess.run(
            [*_COMMAND, "run", "--resume", "last", "Go on to the end."], capture_output=True, encoding="utf-8"
        )
        kept = Journals().read(Journals().find("last"))[0]
    assert last.stdout.strip() == DONE, [*told, last.stderr]
    assert list(problems_of(before, kept.messages(), [])) == []
    asked = [one.body["messages"] for one in server.answers]
    assert all(later[: len(earlier)] == earlier for earlier, later in itertools.pairwise(asked))
    assert (server.refusals, len(asked[-1]) + 1) == ([], len(kept.messages()))
    assert _files(tmp_path / "killed") == _files(tmp_path / "whole")
