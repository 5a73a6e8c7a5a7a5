"""A cache, a repository to fetch from, and sources between the two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paddock_sources.cache import SourceCache
from paddock_sources.commands.direct_runner import DirectRunner
from paddock_sources.git.git_source import GitSource
from sources.git.origin_repository import OriginRepository
from sources.git.watched_runner import WatchedRunner
from sources.git_repositories import git_uri


class Origin(OriginRepository):
    """A repository, and its sources: fetched by `runner`, into `cache`."""

    def __init__(self, folder: Path, cache: SourceCache) -> None:
        super().__init__(folder)
        self.runner = WatchedRunner(DirectRunner())
        self._cache = cache

    def source(self, ref: str = "", *, address: str = "", **options: Any) -> GitSource:
        """Return the source of `ref` in the repository, or of another address."""
        uri = git_uri((address or self.address) + (f"@{ref}" if ref else ""), held=options.pop("held", False))
        cache = options.pop("cache", self._cache)
        return GitSource(uri, cache, self.runner, direct=DirectRunner(), environ={}, **options)


@pytest.fixture
def origin(tmp_path: Path, cache: SourceCache) -> Origin:
    return Origin(tmp_path / "origin", cache)
