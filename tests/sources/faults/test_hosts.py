"""Hosts that resolve the same at once get the same, and one that is killed at any moment leaves nothing in the way."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from paddock_sources.cache import SourceCache
from sources.faults import one_host
from sources.git_repositories import below, library_files, module_files, repository
from sources.git_server import GitServer, Stalls
from sources.index_server import IndexServer
from sources.warm.warm_hosts import Host, WarmHosts
from support.examples import IN_FULL

SECONDS = 200  # for one host; hit only by a hang

# In the order in which a host passes them. A killed host leaves the earlier stages done, so the next host continues
# from there in the same cache.
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
    "before fetch_wheels",
    "after fetch_wheels",
    "after unpack_wheels",
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

    def __init__(self, process: WarmHosts, server: GitServer, index: IndexServer, stack: ExitStack) -> None:
        self._process = process
        self._server = server
        self._index = index
        self._stack = stack

    def begin(self, cache: Path, addresses: Sequence[str], doom: str = "") -> Host:
        environ = {**{name: os.environ[name] for name in ("PATH", "HOME")}, **self._server.environ}
        arguments = [str(cache), self._index.url, doom, *addresses]
        return self._stack.enter_context(self._process.host(one_host, *arguments, environ=environ))

    def told(self, host: Host) -> list[Any]:
        """Return what a host said when it ended well."""
        code, said, errors = host.end()
        assert code == 0, errors
        found: list[Any] = json.loads(said)
        return found


@pytest.fixture
def hosts(warm_hosts: WarmHosts, server: GitServer, index: IndexServer) -> Iterator[Hosts]:
    with ExitStack() as stack:
        yield Hosts(warm_hosts, server, index, stack)


def until_there(folder: Path, name: str) -> None:
    """Return once something has this name below a folder."""
    late = time.monotonic() + SECONDS
    while not any(folder.rglob(name)):
        assert time.monotonic() < late, f"{name} was never made"
        time.sleep(0.005)


def check(cache: Path) -> None:
    """Fail unless all that is in a cache is sound, and nothing that the dead have left stays."""
    with SourceCache(cache) as fresh:
        assert fresh.upkeep.verify() == ()
        fresh.upkeep.prune(3600)
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


def test_hosts_killed_at_any_stage_leave_nothing_in_the_way(
    tmp_path: Path, hosts: Hosts, addresses: Sequence[str]
) -> None:
    cache, wanted = tmp_path / "cache", addresses[2:]
    for stage in STAGES if IN_FULL else STAGES[1::3]:
        code, _, errors = hosts.begin(cache, wanted, stage).end()
        assert code == -signal.SIGKILL, (stage, errors)
        with SourceCache(cache) as fresh:
            assert fresh.upkeep.verify() == (), stage
    found = hosts.told(hosts.begin(cache, wanted))
    assert found == hosts.told(hosts.begin(tmp_path / "good", wanted))
    check(cache)


def test_a_host_killed_while_it_waits_for_a_server_delays_no_other(
    tmp_path: Path, server: GitServer, hosts: Hosts, addresses: Sequence[str]
) -> None:
    stalls = Stalls(400)
    server.fault = stalls
    host = hosts.begin(tmp_path / "cache", addresses[:1])
    assert stalls.has_stalled.wait(SECONDS)
    # Its git lives on until the server ends, and makes this once it has read what came: not under the next host.
    until_there(tmp_path / "cache", "shallow.lock")
    host.kill()
    host.end()
    server.fault = None
    assert hosts.told(hosts.begin(tmp_path / "cache", addresses[:1]))
    check(tmp_path / "cache")
