"""The user for whom the host runs, and the other users that a path depends on.

A grant is valid while its path means the same thing: while only this user and root can replace any part of it.
"""

from __future__ import annotations

import grp
import os
import pwd
import shlex
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

_OVERFLOW: Final = 65534  # the kernel's uid for users that a namespace does not map
_ALL_MAPPED: Final = ["0", "0", "4294967295"]


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

    def remedy(self, place: Path, info: os.stat_result) -> str:
        """Return the commands by which only this user can change a file or folder; empty where none can do that.

        Nobody changes `/` for Paddock, nor an owner that the user namespace of this process does not map.
        """
        if place == Path("/") or _is_unmapped(info.st_uid):
            return ""
        shown = shlex.quote(str(place))
        owned = [] if info.st_uid in self._trusted else [f"chown {user_name(self.uid)} {shown}"]
        return " && ".join([*owned, f"chmod go-w {shown}"])

    @property
    def _trusted(self) -> tuple[int, int]:
        return (0, self.uid)


def user_name(uid: int) -> str:
    """Return the name of a user, or the number of one without a name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _is_unmapped(uid: int) -> bool:
    """Whether files of a user appear as this one's because the user namespace of this process does not map theirs."""
    return uid == _OVERFLOW and Path("/proc/self/uid_map").read_text(encoding="ascii").split() != _ALL_MAPPED


def _user_text(uid: int) -> str:
    if _is_unmapped(uid):
        return f"a user whom this user namespace does not map (uid {uid})"
    name = user_name(uid)
    return f"uid {uid}" if name == str(uid) else f"{name} (uid {uid})"


def _group_text(gid: int) -> str:
    try:
        return f"{grp.getgrgid(gid).gr_name} (gid {gid})"
    except KeyError:
        return f"gid {gid}"
