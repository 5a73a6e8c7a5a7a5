"""Find the repository that a git command would change, as far as the command line shows it.

Only git gets the kernel's refusal of a write to git's folder, so the worker reads the command line to report it.
Commands that may only list something, such as `git branch`, are left out. This file looks at names, and starts nothing.
"""

from __future__ import annotations

import os
import re
from typing import Any, Final

_MAX_CHARACTERS: Final = 4096  # of a command line; a script may be long
_MAX_LINK_CHARACTERS: Final = 4096
_CHANGING: Final = re.compile(
    r"(?:^|[\s;&|(/])git(?P<options>(?:\s+-C\s+\S+|\s+-c\s+\S+|\s+--?[\w-]+(?:=\S+)?)*)\s+"
    r"(?:add|am|checkout|cherry-pick|commit|fetch|gc|merge|mv|pull|rebase|reset|restore|revert|rm|switch|update-index"
    r"|update-ref)(?![\w-])"
)
_ENTERED: Final = re.compile(r"(?:^|[\s;&|(])cd\s+(\S+?)\s*(?:&&|;|\n)")
_ELSEWHERE: Final = re.compile(r"-C\s+(\S+)")


def changed_repository(command: Any, folder: str) -> str | None:
    """Return the folder of git's that a command started in `folder` is to change: a text, or a list of words."""
    if isinstance(command, (str, bytes)):
        words = [command]
    elif isinstance(command, (list, tuple)):
        words = list(command)
    else:
        return None
    line = " ".join(os.fsdecode(word) for word in words if isinstance(word, (str, bytes)))[:_MAX_CHARACTERS]
    found = _CHANGING.search(line)
    if found is None:
        return None
    for elsewhere in (*_ENTERED.findall(line[: found.start() + 1]), *_ELSEWHERE.findall(found["options"])):
        folder = os.path.join(folder, elsewhere.strip("'\""))
    return _git_folder(os.path.abspath(folder))


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
