"""A file of the operator's is believed when nobody else could have written it, and refused aloud otherwise."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.errors import PolicyFileError, render
from paddock.plan.problems import NotAcceptedError
from paddock.policy.files.owned_file import read_owned
from paddock.policy.owner import Owner
from paddock.policy.path_walk import GrantedPath
from support.rows import each_row

from .entries import owner

SOMEBODY = 54321


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config" / "paddock" / "policy.toml"
    path.parent.mkdir(parents=True)
    path.write_text("minimum_isolation = 'ns'\n")
    path.chmod(0o644)
    return path


@each_row("name", ["nothing", "nothing/at/all", "paddock/policy.toml/file"])
def test_where_no_file_is_there_is_nothing_to_read(file: Path, name: str) -> None:
    assert read_owned(file.parent.parent / name, owner()) is None


def test_a_missing_file_is_not_refused_for_its_folder(file: Path) -> None:
    file.parent.chmod(0o777)
    (file.parent.parent.parent / "by-link").symlink_to("config")
    assert read_owned(file.with_name("other"), owner()) is None
    assert read_owned(file.parent.parent.parent / "by-link" / "paddock" / "other", owner()) is None
    assert read_owned(file.parent.parent.parent / "by-link" / "nothing" / "other", owner()) is None


def _a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def _a_fifo(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def _a_link_to_nowhere(file: Path) -> None:
    file.unlink()
    file.symlink_to("elsewhere")


def _below_a_link_to_nowhere(file: Path) -> None:
    file.parent.rename(file.parent.with_name("moved"))
    file.parent.symlink_to("elsewhere/and/further")


def _a_link_to_itself(file: Path) -> None:
    file.unlink()
    file.symlink_to(file.name)


def _a_link_into_a_folder_for_everybody(file: Path) -> None:
    shared = file.parent.parent / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    file.rename(shared / file.name)
    file.symlink_to(shared / file.name)


@pytest.mark.parametrize(
    ("spoil", "said", "fix"),
    [
        (lambda file: file.chmod(0o646), "can be written by others: by everybody (mode 0646)", "chmod go-w"),
        (lambda file: file.chmod(0o664), "can be written by others: by its group (mode 0664)", "chmod go-w"),
        (
            lambda file: file.parent.chmod(0o777),
            "could put another `policy.toml`: everybody may write to it",
            "chmod go-w",
        ),
        (lambda file: file.parent.parent.chmod(0o775), "could put another `paddock`: the group", "chmod go-w"),
        (_a_folder, "is not a regular file", "remove it"),
        (_a_fifo, "is not a regular file", "remove it"),
        (_a_link_to_nowhere, "which does not exist", "mend or remove the link"),
        (_below_a_link_to_nowhere, "which does not exist", "mend or remove the link"),
        (_a_link_to_itself, "cannot be read: too many levels of symbolic links", "remove it"),
        (_a_link_into_a_folder_for_everybody, "could put another `policy.toml`: everybody", "chmod go-w"),
        (lambda file: file.write_bytes(b"a = \xff"), "is not UTF-8 text, at byte 4", "UTF-8"),
        (lambda file: file.write_text("#" * 3000), "is larger than 2 KiB", "shorter"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_file_that_cannot_be_relied_on_is_refused_with_what_to_do(
    file: Path, spoil: Callable[[Path], None], said: str, fix: str
) -> None:
    assert read_owned(file, owner(), max_bytes=2048) is not None
    spoil(file)
    with pytest.raises(PolicyFileError) as caught:
        read_owned(file, owner(), max_bytes=2048)
    shown = render(caught.value)
    assert caught.value.exit_code == 4
    assert str(file) in shown and said in shown and fix in shown


def test_no_fix_changes_the_root_whose_owner_is_not_mapped(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.stat
    root = os.stat_result([*real("/")[:4], 65534, *real("/")[5:10]])
    monkeypatch.setattr("paddock.policy.owner._ALL_MAPPED", [])  # as in a user namespace of an ordinary user
    monkeypatch.setattr(os, "stat", lambda path, **how: root if path == "/" else real(path, **how))
    with pytest.raises(PolicyFileError) as caught:
        read_owned(file, owner(), max_bytes=2048)
    with pytest.raises(NotAcceptedError) as ungranted:
        GrantedPath.resolve(str(file), file.parent, owner())
    for shown in (render(caught.value), str(ungranted.value)):
        assert "does not map" in shown and "chown" not in shown and "chmod" not in shown, shown


def test_a_file_of_another_user_is_not_believed(file: Path) -> None:
    if os.geteuid() == 0:
        os.chown(file, SOMEBODY, -1)
        reader = owner()
    else:
        reader = Owner(SOMEBODY, Path("/"), lambda uid, gid: False)
    with pytest.raises(PolicyFileError):
        read_owned(file, reader)


def test_a_link_that_only_its_owner_could_have_made_is_followed(file: Path) -> None:
    elsewhere = file.parent.parent / "dotfiles"
    elsewhere.mkdir()
    file.rename(elsewhere / "policy")
    file.symlink_to("../dotfiles/policy")
    assert read_owned(file, owner()) is not None


@pytest.mark.skipif(os.geteuid() == 0, reason=f"user {os.geteuid()}, root, reads everything")
@pytest.mark.parametrize("locked", ["the file", "its folder"])
def test_a_file_that_is_there_and_cannot_be_read_is_not_passed_over(file: Path, locked: str) -> None:
    place = file if locked == "the file" else file.parent
    place.chmod(0)
    try:
        with pytest.raises(PolicyFileError, match="permission denied"):
            read_owned(file, owner())
    finally:
        place.chmod(0o755)
