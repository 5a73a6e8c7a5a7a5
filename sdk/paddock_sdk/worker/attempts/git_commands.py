"""Find the repository that a git command would change or read, as far as the command line shows it.

Only git gets the kernel's refusal of what is in git's folder, so the worker reads the command line to report it. This
file looks at names, and starts nothing.
"""

from __future__ import annotations

import os
import re
from typing import Any, Final

from paddock_sdk.worker.attempts.attempt_log import Kind

_MAX_CHARACTERS: Final = 4096  # of a command line; a script may be long
_MAX_LINK_CHARACTERS: Final = 4096
_COMMAND: Final = re.compile(
    r"(?:^|[\s;&|(/])git(?P<options>(?:\s+-C\s+\S+|\s+-c\s+\S+|\s+--?[\w-]+(?:=\S+)?)*)\s+"
    r"(?:(?P<changing>add|am|checkout|cherry-pick|commit|fetch|gc|merge|mv|pull|rebase|reset|restore|revert|rm|switch"
    r"|update-index|update-ref)|blame|describe|diff|grep|log|ls-files|rev-list|rev-parse|shortlog|show|status)(?![\w-])"
)
_ENTERED: Final = re.compile(r"(?:^|[\s;&|(])cd\s+(\S+?)\s*(?:&&|;|\n)")
_ELSEWHERE: Final = re.compile(r"-C\s+(\S+)")


def wanted_of_repository(command: Any, folder: str) -> tuple[Kind, str] | None:
    """Return what a command started in `folder` is to do with a repository: a text, or a list of words.

    That is to write to git's folder or to read it; the other one that it borrows from; a `.git` where there is none.
    """
    if isinstance(command, (str, bytes)):
        words = [command]
    elif isinstance(command, (list, tuple)):
        words = list(command)
    else:
        return None
    line = " ".join(os.fsdecode(word) for word in words if isinstance(word, (str, bytes)))[:_MAX_CHARACTERS]
    commands = list(_COMMAND.finditer(line))
    found = next((one for one in commands if one["changing"]), commands[0] if commands else None)
    if found is None:
        return None
    for elsewhere in (*_ENTERED.findall(line[: found.start() + 1]), *_ELSEWHERE.findall(found["options"])):
        folder = os.path.join(folder, elsewhere.strip("'\""))
    git = _git_folder(os.path.abspath(folder))
    if git is None or found["changing"]:
        return ("read", os.path.abspath(os.path.join(folder, ".git"))) if git is None else ("write", git)
    borrowing = os.path.join(git, "objects", "info", "alternates")
    borrowed = _read(borrowing).partition("\n")[0] if os.path.isfile(borrowing) else ""
    return "read", os.path.abspath(os.path.join(git, "objects", borrowed)) if borrowed else git


def _git_folder(folder: str) -> str | None:
    """Return the folder that git would write to in a working tree, or in a folder below one."""
    while True:
        git = os.path.join(folder, ".git")
        if os.path.isdir(git):
            return git
        if os.path.isfile(git):
            key, _, place = _read(git).partition(":")
            return _common(os.path.normpath(os.path.join(folder, place.strip()))) if key == "gitdir" else None
        if folder == os.path.dirname(folder):
            return None
        folder = os.path.dirname(folder)


def _common(git: str) -> str:
    """Return the folder of a repository that has commits: of a further working tree that of the first one.

    Its folder may be out of sight. Then its name says that it is one.
    """
    if os.path.isdir(git):
        common = os.path.join(git, "commondir")
        return os.path.normpath(os.path.join(git, _read(common).strip())) if os.path.isfile(common) else git
    around = os.path.dirname(git)
    return os.path.dirname(around) if os.path.basename(around) == "worktrees" else git


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read(_MAX_LINK_CHARACTERS)
