"""A linked working tree as git lays it out: its `.git` file, and its folder in the main repository."""

from __future__ import annotations

from pathlib import Path


def link(tree: Path, main: Path) -> Path:
    """Make a folder a working tree of the repository in a new folder `main`, and return that one's `.git`."""
    git = main / ".git"
    own = git / "worktrees/tree"
    for name in ("objects", "refs", "worktrees/tree"):
        (git / name).mkdir(parents=True)
    for folder in (main, git):
        folder.chmod(0o700)
    for folder in (git, own):
        (folder / "HEAD").write_text("ref: refs/heads/x\n")
    (own / "commondir").write_text("../..\n")
    (own / "gitdir").write_text(f"{tree}/.git\n")
    (tree / ".git").write_text(f"gitdir: {own}\n")
    return git
