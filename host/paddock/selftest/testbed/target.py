"""A process of the same user as a target for attacks: it holds a secret, and reports what was done to it.

It ends with the process that started it, at the latest when its stdin is closed.
"""

from __future__ import annotations

import json
import os
import resource
import select
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from paddock_sandbox import syscalls

VARIABLE: Final = "PADDOCK_SELFTEST_SECRET"

_ANSWER_SECONDS: Final = 5.0  # a process that was stopped, or is traced, never answers
_CODE: Final = """
import ctypes, json, os, signal, sys
# Where only descendants may be traced, it allows everybody to.
ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)
secret = os.environ[sys.argv[1]].encode()
memory = ctypes.create_string_buffer(secret, len(secret))
signals = 0
def count(*_):
    global signals
    signals += 1
signal.signal(signal.SIGURG, count)
descriptor = os.open(sys.argv[2], os.O_RDONLY)
print(json.dumps({"address": ctypes.addressof(memory), "descriptor": descriptor}), flush=True)
for line in sys.stdin:
    print(json.dumps({"signals": signals, "memory": memory.raw == secret}), flush=True)
"""


class TargetProcess:
    """One target process, replaced by another after it was attacked."""

    def __init__(self, secret: str, file: Path) -> None:
        self._secret = secret
        self._file = file
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and program
            [sys.executable, "-I", "-S", "-c", _CODE, VARIABLE, os.fspath(self._file)],
            env={VARIABLE: self._secret},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        report = json.loads(self._process.stdout.readline())
        self.address: int = report["address"]
        self.descriptor: int = report["descriptor"]
        self._at_first = self._limits()

    @property
    def pid(self) -> int:
        """Its process id, which is also that of its own group."""
        return self._process.pid

    def injuries(self) -> tuple[str, ...]:
        """Return the noticed attacks on it."""
        if self._process.poll() is not None:
            return (f"the victim was ended: {self._process.returncode}",)
        report = self._ask()
        if report is None:
            return ("the victim stands still",)
        injuries = [
            f"its {name} was changed" for name, value in self._limits().items() if value != self._at_first[name]
        ]
        if report["signals"]:
            injuries.append("it was signalled")
        if not report["memory"]:
            injuries.append("its memory was changed")
        return tuple(f"of the victim: {injury}" for injury in injuries)

    def heal(self) -> None:
        """Replace it with an intact process."""
        if self.injuries():
            self.end()
            self._start()

    def end(self) -> None:
        """End it, and leave nothing of it."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait()

    def _ask(self) -> Mapping[str, Any] | None:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        try:
            stdin.write("?\n")
            stdin.flush()
        except BrokenPipeError:
            return None
        answers = select.poll()  # which takes any number that a descriptor may have
        answers.register(stdout, select.POLLIN)
        if not answers.poll(_ANSWER_SECONDS * 1000):
            return None
        line = stdout.readline()
        report: Mapping[str, Any] | None = json.loads(line) if line else None
        return report

    def _limits(self) -> dict[str, object]:
        return {
            "number of open files": resource.prlimit(self.pid, resource.RLIMIT_NOFILE),
            "priority": os.getpriority(os.PRIO_PROCESS, self.pid),
            "processors": os.sched_getaffinity(self.pid),
            "scheduler": os.sched_getscheduler(self.pid),
            "priority of input and output": syscalls.call("ioprio_get", 1, self.pid),
            "place in the queue of the memory killer": Path(f"/proc/{self.pid}/oom_score_adj").read_text().strip(),
        }
