"""The folder in which git works for one remote: two bare repositories, and the configuration for both.

The host writes all of it except the objects, and again before each use. So a git that was taken over has no effect on
the next run. The caller holds the remote's lock.
"""

from __future__ import annotations

import shutil
from pathlib import Path

_CONFIG = """\
[core]
	repositoryformatversion = 1
	bare = true
	filemode = true
"""
_HEAD = "ref: refs/heads/none\n"


def objects_in(folder: Path) -> Path:
    """Return the repository of fetched commits without their history."""
    return folder / "repo.git"


def history_in(folder: Path) -> Path:
    """Return the repository of the history: commits without their files, if the server can leave them out."""
    return folder / "history.git"


def config_in(folder: Path) -> Path:
    """Return the one file that git is configured by."""
    return folder / "gitconfig"


def lay_out_all(folder: Path, config: str) -> None:
    """Make all that git needs in a folder, and rewrite the files that decide how it works."""
    _put(config_in(folder), config)
    lay_out(objects_in(folder))
    lay_out(history_in(folder))


def has_objects(folder: Path) -> bool:
    """Return whether anything was fetched before."""
    packs = objects_in(folder) / "objects" / "pack"
    return packs.is_dir() and any(packs.iterdir())


def set_aside(folder: Path) -> None:
    """Take away all that was fetched, for as long as it may still be wanted."""
    for repository in (objects_in(folder), history_in(folder)):
        _take_away(_aside(repository))
        if repository.exists():
            repository.rename(_aside(repository))


def put_back(folder: Path) -> None:
    """Restore what was set aside, replacing what is there."""
    for repository in (objects_in(folder), history_in(folder)):
        if _aside(repository).exists():
            _take_away(repository)
            _aside(repository).rename(repository)


def drop_aside(folder: Path) -> None:
    """Delete what was set aside."""
    for repository in (objects_in(folder), history_in(folder)):
        _take_away(_aside(repository))


def _aside(repository: Path) -> Path:
    return repository.with_suffix(".aside")


def lay_out(folder: Path) -> None:
    """Make `folder` a bare repository if it is none, and rewrite the files that decide how git treats it."""
    for part in ("", "objects", "objects/pack", "objects/info", "refs", "info"):
        if (folder / part).is_symlink():  # it would have us write, or remove, somewhere else
            (folder / part).unlink()
        (folder / part).mkdir(exist_ok=True)
    _put(folder / "HEAD", _HEAD)
    _put(folder / "config", _CONFIG)
    for name in ("hooks", "objects/info/alternates", "info/attributes", "info/grafts", "commondir", "config.worktree"):
        _take_away(folder / name)
    # Left by a git that was killed; no other process is in here.
    for lock in (*folder.glob("*.lock"), *folder.glob("refs/**/*.lock")):
        lock.unlink(missing_ok=True)
    for started in folder.glob("objects/pack/tmp_*"):
        started.unlink(missing_ok=True)


def _put(path: Path, text: str) -> None:
    if path.is_symlink() or not path.is_file() or path.read_text("utf-8", errors="replace") != text:
        _take_away(path)
        path.write_text(text, encoding="utf-8")


def _take_away(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
