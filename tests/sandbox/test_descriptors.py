"""After the close, exactly the descriptors that were named are open, with and without the system call for it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from paddock_sandbox import descriptors
from support.rows import each_row

_SANDBOX = Path(descriptors.__file__).parents[1]

_PROGRAM = """
import json, os, resource, sys
sys.path.append(sys.argv[1])
from paddock_sandbox import descriptors
if sys.argv[2] == "listing":
    def call(*_):
        raise OSError
    descriptors.call = call
resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
for _ in range(40):
    os.open("/dev/null", os.O_RDONLY)
os.dup2(3, 200)
kept = json.loads(sys.argv[3])
descriptors.close_all_but(*kept, 1)
still = []
for fd in range(256):
    try:
        os.fstat(fd)
    except OSError:
        continue
    still.append(fd)
os.write(1, json.dumps(still).encode())
os._exit(0)
"""


@each_row("means", ["system call", "listing"])
@each_row("kept", [[], [0, 2], [2], [7, 5, 200], [3, 4, 5], [9, 9]])
def test_only_what_was_named_stays_open(means: str, kept: list[int]) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _PROGRAM, str(_SANDBOX), means, json.dumps(kept)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
    )
    assert json.loads(done.stdout) == sorted({*kept, 1})
