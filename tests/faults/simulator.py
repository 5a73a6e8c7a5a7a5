"""Faults drawn from a seed, done to one session over the hosts that it outlives: `simulator.py SEED STEPS [SECONDS]`.

In each step a turn is run, and at some moment of it a module is killed or stopped for a while, the turn is cancelled, a
second host tries to take the session, or its host is killed and another one goes on. After each step the conversation
is judged. Problems go to stdout, a line each, with the step, so that SEED and that step are enough to see them again.
With SECONDS, later seeds follow until so much time is over, or there is a problem.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from paddock.session.journals.journal_folder import Journals
from support.children import descendants_of

_HOST: Final = Path(__file__).with_name("host.py")
HOST_PATH: Final = os.pathsep.join(map(str, (_HOST.parents[1], *sys.path)))
_SECONDS: Final = 300  # for one host; hit only by a hang
_ENDING_SECONDS: Final = 30
_PR_SET_CHILD_SUBREAPER: Final = 36


def simulate(seed: int, steps: int, ground: Path) -> list[str]:
    """Return the problems of a session of so many steps, below a folder of its own."""
    assert ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0  # what a host leaves can be seen
    work, temporary = ground / "work", ground / "tmp"
    for folder in (work, temporary, ground / "state"):
        folder.mkdir(mode=0o700)
    environ = {**os.environ, "XDG_STATE_HOME": str(ground / "state"), "TMPDIR": str(temporary), "PYTHONPATH": HOST_PATH}
    problems: list[str] = []
    first, was_killed = 0, True
    while first < steps or was_killed:
        command = [sys.executable, str(_HOST), *map(str, (seed, first, steps, work))]
        host = subprocess.run(command, env=environ, capture_output=True, encoding="utf-8", timeout=_SECONDS)
        problems += host.stdout.splitlines()
        was_killed = host.returncode == -signal.SIGKILL
        first = int((work / "step").read_text()) + 1 if was_killed else steps
        if not was_killed and host.returncode:
            problems.append(f"a host of seed {seed} failed before step {first}: {host.stderr[-2000:]}")
        if not _all_have_ended():
            problems.append(f"processes are left before step {first} of seed {seed}")
    kept, _ = Journals(ground / "state/paddock/journals").read("simulated")
    if kept.messages() != json.loads((work / "seen.json").read_text()):
        problems.append(f"the journal of seed {seed} has another conversation than the context")
    return problems


def _all_have_ended() -> bool:
    deadline = time.monotonic() + _ENDING_SECONDS
    while time.monotonic() < deadline:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return True
        time.sleep(0.005)
    return not descendants_of(os.getpid())


def main() -> int:
    """Run what is asked for; return 1 if there are problems."""
    seed, steps, *seconds = map(int, sys.argv[1:])
    until, problems = time.monotonic() + sum(seconds), []
    while not problems:
        with tempfile.TemporaryDirectory() as folder:
            problems = simulate(seed, steps, Path(folder))
        if time.monotonic() >= until:
            break
        seed += 1
    for problem in problems:
        print(problem)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
