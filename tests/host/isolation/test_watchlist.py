"""What appears or changes among guarded paths during a run is told at its end."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.isolation.watchlist import GuardedChange, Watchlist
from paddock.policy import guarded_paths as guarding
from paddock.policy.guarded_paths import GuardedPaths

from ..policy.test_guarded_paths import make_repository


def watch(folder: Path, kept: set[Path] | None = None, granted: set[Path] | None = None) -> Watchlist:
    return Watchlist.take([GuardedPaths.find(folder, folder)], folder, kept or set(), granted or set())


def told(watchlist: Watchlist) -> dict[str, str]:
    report = watchlist.report()
    assert report.is_complete
    return {str(change.path.relative_to(watchlist.home)): change.what for change in report.changes}


def test_a_run_that_touches_nothing_guarded_has_nothing_to_tell(tmp_path: Path) -> None:
    git = make_repository(tmp_path)
    watchlist = watch(tmp_path)
    (tmp_path / "result.txt").touch()
    (git / "objects" / "ab").mkdir()
    (git / "HEAD").write_text("ref: refs/heads/other\n")
    assert told(watchlist) == {}


def add_hook(folder: Path) -> None:
    (folder / ".git" / "hooks" / "post-commit").write_text("#!/bin/sh\n")


def rewrite_configuration(folder: Path) -> None:
    config = folder / ".git" / "config"
    info = config.stat()
    config.write_text("[CORE]\n")
    os.utime(config, ns=(info.st_atime_ns, info.st_mtime_ns))


def swap_repository(folder: Path) -> None:
    (folder / ".git").rename(folder / ".git-old")
    make_repository(folder)


def swap_link(folder: Path) -> None:
    (folder / ".profile").unlink()
    (folder / ".profile").symlink_to("evil")


@pytest.mark.parametrize(
    ("act", "changes"),
    [
        (lambda folder: (folder / ".bashrc").touch(), {".bashrc": "appeared"}),
        (lambda folder: make_repository(folder / "new"), {"new/.git/config": "appeared", "new/.git/hooks": "appeared"}),
        (lambda folder: (folder / ".git" / "commondir").write_text("/evil"), {".git/commondir": "appeared"}),
        (lambda folder: (folder / ".ssh").mkdir(), {".ssh": "appeared"}),
        (lambda folder: (folder / ".zshrc").symlink_to("evil"), {".zshrc": "appeared"}),
        (add_hook, {".git/hooks": "changed"}),
        (rewrite_configuration, {".git/config": "changed"}),
        (swap_link, {".profile": "changed"}),
        (
            swap_repository,
            {
                ".git/config": "changed",
                ".git/hooks": "changed",
            },
        ),
        (lambda folder: (folder / ".git" / "config").unlink(), {}),
    ],
)
def test_each_way_to_have_something_run_later_is_told(
    act: Callable[[Path], object], changes: dict[str, str], tmp_path: Path
) -> None:
    make_repository(tmp_path)
    (tmp_path / ".profile").symlink_to("dotfiles/profile")
    watchlist = watch(tmp_path)
    act(tmp_path)
    assert told(watchlist).items() >= changes.items()
    assert bool(told(watchlist)) == bool(changes)


def test_what_was_granted_by_itself_or_kept_with_all_in_it_is_not_told(tmp_path: Path) -> None:
    git = make_repository(tmp_path)
    (tmp_path / ".bashrc").touch()
    watchlist = watch(tmp_path, {git}, {tmp_path / ".bashrc"})
    add_hook(tmp_path)
    (tmp_path / ".bashrc").write_text("changed")
    assert told(watchlist) == {}


def test_a_kept_file_that_another_name_of_it_changed_is_told(tmp_path: Path) -> None:
    """And nothing that its user does by its own name, as git and editors do it."""
    git = make_repository(tmp_path)
    hook = git / "hooks/pre-commit"
    for file in (hook, tmp_path / ".bashrc", tmp_path / ".envrc"):
        file.write_text("one\n")
        os.link(file, tmp_path / f"of{file.name}")
    watchlist = watch(tmp_path, {git, tmp_path / ".bashrc", tmp_path / ".envrc"})
    assert told(watchlist) == {}
    for file in (tmp_path / ".envrc", git / "config"):
        (tmp_path / "new").write_text("two\n")
        os.replace(tmp_path / "new", file)
    add_hook(tmp_path)
    assert told(watchlist) == {}
    info = (tmp_path / "of.bashrc").stat()
    for name in ("ofpre-commit", "of.bashrc"):
        (tmp_path / name).write_text("two\n")
    os.utime(tmp_path / "of.bashrc", ns=(info.st_atime_ns, info.st_mtime_ns))
    by_another = "changed, by another name of it (a hard link),"
    assert told(watchlist) == {".bashrc": by_another, ".git/hooks/pre-commit": by_another}


def test_hooks_and_configuration_of_a_granted_repository_are_told(tmp_path: Path) -> None:
    git = make_repository(tmp_path)
    watchlist = watch(tmp_path, granted={git})
    add_hook(tmp_path)
    assert told(watchlist) == {".git/hooks": "changed"}


def test_what_is_told_is_in_order(tmp_path: Path) -> None:
    watchlist = watch(tmp_path)
    for name in (".zshrc", ".bashrc"):
        (tmp_path / name).touch()
    assert watchlist.report().changes == (
        GuardedChange(tmp_path / ".bashrc", "appeared"),
        GuardedChange(tmp_path / ".zshrc", "appeared"),
    )


def test_a_folder_filled_up_hides_no_change_of_what_was_found_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guarding, "_MAX_ENTRIES", 20)
    make_repository(tmp_path / "deep" / "er")
    watchlist = watch(tmp_path)
    for number in range(30):
        (tmp_path / f"a{number}").mkdir()
    assert not GuardedPaths.find(tmp_path, tmp_path).existing
    add_hook(tmp_path / "deep" / "er")
    report = watchlist.report()
    assert not report.is_complete
    assert [str(change.path.relative_to(tmp_path)) for change in report.changes] == ["deep/er/.git/hooks"]


def test_a_folder_with_too_many_names_is_reported_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarding, "_MAX_ENTRIES", 20)
    watchlist = watch(tmp_path)
    for number in range(30):
        (tmp_path / f"file{number}").touch()
    (tmp_path / ".bashrc").touch()
    report = watchlist.report()
    assert not report.is_complete
    assert [change.path.name for change in report.changes] == [".bashrc"]


def test_a_folder_that_is_gone_has_nothing_to_tell(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / ".bashrc").touch()
    watchlist = watch(tmp_path / "work")
    (tmp_path / "work" / ".bashrc").unlink()
    (tmp_path / "work").rmdir()
    assert watchlist.report().changes == ()


def test_what_a_link_leads_to_is_reported_once_it_is_made(tmp_path: Path) -> None:
    (tmp_path / ".envrc").symlink_to("not-yet")
    watchlist = watch(tmp_path, {tmp_path / ".envrc"})
    (tmp_path / "not-yet").touch()
    assert told(watchlist) == {"not-yet": "appeared"}
