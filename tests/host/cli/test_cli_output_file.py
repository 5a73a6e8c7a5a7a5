"""A file that a command makes for its user: never over another, and gone if nothing came of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.cli.output_file import output_file
from paddock.errors import KindError


def test_what_is_written_is_for_the_user_alone(tmp_path: Path) -> None:
    with output_file(tmp_path / "made") as write:
        write("a \udc80 text")
    assert (tmp_path / "made").read_text() == "a \\udc80 text"
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o600


def test_a_file_that_was_not_written_is_gone(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), output_file(tmp_path / "made"):
        1 / 0  # noqa: B018
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("is_link", [False, True])
def test_what_is_there_stays_as_it_is_and_a_link_is_not_followed(is_link: bool, tmp_path: Path) -> None:
    path, aim = tmp_path / "made", tmp_path / "aim"
    path.symlink_to(aim) if is_link else path.write_text("kept")
    with pytest.raises(KindError, match="there already"), output_file(path):
        pass
    assert not aim.exists() and (path.is_symlink() or path.read_text() == "kept")


def test_a_place_that_takes_no_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(KindError, match=r"missing/made` cannot be written: no such file") as refused:
        with output_file(tmp_path / "missing/made"):
            pass
    assert "a folder that is there" in refused.value.hints[0]
