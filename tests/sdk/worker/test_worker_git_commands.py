"""Which repository a command line is to change is told from its words, and of nothing that only looks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from paddock_sdk.worker.attempts.git_commands import changed_repository


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["git", "commit", "-m", "x"], "work/.git"),
        (["/usr/bin/git", "-c", "user.name=x", "--no-pager", "add", "."], "work/.git"),
        (["git", "-C", "../other", "merge", "x"], "other/.git"),
        (["bash", "-c", "make && git commit -am x"], "work/.git"),
        ("cd ../other && git pull", "other/.git"),
        ("cd sub; git -C ../../other rebase x", "other/.git"),
        (b"git checkout x", "work/.git"),
        (("git", "fetch"), "work/.git"),
        (["git", "-C", "sub", "stash"], None),
        (["git", "status"], None),
        (["git", "log", "--grep", "commit"], None),
        (["git", "diff"], None),
        (["echo", "commit"], None),
        (["widget", "commit"], None),
        ("git commit-graph verify", None),
        (["git", "-C", "/nowhere", "commit"], None),
        (["git", "-C", "../linked", "commit"], "other/.git"),
        (["git", "-C", "../out-of-sight", "commit"], "hidden/.git"),
        (["git", "-C", "../submodule", "commit"], "other/.git/modules/worktrees/lib"),
        (None, None),
        (7, None),
        ([], None),
        ("git " * 5000 + "commit", None),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_changes_a_repository(command: object, told: str | None, tmp_path: Path) -> None:
    for name in ("work/.git", "work/sub", "other/.git/worktrees/linked", "linked"):
        (tmp_path / name).mkdir(parents=True)
    own = {
        "linked": "other/.git/worktrees/linked",
        "submodule": "other/.git/modules/worktrees/lib",
        "out-of-sight": "hidden/.git/worktrees/out-of-sight",
    }
    for name, git in own.items():
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / ".git").write_text(f"gitdir: {tmp_path}/{git}\n")
    (tmp_path / own["submodule"]).mkdir(parents=True)
    (tmp_path / own["linked"] / "commondir").write_text("../..\n")
    found = changed_repository(command, os.fspath(tmp_path / "work"))
    assert found == (os.fspath(tmp_path / told) if told is not None else None)
