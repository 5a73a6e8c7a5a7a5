"""A rehearsal: a whole worker plays once in the template, and leaves the process as it was."""

from __future__ import annotations

import os
import subprocess
import sys

from paddock_sdk.worker.main import rehearse

_LEFT = """
import os, sys, threading
from paddock_sdk.worker.main import rehearse

rehearse()  # what is imported and kept on first use
before = os.listdir("/proc/self/fd"), sys.path.copy(), set(sys.modules)
rehearse()
os.stat("/")
assert (os.listdir("/proc/self/fd"), sys.path, set(sys.modules)) == before
assert len(os.listdir("/proc/self/task")) == threading.active_count() == 1
from paddock_sdk.worker.attempts import noticing
assert not noticing._takers, "an audit hook would stay for ever"
if os.fork() == 0:
    os._exit(0)
assert os.wait()[1] == 0, "a child is no worker's"
"""


def test_the_worker_of_a_rehearsal_serves_a_call() -> None:
    answer = rehearse()
    assert (answer.success, answer.output) == (True, "rehearsed")


def test_nothing_stays_of_a_rehearsal() -> None:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run([sys.executable, "-c", _LEFT], env=environ, check=True, timeout=60)
