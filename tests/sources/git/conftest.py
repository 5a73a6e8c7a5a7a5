"""A cache, a repository to fetch from, and sources between the two."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from paddock_sources import GitUri, parse_source
from paddock_sources.cache import SourceCache
from paddock_sources.commands.direct_runner import DirectRunner
from paddock_sources.git.git_source import GitSource
from sources.git.origin_repository import OriginRepository
from sources.git.watched_runner import WatchedRunner

MakeSource = Callable[..., GitSource]


@pytest.fixture
def origin(tmp_path: Path) -> OriginRepository:
    return OriginRepository(tmp_path / "origin")


@pytest.fixture
def runner() -> WatchedRunner:
    return WatchedRunner(DirectRunner())


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[SourceCache]:
    with SourceCache(tmp_path / "cache") as cache:
        yield cache


@pytest.fixture
def source(origin: OriginRepository, cache: SourceCache, runner: WatchedRunner) -> MakeSource:
    """Return a maker of sources: of `ref` in the origin, or of another address."""

    def make(ref: str = "", *, address: str = "", **options: Any) -> GitSource:
        uri = parse_source((address or origin.address) + (f"@{ref}" if ref else ""))
        uri = uri.held() if options.pop("held", False) else uri
        assert isinstance(uri, GitUri)
        return GitSource(uri, options.pop("cache", cache), runner, direct=DirectRunner(), environ={}, **options)

    return make
