"""The user for whom the host runs, and the other users that a path depends on.

A grant is valid while its path means the same thing: while only this user and root can replace any part of it.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self


def is_private_group(uid: int, gid: int) -> bool:
    """Return whether a group belongs to one user alone, as distributions make for each: same name, no members."""
    try:
        user, group = pwd.getpwuid(uid), grp.getgrgid(gid)
    except KeyError:
        return False
    return user.pw_gid == gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


@dataclass(frozen=True, slots=True)
class Owner:
    """The user `uid` with the home folder `home`; `has_alone` returns whether a user, by uid, has a private group."""

    uid: int
    home: Path
    has_alone: Callable[[int, int], bool] = is_private_group

    @classmethod
    def current(cls, environ: Mapping[str, str]) -> Self:
        """Return the user of this process, whose home folder `environ` may name."""
        uid = os.geteuid()
        home = environ.get("HOME", "")
        if not os.path.isabs(home):
            try:
                home = pwd.getpwuid(uid).pw_dir
            except KeyError:
                home = "/"
        return cls(uid, Path(home))

    def with_home(self, written: str) -> str:
        """Return a source as people write it, with the home folder in place of `~/`."""
        return f"{self.home}/{written[2:]}" if written.startswith("~/") else written

    def expanded(self, written: str, folder: Path) -> Path:
        """Return a path as people write it: absolute, relative to `folder`, or below the home folder as `~/…`."""
        return self.home / written[2:] if written == "~" or written.startswith("~/") else folder / written

    def stranger_at(self, folder: os.stat_result, entry: os.stat_result) -> str | None:
        """Return who else can replace `entry`, which is in `folder`; None: no one.

        Its owner can, and each user who may write to the folder; with the sticky bit, of the latter only the entry's
        owner. An access list shows in the group's bits, so it counts as the group.
        """
        is_kept_from_others = bool(folder.st_mode & stat.S_ISVTX) and entry.st_uid in self._trusted
        if folder.st_uid in self._trusted and is_kept_from_others:
            return None
        return self.stranger_writing(folder)

    def stranger_writing(self, info: os.stat_result) -> str | None:
        """Return who else may write to a file or folder; None: no one."""
        if info.st_uid not in self._trusted:
            return f"it belongs to {_user_text(info.st_uid)}"
        if info.st_mode & stat.S_IWOTH:
            return "everybody may write to it"
        if info.st_mode & stat.S_IWGRP and not self.has_alone(info.st_uid, info.st_gid):
            return f"the group {_group_text(info.st_gid)} may write to it"
        return None

    @property
    def _trusted(self) -> tuple[int, int]:
        return (0, self.uid)


def _user_text(uid: int) -> str:
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"


def _group_text(gid: int) -> str:
    try:
        return f"{grp.getgrgid(gid).gr_name} (gid {gid})"
    except KeyError:
        return f"gid {gid}"
