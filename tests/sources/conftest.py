"""Hosts that are processes, for all tests of sources."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sources.warm.warm_hosts import WarmHosts


@pytest.fixture(scope="session")
def warm_hosts() -> Iterator[WarmHosts]:
    with WarmHosts() as hosts:
        yield hosts
