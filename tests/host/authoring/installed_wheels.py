"""Wheels of what is installed beside the tests, so that an index on loopback can offer it with no network around."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata

import pytest

from sources.index_server import IndexServer

# pytest and pytest-asyncio, with all that they need.
TEST_RUNNERS = ("pytest", "pytest-asyncio", "pluggy", "iniconfig", "packaging", "pygments", "typing-extensions")


# What pytest imports of the several hundred languages that pygments colours: to compile all takes seconds.
_LANGUAGES = ("__init__.py", "_mapping.py", "diff.py", "python.py")


def offer(index: IndexServer, *names: str) -> None:
    """Publish the distributions of these names as they are installed here."""
    for name in names:
        found = metadata.distribution(name)
        files: dict[str, str | bytes] = {}
        for path in found.files or ():
            is_own = not path.parts[0].startswith("..") and not path.parts[0].endswith(".dist-info")
            is_needed = path.parts[:2] != ("pygments", "lexers") or path.name in _LANGUAGES
            if is_own and is_needed and path.suffix != ".pyc":
                files[str(path)] = path.read_binary()
        entry_points = found.read_text("entry_points.txt") or ""
        index.add_wheel(name, found.version, files, requires=found.requires or (), entry_points=entry_points)


@contextmanager
def index_of(monkeypatch: pytest.MonkeyPatch, *names: str) -> Iterator[IndexServer]:
    """Have the installers of this user ask one index, which offers these distributions as they are installed here."""
    with IndexServer() as index:
        offer(index, *names)
        monkeypatch.setenv("UV_DEFAULT_INDEX", index.url)
        for name in ("PIP_INDEX_URL", "PIP_FIND_LINKS", "UV_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
            monkeypatch.delenv(name, raising=False)
        yield index
