"""Where tests have their caches: in memory where there is such a place, so that no test waits for a disk."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_MEMORY = Path("/dev/shm")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The folder of a cache, which is not there yet."""
    if not (_MEMORY.is_dir() and os.access(_MEMORY, os.W_OK)):
        yield tmp_path / "cache"
        return
    place = Path(tempfile.mkdtemp(dir=_MEMORY))
    yield place / "cache"
    for at, names, _ in os.walk(place):
        for name in names:
            os.chmod(os.path.join(at, name), 0o700)
    shutil.rmtree(place)
