"""Markers are shared by the threads of a process, and closed under none of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from paddock_sources.cache.in_use_locks import InUseLocks, opened_to_use

_PATIENCE = 60.0  # seconds; hit only by a hang
_A_MOMENT = 0.2  # far longer than it takes to close a file


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    marker = tmp_path / "marker"
    marker.write_text("what was noted")
    return marker


@pytest.mark.parametrize(
    "act",
    [
        lambda marks, marker: marks.keep(os.fspath(marker), opened_to_use(marker)),
        lambda marks, marker: marks.drop(os.fspath(marker)),
        lambda marks, marker: marks.close(),
    ],
    ids=["kept anew", "dropped", "closed"],
)
def test_a_marker_in_use_by_one_thread_is_not_closed_by_another(
    marker: Path, act: Callable[[InUseLocks, Path], None]
) -> None:
    marks = InUseLocks()
    other = Thread(target=act, args=(marks, marker))
    with marks.held(os.fspath(marker)) as descriptor:
        assert descriptor is not None
        other.start()
        other.join(_A_MOMENT)
        assert os.pread(descriptor, 100, 0) == b"what was noted"
    other.join(_PATIENCE)
    assert not other.is_alive()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.pread(descriptor, 100, 0)
    marks.close()


def test_a_marker_that_is_not_there_is_not_held(tmp_path: Path) -> None:
    marks = InUseLocks()
    assert not marks.hold(os.fspath(tmp_path / "none"))
    with marks.held(os.fspath(tmp_path / "none")) as descriptor:
        assert descriptor is None
