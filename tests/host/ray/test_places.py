"""What a plan may not ask for on a cluster, and addresses where no Ray answers."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from host.ray.links import attempt
from paddock.batch.local import SessionSettings
from paddock.errors import KindError, PlanError, PolicyRefusedError
from paddock.plan.load import load_plan
from paddock.ray import cluster
from paddock.ray.cluster import RayCluster
from paddock.ray.options import RayOptions
from paddock.ray.places import ray_places, refuse_one_machines, refuse_ways_to_nodes, tokens_in
from paddock.ray.pool import LinkLostError


def _plan(grant: str) -> object:
    entry = {"module": "tool-bash", "permissions": {grant.partition("=")[0]: [grant.partition("=")[2]]}}
    return load_plan({"session": {"orchestrator": "loop-basic", "context": "context-simple"}, "tools": [entry]})


@pytest.mark.parametrize("grant", ["read=/data/x", "write=/data/x", "read=~/x", "write=/data2"])
def test_a_path_of_one_machine_is_refused(grant: str) -> None:
    with pytest.raises(PlanError, match="another folder on each node"):
        refuse_one_machines(_plan(grant), ())  # type: ignore[arg-type]


async def test_a_node_that_does_not_start_is_told_with_its_cause() -> None:
    died = "The actor died because of an error in its creation task, ray::Node\n  File …\nImportError: no paddock"

    class Joining:
        async def remote(self, argument: bytes) -> bytes:
            raise RuntimeError(died)

    with pytest.raises(LinkLostError, match=r"^RuntimeError: ImportError: no paddock$"):
        await cluster._called(SimpleNamespace(join=Joining()), "join", b"")


@pytest.mark.parametrize("grant", ["read=/data/x", "write=/data", "read=./x"])
def test_a_path_in_a_shared_folder_is_not(grant: str) -> None:
    refuse_one_machines(_plan(grant), (Path("/data"),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "host", ["192.0.2.7:6379", "192.0.2.0/24", "node-7:1", "localhost:6379", "127.0.0.1:80", "[::1]:1"]
)
def test_a_grant_of_a_nodes_address_is_refused(host: str) -> None:
    with pytest.raises(PlanError, match="reaches a node of the cluster"):
        refuse_ways_to_nodes(_plan(f"net={host}"), frozenset({"192.0.2.7", "Node-7"}))  # type: ignore[arg-type]


@pytest.mark.parametrize("host", ["192.0.2.8:6379", "example.org", "public", "self", "*.example.org"])
def test_a_grant_of_another_host_is_not(host: str) -> None:
    refuse_ways_to_nodes(_plan(f"net={host}"), frozenset({"192.0.2.7", "node-7"}))  # type: ignore[arg-type]


def test_a_shared_folder_has_its_token_as_long_as_the_run_lasts(tmp_path: Path) -> None:
    with tokens_in([tmp_path]) as tokens:
        ((path, token),) = tokens.items()
        assert Path(path).read_text() == token
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(KindError, match="cannot be shared"), tokens_in([tmp_path / "none"]):
        pass


async def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(KindError, match="Ray is not installed") as caught:
        async with RayCluster.connected("auto"):
            pass
    assert "`pip install '.[ray]'`" in caught.value.hints[0]


@pytest.mark.parametrize("answer", [None, b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"], ids=["closed", "silent", "HTTP"])
def test_an_address_without_ray_is_told_within_a_bound(answer: bytes | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_CONNECT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = "127.0.0.1:{1}".format(*server.getsockname())
        if answer is None:
            server.close()
        with pytest.raises(KindError, match="no Ray cluster answers"):
            cluster.connect(None, address)


@pytest.mark.parametrize("address", ["ray://head:10001", "local", "head", ":1", "head:port"])
def test_what_is_no_address_is_told(address: str) -> None:
    with pytest.raises(KindError, match="an address is `HOST:PORT`"):
        cluster.connect(None, address)


async def test_a_plan_nobody_accepted_is_refused_before_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that is accepted gets as far as the cluster."""
    monkeypatch.setattr(RayCluster, "connected", _no_cluster)
    plan = _plan(f"write={tmp_path}")
    for settings, error in ((SessionSettings(), PolicyRefusedError), (SessionSettings(trust_plan=True), LookupError)):
        with pytest.raises(error) as caught:
            async with ray_places(
                plan,  # type: ignore[arg-type]
                attempt("t", "x"),
                settings=settings,
                options=RayOptions(shared=(tmp_path,)),
            ):
                pass
        told = caught.value
        assert isinstance(told, LookupError) or any("accept" in hint for hint in told.hints), told


def _no_cluster(address: str) -> None:
    raise LookupError(address)


def test_the_package_offers_the_run_however_often_it_is_asked() -> None:
    import paddock.ray

    assert callable(paddock.ray.run) and paddock.ray.run is paddock.ray.run
