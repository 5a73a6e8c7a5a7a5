"""What a chat reads of files whose changes it shows."""

from __future__ import annotations

from pathlib import Path

from paddock.cli.chat.conversation import read_text


def test_a_file_is_read_and_a_loop_of_links_is_none(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text", encoding="utf-8")
    (tmp_path / "link").symlink_to("other")
    (tmp_path / "other").symlink_to("link")
    assert read_text(tmp_path, "a.txt") == "text"
    assert read_text(tmp_path, "link") is None
    assert read_text(tmp_path, "link/a.txt") is None
