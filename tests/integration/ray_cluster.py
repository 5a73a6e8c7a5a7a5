"""A cluster of Ray on this machine, with a home for each node, and the end of a node with all its processes."""

from __future__ import annotations

import gc
import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from support.children import descendants_of

_STORE_BYTES = 80_000_000  # the least that Ray takes is 75 MiB


class Cluster:
    """A head without processors, and nodes, each with a home and a cache of its own."""

    def __init__(self, homes: Path, environ: dict[str, str]) -> None:
        from ray.cluster_utils import Cluster as RayCluster

        self._homes = homes
        self._environ = environ
        self._cluster = RayCluster(
            initialize_head=True,
            head_node_args={"num_cpus": 0, "object_store_memory": _STORE_BYTES, "include_dashboard": False},
        )
        self._nodes: list[Any] = []
        self.address: str = self._cluster.address

    def add(self, count: int) -> None:
        """Add nodes."""
        for _ in range(count):
            home = self._homes / f"node{len(self._nodes)}"
            home.mkdir()
            environ = {"HOME": str(home), "PADDOCK_CACHE_DIR": str(home / "cache"), **self._environ}
            self._nodes.append(
                self._cluster.add_node(num_cpus=2, object_store_memory=_STORE_BYTES, env_vars=environ, wait=False)
            )
        self._cluster.wait_for_nodes()

    @property
    def session_folder(self) -> Path:
        """Where Ray keeps its logs."""
        return Path(self._cluster.head_node.get_session_dir_path())

    def raylet(self, node: int) -> int:
        """Return the process that a node's others come from."""
        return _raylet(self._nodes[node])

    def ports(self) -> list[tuple[str, int]]:
        """Return where Ray listens: the head's service of the cluster, and each node's own."""
        host, _, port = self.address.rpartition(":")
        return [(host, int(port)), *((one.node_ip_address, one.node_manager_port) for one in self._nodes)]

    def kill(self, node: int) -> None:
        """Kill a node as a machine that stops: its raylet alone would leave its workers to finish."""
        for pid in _all_of(self.raylet(node)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def found(self, value: bytes) -> list[str]:
        """Return where a value is in Ray's files, in its object stores, and in what its processes were started with."""
        places = [path for path in self.session_folder.rglob("*") if path.is_file() and not path.is_symlink()]
        for raylet in map(_raylet, [self._cluster.head_node, *self._nodes]):
            for pid in _all_of(raylet):
                places += [Path(f"/proc/{pid}/{name}") for name in ("environ", "cmdline")]
            descriptors = Path(f"/proc/{raylet}/fd")
            places += [one for one in descriptors.iterdir() if "plasma" in os.readlink(one)]
        hits = []
        for place in places:
            with suppress(OSError), place.open("rb") as file:
                if value in file.read():
                    hits.append(str(place))
        return hits

    def shutdown(self) -> None:
        """End all of it."""
        self._cluster.shutdown()


def _raylet(node: Any) -> int:
    pid: int = node.all_processes["raylet"][0].process.pid
    return pid


def _all_of(raylet: int) -> list[int]:
    return [raylet, *descendants_of(raylet)]


@contextmanager
def cluster(nodes: int, **environ: str) -> Iterator[Cluster]:
    """Have a cluster with so many nodes, in whose environments these variables are."""
    with tempfile.TemporaryDirectory(prefix="p-", dir="/var/tmp") as homes:
        made = Cluster(Path(homes), environ)
        try:
            made.add(nodes)
            yield made
        finally:
            made.shutdown()
            del made
            gc.collect()  # Ray leaves files open, and the test where it does so is the one to be told
