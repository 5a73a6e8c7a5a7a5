"""What module code reached for: what is noted of it, how it is told, and what a tool that failed says of it."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paddock_sdk.contract.models import ToolResult
from paddock_sdk.protocol import HandleEntry, Kind
from paddock_sdk.protocol.methods import HostMethod
from paddock_sdk.worker.attempts import noticing as noted
from paddock_sdk.worker.attempts.attempt_log import read
from paddock_sdk.worker.attempts.noticing import AttemptRecorder
from support.rows import each_row

from .conftest import Rig
from .scripted_host import ScriptedHost


@pytest.fixture
def attempts() -> AttemptRecorder:
    made = AttemptRecorder()
    made.install()
    return made


def reach(attempts: AttemptRecorder, act: Callable[[], object]) -> list[list[str]]:
    """Return what is told of an act, whatever comes of it."""
    mark = attempts.mark()
    try:
        act()
    except Exception as error:
        assert isinstance(error, (OSError, ValueError, TypeError, SyntaxError)), error
    return attempts.since(mark)


def _lookup() -> None:
    socket.getaddrinfo("host.invalid", 443)


def _connect() -> None:
    with socket.socket(socket.AF_INET6) as line:
        line.connect(("::1", 1))


@pytest.mark.parametrize(
    ("act", "told"),
    [
        (lambda: open("/gone/x"), [["read", "/gone/x"]]),
        (lambda: open(Path("/gone/x"), "rb"), [["read", "/gone/x"]]),
        (lambda: open("/gone/x", "w"), [["write", "/gone/x"]]),
        (lambda: open("/gone/x", "r+"), [["write", "/gone/x"]]),
        (lambda: Path("/gone/x").read_text(), [["read", "/gone/x"]]),
        (lambda: Path("/gone/x").write_text(""), [["write", "/gone/x"]]),
        (lambda: os.open("/gone/x", os.O_RDONLY), [["read", "/gone/x"]]),
        (lambda: os.open("/gone/x", os.O_WRONLY | os.O_CREAT), [["write", "/gone/x"]]),
        (lambda: os.listdir("/gone/x"), [["read", "/gone/x"]]),
        (lambda: os.scandir("/gone/x"), [["read", "/gone/x"]]),
        (lambda: os.chdir("/gone/x"), [["read", "/gone/x"]]),
        (lambda: os.mkdir("/gone/x"), [["write", "/gone/x"]]),
        (lambda: os.remove("/gone/x"), [["write", "/gone/x"]]),
        (lambda: os.rmdir("/gone/x"), [["write", "/gone/x"]]),
        (lambda: os.rename("/gone/x", "/gone/y"), [["write", "/gone/y"]]),
        (lambda: os.symlink("/etc", "/gone/y"), [["write", "/gone/y"]]),
        (lambda: subprocess.run(["gone-program", "x"]), [["run", "gone-program"]]),
        (lambda: subprocess.run("exit 0", shell=True), [["run", "/bin/sh"]]),
        (lambda: os.posix_spawn("/gone/x", ["x"], {}), [["run", "/gone/x"]]),
        (_connect, [["net", "[::1]:1"]]),
    ],
)
def test_what_is_reached_for_is_told_with_its_kind(
    attempts: AttemptRecorder, act: Callable[[], object], told: list[list[str]]
) -> None:
    assert reach(attempts, act) == told


@pytest.mark.parametrize("source", ["<string>", "<unknown>"])
def test_code_without_a_file_that_does_not_compile_is_no_attempt(attempts: AttemptRecorder, source: str) -> None:
    assert reach(attempts, lambda: compile("no code", source, "exec")) == []


def test_a_host_that_is_looked_up_is_told(attempts: AttemptRecorder) -> None:
    assert ["net", "host.invalid:443"] in reach(attempts, _lookup)


@each_row(
    ("address", "noted"),
    [
        (("api.example", 443), "api.example:443"),
        (("api.example", "https"), "api.example:443"),
        (("api.example", "8080"), "api.example:8080"),
        (("api.example", "gopher"), "api.example"),
        (("api.example", None), "api.example"),
        ((b"api.example", 80), "api.example:80"),
        (("fe80::1%eth0", 80), "[fe80::1]:80"),
        (None, ""),
        ((None, 80), None),
        (("", 80), None),
        (("a\nb", 80), None),
        (("x" * 2000, 80), None),
        ((object(), 80), None),
        (("host",), None),
    ],
)
def test_a_destination_is_noted_as_a_host_and_a_port(
    attempts: AttemptRecorder, address: Any, noted: str | None
) -> None:
    event = ("socket.__new__", None, socket.AF_INET) if address is None else ("socket.connect", None, address)
    assert reach(attempts, lambda: sys.audit(*event)) == ([] if noted is None else [["net", noted]])


@each_row(
    ("address", "noted"),
    [
        (("127.0.0.1", 8000), "127.0.0.1:8000"),
        (("127.0.0.1", 0), "127.0.0.1"),
        (("", 8000), "0.0.0.0:8000"),
        (("::1", 8000, 0, 0), "[::1]:8000"),
        (("", 0), None),
        (("0.0.0.0", 0), None),
        ("/tmp/x.sock", None),
        ((7, 8), None),
    ],
)
def test_where_it_would_listen_is_noted(attempts: AttemptRecorder, address: object, noted: str | None) -> None:
    told = reach(attempts, lambda: sys.audit("socket.bind", None, address))
    assert told == ([] if noted is None else [["serve", noted]])


def test_what_exists_and_may_be_opened_is_not_told(attempts: AttemptRecorder, tmp_path: Path) -> None:
    here = tmp_path / "here"

    def act() -> None:
        here.write_text("x")
        here.read_text()
        os.listdir(tmp_path)

    assert reach(attempts, act) == []


def test_what_is_there_and_refused_is_told(
    attempts: AttemptRecorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "kept"
    kept.write_text("x")
    opened = os.open

    def refuse(path: Any, *args: Any) -> int:
        if path == str(kept):
            raise PermissionError(13, "no")
        return opened(path, *args)

    def act() -> None:
        kept.read_text()

    mark = attempts.mark()
    act()
    monkeypatch.setattr(noted.os, "open", refuse)
    assert attempts.since(mark) == [["read", str(kept)]]


def test_a_relative_path_is_told_in_full(
    attempts: AttemptRecorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert reach(attempts, lambda: open("gone/x")) == [["read", f"{tmp_path}/gone/x"]]


def test_a_name_below_an_open_folder_is_left_out(attempts: AttemptRecorder, tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        for act in (
            lambda: os.open("gone", os.O_RDONLY, dir_fd=folder),
            lambda: os.mkdir("gone/x", dir_fd=folder),
            lambda: os.remove("gone", dir_fd=folder),
        ):
            assert reach(attempts, act) == []
    finally:
        os.close(folder)


def test_the_modules_own_code_is_left_out(tmp_path: Path) -> None:
    made = AttemptRecorder()
    made.install([str(tmp_path)])
    assert reach(made, lambda: open(tmp_path / "missing.py")) == []
    assert reach(made, lambda: open(f"{tmp_path}x/missing.py")) != []


# All events of files, programs and networks that Python itself raises.
_EVENTS = [
    *("open", "exec", "import", "compile", "ctypes.dlopen", "fcntl.fcntl", "fcntl.flock", "ftplib.connect"),
    *("ftplib.sendcmd", "glob.glob", "glob.glob/2", "http.client.connect", "http.client.send", "imaplib.open"),
    *("mmap.__new__", "os.add_dll_directory", "os.chdir", "os.chflags", "os.chmod", "os.chown", "os.exec", "os.fork"),
    *("os.forkpty", "os.fwalk", "os.getxattr", "os.kill", "os.killpg", "os.link", "os.listdir", "os.listdrives"),
    *("os.listmounts", "os.listvolumes", "os.listxattr", "os.lockf", "os.mkdir", "os.posix_spawn", "os.putenv"),
    *("os.remove", "os.removexattr", "os.rename", "os.rmdir", "os.scandir", "os.setxattr", "os.spawn", "os.startfile"),
    *("os.startfile/2", "os.symlink", "os.system", "os.truncate", "os.unsetenv", "os.utime", "os.walk"),
    *("pathlib.Path.glob", "pathlib.Path.rglob", "pty.spawn", "shutil.chown", "shutil.copyfile", "shutil.copymode"),
    *("shutil.copystat", "shutil.copytree", "shutil.make_archive", "shutil.move", "shutil.rmtree"),
    *("shutil.unpack_archive", "smtplib.connect", "smtplib.send", "socket.__new__", "socket.bind", "socket.connect"),
    *("socket.getaddrinfo", "socket.gethostbyaddr", "socket.gethostbyname", "socket.gethostname"),
    *("socket.getnameinfo", "socket.getservbyname", "socket.getservbyport", "socket.sendmsg", "socket.sendto"),
    *("socket.sethostname", "sqlite3.connect", "subprocess.Popen", "tempfile.mkdtemp", "tempfile.mkstemp"),
    *("urllib.Request", "webbrowser.open"),
]


class _Strange:
    """A path that does everything wrong when it is looked at."""

    def __fspath__(self) -> str:
        raise RuntimeError("no")

    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


@pytest.mark.parametrize(
    "args", [(), (None,), (_Strange(),) * 2, ("\0", "\0", -1), (b"\xff", "r", 0), ("\ud800", 3, 4), (1, 2, 3, 4, 5, 6)]
)
def test_nothing_that_is_noted_can_raise(attempts: AttemptRecorder, args: tuple[Any, ...]) -> None:
    for event in _EVENTS:
        mark = attempts.mark()
        sys.audit(event, *args)
        for kind, target in attempts.since(mark):
            assert kind in ("read", "write", "run", "net", "serve"), event
            assert target.isprintable(), event


def test_what_is_remembered_and_told_is_bounded_and_the_latest(attempts: AttemptRecorder) -> None:
    mark = attempts.mark()
    for number in range(1000):
        with pytest.raises(FileNotFoundError):
            open(f"/gone/{number}")
    told = attempts.since(mark)
    assert told == [["read", f"/gone/{number}"] for number in range(1000 - len(told), 1000)]
    assert 10 < len(told) <= 64


def test_the_same_again_is_told_once(attempts: AttemptRecorder) -> None:
    def act() -> None:
        for _ in range(3):
            with pytest.raises(FileNotFoundError):
                open("/gone/x")

    assert reach(attempts, act) == [["read", "/gone/x"]]


def test_paths_inside_an_input_are_looked_for_so_deep_and_no_further(attempts: AttemptRecorder) -> None:
    deep: Any = {"path": "/gone/deep"}
    for _ in range(4):
        deep = {"inner": deep}
    for arguments, found in (
        ({"path": "/gone/a", "text": "/gone/b"}, ["/gone/a"]),
        ({"paths": ["/gone/a", ["/gone/b"], 3, {"name": "/gone/c"}]}, ["/gone/a", "/gone/b"]),
        (
            {"edits": [{"file_path": "/gone/a", "new_text": "/gone/b"}, {"where": {"Folder": "/gone/c"}}]},
            ["/gone/a", "/gone/c"],
        ),
        ({"files": {"a": "/gone/a", 1: "/gone/b"}}, []),
        (deep, []),
        (deep["inner"], ["/gone/deep"]),
        ({"texts": ["x"] * 1000, "path": "/gone/a"}, ["/gone/a"]),
        (["/gone/a"], []),
    ):
        assert reach(attempts, lambda given=arguments: attempts.note_arguments(given, "/work")) == [
            ["read", path] for path in found
        ]
    many = reach(attempts, lambda: attempts.note_arguments({"paths": [f"/gone/{one}" for one in range(1000)]}, "/"))
    assert 16 <= len(many) <= 64


def test_a_stand_in_is_told_of_where_a_failed_call_names_it(attempts: AttemptRecorder) -> None:
    assert reach(attempts, lambda: open("/etc/hosts").close()) == []
    for path in ("/etc/hosts", "/etc/../etc/hosts", "../etc/hosts"):
        told = reach(attempts, lambda given=path: attempts.note_arguments({"file_path": given}, "/work"))
        assert told == [["read", "/etc/hosts"]]
    assert reach(attempts, lambda: attempts.note_arguments({"text": "/etc/passwd"}, "/work")) == []
    told = reach(attempts, lambda: attempts.note_arguments({"file_path": "/gone/a"}, "/work", "write"))
    assert told == [["write", "/gone/a"]]


def test_looking_is_no_attempt_of_its_own(attempts: AttemptRecorder, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    assert attempts.news() is not None
    assert not attempts.has_news


def test_what_other_threads_reach_for_is_noted(attempts: AttemptRecorder) -> None:
    def work() -> None:
        with pytest.raises(FileNotFoundError):
            open("/gone/by-thread")

    mark = attempts.mark()
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    assert attempts.since(mark) == [["read", "/gone/by-thread"]]


# -- in a worker -------------------------------------------------------------------------------

_DENIAL = {"operation": "read", "target": "/gone/x", "grant": 'permissions: {read: ["/gone/x"]}'}


class _Result:
    """A result of the module's own class, which takes no other error."""

    success = False
    output = None

    @property
    def error(self) -> dict[str, str]:
        return {"message": "mine"}


def _open(path: str) -> None:
    with open(path):
        pass


class _Opening:
    name = "opening"
    description = "opens a file that is not there"

    def __init__(self, result: Any = None) -> None:
        self.result = result

    async def execute(self, input: dict[str, Any]) -> Any:
        try:
            _open("/gone/x")
        except OSError:
            if self.result is None:
                raise
        return self.result


async def _mounted(rig: Rig, tool: Any) -> HandleEntry:
    def script(host: ScriptedHost) -> HandleEntry:
        request = host.request_from_worker(HostMethod.MOUNT)
        host.respond(request.id)
        return request.handles[0]

    rig.attempts.install()
    async with rig.playing(script) as played:
        await rig.coordinator.mount("tools", tool)
    return played.result()


@pytest.mark.parametrize(
    ("result", "error"),
    [
        (None, {"type": "FileNotFoundError", "denials": [_DENIAL]}),
        (ToolResult(success=False), {"denials": [_DENIAL]}),
        (ToolResult(success=False, error={"message": "no", "denials": "forged"}), {"denials": [_DENIAL]}),
        (_Result(), {"message": "mine"}),
    ],
)
async def test_a_tool_that_fails_says_what_the_host_knows_of_it(result: Any, error: dict[str, Any], rig: Rig) -> None:
    tool = await _mounted(rig, _Opening(result))

    def script(host: ScriptedHost) -> Any:
        id = host.request(tool.id, 0, {})
        asked, seconds = host.grant(HostMethod.EXPLAIN, [_DENIAL])
        assert ["read", "/gone/x"] in asked
        assert 0 <= seconds < 60
        return host.answer(id)

    answered = await rig.play(script)
    assert not answered.success
    assert {**(answered.error or {}), **error} == answered.error


@pytest.mark.parametrize("answer", [None, "text", RuntimeError("no"), []])
async def test_a_tool_fails_as_before_when_nothing_can_be_said_of_it(answer: Any, rig: Rig) -> None:
    tool = await _mounted(rig, _Opening())

    def script(host: ScriptedHost) -> Any:
        id = host.request(tool.id, 0, {})
        request = host.request_from_worker(HostMethod.EXPLAIN)
        assert request.parent == id
        if isinstance(answer, Exception):
            host.fail(request.id, answer)
        else:
            host.respond(request.id, answer)
        return host.answer(id)

    answered = await rig.play(script)
    assert answered.error["type"] == "FileNotFoundError"
    assert "denials" not in answered.error


async def test_a_tool_that_does_well_asks_for_no_explanation(rig: Rig) -> None:
    tool = await _mounted(rig, _Opening(ToolResult(output="well")))
    answered = await rig.play(lambda host: host.answer(host.request(tool.id, 0, {})))
    assert answered == ToolResult(output="well")


async def test_attempts_are_reported_at_once_only_if_the_call_failed(
    rig: Rig,
) -> None:
    class Other:
        async def fails(self) -> None:
            _open("/gone/a")

        async def manages(self) -> None:
            for name in ("b", "c"):
                with pytest.raises(FileNotFoundError):
                    _open(f"/gone/{name}")

    rig.attempts.install()
    entry = await rig.export(Other())

    def script(host: ScriptedHost) -> list[Any]:
        told = []
        for number in (0, 1):
            id = host.request(entry.id, number)
            if number == 0:
                told.append(host.take(Kind.NOTIFY))
                with pytest.raises(FileNotFoundError):
                    host.answer(id)
            else:
                host.answer(id)
                told.append(host.take(Kind.NOTIFY))
        assert {frame.method for frame in told} == {HostMethod.ATTEMPTED}
        return [host.value(frame) for frame in told]

    first, second = await rig.play(script)
    assert first[-1] == ["read", "/gone/a"]
    assert second == [["read", "/gone/b"], ["read", "/gone/c"]]


async def test_what_can_no_longer_be_sent_stays_in_the_log_for_the_host(rig: Rig) -> None:
    class Waiting:
        def __init__(self) -> None:
            self.begun, self.ended = asyncio.Event(), asyncio.Event()

        async def wait(self) -> None:
            self.begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.ended.set()
                _open("/gone/last")

    waiting = Waiting()
    rig.attempts.install()
    entry = await rig.export(waiting)
    await rig.play(lambda host: host.request(entry.id, 0))
    await waiting.begun.wait()
    rig.driver.close()
    await waiting.ended.wait()
    assert ("read", "/gone/last") in read(bytes(rig.log_memory))


def test_a_missing_variable_is_noted_behind_an_error_without_words(attempts: AttemptRecorder) -> None:
    mark = attempts.mark()
    with pytest.raises(KeyError) as failed:
        try:
            os.environ["OF_THE_USER"]
        except KeyError:
            raise KeyError  # noqa: B904 - as modules write it
    attempts.note_failure(failed.value)
    assert attempts.since(mark) == [["env", "OF_THE_USER"]]
