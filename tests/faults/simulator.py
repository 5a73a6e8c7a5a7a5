"""Faults drawn from seeds, done to sessions over the hosts that each outlives: `simulator.py SEED STEPS [SEEDS]`.

Each step of a session does one act to it, and all that must hold is judged behind it; see `acts.py` and `host.py`. With
`--hours H` seeds follow until so much time is over, and each is printed with its acts before it begins. The first thing
that does not hold ends all, and is printed with the shortest beginning of the seed's acts in which it is seen.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from faults.acts import Script
from faults.host import FAILED, GO_ON, ID, OVER, run
from paddock.session.journals.journal_folder import Journals
from support.cgroups import groups_of
from support.children import descendants_of

_HOST_SECONDS: Final = 300  # hit only by a hang
_ENDING_SECONDS: Final = 30
_SAID_MAX: Final = 3000  # characters of what a host said at last
_PR_SET_CHILD_SUBREAPER: Final = 36
_STATE: Final = "state/paddock"  # below the ground of a session


def simulate(script: Script, ground: Path) -> str:
    """Return what does not hold in the session of a script, below a folder of its own; nothing if all does."""
    assert ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0  # what a host leaves can be seen
    for name in ("work", "tmp", "state"):
        (ground / name).mkdir(mode=0o700)
    (ground / "work/next").write_text("0")
    hosts: list[int] = []
    ended = GO_ON
    while ended != OVER:
        pid, ended = _one_host(script, ground)
        hosts.append(pid)
        if ended not in (OVER, GO_ON) and not (ended == -signal.SIGKILL and _was_to_be_killed(script, ground)):
            return (ground / "said").read_text()[-_SAID_MAX:].strip() or f"a host ended by {ended}"
        if not _all_have_ended():
            return f"a host has left processes: {sorted(descendants_of(os.getpid()))}"
    return "; ".join([*_wrong_files(ground, len(hosts)), *_left(hosts, ground)])


def _one_host(script: Script, ground: Path) -> tuple[int, int]:
    """Return a host's number and how it ended: a process forked from this one, which has its code loaded."""
    pid = os.fork()
    if pid:
        try:
            return pid, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        except KeyboardInterrupt:
            os.waitpid(pid, 0)  # it was interrupted as well, and closes its session
            raise
    code = FAILED
    try:
        signal.alarm(_HOST_SECONDS)
        os.environ.update({"XDG_STATE_HOME": str(ground / "state"), "TMPDIR": str(ground / "tmp")})
        tempfile.tempdir = None
        said = os.open(ground / "said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for stream in (1, 2):
            os.dup2(said, stream)
        code = run(script, int((ground / "work/next").read_text()), ground / "work")
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _was_to_be_killed(script: Script, ground: Path) -> bool:
    number = int((ground / "work/next").read_text())
    return number > 0 and (script.acts[number - 1].name, script.acts[number - 1].target) == ("kill", "host")


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


def _wrong_files(ground: Path, hosts: int) -> Iterator[str]:
    """Yield what is wrong in the journal and in the audit log of a session that so many hosts have had."""
    kept, _ = Journals(ground / _STATE / "journals").read(ID)
    if kept.messages() != json.loads((ground / "work/seen.json").read_text()):
        yield "the journal has another conversation than the context"
    ends: Counter[str] = Counter()
    for line in (ground / _STATE / "audit.jsonl").read_text().splitlines():
        with suppress(ValueError):  # a full disk cuts a line off
            ends[json.loads(line)["event"]] += 1
    if ends["session.ended"] + ends["session.lost"] != hosts:
        yield f"of {hosts} hosts, the audit log has {ends['session.ended']} ends, and {ends['session.lost']} were lost"


def _left(hosts: Sequence[int], ground: Path) -> Iterator[str]:
    """Yield what hosts have left behind."""
    if left := os.listdir(ground / "tmp"):
        yield f"temporary files are left: {left}"
    if groups := groups_of(*hosts):
        yield f"control groups are left: {groups}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what is asked for; return 1 at the first problem."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("seed", type=int, help="the first seed")
    options.add_argument("steps", type=int, help="how many acts each seed has")
    options.add_argument("seeds", type=int, nargs="?", default=1, help="how many seeds")
    options.add_argument("--hours", type=float, help="go on with further seeds for so long, and tell of each")
    asked = options.parse_args(arguments)
    began, told = time.monotonic(), asked.hours is not None
    until = began + (asked.hours or 0.0) * 3600
    seeds = 0
    while seeds < asked.seeds or time.monotonic() < until:
        script = Script.of(asked.seed + seeds, asked.steps)
        if told:
            print(script.told(asked.steps), flush=True)
        with tempfile.TemporaryDirectory(prefix="faults-") as folder:
            problem = simulate(script, Path(folder))
            done = int((Path(folder) / "work/next").read_text())
        if problem:
            again = f"make soak SEED={script.seed} STEPS={done} HOURS=0"
            print(f"{script.told(done)}\n  {problem}\nagain: `{again}`", flush=True)
            return 1
        seeds += 1
    if told:
        print(f"{seeds} seeds of {asked.steps} acts in {time.monotonic() - began:.0f} s: all holds that must")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
