"""The bash tools: what they return, what they end, and that no output and no process holds them up."""

from __future__ import annotations

import asyncio
import os
import sys
import tracemalloc
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from amplifier_core.models import ToolResult
from amplifier_core.testing import MockCoordinator
from amplifier_module_tool_bash import mount, process
from amplifier_module_tool_bash.process import KeptOutput

pytestmark = pytest.mark.anyio

_SECONDS = 100  # for a process to end; hit only by a hang


class Desk:
    """The tools, mounted for a working directory."""

    def __init__(self, coordinator: MockCoordinator, cleanup: Any, home: Path) -> None:
        self.coordinator = coordinator
        self.cleanup = cleanup
        self.home = home

    async def __call__(self, tool: str, **arguments: Any) -> ToolResult:
        result = await asyncio.wait_for(self.coordinator.get("tools")[tool].execute(arguments), _SECONDS)
        assert isinstance(result, ToolResult)
        return result

    async def pid(self, name: str = "pid") -> int:
        """Return the process id that a command wrote into a file."""
        file = self.home / name
        await until(lambda: file.exists() and file.read_text().endswith("\n"))
        return int((self.home / name).read_text())


@pytest.fixture(autouse=True)
def no_long_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing reaps orphans, a group that has ended seems to go on until it is killed."""
    monkeypatch.setattr(process, "_TERM_SECONDS", 0.2)


async def mounted(home: Path, config: dict[str, Any] | None = None) -> Desk:
    coordinator = MockCoordinator()
    coordinator.register_capability("session.working_dir", str(home))
    return Desk(coordinator, await mount(coordinator, config), home)


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    found = await mounted(tmp_path)
    yield found
    await found.cleanup()


def failed(result: ToolResult, kind: str) -> str:
    assert not result.success and result.error is not None
    assert result.error["type"] == kind
    return str(result.error["message"])


async def ends(pid: int) -> None:
    """Wait for the end of a process."""
    await until(lambda: not _is_running(pid))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(_SECONDS):
        while True:
            if condition():
                return
            await asyncio.sleep(0.01)


def _is_running(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


async def test_a_command_returns_what_it_printed_and_how_it_ended(desk: Desk) -> None:
    result = await desk("bash", command="pwd; echo oops >&2")
    assert (result.success, result.error) == (True, None)
    assert result.output == {"stdout": f"{desk.home}\n", "stderr": "oops\n", "returncode": 0}
    result = await desk("bash", command="echo half; exit 3")
    assert "exit code 3" in failed(result, "exit_code")
    assert result.output == {"stdout": "half\n", "stderr": "", "returncode": 3}
    result = await desk("bash", command="kill -9 $$")
    assert failed(result, "exit_code") and result.output["returncode"] == -9


async def test_the_working_directory_is_that_of_the_moment(desk: Desk) -> None:
    (desk.home / "other").mkdir()
    desk.coordinator.register_capability("session.working_dir", str(desk.home / "other"))
    assert (await desk("bash", command="pwd")).output["stdout"] == f"{desk.home}/other\n"
    desk.coordinator.register_capability("session.working_dir", str(desk.home / "gone"))
    assert "gone" in failed(await desk("bash", command="pwd"), "no_folder")


async def test_a_command_has_nothing_to_read(desk: Desk) -> None:
    assert (await desk("bash", command="cat; read line || echo nothing")).output["stdout"] == "nothing\n"


async def test_a_command_that_takes_too_long_is_ended_with_all_it_started(desk: Desk) -> None:
    result = await desk("bash", command="echo begun; sleep 600 & echo $! > pid; wait", timeout=1)
    assert "after 1 seconds" in failed(result, "timeout")
    assert (result.output["stdout"], result.output["timed_out"]) == ("begun\n", True)
    await ends(await desk.pid())


async def test_a_command_that_ignores_the_first_signal_is_killed(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_TERM_SECONDS", 0.1)
    result = await desk("bash", command="trap '' TERM; echo $$ > pid; while :; do sleep 1; done", timeout=1)
    assert failed(result, "timeout") and result.output["returncode"] == -9
    await ends(await desk.pid())


async def test_what_a_command_leaves_running_is_ended_and_holds_up_nothing(desk: Desk) -> None:
    result = await desk("bash", command="sleep 600 & echo $! > pid; echo done")
    assert result.output == {"stdout": "done\n", "stderr": "", "returncode": 0}
    await ends(await desk.pid())


async def test_a_process_that_left_the_group_and_keeps_the_pipe_holds_up_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_DRAIN_SECONDS", 0.1)
    leave = "import os, time; os.setsid(); open('pid', 'w').write(f'{os.getpid()}\\n'); time.sleep(600)"
    command = f'{sys.executable} -c "{leave}" & until [ -s pid ]; do sleep 0.01; done; echo done'
    try:
        assert (await desk("bash", command=command)).output["stdout"] == "done\n"
    finally:
        os.kill(await desk.pid(), 9)


async def test_a_cancelled_call_ends_its_command(desk: Desk) -> None:
    call = asyncio.create_task(desk("bash", command="echo $$ > pid; sleep 600"))
    pid = await desk.pid()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await ends(pid)


async def test_long_output_is_read_to_its_end_and_kept_in_part(tmp_path: Path) -> None:
    desk = await mounted(tmp_path, {"max_output_bytes": 20})
    tracemalloc.start()
    result = await desk("bash", command="echo beginning; head -c 30000000 /dev/zero; echo; echo the end; echo more >&2")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 4 << 20  # however much is printed
    head, said, tail = result.output["stdout"].rpartition("\n[... 29999999 bytes are left out here ...]\n")
    assert head == "beginning\n" and said and tail.endswith("the end\n")
    assert result.output["stderr"] == "more\n"


async def test_output_that_is_no_text_is_shown_as_far_as_it_is(desk: Desk) -> None:
    assert (await desk("bash", command=r"printf 'a\377b'")).output["stdout"] == "a\ufffdb"


@pytest.mark.parametrize("pieces", [[b"x" * 500], [b"x"] * 500, [b"x" * 9, b"x" * 491]])
def test_any_stream_is_kept_within_the_limit(pieces: list[bytes]) -> None:
    kept = KeptOutput(10)
    for piece in pieces:
        kept.add(piece)
    assert kept.take() == "xxxxx\n[... 490 bytes are left out here ...]\nxxxxx"
    assert kept.take() == ""
    kept.add(b"0123456789")
    assert kept.take() == "0123456789"


async def test_a_program_that_is_missing_or_refused_is_named(desk: Desk) -> None:
    (desk.home / "data").write_text("")
    seen: list[object] = []
    # A hook stays until the process ends, so it must also take the events of later tests, with any arguments.
    sys.addaudithook(lambda event, args: seen.extend(args[:1]) if event == "os.exec" else None)
    result = await desk("bash", command="echo first; no-such-program")
    assert "`run: [no-such-program]`" in failed(result, "not_executed")
    assert result.error is not None and result.error["program"] == "no-such-program"
    assert "`./data`" in failed(await desk("bash", command="./data"), "not_executed")
    assert seen == ["no-such-program", f"{desk.home}/./data"]
    assert failed(await desk("bash", command="exit 127"), "exit_code")


async def test_without_a_shell_it_is_said_what_is_missing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(desk.home))
    assert "grant programs" in failed(await desk("bash", command="echo"), "no_shell")


# -- in the background ---------------------------------------------------------------------


async def test_a_job_is_read_while_it_runs_and_once_it_has_ended(desk: Desk) -> None:
    command = "echo one; until [ -e go ]; do sleep 0.01; done; echo two; exit 4"
    started = await desk("bash", command=command, run_in_background=True)
    assert started.output == {"job_id": "job-1", "status": "running"}
    printed = ""
    while not printed:
        running = (await desk("bash_output", job_id="job-1")).output
        printed = running["stdout"]
    assert running == {"job_id": "job-1", "status": "running", "stdout": "one\n", "stderr": "", "returncode": None}
    (desk.home / "go").touch()
    ended = (await desk("bash_output", job_id="job-1", wait_seconds=30)).output
    assert ended == {"job_id": "job-1", "status": "ended", "stdout": "two\n", "stderr": "", "returncode": 4}
    again = (await desk("bash_output", job_id="job-1")).output
    assert (again["stdout"], again["returncode"]) == ("", 4)


async def test_a_job_is_ended_with_all_it_started(desk: Desk) -> None:
    await desk("bash", command="sleep 600 & echo $! > pid; echo begun; wait", run_in_background=True)
    pid = await desk.pid()
    ended = (await desk("bash_kill", job_id="job-1")).output
    assert (ended["status"], ended["returncode"], ended["stdout"]) == ("ended", -15, "begun\n")
    await ends(pid)
    assert (await desk("bash_kill", job_id="job-1")).success


async def test_jobs_end_with_the_module(tmp_path: Path) -> None:
    desk = await mounted(tmp_path)
    for name in ("first", "second"):
        await desk("bash", command=f"echo $$ > {name}; sleep 600 & wait", run_in_background=True)
    pids = [await desk.pid(name) for name in ("first", "second")]
    await desk.cleanup()
    for pid in pids:
        await ends(pid)
    assert "none" in failed(await desk("bash_output", job_id="job-1"), "no_such_job")


async def test_too_many_jobs_are_refused_until_one_ends(tmp_path: Path) -> None:
    desk = await mounted(tmp_path, {"max_jobs": 1})
    assert (await desk("bash", command="sleep 600", run_in_background=True)).success
    assert "job-1" in failed(await desk("bash", command="true", run_in_background=True), "too_many_jobs")
    assert (await desk("bash", command="true")).success
    await desk("bash_kill", job_id="job-1")
    assert (await desk("bash", command="true", run_in_background=True)).output["job_id"] == "job-2"
    await desk.cleanup()


# -- what is passed in ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("bash", {}, "`command` is missing"),
        ("bash", {"command": " "}, "not empty"),
        ("bash", {"command": "a\0b"}, "must be text"),
        ("bash", {"command": ["ls"]}, "of type string"),
        ("bash", {"command": "ls", "timeout": 0}, "from 1 to 110"),
        ("bash", {"command": "ls", "timeout": 111}, "from 1 to 110"),
        ("bash", {"command": "ls", "timeout": True}, "of type integer"),
        ("bash_output", {"job_id": "job-1", "wait_seconds": 1000}, "from 0 to 110"),
        ("bash_kill", {}, "`job_id` is missing"),
    ],
)
async def test_input_that_makes_no_sense_is_a_failed_result(
    desk: Desk, tool: str, arguments: dict[str, Any], said: str
) -> None:
    assert said in failed(await desk(tool, **arguments), "invalid_input")


async def test_input_that_is_no_object_is_a_failed_result(desk: Desk) -> None:
    assert failed(await desk.coordinator.get("tools")["bash"].execute("ls"), "invalid_input")


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"timeout": 5}, "no setting `timeout`"),
        ({"timeout_seconds": "5"}, "`timeout_seconds` must be a whole number above 0"),
        ({"max_jobs": 0}, "`max_jobs` must be"),
        ({"max_output_bytes": True}, "`max_output_bytes` must be"),
        ({"timeout_seconds": 200}, "must not be above `max_timeout_seconds`"),
    ],
)
async def test_a_wrong_setting_stops_the_mount(tmp_path: Path, config: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        await mounted(tmp_path, config)


async def test_settings_left_out_or_null_are_the_defaults(tmp_path: Path) -> None:
    desk = await mounted(tmp_path, {"timeout_seconds": None})
    schema = desk.coordinator.get("tools")["bash"].input_schema
    assert schema["properties"]["timeout"]["default"] == 60
    assert set(desk.coordinator.get("tools")) == {"bash", "bash_output", "bash_kill"}
    assert (await desk("bash", command="true", timeout=None)).success
