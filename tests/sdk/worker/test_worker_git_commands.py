"""Which repository a command line is to change or to read is told from its words."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from paddock_sdk.worker.attempts.noticing import wanted_of_repository


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["git", "commit", "-m", "x"], "write work/.git"),
        (["/usr/bin/git", "-c", "user.name=x", "--no-pager", "add", "."], "write work/.git"),
        (["git", "-C", "../other", "merge", "x"], "write other/.git"),
        (["bash", "-c", "make && git commit -am x"], "write work/.git"),
        ("cd ../other && git pull", "write other/.git"),
        ("cd sub; git -C ../../other rebase x", "write other/.git"),
        (b"git checkout x", "write work/.git"),
        (("git", "fetch"), "write work/.git"),
        (["git", "-C", "sub", "stash"], None),
        (["git", "status"], "read work/.git"),
        (["git", "log", "--grep", "commit"], "read work/.git"),
        ("git diff; git commit -m x", "write work/.git"),
        (["git", "-C", "../nowhere", "diff"], "read nowhere/.git"),
        (["git", "-C", "../out-of-sight", "log"], "read hidden/.git"),
        ("cd ../borrower/sub && git show", "read other/.git/objects"),
        ("git -C ../borrower commit", "write borrower/.git"),
        (["echo", "commit"], None),
        (["widget", "commit"], None),
        ("git commit-graph verify", None),
        (["git", "-C", "../nowhere", "commit"], "read nowhere/.git"),
        (["git", "-C", "../linked", "commit"], "write other/.git"),
        (["git", "-C", "../out-of-sight", "commit"], "write hidden/.git"),
        (["git", "-C", "../submodule", "commit"], "write other/.git/modules/worktrees/lib"),
        (None, None),
        (7, None),
        ([], None),
        ("git " * 5000 + "commit", None),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_changes_or_reads_a_repository(command: object, told: str | None, tmp_path: Path) -> None:
    for name in ("work/.git", "work/sub", "other/.git/worktrees/linked", "linked", "borrower/.git/objects/info"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "borrower/.git/objects/info/alternates").write_text("../../../other/.git/objects\n/another\n")
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
    found = wanted_of_repository(command, os.fspath(tmp_path / "work"))
    kind, _, place = (told or "").partition(" ")
    assert found == ((kind, os.fspath(tmp_path / place)) if told is not None else None)
