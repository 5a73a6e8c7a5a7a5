"""The programs that handle packages at each isolation level, as the host runs them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from failures import failing
from paddock.isolation.commands.source_commands import SourceCommands
from paddock_sources.cache import SourceCache
from paddock_sources.environment.builder import Environments
from paddock_sources.environment.index import Index
from paddock_sources.environment.interpreter import Interpreter
from paddock_sources.environment.requirements import Requirements
from sources.index_server import IndexServer
from support.shut_in_commands import LEVELS, commands_at


@pytest.fixture(scope="module", params=LEVELS)
def runner(request: pytest.FixtureRequest) -> Iterator[SourceCommands]:
    with commands_at(request.param) as runner:
        yield runner


@pytest.mark.exhaustive("landlock")
def test_sandboxed_programs_reach_their_index_and_nothing_else(
    runner: SourceCommands, python: Interpreter, tmp_path: Path
) -> None:
    with IndexServer() as files, IndexServer(file_host=files.host) as server:
        for one in (files, server):
            one.add_wheel("leaf", "1.0", {"leaf/__init__.py": "", "leaf/run.sh": "#!/bin/sh\n"})
            one.add_wheel("branch", "1.0", requires=["leaf>=1", "amplifier-core>=1.5"])
        both = Index(server.url, (server.host, files.host))
        environments = Environments(SourceCache(tmp_path / "cache"), runner, both, python)
        wanted = Requirements("tool-demo", "1", ("branch",))
        locked = environments.resolve(wanted)
        assert [(one.name, one.version) for one in locked] == [("branch", "1.0"), ("leaf", "1.0")]
        assert locked[1].hashes == server.hashes_of("leaf", "1.0")
        site = environments.install(locked)
        assert (site / "leaf" / "__init__.py").is_file()
        assert os.access(site / "leaf" / "run.sh", os.X_OK)
        assert len(list((site / "leaf" / "__pycache__").glob("__init__.*.pyc"))) == 1
        assert files.requests
        # An index that sends it elsewhere is not followed.
        files.requests.clear()
        index = Index.of({"PIP_INDEX_URL": server.url})
        other = Environments(SourceCache(tmp_path / "other"), runner, index, python)
        with failing("IndexAccessError", files.host):
            other.resolve(wanted)
        assert not files.requests
