"""What is kept is on the disk, all of it, before it has a name in the cache."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from paddock_sources.cache import finalize


def test_each_file_and_folder_of_a_small_entry_is_written_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "entry/below").mkdir(parents=True)
    (tmp_path / "entry/below/file").write_text("x")
    (tmp_path / "entry/link").symlink_to("below/file")
    written: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: written.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    finalize.write_out(tmp_path / "entry", 1)
    assert {os.path.relpath(path, tmp_path) for path in written} == {"entry", "entry/below", "entry/below/file"}


def test_a_large_entry_is_written_out_with_its_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")
    monkeypatch.setattr(os, "fsync", lambda descriptor: pytest.fail("one by one"))
    finalize.write_out(tmp_path, 1000)


def test_where_the_disk_takes_no_more_it_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        finalize.write_out(tmp_path, 1)
