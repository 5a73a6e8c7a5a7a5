"""Hosts that resolve the same at once get the same, and one that is killed at any moment leaves nothing in the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from paddock_sources.cache import SourceCache
from sources.git_repositories import below, library_files, module_files, repository
from sources.git_server import GitServer, Stalls
from sources.index_server import IndexServer

SECONDS = 200  # for one host; hit only by a hang

# As they come, from nothing at all to a module that is ready.
STAGES = (
    "before fetch",
    "after fetch",
    "after ls-tree",
    "after cat-file",
    "place made",
    "written out",
    "marked",
    "renamed",
    "after compile",
    "after file_hashes",
    "after fetch_wheels",
    "after install",
)


@pytest.fixture(scope="module")
def index() -> Iterator[IndexServer]:
    with IndexServer() as index:
        index.add_wheel("twig", "1.0")
        yield index


@pytest.fixture
def addresses(server: GitServer) -> Sequence[str]:
    """Two modules of one repository, and one with dependencies from an index and another repository."""
    both = {"README.md": "both\n"}
    for module_id in ("tool-first", "tool-second"):
        both |= below(f"modules/{module_id}", module_files(module_id))
    repository(server.folder / "both", both)
    repository(server.folder / "library", library_files("amplifier_module_greeting"))
    requires = ["twig", f"amplifier-module-greeting @ {server.address('library', 'v1')}"]
    repository(server.folder / "lent", module_files("tool-lent", requires=requires))
    return (
        server.address("both", "main", subdirectory="modules/tool-first"),
        server.address("both", "main", subdirectory="modules/tool-second"),
        server.address("lent", "v1"),
    )


class Hosts:
    """Begins hosts that use `addresses`, and ends those that are left."""

    def __init__(self, server: GitServer, index: IndexServer) -> None:
        self._server = server
        self._index = index
        self._begun: list[subprocess.Popen[bytes]] = []

    def begin(self, cache: Path, addresses: Sequence[str], doom: str = "") -> subprocess.Popen[bytes]:
        environ = {
            **{name: os.environ[name] for name in ("PATH", "HOME")},
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            **self._server.environ,
        }
        command = [sys.executable, "-m", "sources.faults.one_host", str(cache), self._index.url, doom, *addresses]
        host = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._begun.append(host)
        return host

    def told(self, host: subprocess.Popen[bytes]) -> list[Any]:
        """Return what a host said when it ended well."""
        said, errors = host.communicate(timeout=SECONDS)
        assert host.returncode == 0, errors.decode()
        found: list[Any] = json.loads(said)
        return found

    def end(self) -> None:
        for host in self._begun:
            host.kill()
            host.communicate(timeout=SECONDS)


@pytest.fixture
def hosts(server: GitServer, index: IndexServer) -> Iterator[Hosts]:
    made = Hosts(server, index)
    yield made
    made.end()


def check(cache: Path) -> None:
    """Fail unless all that is in a cache is sound, and nothing that the dead have left stays."""
    with SourceCache(cache) as fresh:
        assert fresh.verify() == ()
        fresh.prune(3600)
        assert not list((cache / "tmp").iterdir())


def test_hosts_that_resolve_the_same_source_fetch_it_once(
    tmp_path: Path, server: GitServer, hosts: Hosts, addresses: Sequence[str]
) -> None:
    orders = (addresses, addresses[::-1], addresses[1:] + addresses[:1])
    begun = [hosts.begin(tmp_path / "cache", order) for order in orders]
    answers = [sorted(hosts.told(host)) for host in begun]
    assert answers[0] == answers[1] == answers[2]
    assert sorted(server.asked("fetch")) == ["both", "lent", "library"]
    check(tmp_path / "cache")


@pytest.mark.slow
def test_a_host_that_is_killed_at_any_stage_leaves_nothing_in_the_way(
    tmp_path: Path, hosts: Hosts, addresses: Sequence[str]
) -> None:
    wanted = addresses[1:]
    good = hosts.told(hosts.begin(tmp_path / "good", wanted))
    for start in range(0, len(STAGES), 2):
        stages = STAGES[start : start + 2]
        caches = {stage: tmp_path / f"cache-{stage.replace(' ', '-')}" for stage in stages}
        killed = {stage: hosts.begin(cache, wanted, stage) for stage, cache in caches.items()}
        for stage, host in killed.items():
            errors = host.communicate(timeout=SECONDS)[1]
            assert host.returncode == -signal.SIGKILL, (stage, errors.decode())
        after = {stage: hosts.begin(cache, wanted) for stage, cache in caches.items()}
        for stage, host in after.items():
            assert hosts.told(host) == good, stage
            check(caches[stage])


def test_a_host_that_is_killed_while_it_waits_for_a_server_holds_nobody_up(
    tmp_path: Path, server: GitServer, hosts: Hosts, addresses: Sequence[str]
) -> None:
    stalls = Stalls(400)
    server.fault = stalls
    host = hosts.begin(tmp_path / "cache", addresses[:1])
    assert stalls.has_stalled.wait(SECONDS)
    host.kill()
    host.communicate(timeout=SECONDS)
    server.fault = None
    assert hosts.told(hosts.begin(tmp_path / "cache", addresses[:1]))
    check(tmp_path / "cache")
