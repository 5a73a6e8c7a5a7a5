"""What a chat reads of files whose changes it shows, and of what a module raised."""

from __future__ import annotations

import os
from pathlib import Path

from paddock.cli import failure
from paddock.cli.chat.conversation import read_text
from paddock.errors import TurnError
from paddock.policy.secrets.values import SecretValues


def test_a_file_is_read_and_a_loop_of_links_is_none(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text", encoding="utf-8")
    (tmp_path / "link").symlink_to("other")
    (tmp_path / "other").symlink_to("link")
    assert read_text(tmp_path, "a.txt") == "text"
    assert read_text(tmp_path, "link") is None
    assert read_text(tmp_path, "link/a.txt") is None


def test_only_plain_files_in_the_folder_are_read(tmp_path: Path) -> None:
    folder, beside = tmp_path / "work", tmp_path / "beside.txt"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub/a.txt").write_text("text", encoding="utf-8")
    beside.write_text("private", encoding="utf-8")
    (folder / "in").symlink_to("sub/a.txt")
    (folder / "out").symlink_to(beside)
    os.mkfifo(folder / "pipe")
    for path in ("in", "sub/../in", str(folder / "sub/a.txt")):
        assert read_text(folder, path) == "text"
    for path in ("out", "../beside.txt", str(beside), "pipe", "sub", "", "a\0b", "/dev/zero", "sub/" * 2000 + "a.txt"):
        assert read_text(folder, path) is None


def test_what_a_module_raised_is_masked_before_it_is_cut() -> None:
    secrets = SecretValues({"KEY": "sk-123456"})
    error = TurnError("loop", "ValueError", "x" * 595 + "sk-123456")
    shown = failure.brief(error, secrets.mask)
    assert "x" * 595 in shown and "sk-" not in shown
