"""What a chat reads of files whose changes it shows, and of what a module raised."""

from __future__ import annotations

from pathlib import Path

from paddock.cli import failure
from paddock.cli.chat.conversation import read_text
from paddock.errors import TurnError
from paddock.policy.secret_values import SecretValues


def test_a_file_is_read_and_a_loop_of_links_is_none(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text", encoding="utf-8")
    (tmp_path / "link").symlink_to("other")
    (tmp_path / "other").symlink_to("link")
    assert read_text(tmp_path, "a.txt") == "text"
    assert read_text(tmp_path, "link") is None
    assert read_text(tmp_path, "link/a.txt") is None


def test_what_a_module_raised_is_masked_before_it_is_cut() -> None:
    secrets = SecretValues({"KEY": "sk-123456"})
    error = TurnError("loop", "ValueError", "x" * 595 + "sk-123456")
    shown = failure.brief(error, secrets.mask)
    assert "x" * 595 in shown and "sk-" not in shown
