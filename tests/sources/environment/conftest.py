"""An index on loopback with the packages that most tests need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock_sources.cache import SourceCache
from paddock_sources.environment.index import Index
from paddock_sources.environment.interpreter import Interpreter
from sources.index_server import IndexServer
from sources.warm.warm_runner import WarmRunner, warm_runner


@pytest.fixture(scope="package")
def trap(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that is there as soon as anything of a source archive is executed."""
    return tmp_path_factory.mktemp("trap") / "executed"


@pytest.fixture(scope="package")
def server(trap: Path) -> Iterator[IndexServer]:
    with IndexServer() as server:
        server.add_wheel("leaf", "1.0")
        server.add_wheel("leaf", "2.0")
        server.add_sdist("leaf", "2.0", {"setup.py": "raise SystemExit('built')\n"})
        server.add_wheel(
            "branch",
            "1.0",
            requires=["leaf>=1", "amplifier-core>=1.5"],
            entry_points="[console_scripts]\nb = branch:f\n",
        )
        server.add_sdist_that_runs("only-source", "1.0", trap)
        server.add_wheel("needs-source", "1.0", requires=["only-source"])
        server.add_wheel("elsewhere", "1.0", tag="cp27-cp27m-win32")
        yield server


@pytest.fixture(scope="package")
def index(server: IndexServer) -> Index:
    return Index.of({"PIP_INDEX_URL": server.url})


@pytest.fixture(scope="package")
def python() -> Interpreter:
    return Interpreter.this()


@pytest.fixture(scope="package")
def cache(tmp_path_factory: pytest.TempPathFactory) -> SourceCache:
    return SourceCache(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="package")
def runner() -> Iterator[WarmRunner]:
    with warm_runner() as runner:
        yield runner
