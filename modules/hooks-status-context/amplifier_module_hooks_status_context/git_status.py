"""Ask git for the branch and the changed files of a folder, within a time and a size.

None stands for all that keeps git from answering: it is not installed or may not be run, the folder is in no
repository, it takes too long. The program has ended when the answer is there, also when the caller is cancelled.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

_MAX_BYTES = 64 * 1024  # of what git prints; what comes after is not read

# A repository's own configuration can name programs that git runs for a status; none of these is wanted here.
_COMMAND = (
    *("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"),
    *("status", "--porcelain=v1", "--branch", "--untracked-files=normal", "--ignore-submodules=dirty"),
)
_ENVIRONMENT = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}


@dataclass(frozen=True, slots=True)
class GitStatus:
    """`branch` as git names it, with how far it is from its upstream; `changes`, a line for each changed file.

    With `is_cut`, there are more changes than these.
    """

    branch: str
    changes: tuple[str, ...]
    is_cut: bool


async def git_status(folder: Path, timeout: float) -> GitStatus | None:
    """Return the state of the repository that a folder is in, None where it cannot be had."""
    git = shutil.which("git")
    if git is None:
        return None
    try:
        process = await asyncio.create_subprocess_exec(
            git,
            *("-C", str(folder)),
            *_COMMAND,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={**os.environ, **_ENVIRONMENT},
        )
    except OSError:  # it is there, and may not be run
        return None
    try:
        async with asyncio.timeout(timeout):
            printed, is_cut = await _read(process)
            if not is_cut and await process.wait() != 0:
                return None
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return _parsed(printed, is_cut)


async def _read(process: asyncio.subprocess.Process) -> tuple[bytes, bool]:
    assert process.stdout is not None
    printed = b""
    while len(printed) <= _MAX_BYTES:
        more = await process.stdout.read(_MAX_BYTES)
        if not more:
            return printed, False
        printed += more
    return printed[:_MAX_BYTES], True


def _parsed(printed: bytes, is_cut: bool) -> GitStatus | None:
    first, *changes = printed.decode("utf-8", "replace").splitlines() or [""]
    if not first.startswith("## "):
        return None
    if is_cut:
        changes.pop()  # which may be half a line
    return GitStatus(first.removeprefix("## "), tuple(changes), is_cut)
