"""What commands for strangers' code can do where they are shut in, through the real boundary at each level.

What is refused here succeeds when it is run unconfined: each guard's test shows that first.
"""

from __future__ import annotations

import asyncio
import http.server
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import anyio
import anyio.from_thread
import anyio.to_thread
import psutil
import pytest

from paddock.isolation.commands.command_worker import check_cancelled
from paddock.isolation.commands.source_commands import SourceCommands
from paddock.isolation.machine import Machine
from paddock.isolation.sandbox_host import SandboxHost
from paddock.workers.probe import Available, Unavailable
from paddock.workers.supervisor import Supervisor
from paddock_sandbox.profile import IsolationLevel, SandboxProfile
from paddock_sources.cache import SourceCache
from paddock_sources.commands.command_runner import (
    CommandAccess,
    CommandError,
    CommandMissingError,
    CommandOutputError,
    CommandTimeoutError,
)
from paddock_sources.commands.direct_runner import DirectRunner
from support.examples import repeating
from support.shut_in_commands import LEVELS, commands_at

_GIT = pytest.mark.skipif(shutil.which("git") is None, reason=f"there is no git in {os.get_exec_path()}")
# What the code of the level does not decide.
_AT_ONE_LEVEL = pytest.mark.parametrize("commands", [LEVELS[0], *repeating(*LEVELS[1:])], indirect=True)
_SECONDS = 60
_BIG = 50 << 20
_SECRET = "not for strangers"


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """Fail if a process is left when the runners are closed; before, each has the next worker ready."""
    before = set(psutil.Process().children(recursive=True))
    yield
    left = set(psutil.Process().children(recursive=True)) - before
    assert not left, f"still there: {left}"


@pytest.fixture(scope="module", params=LEVELS)
def commands(request: pytest.FixtureRequest) -> Iterator[SourceCommands]:
    with commands_at(request.param) as runner:
        yield runner


@pytest.fixture
def level(request: pytest.FixtureRequest, commands: SourceCommands) -> IsolationLevel:
    chosen: IsolationLevel = request.node.callspec.params["commands"]
    return chosen


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return Repository.make(tmp_path_factory.mktemp("served") / "repo.git")


@pytest.fixture
def direct() -> DirectRunner:
    return DirectRunner(os.environ)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder beside one with a secret."""
    (tmp_path / "secret").write_text(_SECRET)
    granted = tmp_path / "granted"
    granted.mkdir()
    (granted / "file").write_text("for everybody")
    return granted


class _Served:
    """Files over HTTP on the loopback, and what was asked for."""

    def __init__(self, folder: Path, address: str) -> None:
        asked = self.asked = []

        class Handler(http.server.SimpleHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None:
                asked.append(self.path)

        self._server = http.server.ThreadingHTTPServer((address, 0), partial(Handler, directory=str(folder)))
        self.port = self._server.server_address[1]
        self.url = f"http://{address}:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join(_SECONDS)
        self._server.server_close()


@contextmanager
def serving(folder: Path, address: str = "127.0.0.1") -> Iterator[_Served]:
    served = _Served(folder, address)
    try:
        yield served
    finally:
        served.close()


@dataclass(frozen=True)
class Repository:
    """A bare repository of a thousand files, which can be fetched as files; nobody changes it."""

    folder: Path
    commit: str

    @classmethod
    def make(cls, folder: Path) -> Repository:
        plain = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}

        def git(*arguments: str | Path, stdin: str = "") -> str:
            command = ["git", *arguments]
            found = subprocess.run(command, env=plain, check=True, capture_output=True, text=True, input=stdin)
            return found.stdout.strip()

        contents = [f"{number}\n" * 10 for number in range(1000)]
        stream = "commit refs/heads/main\ncommitter a <a@example.org> 0 +0000\ndata 5\nfirst\n" + "".join(
            f"M 644 inline file-{number}\ndata {len(text)}\n{text}\n" for number, text in enumerate(contents)
        )
        git("init", "-q", "-b", "main", "--bare", folder)
        # As one pack: of a thousand loose files, each would be a request of its own.
        git("-C", folder, "-c", "fastimport.unpackLimit=1", "fast-import", "--quiet", stdin=stream)
        git("-C", folder, "update-server-info")
        return cls(folder, git("-C", folder, "rev-parse", "HEAD"))


def make_bare(folder: Path) -> None:
    """Lay out an empty repository; where modes cannot be set, git itself cannot."""
    for name in ("objects/pack", "refs"):
        (folder / name).mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = true\n")


# -- what is out of reach --------------------------------------------------------------------------


def test_a_command_reads_what_it_was_given_and_nothing_beside_it(
    commands: SourceCommands, direct: DirectRunner, folder: Path
) -> None:
    secret = str(folder.parent / "secret")
    reach = CommandAccess("cat", reads=(folder,))
    with direct.open(reach) as session:
        assert session.run(["cat", secret]).stdout == _SECRET.encode()
    with commands.open(reach) as session:
        assert session.run(["cat", str(folder / "file")]).stdout == b"for everybody"
        refused = session.run(["cat", secret])
    assert refused.code != 0
    assert _SECRET.encode() not in refused.stdout


def test_a_command_writes_where_it_may_and_nowhere_else(
    commands: SourceCommands, direct: DirectRunner, folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    places = {name: tmp_path / name for name in ("secret", "new", "granted/file", "granted/new")}
    reach = CommandAccess("sh", reads=(folder,), writes=(out,))

    def write(path: Path) -> list[str]:
        return ["sh", "-c", 'printf written > "$1"', "sh", str(path)]

    with commands.open(reach) as session:
        assert session.run(write(out / "file")).code == 0
        for place in places.values():
            assert session.run(write(place)).code != 0
    assert (out / "file").read_text() == "written"
    assert (out / "file").stat().st_uid == os.geteuid()
    assert (tmp_path / "secret").read_text() == _SECRET
    assert not places["new"].exists() and not places["granted/new"].exists()
    with direct.open(reach) as session:
        for place in places.values():
            assert session.run(write(place)).code == 0


@_GIT
def test_a_command_connects_to_the_hosts_it_was_given_and_to_no_others(
    commands: SourceCommands, direct: DirectRunner, repository: Repository
) -> None:
    with serving(repository.folder.parent) as granted, serving(repository.folder.parent) as other:
        reach = CommandAccess("git", hosts=(f"127.0.0.1:{granted.port}",))
        ask = ["git", "ls-remote", f"{other.url}/repo.git"]
        with direct.open(reach) as session:
            assert session.run(ask).code == 0
        before = list(other.asked)
        with commands.open(reach) as session:
            reached = session.run(["git", "ls-remote", f"{granted.url}/repo.git"])
            refused = session.run(ask)
        with commands.open(CommandAccess("git")) as session:
            alone = session.run(ask)
    assert (reached.code, reached.refused) == (0, ())
    assert refused.code != 0 and alone.code != 0
    assert refused.refused == (f"127.0.0.1:{other.port}",)
    assert other.asked == before


@_GIT
def test_a_name_that_leads_to_a_private_address_is_not_reached_by_it(
    commands: SourceCommands, direct: DirectRunner, repository: Repository
) -> None:
    name = socket.gethostname().lower()
    try:
        address = socket.gethostbyname(name)
    except OSError:
        pytest.skip(f"{name} leads nowhere here")
    if ip_address(address).is_global or not re.fullmatch("[a-z0-9.-]*[a-z][a-z0-9-]*", name):
        pytest.skip(f"{name} is {address}, which is no private address")
    with serving(repository.folder.parent, address) as served:
        reach = CommandAccess("git", hosts=(f"{name}:{served.port}",))
        ask = ["git", "ls-remote", f"http://{name}:{served.port}/repo.git"]
        with direct.open(reach) as session:
            assert session.run(ask).code == 0
        before = list(served.asked)
        with commands.open(reach) as session:
            refused = session.run(ask)
        assert served.asked == before
    assert refused.code != 0
    assert refused.refused == (f"{name}:{served.port}",)


@pytest.mark.exhaustive("landlock")
def test_the_environment_is_what_was_given_with_a_home_of_its_own(
    commands: SourceCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", _SECRET)
    with commands.open(CommandAccess("env", environ={"GIVEN": "1", "HOME": "/", "PATH": "/"})) as session:
        told = dict(line.split("=", 1) for line in session.run(["env"]).stdout.decode().splitlines())
        size = session.run(["sh", "-c", 'head -c 300000000 /dev/zero > "$HOME/big" && rm "$HOME/big"'])
    assert told["GIVEN"] == "1"
    assert told["LC_ALL"] == "C.UTF-8"
    assert told["HOME"] not in ("/", os.environ["HOME"])
    assert "/usr/bin" in told["PATH"].split(":")
    assert not {"API_KEY", "SSH_AUTH_SOCK"} & set(told)
    assert size.code == 0, size.stderr


def test_each_file_is_bounded(commands: SourceCommands, tmp_path: Path) -> None:
    with commands.open(CommandAccess("head", writes=(tmp_path,), written_bytes=1 << 20)) as session:
        assert session.run(["sh", "-c", f"head -c 9999999 /dev/zero > {tmp_path}/big"]).code != 0
    assert (tmp_path / "big").stat().st_size == 1 << 20


def test_a_program_below_what_may_be_read_runs(commands: SourceCommands, folder: Path) -> None:
    program = folder / "bin" / "hello"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho hello\n")
    program.chmod(0o755)
    with commands.open(CommandAccess("hello", reads=(folder,))) as session:
        assert session.run([str(program)]).stdout == b"hello\n"
    with commands.open(CommandAccess("hello")) as session, pytest.raises(CommandError, match="cannot be started"):
        session.run([str(program)])


def test_a_folder_is_known_by_the_name_it_was_given_by(
    commands: SourceCommands, level: IsolationLevel, folder: Path
) -> None:
    link = folder.parent / "link"
    link.symlink_to(folder)
    with commands.open(CommandAccess("cat", reads=(link,))) as session:
        assert session.run(["cat", str(folder / "file")]).code == 0
        assert session.run(["cat", str(link / "file")]).code == 0


@pytest.mark.exhaustive("landlock")
def test_an_interpreter_and_its_packages_run_where_they_may_be_read(commands: SourceCommands) -> None:
    reads = tuple({Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).resolve().parent} - {Path("/usr")})
    with commands.open(CommandAccess("python", reads=reads, environ={"PYTHONDONTWRITEBYTECODE": "1"})) as session:
        ran = session.run([sys.executable, "-m", "pip", "--version"])
    assert ran.code == 0, ran.stderr
    assert ran.stdout.startswith(b"pip ")


@_AT_ONE_LEVEL
@pytest.mark.parametrize("path", ["/", "/proc/1", "/nowhere/at/all", "relative"])
def test_a_path_that_cannot_be_given_is_an_error(commands: SourceCommands, path: str) -> None:
    with pytest.raises(CommandError, match=re.escape(path)):
        commands.open(CommandAccess("git", reads=(Path(path),))).__enter__()


# -- what becomes of a command ---------------------------------------------------------------------


def test_the_level_is_told_and_commands_follow_one_another_quickly(
    commands: SourceCommands, level: IsolationLevel
) -> None:
    with commands.open(CommandAccess("true")) as session:
        assert session.level == level
        session.run(["true"])
        workers = {process.pid for process in psutil.Process().children(recursive=True)}
        for _ in range(20):
            assert session.run(["true"]).code == 0
        # A worker takes many times as long to start as a program, and none is started.
        assert {process.pid for process in psutil.Process().children(recursive=True)} == workers


@_AT_ONE_LEVEL
@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", -15), ("kill -9 $$", -9)])
def test_exit_codes_are_told(commands: SourceCommands, script: str, code: int) -> None:
    with commands.open(CommandAccess("sh")) as session:
        assert session.run(["sh", "-c", script]).code == code


def test_a_command_opens_its_input_and_output_by_name(commands: SourceCommands) -> None:
    script = "cat /proc/self/fd/0 > /proc/self/fd/1; echo said > /proc/self/fd/2"
    with commands.open(CommandAccess("sh")) as session:
        done = session.run(["sh", "-c", script], stdin=b"given")
    assert (done.code, done.stdout, done.stderr) == (0, b"given", b"said\n")


@pytest.mark.exhaustive("landlock")
def test_fifty_megabytes_go_in_and_come_out(commands: SourceCommands) -> None:
    data = os.urandom(1 << 20)
    chunks = (data for _ in range(_BIG >> 20))
    with commands.open(CommandAccess("cat")) as session:
        assert session.run(["cat"], stdin=chunks).stdout == data * (_BIG >> 20)


@_AT_ONE_LEVEL
def test_too_much_output_ends_it_and_the_next_runs(commands: SourceCommands) -> None:
    with commands.open(CommandAccess("yes")) as session:
        with pytest.raises(CommandOutputError):
            session.run(["yes"], max_stdout_bytes=1 << 20)
        assert session.run(["echo", "here"]).stdout == b"here\n"


@pytest.mark.parametrize("script", ["sleep 1000", "trap '' TERM; sleep 1000 & sleep 1000"])
def test_a_command_that_takes_too_long_is_ended_with_all_it_started(commands: SourceCommands, script: str) -> None:
    with commands.open(CommandAccess("sleep")) as session:
        with pytest.raises(CommandTimeoutError):
            session.run(["sh", "-c", script], timeout=0.3)
        assert session.run(["echo", "here"]).stdout == b"here\n"
        assert not sleeping()


def test_what_a_command_leaves_behind_ends_with_it(commands: SourceCommands) -> None:
    with commands.open(CommandAccess("sh")) as session:
        assert session.run(["sh", "-c", "sleep 1000 & sleep 1001 & echo here"]).stdout == b"here\n"
        assert not sleeping()
        session.run(["sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 </dev/null &"])
    assert not sleeping()


@_AT_ONE_LEVEL
def test_an_error_of_who_listens_ends_it(commands: SourceCommands) -> None:
    def refuse(data: memoryview) -> None:
        raise KeyError("enough")

    def broken() -> Iterator[bytes]:
        yield b"x"
        raise KeyError("no more")

    with commands.open(CommandAccess("yes")) as session:
        with pytest.raises(KeyError, match="enough"):
            session.run(["yes"], on_stdout=refuse)
        with pytest.raises(KeyError, match="no more"):
            session.run(["cat"], stdin=broken())
        assert session.run(["echo", "here"]).stdout == b"here\n"


@_AT_ONE_LEVEL
def test_a_program_that_is_not_there_is_named(commands: SourceCommands) -> None:
    with commands.open(CommandAccess("git")) as session:
        with pytest.raises(CommandMissingError, match="`no-such-program` cannot be started") as caught:
            session.run(["no-such-program"])
        assert (caught.value.program, caught.value.hints) == ("no-such-program", ("install `no-such-program`",))
        with pytest.raises(CommandError, match="`/etc/passwd` cannot be started") as refused:
            session.run(["/etc/passwd"])
        assert not isinstance(refused.value, CommandMissingError)
        assert session.run(["true"]).code == 0


def test_a_worker_that_is_killed_is_an_error_and_others_go_on(commands: SourceCommands) -> None:
    with commands.open(CommandAccess("sh")) as session, commands.open(CommandAccess("sh")) as other:
        with pytest.raises(CommandError, match="ended"):
            session.run(["sh", "-c", "kill -9 $PPID; sleep 1000"])
        with pytest.raises(CommandError, match="has ended"):
            session.run(["true"])
        assert other.run(["true"]).code == 0


def test_a_command_that_needs_too_much_memory_is_told_so(
    commands: SourceCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paddock.isolation.commands.command_worker.MEMORY_MAX", 64 << 20)
    with commands.open(CommandAccess("tail")) as session, pytest.raises(CommandError, match="memory"):
        session.run(["sh", "-c", "(head -c 300000000 /dev/zero; sleep 0.6) | tail -c 300000000 | wc -c; exit 1"])


def test_a_command_that_stops_its_worker_is_ended_all_the_same(
    commands: SourceCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paddock.isolation.commands.command_channel._STOP_SECONDS", 0.3)
    with commands.open(CommandAccess("sh")) as session:
        with pytest.raises(CommandTimeoutError):
            session.run(["sh", "-c", "kill -STOP $PPID; sleep 1000"], timeout=0.3)
        assert not sleeping()
        with pytest.raises(CommandError, match="has ended"):
            session.run(["true"])


@_AT_ONE_LEVEL
@pytest.mark.parametrize("how", ["done", "refused", "lost"])
def test_a_worker_that_does_not_end_in_time_is_said_not_to(
    commands: SourceCommands, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    stop, may_end = Supervisor.stop, threading.Event()

    async def stop_late(supervisor: Supervisor) -> None:
        await anyio.to_thread.run_sync(may_end.wait, _SECONDS)
        await stop(supervisor)

    def refuse(data: memoryview) -> None:
        raise KeyError("enough")

    with monkeypatch.context() as patched:
        patched.setattr("paddock.isolation.commands.command_worker._END_SECONDS", 0.2)
        patched.setattr(Supervisor, "stop", stop_late)
        try:
            if how == "done":
                with pytest.raises(CommandError, match="sh: what it ran in does not end"):
                    with commands.open(CommandAccess("sh")) as session:
                        assert session.run(["echo", "here"]).stdout == b"here\n"
            elif how == "refused":
                with pytest.raises(KeyError, match="enough"), commands.open(CommandAccess("sh")) as session:
                    session.run(["echo", "here"], on_stdout=refuse)
            else:
                with pytest.raises(CommandError, match="does not end"), commands.open(CommandAccess("sh")) as session:
                    with pytest.raises(CommandError, match="it was ended"):
                        session.run(["sh", "-c", "kill -9 $PPID; sleep 1000"])
                    with pytest.raises(CommandError, match="has ended"):
                        session.run(["true"])
        finally:
            may_end.set()
    with commands.open(CommandAccess("true")) as session:
        assert session.run(["true"]).code == 0


@_AT_ONE_LEVEL
def test_many_threads_have_sessions_at_once(commands: SourceCommands) -> None:
    def work(number: int) -> bytes:
        with commands.open(CommandAccess("sh")) as session:
            return b"".join(session.run(["sh", "-c", f"echo {number}"]).stdout for _ in range(3))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(16))) == [f"{number}\n".encode() * 3 for number in range(16)]


# -- git -------------------------------------------------------------------------------------------


@_GIT
@_AT_ONE_LEVEL
def test_git_fetches_by_http_and_shows_a_thousand_files(
    commands: SourceCommands, repository: Repository, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    make_bare(cache)
    environ = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_DIR": str(cache)}
    with serving(repository.folder.parent) as served:
        reach = CommandAccess("git", writes=(cache,), hosts=(f"127.0.0.1:{served.port}",), environ=environ)
        with commands.open(reach) as session:
            fetched = session.run(["git", "fetch", "-q", f"{served.url}/repo.git", "main:refs/heads/main"])
            assert fetched.code == 0, fetched.stderr
            listed = session.run(["git", "ls-tree", "-r", "-z", repository.commit]).stdout.split(b"\0")
            names = [line.split()[2] for line in listed if line]
            shown = session.run(["git", "cat-file", "--batch"], stdin=b"".join(name + b"\n" for name in names))
    assert len(names) == 1000
    assert shown.code == 0 and shown.stdout.count(b" blob ") == 1000
    assert all(path.stat().st_uid == os.geteuid() for path in cache.rglob("*"))


@_GIT
def test_git_clones_a_folder_that_it_may_read(
    commands: SourceCommands, level: IsolationLevel, repository: Repository, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    make_bare(out / "clone")
    reach = CommandAccess("git", reads=(repository.folder,), writes=(out,), environ={"GIT_CONFIG_NOSYSTEM": "1"})
    with commands.open(reach) as session:
        source = f"file://{repository.folder}"
        if level == "landlock":  # modes cannot be set there, which `git clone` insists on
            ran = session.run(["git", "-C", str(out / "clone"), "fetch", "-q", source, "main:refs/heads/main"])
        else:
            ran = session.run(["git", "clone", "-q", "--bare", source, str(out / "other")])
        assert ran.code == 0, ran.stderr
        there = out / ("clone" if level == "landlock" else "other")
        assert session.run(["git", "-C", str(there), "cat-file", "-t", repository.commit]).stdout == b"commit\n"


# -- the host --------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["scope", "task"])
async def test_who_is_cancelled_leaves_no_command(how: str) -> None:
    running = threading.Event()

    def work(runner: SourceCommands) -> None:
        with runner.open(CommandAccess("sleep")) as session:
            session.run(["sh", "-c", "echo here; sleep 1000"], on_stdout=lambda data: running.set(), timeout=100)

    async def host() -> None:
        async with SourceCommands.started(os.environ) as runner:
            await anyio.to_thread.run_sync(work, runner)

    with anyio.fail_after(_SECONDS):
        if how == "scope":
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(host)
                assert await anyio.to_thread.run_sync(running.wait, _SECONDS)
                tasks.cancel_scope.cancel()
        else:
            task = asyncio.create_task(host())
            assert await anyio.to_thread.run_sync(running.wait, _SECONDS)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
    assert not sleeping()


async def test_a_host_that_is_lent_outlives_its_commands() -> None:
    running = threading.Event()

    def sleep(runner: SourceCommands) -> None:
        with runner.open(CommandAccess("sleep")) as session:
            session.run(["sh", "-c", "echo here; sleep 1000"], on_stdout=lambda data: running.set(), timeout=100)

    def say(runner: SourceCommands) -> bytes:
        with runner.open(CommandAccess("echo")) as session:
            return session.run(["echo", "there"]).stdout

    async with SandboxHost.started() as host:
        with anyio.fail_after(_SECONDS):
            async with SourceCommands.started(os.environ, host=host) as runner, anyio.create_task_group() as tasks:
                tasks.start_soon(anyio.to_thread.run_sync, sleep, runner)
                assert await anyio.to_thread.run_sync(running.wait, _SECONDS)
                tasks.cancel_scope.cancel()
            assert not sleeping()
            async with SourceCommands.started(os.environ, host=host) as runner:
                assert await anyio.to_thread.run_sync(say, runner) == b"there\n"


async def test_the_first_worker_shows_as_much_of_its_level_as_a_trial() -> None:
    def level_of(runner: SourceCommands, access: CommandAccess) -> IsolationLevel:
        with runner.open(access) as session:
            return cast(IsolationLevel, session.level)

    async with SandboxHost.started() as host, SandboxHost.started() as other, SandboxHost.started() as third:
        async with SourceCommands.started(os.environ, host=host) as runner:
            level = await anyio.to_thread.run_sync(level_of, runner, CommandAccess("first"))
        found = host.sandbox_support.findings[level]
        assert found == (await other.try_levels([level])).findings[level] and isinstance(found, Available)
        async with SourceCommands.started(os.environ, host=third) as runner:
            with pytest.raises(CommandError, match="cannot be reached"):
                await anyio.to_thread.run_sync(level_of, runner, CommandAccess("bad", reads=(Path("/nowhere"),)))
            assert await anyio.to_thread.run_sync(level_of, runner, CommandAccess("good")) == level


async def test_a_level_that_lets_the_first_worker_out_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[IsolationLevel] = []

    def breaches(profile: SandboxProfile, verdicts: Mapping[str, bool]) -> tuple[str, ...]:
        judged.append(profile.level)
        return ("memfd",) if len(judged) == 1 else ()

    def level_of(runner: SourceCommands) -> str:
        with runner.open(CommandAccess("first")) as session:
            return session.level

    monkeypatch.setattr("paddock_sandbox.self_check.breaches", breaches)
    async with SandboxHost.started() as host, SourceCommands.started(os.environ, host=host) as runner:
        assert await anyio.to_thread.run_sync(level_of, runner) != judged[0]
        assert isinstance(host.sandbox_support.findings[judged[0]], Unavailable)


async def test_who_is_cancelled_waits_for_no_other_host(tmp_path: Path) -> None:
    def wait() -> None:
        with SourceCache(tmp_path / "cache", check=check_cancelled).repositories.locked("https://host", 600):
            raise AssertionError("two are in")

    with SourceCache(tmp_path / "cache").repositories.locked("https://host", 1):
        since = time.monotonic()
        with anyio.move_on_after(0.7) as scope:
            await anyio.to_thread.run_sync(wait)
        assert scope.cancelled_caught
        assert time.monotonic() - since < 60


@pytest.mark.usefixtures("cold")
async def test_workers_come_from_one_template_without_the_contract() -> None:
    def run(runner: SourceCommands) -> None:
        with runner.open(CommandAccess("true")) as session:
            session.run(["true"])

    before = set(psutil.Process().children())
    async with SourceCommands.started(os.environ) as runner:
        for _ in range(2):
            await anyio.to_thread.run_sync(run, runner)
        (template,) = set(psutil.Process().children()) - before
        loaded = [mapped.path for mapped in template.memory_maps()]
        assert any("msgpack" in path for path in loaded) and not any("pydantic" in path for path in loaded)


async def test_a_runner_that_is_over_runs_nothing() -> None:
    async with SourceCommands.started(os.environ) as runner:
        pass
    with pytest.raises(CommandError, match="host is ending"):
        await anyio.to_thread.run_sync(lambda: runner.open(CommandAccess("git")).__enter__())


async def test_a_level_that_cannot_be_had_is_told_with_the_step_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[Mapping[str, str]] = []

    def look(environ: Mapping[str, str]) -> Machine:
        looks.append(environ)
        return Machine.look(environ)

    monkeypatch.setattr("paddock.isolation.commands.source_commands.Machine", SimpleNamespace(look=look))
    async with SourceCommands.started(os.environ, isolation="bwrap") as runner:
        monkeypatch.setattr("paddock.workers.bwrap._PATH", "/nowhere")
        for name in ("git", "uv"):
            with pytest.raises(CommandError, match=f"{name}: .*bwrap is not installed") as caught:
                await anyio.to_thread.run_sync(lambda reach: runner.open(reach).__enter__(), CommandAccess(name))
            assert caught.value.hints
    assert len(looks) == 1


async def test_commands_run_without_any_isolation_where_the_operator_says_so() -> None:
    def run(runner: SourceCommands) -> str:
        with runner.open(CommandAccess("true")) as session:
            session.run(["true"])
            return session.level

    async with SourceCommands.started(os.environ, isolation="none") as runner:
        assert await anyio.to_thread.run_sync(run, runner) == "none"


def sleeping() -> list[psutil.Process]:
    """Return what of this process's descendants sleeps for a thousand seconds, once it has had time to end."""
    found: list[psutil.Process] = []
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = []
        for process in psutil.Process().children(recursive=True):
            try:
                if process.name() == "sleep" and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except psutil.NoSuchProcess:
                continue
        if not found:
            break
        time.sleep(0.02)
    return found
