"""Several sessions on one host: what they share may die, and nothing of one session reaches another."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from integration.conftest import OpenSession, WriteModule
from integration.session_internals import runtime_of
from paddock import Host, Policy, Session
from paddock.egress.gate import EgressGate
from paddock.errors import PolicyRefusedError
from paddock.isolation.sandbox_host import SandboxHost
from paddock.workers.limits import watchdog
from paddock_sandbox.profile import IsolationLevel
from support.children import descendants_of_this_process
from support.examples import IN_FULL

_SECONDS = 60  # for what is awaited; hit only by a hang

_SPY = """
    import asyncio, os

    from amplifier_core.models import ToolResult

    class Spy:
        name = "spy"
        description = "tells what it sees of others, and does what it is told to"

        def __init__(self, config):
            self.config = config

        def remembers(self, shifted):
            # Each letter is given as the one after it, so that the search does not find itself.
            wanted, memory, found = shifted.encode(), os.open("/proc/self/mem", os.O_RDONLY), False
            shift = bytes((byte + 1) % 256 for byte in range(256))
            for line in open("/proc/self/maps"):
                place, rights = line.split()[:2]
                begin, end = (int(one, 16) for one in place.split("-"))
                while rights.startswith("rw") and begin < end and not found:
                    try:
                        piece = os.pread(memory, min(end - begin, 1 << 22), begin)
                    except (OSError, OverflowError):
                        break
                    found = wanted in piece.translate(shift)
                    begin += len(piece) or end
            return found

        async def execute(self, input):
            match input["do"]:
                case "look":
                    seen = dict(os.environ)
                case "remember":
                    seen = {shifted: self.remembers(shifted) for shifted in input["texts"]}
                case "trust":
                    seen = open(os.environ["SSL_CERT_FILE"]).read()
                case "reach":
                    seen = {}
                    for path in input["paths"]:
                        try:
                            with open(path, "r+b") as file:
                                file.write(b"x")
                            seen[path] = "written"
                        except OSError as error:
                            seen[path] = error.strerror
                    for pid in input["pids"]:
                        try:
                            os.kill(pid, 0)
                            seen[str(pid)] = "reached"
                        except OSError as error:
                            seen[str(pid)] = error.strerror
                case "append":
                    try:
                        with open(input["path"], "a") as file:
                            file.write("x")
                        seen = "written"
                    except OSError as error:
                        seen = error.strerror
                case "hang":
                    await asyncio.sleep(3600)
            return ToolResult(output=seen)

    async def mount(coordinator, config):
        if config.get("fails"):
            raise LookupError("not today")
        await coordinator.mount("tools", Spy(config))
"""


@pytest.fixture
async def host() -> AsyncIterator[Host]:
    async with Host() as host:
        yield host


@pytest.fixture
def spy(write_module: WriteModule) -> str:
    return write_module("tool-spy", _SPY)


def _tool(source: str, permissions: dict[str, Any] | None = None, **config: Any) -> list[dict[str, Any]]:
    return [{"module": "tool-spy", "source": source, "permissions": permissions or {}, "config": config}]


async def _asked(session: Session, do: str, **input: Any) -> Any:
    with anyio.fail_after(_SECONDS):
        result = await session.coordinator.get("tools", "spy").execute({"do": do, **input})
    return result.output if result.success else str(result)


def _shared(host: Host) -> SandboxHost:
    shared = host._sandbox_host
    assert shared is not None
    return shared


def _workers(session: Session) -> list[int]:
    processes = [module.supervisor.process for module in runtime_of(session).modules.all]
    return [process.pid for process in processes if process is not None]


def _shifted(text: str) -> str:
    return "".join(chr(ord(letter) + 1) for letter in text)


def _left(host: Host) -> tuple[list[str], int, int, int]:
    """Return what a session could leave: folders, descriptors, processes and tasks."""
    folders = sorted(os.listdir(_shared(host).folder))
    return folders, len(os.listdir("/proc/self/fd")), len(descendants_of_this_process()), len(asyncio.all_tasks())


async def test_sessions_of_a_host_share_no_secret_rule_certificate_or_id(
    host: Host, open_session: OpenSession, spy: str, tmp_path: Path
) -> None:
    permissions = {"env": ["WHO"], "net": ["127.0.0.1:9"], "secrets": [{"name": "KEY", "inject": "host"}, "OTHER"]}
    (tmp_path / "folder-of-one").mkdir()
    its_own = {**permissions, "read": [str(tmp_path / "folder-of-one")]}
    tools, noted = _tool(spy, permissions), _tool(spy, its_own, note="noted-by-one", secret="${OTHER}")
    environ = {"WHO": "one-by-name", "KEY": "kept-of-one", "OTHER": "given-to-one"}
    others = {"WHO": "two", "KEY": "kept-of-two", "OTHER": "given-to-two"}
    first = open_session(tools=noted, environ=environ, isolation="ns", host=host)
    async with first as one, open_session(tools=tools, environ=others, isolation="ns", host=host) as two:
        assert [(await _asked(each, "look"))["WHO"] for each in (one, two)] == ["one-by-name", "two"]
        texts = [_shifted(text) for text in ("one-by-name", "noted-by-one", "given-to-one", "folder-of-one")]
        assert await _asked(one, "remember", texts=texts) == dict.fromkeys(texts, True)
        assert await _asked(two, "remember", texts=texts) == dict.fromkeys(texts, False)
        trusted = [await _asked(each, "trust") for each in (one, two)]
        assert trusted[0] != trusted[1]
        if os.geteuid() == 0:
            ids = [psutil.Process(pid).uids().real for each in (one, two) for pid in _workers(each)]
            assert len({*ids, 0}) == len(ids) + 1 == 7
        with pytest.raises(PolicyRefusedError):
            refused = "[[module]]\nmatch = '*'\ndeny = 'not here'\n"
            async with open_session(tools=tools, environ=others, host=host, policy=Policy.parse(refused)):
                pass
        async with open_session(tools=_tool(spy, {"env": ["WHO"]}), environ={}, host=host) as three:
            assert "WHO" not in await _asked(three, "look")


async def test_a_module_reaches_nothing_of_another_session(
    host: Host, open_session: OpenSession, spy: str, level: IsolationLevel
) -> None:
    tools = _tool(spy, {"net": ["127.0.0.1:9"]})
    async with open_session(tools=tools, isolation=level, host=host) as victim:
        async with open_session(tools=_tool(spy), isolation=level, host=host) as attacker:
            folder = _shared(host).folder
            files = [str(path) for path in folder.rglob("*") if path.is_file()]
            pids = [*_workers(victim), os.getpid()]
            assert any(path.endswith("certificates.pem") for path in files)
            for path in files:  # from outside, the same acts succeed
                os.close(os.open(path, os.O_RDWR))
            for pid in pids:
                os.kill(pid, 0)
            seen = await _asked(attacker, "reach", paths=files, pids=pids)
        assert set(seen.values()) <= {
            "No such file or directory",
            "Permission denied",
            "No such process",
            "Operation not permitted",
        }
        if level == "ns":  # a grant around the host's folder is none to change it
            around = _tool(spy, {"write": [str(folder.parent)]})
            async with open_session(tools=around, isolation=level, host=host) as attacker:
                seen = await _asked(attacker, "reach", paths=files, pids=[])
                assert set(seen.values()) <= {"Read-only file system", "Permission denied"}
        assert await _asked(victim, "look")


async def test_a_template_that_is_killed_costs_no_session_anything(
    host: Host, open_session: OpenSession, spy: str
) -> None:
    async with open_session(tools=_tool(spy), host=host) as one:
        templates: Any = _shared(host).workers.launcher_at("ns")
        (template,) = templates.launcher._templates.values()
        template._interpreter.child.kill()
        async with open_session(tools=_tool(spy), host=host) as two:
            assert await _asked(one, "look") and await _asked(two, "look")
        os.kill(_workers(one)[0], signal.SIGKILL)
        assert await _asked(one, "look")
        assert templates.launcher._templates.values() != [template]


async def test_a_watchdog_that_fails_ends_the_modules_and_goes_on(
    host: Host, open_session: OpenSession, spy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        open_session(tools=_tool(spy), host=host) as one,
        open_session(tools=_tool(spy), host=host) as two,
    ):
        hanging = [asyncio.ensure_future(_asked(each, "hang")) for each in (one, two)]

        def fail() -> int:
            monkeypatch.undo()
            raise OSError("too many open files")

        monkeypatch.setattr(watchdog, "swapped_bytes", fail)
        for call in hanging:
            assert "the watch of its limits failed: too many open files" in await call
        assert await _asked(one, "look") and await _asked(two, "look")
        async with open_session(tools=_tool(spy), host=host) as three:
            assert await _asked(three, "look")


async def test_a_mount_guard_that_is_killed_is_replaced_for_all_sessions(
    host: Host, open_session: OpenSession, spy: str, tmp_path: Path
) -> None:
    file = tmp_path / "work/.envrc"
    file.parent.mkdir()
    file.write_text("one")
    tools = _tool(spy, {"write": ["."]})

    async def guarded_again(*sessions: Session) -> None:
        """Save the file as an editor does, and return once no session can write to it any more."""
        (file.parent / "new").write_text(f"{file.read_text()}!")
        (file.parent / "new").rename(file)
        with anyio.fail_after(_SECONDS):
            for session in sessions:
                while await _asked(session, "append", path=str(file)) != "Read-only file system":
                    await anyio.sleep(0.01)

    async with open_session(tools=tools, isolation="ns", host=host) as one:
        async with open_session(tools=tools, isolation="ns", host=host) as two:
            guard = _shared(host).mount_guard
            assert guard._reaper is not None
            await guarded_again(one, two)
            killed = guard._reaper
            killed.kill()
            with anyio.fail_after(_SECONDS):
                while guard._reaper is killed:
                    await anyio.sleep(0.01)
            await guarded_again(one, two)
        assert {followed.session.number for followed in guard._followed.values()} == {0}
        await guarded_again(one)
    assert not guard._followed


async def test_a_gate_that_cannot_be_closed_is_that_of_one_session(
    host: Host, open_session: OpenSession, spy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = _tool(spy, {"net": ["127.0.0.1:9"]})
    before = _left(host)[0]
    async with open_session(tools=tools, host=host) as one:
        close = EgressGate.aclose

        async def close_and_fail(self: EgressGate) -> None:
            await close(self)
            raise RuntimeError("a connection does not end")

        async with open_session(tools=tools, host=host):
            monkeypatch.setattr(EgressGate, "aclose", close_and_fail)
        monkeypatch.undo()
        assert await _asked(one, "trust")
    assert _left(host)[0] == before


async def test_a_host_that_is_closed_ends_its_sessions_with_the_reason(open_session: OpenSession, spy: str) -> None:
    before = descendants_of_this_process()
    async with Host() as host:
        opened = open_session(tools=_tool(spy), host=host)
        session = await opened.__aenter__()
        hanging = asyncio.ensure_future(_asked(session, "hang"))
        await _asked(session, "look")
        folder = _shared(host).folder
    assert descendants_of_this_process() == before and not folder.exists()
    assert "its host was closed" in await hanging
    assert "the host was closed" in await _asked(session, "look")
    await opened.__aexit__(None, None, None)
    with pytest.raises(RuntimeError, match="async with Host"):
        async with open_session(tools=_tool(spy), host=host):
            pass


async def test_sessions_leave_nothing_on_their_host_however_they_end(
    host: Host, open_session: OpenSession, spy: str, tmp_path: Path
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/.envrc").write_text("guarded")

    tasks: list[asyncio.Task[None]] = []

    async def run(number: int) -> None:
        permissions = {"write": ["."], "net": ["127.0.0.1:9"]}
        level = "landlock" if number == 3 else None
        tools = _tool(spy, {} if level else permissions, fails=number == 1)
        try:
            async with open_session(tools=tools, host=host, isolation=level) as session:
                if number == 2:
                    asyncio.get_running_loop().call_soon(tasks[1].cancel)
                if number != 1:  # its tool did not mount
                    await _asked(session, "hang" if number == 2 else "look")
        except asyncio.CancelledError:
            assert number == 2

    await run(0)
    before = _left(host)
    tasks += [asyncio.create_task(run(number)) for number in range(1, 5)]
    await asyncio.gather(*tasks)
    for number in range(5, 10 if IN_FULL else 6):
        await run(number)
    with anyio.fail_after(_SECONDS):
        while any(now > then for now, then in zip(_left(host)[1:], before[1:], strict=True)):
            await anyio.sleep(0.01)  # beside a busy machine a process of the first session may have ended late as well
    assert _left(host)[0] == before[0]
    assert not _shared(host).mount_guard._followed
