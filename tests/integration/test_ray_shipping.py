"""A node that has nothing gets the code of a plan, and fetches none: above a link in memory, in real sandboxes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from failures import failing
from host.ray.links import MemoryCluster, MemoryNode, attempt
from integration.acting_server import SERVER
from integration.command_line import paddock
from paddock.authorization.authorizer import Authorizer
from paddock.batch.local import SessionSettings
from paddock.plan.load import load_plan
from paddock.ray.messages import Facts
from paddock.ray.node import Node, facts_of
from paddock.ray.options import RayOptions
from paddock.ray.pool import Pool
from paddock.ray.shipping import shipment_of
from paddock_sources.cache import SourceCache
from sources.git.origin_repository import OriginRepository
from sources.git_repositories import module_files
from sources.index_server import IndexServer

pytestmark = [pytest.mark.usefixtures("in_tmp_path"), pytest.mark.exhaustive]


def _lock_a_plan(tmp_path: Path) -> None:
    """Write and lock a plan with a repository, a package of an index and a bundle; then the repository goes."""
    origin = OriginRepository(tmp_path / "origin")
    origin.commit(module_files(imports="import leaf", answer="leaf.OF", requires=["leaf>=1"]))
    shutil.copytree(Path(__file__).parents[1] / "fixtures/bundles/harbour", "harbour")
    Path("plan.yaml").write_text(
        "extends: ./harbour\nsession: {orchestrator: loop-basic, context: context-simple}\n"
        f"tools: [{{module: tool-greet, source: '{origin.address}@main'}},\n"
        "  {module: tool-mcp-acts, source: 'mcp+pypi:mcp-server-acts==1.0'}]\n"
        "hooks: [{module: hooks-logging, permissions: {write: [.]}}]\n"
    )
    with IndexServer() as index:
        index.add_wheel("leaf", "1.5", {"leaf/__init__.py": "OF = 'the bay'\n"})
        script = "[console_scripts]\nacts = acts:run\n"
        index.add_wheel("mcp-server-acts", "1.0", {"acts.py": SERVER}, entry_points=script)
        for command in ("lock", "sync"):
            done = paddock(command, environ={"UV_DEFAULT_INDEX": index.url})
            assert done.returncode == 0, done.stderr
    shutil.rmtree(origin.folder)


def _node(home: Path, facts: Facts, policy: str = "") -> MemoryNode:
    """Return a node with a home, cache and policy of its own."""
    node = MemoryNode(home.name, facts)
    (home / ".config/paddock").mkdir(parents=True)
    if policy:
        (home / ".config/paddock/policy.toml").write_text(policy)
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), "PADDOCK_CACHE_DIR": str(home / "cache")}
    node.node = Node(environ=environ)
    return node


async def test_a_repository_and_its_packages_reach_a_node_that_fetches_nothing(tmp_path: Path) -> None:
    """One with a stricter policy of its own gets no work, and says why."""
    await anyio.to_thread.run_sync(_lock_a_plan, tmp_path)
    own = await facts_of(os.environ)
    node = _node(tmp_path / "a", own)
    strict = _node(tmp_path / "b", own, 'git_hosts = ["example.org"]\nbind_local_git = true\n')
    settings = SessionSettings(trust_plan=True)
    plan = load_plan("plan.yaml")
    authorizer = await Authorizer.at_work(tmp_path, os.environ, None)
    out = tmp_path / "out"
    out.mkdir()
    with SourceCache.of_user(os.environ) as cache:
        shipment = await shipment_of(plan, authorizer, settings, os.environ, cache)
        async with Pool.opened(MemoryCluster(node).nodes, shipment, RayOptions(wait_seconds=0), own) as pool:
            place = await pool.take()
            result = await place.run(attempt("t", "Of what?"), out, _yes)
        assert result.response == "The tide is high.", result
        # The one imports the package as it is loaded, and the other has started its server.
        assert {"tool-greet", "tool-mcp-acts"} <= {one["module"] for one in result.modules}
        assert node.calls.count("take") == len(shipment.trees) >= 2
        async with Pool.opened(MemoryCluster(node).nodes, shipment, RayOptions(wait_seconds=0), own) as pool:
            await pool.take()
        assert node.calls.count("take") == len(shipment.trees)
        async with Pool.opened(MemoryCluster(strict).nodes, shipment, RayOptions(wait_seconds=0), own) as pool:
            with failing("NoPlaceError", "b: policy refuses"):
                await pool.take()


async def _yes(module: str, tool: str) -> None:
    pass
