"""A world for each test, whose commands are those of the process that becomes commands."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from blackbox.commands import World
from integration.warm_commands import WarmCommands


@pytest.fixture
def world(_warm_commands: WarmCommands) -> Iterator[World]:
    """Folders of the test's own; not below /tmp, of which modules have one of their own, as `why` says."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="paddock-test-", ignore_cleanup_errors=True) as folder:
        yield World(_warm_commands, Path(folder))


@pytest.fixture(scope="session")
def level_ns(_warm_commands: WarmCommands, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skip where the isolation level `ns`, whose output is frozen, cannot be had, with what stands in the way."""
    done = World(_warm_commands, tmp_path_factory.mktemp("doctor") / "world").run("doctor", "--json")
    found = next(one for one in done.json["levels"] if one["level"] == "ns")
    if not found["reachable"]:
        pytest.skip(f"ns cannot be had here: {found}")
