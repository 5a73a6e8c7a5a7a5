"""Ask git for the branch and the changed files of a folder, within a time and a size.

None stands for every reason why git gives no answer: it is not installed or may not be run, the folder is in no
repository, it takes too long. When this returns, the program has ended, also when the caller is cancelled.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

_MAX_BYTES = 64 * 1024  # of git's output; the rest is not read

# A repository's own configuration can name programs that git runs for a status; none of these may run here. The
# repository chooses the names of filters, so git lists them first. Missing objects are not fetched.
_QUIET = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
_STATUS = ("status", "--porcelain=v1", "--branch", "--untracked-files=normal", "--ignore-submodules=dirty")
_FILTERS = ("config", "--null", "--name-only", "--get-regexp", r"^filter\..*\.(clean|process|required)$")
_NOTHING_FOUND = 1  # the exit code of `git config`
_ENVIRONMENT = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "LC_ALL": "C",
}


@dataclass(frozen=True, slots=True)
class GitStatus:
    """`branch` as git names it, with how far it is from its upstream; `changes`, a line for each changed file.

    With `is_cut`, there are more changes than these.
    """

    branch: str
    changes: tuple[str, ...]
    is_cut: bool


async def git_status(folder: Path, timeout: float) -> GitStatus | None:
    """Return the state of the repository that contains a folder, None if it cannot be had."""
    git = shutil.which("git")
    if git is None:
        return None
    command = (git, "-C", str(folder), *_QUIET)
    try:
        async with asyncio.timeout(timeout):
            named = await _printed((*command, *_FILTERS), {}, may_return=(0, _NOTHING_FOUND))
            if named is None or named[1]:
                return None  # a status would start an unknown filter
            found = await _printed((*command, *_STATUS), _without_filters(named[0]))
    except TimeoutError:
        return None
    return None if found is None else _parsed(*found)


def _without_filters(names: bytes) -> dict[str, str]:
    """Return the variables that leave git without a command for any of these settings of filters."""
    keys = dict.fromkeys(os.fsdecode(name) for name in names.split(b"\0") if name)
    environ = {"GIT_CONFIG_COUNT": str(len(keys))}
    for number, key in enumerate(keys):
        environ[f"GIT_CONFIG_KEY_{number}"] = key
        environ[f"GIT_CONFIG_VALUE_{number}"] = "false" if key.endswith(".required") else ""
    return environ


async def _printed(
    command: tuple[str, ...], environ: dict[str, str], may_return: tuple[int, ...] = (0,)
) -> tuple[bytes, bool] | None:
    """Return a command's output, and whether it was cut; None if it does not run, or fails."""
    # The pipe is ours and not the event loop's: that waits for its end, which a program that inherits it can put off.
    read_end, write_end = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=write_end,
            stderr=asyncio.subprocess.DEVNULL,
            env={**os.environ, **_ENVIRONMENT, **environ},
        )
    except BaseException as error:
        os.close(read_end)
        if isinstance(error, OSError):  # it is there, and may not be run
            return None
        raise
    finally:
        os.close(write_end)
    try:
        printed, is_cut = await _read(read_end)
        if not is_cut and await process.wait() not in may_return:
            return None
        return printed, is_cut
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _read(read_end: int) -> tuple[bytes, bool]:
    """Read a pipe to its end or to the limit, and close it."""
    reader = asyncio.StreamReader(limit=_MAX_BYTES)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_end, "rb", buffering=0)
    )
    try:
        printed = b""
        while len(printed) <= _MAX_BYTES:
            more = await reader.read(_MAX_BYTES)
            if not more:
                return printed, False
            printed += more
        return printed[:_MAX_BYTES], True
    finally:
        transport.close()


def _parsed(printed: bytes, is_cut: bool) -> GitStatus | None:
    first, *changes = printed.decode("utf-8", "replace").splitlines() or [""]
    if not first.startswith("## "):
        return None
    if is_cut:
        changes.pop()  # which may be half a line
    return GitStatus(first.removeprefix("## "), tuple(changes), is_cut)
