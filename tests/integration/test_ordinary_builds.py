"""Builds, tests and servers that a shell tool runs: they get what they need, or their own result says what they met."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import anyio
import pytest

from integration.command_line import paddock, require_level
from integration.community import contents
from integration.tricky_tool import json_output
from paddock import Session
from paddock.workers import worker_host
from paddock.workers.exit_report import ExitReason, ExitReport
from paddock_sandbox.cgroup import CgroupHome
from paddock_sandbox.profile import IsolationLevel

_SECONDS = 100  # for a whole session; hit only by a hang
_MAKEFILE = "all: $(addprefix job,$(shell seq 24))\njob%:\n\t@sleep 0.5 | cat\n"
_POOL = """
import os, threading
children, ready, gate = [], os.pipe(), os.pipe()
for _ in range(8):
    if (pid := os.fork()) == 0:
        done = threading.Event()
        threads = [threading.Thread(target=done.wait) for _ in range(4)]
        for thread in threads:
            thread.start()
        os.write(ready[1], b".")
        os.read(gate[0], 1)
        done.set()
        for thread in threads:
            thread.join()
        os._exit(0)
    children.append(pid)
for _ in children:
    os.read(ready[0], 1)  # all of them run at this moment
os.write(gate[1], bytes(8))
print(sum(os.waitpid(pid, 0)[1] for pid in children))
"""
_EATS = "python3 -c 'eaten = [b\"x\" * (1 << 20) for _ in range(4096)]'"
_EATS_SLOWLY = "python3 -c 'import time; a = [(b\"x\" * (16 << 20), time.sleep(0.05)) for _ in range(256)]'"
_LIMIT = "256M"


@pytest.fixture(params=[True, False], ids=["control group", "no control group"])
def has_groups(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether control groups can be made, as far as they can be here."""
    require_level("ns")
    if not request.param:
        monkeypatch.setattr(worker_host, "find_groups", CgroupHome)
    return bool(request.param)


@pytest.fixture
def project(home: Path) -> Path:
    """A folder with something to build."""
    work = home / "work"
    (work / "Makefile").write_text(_MAKEFILE)
    (work / "pool.py").write_text(_POOL)
    return work


async def run(work: Path, *commands: str | dict[str, Any], **limits: Any) -> tuple[list[Any], list[ExitReport]]:
    """Run commands, or other calls, in one session of the tool; return what each gave, and the ends of the module."""
    calls = [{"name": "bash", "arguments": {"command": one}} if isinstance(one, str) else one for one in commands]
    responses = [{"tool_calls": [call]} for call in calls]
    granted = {"read": ["."], "write": ["."], "run": ["*"]}
    plan = {
        "session": {"orchestrator": {"module": "loop-basic"}, "context": {"module": "context-simple"}},
        "providers": [{"module": "provider-mock", "config": {"responses": [*responses, "done"]}}],
        "tools": [{"module": "tool-bash", "permissions": granted, "limits": limits}],
    }
    with anyio.fail_after(_SECONDS):
        async with Session(plan, working_dir=work, isolation="ns", trust_plan=True) as session:
            assert await session.execute("go") == "done"
            said = [json.loads(text) if text.startswith("{") else text for text in await contents(session, "tool")]
            (reports,) = [list(one.exit_reports) for one in session.modules if one.module == "tool-bash"]
    return said, reports


@pytest.mark.exhaustive("no control group")
async def test_a_wide_build_has_its_jobs(project: Path, has_groups: bool) -> None:
    (built,), _ = await run(project, "make -j16")
    assert (built["returncode"], built["stderr"]) == (0, ""), built


@pytest.mark.exhaustive("no control group")
async def test_processes_with_threads_of_their_own_get_them(project: Path, has_groups: bool) -> None:
    (ran,), _ = await run(project, "timeout 30 python3 pool.py")
    assert (ran["stdout"], ran["stderr"]) == ("0\n", ""), ran


async def test_a_limit_is_in_the_result_of_the_command_that_met_it(project: Path, has_groups: bool) -> None:
    (failed, hidden, other), _ = await run(project, "make -j16", "make -j16; true", "true", tasks_max=16)
    for met in (failed, hidden):
        assert met["limits"] == ["tasks_max: 16: it could start no more processes and threads"], met
    assert "limits" not in other
    assert hidden["returncode"] == 0 != failed["returncode"]


@pytest.mark.exhaustive("no control group")
async def test_a_program_that_takes_all_memory_ends_alone(project: Path, has_groups: bool) -> None:
    job = {"name": "bash", "arguments": {"command": "sleep 600", "run_in_background": True}}
    look = {"name": "bash_output", "arguments": {"job_id": "job-1"}}
    (_, ate, running), reports = await run(project, job, _EATS, look, memory_max=_LIMIT)
    assert ate["returncode"] == -9 or ate["returncode"] == 137, ate
    assert ate["limits"] == [f"memory_max: {_LIMIT}: its largest process was ended, so that the others have room"]
    assert running["status"] == "running" and "limits" not in running
    assert all(report.reason is not ExitReason.MEMORY for report in reports)


@pytest.mark.exhaustive("no control group")
async def test_the_third_that_takes_all_memory_ends_the_module(project: Path, has_groups: bool) -> None:
    said, reports = await run(project, f"for i in 1 2 3 4 5 6; do {_EATS_SLOWLY}; done", memory_max=_LIMIT)
    report = next(one for one in reports if one.reason is ExitReason.MEMORY)
    assert report.limit is not None and len(report.limit.ended) == 3
    assert "after the end of " in report.describe() and report.describe().count("python3") == 3, report.describe()
    assert "python3" in said[0]


@pytest.mark.exhaustive
async def test_the_processors_are_those_that_may_be_used(project: Path) -> None:
    require_level("ns")
    asked = [
        "env -u OMP_NUM_THREADS nproc",
        "getconf _NPROCESSORS_ONLN",
        "getconf _NPROCESSORS_CONF",
        "cat /sys/devices/system/cpu/online",
    ]
    if shutil.which("node"):
        asked.append("node -p 'os.availableParallelism()'")
    ran, _ = await run(project, *asked)
    usable = sorted(os.sched_getaffinity(0))
    shown = [one["stdout"].strip() for one in ran]
    assert shown.pop(3) == ",".join(map(str, usable))
    assert shown == [str(len(usable))] * len(shown), ran


async def test_thread_pools_and_builds_are_told_the_quota(project: Path) -> None:
    require_level("ns")
    script = "print-flags:\n\t@echo $(MAKEFLAGS) $$OMP_NUM_THREADS $$JOBS $$UV_THREADPOOL_SIZE\n"
    (project / "Makefile").write_text(script)
    (ran,), _ = await run(project, "make", cpu_quota="150%")
    assert ran["stdout"].split()[0].startswith("-j2") and ran["stdout"].split()[-3:] == ["2", "2", "2"], ran


def test_more_tasks_than_half_of_the_machines_are_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    most = int(Path("/proc/sys/kernel/pid_max").read_text())
    given = ["call", "builtin:tool-bash", "bash", '{"command": "true"}', "--allow-run=bash", "--allow-read=."]
    done = paddock(*given, f"--limit=tasks_max={most}")
    assert done.returncode == 4, done.stderr
    assert f"tasks_max: {most} is more than" in done.stderr and "processes and threads, of which modules" in done.stderr


def test_a_module_that_waits_for_its_quota_says_so(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_level("ns")
    monkeypatch.chdir(project)
    given = ["call", "builtin:tool-bash", "bash", '{"command": "while :; do :; done"}', "--allow-run=bash"]
    done = paddock(*given, "--allow-read=.", "--limit=cpu_quota=5%", "--limit=runtime_max=1s")
    assert done.returncode == 5, done.stderr
    assert "for its share of a processor, `cpu_quota`" in done.stderr, done.stderr


def test_what_a_build_makes_in_its_private_folder_runs_as_well(project: Path, a_level: IsolationLevel) -> None:
    # As `go test` does. The compiled file is mapped as code, which a folder without programs does not allow either.
    command = 'cp /bin/echo "$TMPDIR/made" && "$TMPDIR/made" ran'
    given = ("--allow-read=.", f"--isolation={a_level}", "--json", "-C", str(project))
    call = ("call", "builtin:tool-bash", "bash", json.dumps({"command": command}))
    ran = json_output(paddock(*call, *given, "--allow-run=*"))
    assert ran["output"]["stdout"] == "ran\n", ran
    refused = json_output(paddock(*call, *given, "--allow-run=bash", "--allow-run=cp"))
    assert "ran" not in json.dumps(refused.get("output", "")) and "ermission denied" in json.dumps(refused)
