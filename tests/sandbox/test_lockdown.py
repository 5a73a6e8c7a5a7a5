"""What a process does to itself is really done, in order, and a step that fails stops everything after it."""

from __future__ import annotations

import errno
import json
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from paddock_sandbox import lockdown, prctl
from paddock_sandbox.lockdown import LockdownError, LockdownReport
from paddock_sandbox.profile import SandboxProfile

_SANDBOX = Path(lockdown.__file__).parents[1]
_SECONDS = 20


def run(program: str) -> dict[str, Any]:
    """Run a program in a process of its own and return what it prints as JSON."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.append({str(_SANDBOX)!r})\n{program}"],
        capture_output=True,
        timeout=_SECONDS,
    )
    assert done.returncode == 0, done.stderr.decode()
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed


_APPLIED = """
import json, os, resource
from paddock_sandbox.lockdown import apply
from paddock_sandbox.profile import SandboxProfile
report = apply(SandboxProfile(), parent=os.getppid())
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines())
print(json.dumps({
    "report": report.as_dict(),
    "no_new_privs": status["NoNewPrivs"],
    "core": resource.getrlimit(resource.RLIMIT_CORE),
}))
"""


def test_the_process_level_takes_privileges_and_core_files_away_and_says_so() -> None:
    applied = run(_APPLIED)
    assert applied["no_new_privs"] == "1"
    assert applied["core"] == [0, 0]
    assert applied["report"] == {
        "level": "process only",
        "steps": ["no_new_privs", "no core dumps", "die with the parent"],
    }


def test_a_process_dies_with_its_parent() -> None:
    reading, writing = os.pipe()
    program = f"""
import os, signal, sys
sys.path.append({str(_SANDBOX)!r})
from paddock_sandbox.lockdown import apply
from paddock_sandbox.profile import SandboxProfile
parent = os.getpid()
ready, readied = os.pipe()
if os.fork() == 0:
    apply(SandboxProfile(), parent=parent)
    os.write(readied, b"x")
    while True:
        signal.pause()
os.read(ready, 1)
"""
    try:
        subprocess.run([sys.executable, "-I", "-S", "-c", program], pass_fds=(writing,), timeout=_SECONDS, check=True)
        os.close(writing)
        readable, _, _ = select.select([reading], [], [], _SECONDS)
        assert readable and os.read(reading, 1) == b"", "the child holds its pipe after its parent's end"
    finally:
        os.close(reading)


def test_a_process_whose_parent_ended_first_is_not_locked_to_a_stranger() -> None:
    refused = run("""
import json, os
from paddock_sandbox.lockdown import LockdownError, apply
from paddock_sandbox.profile import SandboxProfile
try:
    apply(SandboxProfile(), parent=os.getpid())
except LockdownError as error:
    print(json.dumps({"step": error.step, "errno": error.errno, "text": str(error)}))
""")
    assert refused["step"] == "die with the parent"
    assert refused["errno"] == errno.ESRCH
    assert "lockdown step `die with the parent` failed: the parent ended first" in refused["text"]


def test_no_step_is_taken_after_one_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[str] = []

    def refuse() -> None:
        taken.append("no_new_privs")
        raise OSError(errno.EPERM, "PR_SET_NO_NEW_PRIVS: Operation not permitted")

    monkeypatch.setattr(prctl, "give_up_new_privileges", refuse)
    monkeypatch.setattr(lockdown, "_forbid_core_dumps", lambda: taken.append("no core dumps"))
    with pytest.raises(LockdownError) as failed:
        lockdown.apply(SandboxProfile(), parent=os.getppid())
    assert failed.value.step == "no_new_privs"
    assert taken == ["no_new_privs"]


def test_a_request_the_kernel_refuses_is_an_error_named_after_it() -> None:
    with pytest.raises(OSError, match="PR_SET_PDEATHSIG: Invalid argument"):
        prctl.set_parent_death_signal(4096)


def test_an_orphan_comes_to_a_subreaper() -> None:
    adopted = run("""
import json, os
from paddock_sandbox.prctl import become_child_subreaper
become_child_subreaper()
alive, end = os.pipe()
if os.fork() == 0:
    if os.fork() == 0:
        os.close(end)
        os.read(alive, 1)  # until the parent is gone
        os._exit(7)
    os._exit(0)
os.close(end)
codes = sorted(os.waitstatus_to_exitcode(os.waitpid(-1, 0)[1]) for _ in range(2))
print(json.dumps({"codes": codes}))
""")
    assert adopted["codes"] == [0, 7]


def test_a_report_is_plain_data() -> None:
    assert LockdownReport("process only", ("a", "b")).as_dict() == {"level": "process only", "steps": ["a", "b"]}
