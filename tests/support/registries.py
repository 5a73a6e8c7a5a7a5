"""What a test looked for that takes npm, or a registry that is not its own, where it was not there."""

from __future__ import annotations

import os
import shlex
import shutil
from subprocess import CompletedProcess

import pytest

NEEDS_NPM = pytest.mark.skipif(
    shutil.which("npm") is None,
    reason=f"looked for the program `npm`, and found none in {os.pathsep.join(os.get_exec_path())}",
)


def skip_unreached(done: CompletedProcess[str]) -> None:
    """Skip the test if a command could not reach its registry, with the command and what it said."""
    said = f"{done.stdout}\n{done.stderr}"
    if "could not be reached" in said:
        pytest.skip(f"`{shlex.join(map(str, done.args))}` reached no registry: {said.strip()}")
