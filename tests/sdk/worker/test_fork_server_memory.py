"""What a template's children do not have to do again, because each page that they write to is copied."""

from __future__ import annotations

import os
import subprocess
import sys

# The template asks for its settings when it is ready to fork.
_A_CHILD_LOOKS = """
import os, resource, socket
from paddock_sandbox import capabilities, prctl
from paddock_sdk.worker import fork_server

def copied(act):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    act()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def ready(*_):
    if os.fork() == 0:
        copied(prctl.securebits)  # any call
        os.write(1, b"%d" % copied(capabilities.effective_set))
    os._exit(0)

fork_server.receive = ready
fork_server.serve(socket.socketpair()[0].detach(), [], os.getppid())
"""
_FEW = 45  # pages; it took 65 to 70


def test_a_child_of_a_template_copies_little_to_look_at_its_capabilities() -> None:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    looked = subprocess.run([sys.executable, "-c", _A_CHILD_LOOKS], env=environ, stdout=subprocess.PIPE, timeout=60)
    assert int(looked.stdout) < _FEW
