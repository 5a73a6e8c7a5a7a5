"""What all faults are tried with: a server, a cache, and runners that shut git in or do not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from host.egress.certificates import TestAuthority
from paddock_sources.cache import SourceCache
from paddock_sources.commands.command_runner import CommandRunner
from paddock_sources.commands.direct_runner import DirectRunner
from sources.faults.ground import Ground, begin
from sources.git_server import GitServer
from support.shut_in_commands import commands_at


@pytest.fixture(scope="session")
def shut_in() -> Iterator[CommandRunner]:
    """Runs commands at the strongest level that can be had here."""
    with commands_at(None) as runner:
        yield runner


@pytest.fixture
def runner() -> CommandRunner:
    return DirectRunner()


@pytest.fixture
def server(tmp_path: Path, authority: TestAuthority) -> Iterator[GitServer]:
    (tmp_path / "repositories").mkdir()
    with GitServer(tmp_path / "repositories", authority) as server:
        yield server


@pytest.fixture
def ground(server: GitServer, cache: SourceCache, tmp_path: Path, runner: CommandRunner) -> Ground:
    return begin(server, tmp_path, cache, runner)
