"""What decides what is run the next time is there before any module is, so that none can make it."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from paddock.isolation.operator_folders import make_operator_folders


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({}, ".cache/paddock"),
        ({"XDG_CACHE_HOME": "{home}/caches"}, "caches/paddock"),
        ({"XDG_CACHE_HOME": "relative"}, ".cache/paddock"),
        ({"XDG_CACHE_HOME": "{home}/caches", "PADDOCK_CACHE_DIR": "{home}/mine"}, "mine"),
    ],
)
def test_no_module_writes_to_the_folder_of_fetched_code(tmp_path: Path, environ: dict[str, str], folder: str) -> None:
    home = tmp_path.resolve()
    named = {name: value.format(home=home) for name, value in environ.items()}
    assert home / folder in make_operator_folders({"HOME": str(home), **named})
    assert stat.S_IMODE((home / folder).stat().st_mode) & (stat.S_IWGRP | stat.S_IWOTH) == 0


def test_a_folder_that_cannot_be_made_keeps_the_others_from_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    home = tmp_path.resolve()
    made = make_operator_folders({"HOME": str(home), "PADDOCK_CACHE_DIR": str(home / "file" / "cache")})
    assert home / ".config" / "paddock" in made
    assert not any(folder.is_relative_to(home / "file") for folder in made)
