"""What tests of sources share: a cache, an authority of servers, and hosts that are processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from host.egress.certificates import TestAuthority
from paddock_sources.cache import SourceCache
from sources.warm.warm_hosts import WarmHosts


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[SourceCache]:
    with SourceCache(tmp_path / "cache") as cache:
        yield cache


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> TestAuthority:
    return TestAuthority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def warm_hosts() -> Iterator[WarmHosts]:
    with WarmHosts() as hosts:
        yield hosts
