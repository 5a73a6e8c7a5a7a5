"""A loopback of its own: real programs that serve themselves fail without `net: [self]`, and work with it."""

from __future__ import annotations

import shutil
from pathlib import Path

import anyio
import pytest

from integration.command_line import require_level
from integration.probe import call_once
from paddock import Session
from paddock.errors import PlanError
from paddock.session.tool_call import ToolCallOutcome
from paddock_sandbox.profile import IsolationLevel
from support.examples import repeating

_SECONDS = 120  # for one call; hit only by a hang
_SUITE = """
import asyncio, http.server, multiprocessing, threading, unittest, urllib.request


class Suite(unittest.TestCase):
    def test_a_server_answers(self):
        server = http.server.ThreadingHTTPServer(("localhost", 0), http.server.SimpleHTTPRequestHandler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/suite_test.py") as answer:
            self.assertEqual(answer.status, 200)
        server.shutdown()
        server.server_close()

    def test_an_echo(self):
        async def echo():
            async def handle(reader, writer):
                writer.write(await reader.readline())
                writer.close()

            for serve, connect, where in (
                (asyncio.start_server, asyncio.open_connection, ("127.0.0.1", 0)),
                (asyncio.start_unix_server, asyncio.open_unix_connection, ("/tmp/echo.sock",)),
            ):
                async with await serve(handle, *where) as server:
                    name = server.sockets[0].getsockname()
                    reader, writer = await connect(*([name] if isinstance(name, str) else name))
                    writer.write(b"hello\\n")
                    self.assertEqual(await reader.readline(), b"hello\\n")
                    writer.close()

        asyncio.run(echo())
"""
_FORKSERVER = """
import multiprocessing


def double(number):
    return 2 * number


if __name__ == "__main__":
    with multiprocessing.get_context("forkserver").Pool(2) as pool:
        assert pool.map(double, [1, 2, 3]) == [2, 4, 6]
"""
_MANAGER = """
import multiprocessing


def fill(shared):
    shared["from"] = "the child"


if __name__ == "__main__":
    with multiprocessing.Manager() as manager:
        shared = manager.dict()
        child = multiprocessing.Process(target=fill, args=(shared,))
        child.start()
        child.join()
        assert dict(shared) == {"from": "the child"}
"""
_NODE = """
const http = require("http"), os = require("os");
let interfaces = "refused";
try { interfaces = "answered: " + JSON.stringify(os.networkInterfaces()); } catch (error) {}
const server = http.createServer((request, response) => response.end("hello"));
server.on("error", (error) => { console.error(String(error)); process.exit(1); });
server.listen(0, () => http.get({ host: "127.0.0.1", port: server.address().port }, (response) => {
  response.on("data", (data) => { console.log(String(data), interfaces); server.close(); });
}).on("error", (error) => { console.error(String(error)); process.exit(1); }));
"""
_PROGRAMS = {
    "suite_test.py": (_SUITE, "python3 -m unittest -q suite_test", ""),
    "forkserver.py": (_FORKSERVER, "python3 forkserver.py", ""),
    "manager.py": (_MANAGER, "python3 manager.py", ""),
    "serve.js": (_NODE, "node serve.js", "hello refused"),
}


@pytest.fixture(params=["ns", "bwrap"])
def alone(request: pytest.FixtureRequest) -> IsolationLevel:
    """A level that has loopbacks of modules' own."""
    return require_level(request.param)


@pytest.fixture
def work(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    work = home / "work"
    for name, (text, _, _) in _PROGRAMS.items():
        (work / name).write_text(text)
    monkeypatch.chdir(work)
    return work


async def bash(command: str, level: IsolationLevel, *net: str) -> ToolCallOutcome:
    permissions = {"read": ["."], "write": ["."], "run": ["*"], "net": list(net)}
    return await call_once("builtin:tool-bash", "bash", {"command": command}, permissions=permissions, isolation=level)


@pytest.mark.exhaustive("forkserver.py", "serve.js")
@pytest.mark.parametrize("program", ["suite_test.py", "forkserver.py", "serve.js", *repeating("manager.py")])
async def test_a_program_that_serves_itself_works_with_the_grant_alone(
    alone: IsolationLevel, work: Path, program: str
) -> None:
    _, command, said = _PROGRAMS[program]
    if shutil.which(command.split()[0], path="/usr/bin:/bin") is None:
        pytest.skip(f"{command.split()[0]} is not among the system's programs")
    without = (await bash(command, alone)).result.output
    assert without["returncode"] != 0, without
    granted = (await bash(command, alone, "self")).result.output
    assert granted["returncode"] == 0, granted
    assert said in granted["stdout"]


async def test_the_grant_is_refused_where_the_only_loopback_is_the_machines(work: Path) -> None:
    error = (await bash("true", require_level("landlock"), "self")).error
    assert isinstance(error, PlanError)
    assert "`net: [self]` cannot hold at isolation level `landlock`" in str(error)
    assert any("`ns` or `bwrap`" in problem.hint for problem in error.problems)


@pytest.mark.parametrize("written", ["self:80", "SELF"])
async def test_the_word_takes_no_port(work: Path, written: str) -> None:
    error = (await bash("true", "ns", written)).error
    assert "stands for the module's own loopback" in str(error)


@pytest.mark.exhaustive("landlock")
@pytest.mark.parametrize(("level", "printed"), [("ns", "served"), ("landlock", "refused")])
async def test_preset_shell_has_it_where_it_can(work: Path, level: IsolationLevel, printed: str) -> None:
    code = "import socket; socket.create_server(('127.0.0.1', 0)); print('served')"
    command = f'python3 -c "{code}" || echo refused'
    plan = {
        "session": {"orchestrator": {"module": "loop-basic"}, "context": {"module": "context-simple"}},
        "providers": [{"module": "provider-mock"}],
        "tools": [{"module": "tool-bash", "permissions": "shell"}],
    }
    with anyio.fail_after(_SECONDS):
        async with Session(plan, working_dir=work, isolation=require_level(level), trust_plan=True) as session:
            result = await session.coordinator.get("tools")["bash"].execute({"command": command})
    assert result.output["stdout"] == f"{printed}\n"
