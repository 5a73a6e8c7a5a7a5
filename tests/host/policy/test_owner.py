"""Who can put something else in the place of a path: the folder's owner, and whoever may write to it."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from pathlib import Path

import pytest

from paddock.policy.owner import Owner, is_private_group
from support.rows import each_row

ME, OTHER = 1000, 1001
PRIVATE, SHARED = 1000, 50


def status(mode: int, uid: int, gid: int = SHARED) -> os.stat_result:
    return os.stat_result((stat.S_IFDIR | mode, 1, 1, 1, uid, gid, 0, 0, 0, 0))


def stranger(folder: os.stat_result, entry_uid: int, *, uid: int = ME) -> str | None:
    me = Owner(uid, Path("/home/me"), lambda owner, gid: (owner, gid) in ((ME, PRIVATE), (0, 0)))
    return me.stranger_at(folder, status(0o644, entry_uid))


@each_row(
    ("mode", "uid", "gid", "entry_uid"),
    [
        (0o755, 0, SHARED, OTHER),
        (0o755, ME, SHARED, OTHER),
        (0o700, ME, SHARED, ME),
        (0o775, ME, PRIVATE, OTHER),
        (0o770, 0, 0, OTHER),
        (0o1777, 0, SHARED, ME),
        (0o1777, ME, SHARED, 0),
        (0o1775, 0, SHARED, ME),
    ],
)
def test_no_stranger_can_where_only_root_and_the_user_may_write(mode: int, uid: int, gid: int, entry_uid: int) -> None:
    assert stranger(status(mode, uid, gid), entry_uid) is None


@each_row(
    ("mode", "uid", "gid", "entry_uid", "who"),
    [
        (0o755, OTHER, SHARED, ME, "belongs to"),
        (0o1777, OTHER, SHARED, ME, "belongs to"),
        (0o777, 0, SHARED, ME, "everybody"),
        (0o757, ME, PRIVATE, ME, "everybody"),
        (0o775, ME, SHARED, ME, "the group"),
        (0o770, 0, PRIVATE, ME, "the group"),
        (0o1777, 0, SHARED, OTHER, "everybody"),
        (0o1775, ME, SHARED, OTHER, "the group"),
    ],
)
def test_somebody_can_in_every_other_folder(mode: int, uid: int, gid: int, entry_uid: int, who: str) -> None:
    said = stranger(status(mode, uid, gid), entry_uid)
    assert said is not None and who in said


def test_root_trusts_no_folder_of_an_ordinary_user() -> None:
    assert stranger(status(0o700, ME), 0, uid=0) is not None


def test_the_user_is_the_one_this_process_runs_as() -> None:
    assert Owner.current({"HOME": "/somewhere"}) == Owner(os.geteuid(), Path("/somewhere"))
    assert Owner.current({"HOME": "relative"}).home == Path(pwd.getpwuid(os.geteuid()).pw_dir)


def test_a_user_that_is_in_no_list_still_has_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert Owner.current({}).home == Path("/")
    assert not is_private_group(0, 0)
    assert "uid 1001" in (stranger(status(0o755, OTHER), ME) or "")


@pytest.mark.parametrize(
    ("primary", "group", "members", "is_private"),
    [
        (7, "me", [], True),
        (7, "me", ["me"], True),
        (7, "me", ["me", "you"], False),
        (7, "users", [], False),
        (8, "me", [], False),
    ],
)
def test_a_group_with_the_users_name_and_no_other_member_is_private(
    primary: int, group: str, members: list[str], is_private: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = pwd.struct_passwd(("me", "x", ME, primary, "", "/home/me", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: user)
    monkeypatch.setattr(grp, "getgrgid", lambda gid: grp.struct_group((group, "x", gid, members)))
    assert is_private_group(ME, 7) is is_private
