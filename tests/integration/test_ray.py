"""Tasks on a real cluster of Ray, whose nodes are killed with all their processes; `make test-all` runs it."""

from __future__ import annotations

import hashlib
import json
import os
import random
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from integration.conftest import DIRECT, WriteModule
from integration.ray_cluster import Cluster, cluster
from support.children import descendants_of

ray = pytest.importorskip("ray", reason="Ray is not installed: the extra `ray`", exc_type=ImportError)

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # Ray's own
]

_TOOL = """
    import hashlib, os, socket, time

    from amplifier_core.models import ToolResult

    class Ground:
        name = "ground"
        description = "appends an id to a file, looks for a secret, or tries to connect"

        def __init__(self, config):
            self._key = config.get("key", "")

        async def execute(self, input):
            if "append" in input:
                with open(input["file"], "a") as file:
                    file.write(input["append"] + "\\n")
                time.sleep(input.get("after", 0))
            reached = []
            for host, port in input.get("ports", ()):
                try:
                    socket.create_connection((host, port), 5).close()
                    reached.append(port)
                except OSError:
                    pass
            if "leaves" in input:
                with open("left.txt", "w") as file:
                    file.write(input["leaves"])
            return ToolResult(output={"reached": reached, "key": hashlib.sha256(self._key.encode()).hexdigest()})

    async def mount(coordinator, config):
        await coordinator.mount("tools", Ground(config))
"""


@pytest.fixture
def project(write_module: WriteModule, tmp_path: Path) -> Path:
    """A plan whose tool may write to a folder that all nodes share, and has a secret."""
    write_module("loop-direct", DIRECT)
    write_module("tool-ground", _TOOL)
    (tmp_path / "shared").mkdir()
    plan = f"""
session:
  orchestrator: {{module: loop-direct, source: ./amplifier-module-loop-direct}}
  context: context-simple
tools:
  - module: tool-ground
    source: ./amplifier-module-tool-ground
    config: {{key: "${{GROUND_KEY}}"}}
    permissions: {{write: [".", "{tmp_path / "shared"}"], secrets: [GROUND_KEY]}}
"""
    (tmp_path / "plan.yaml").write_text(plan)
    return tmp_path


def _write_tasks(project: Path, orders: Iterable[dict[str, Any]]) -> None:
    rows = [{"id": f"t{at}", "prompt": json.dumps({"tool": "ground", "input": one})} for at, one in enumerate(orders)]
    (project / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def _begun(project: Path, address: str, *options: str, **environ: str) -> subprocess.Popen[str]:
    command = [str(Path(sys.executable).with_name("paddock")), "batch", "plan.yaml", "tasks.jsonl", "--out", "out"]
    more = ["--ray", address, "--shared", "shared", "--trust-plan", "--json", *options]
    return subprocess.Popen(
        [*command, *more], cwd=project, env={**os.environ, **environ}, stdout=subprocess.PIPE, text=True
    )


def _lines(file: Path) -> list[dict[str, Any]]:
    whole = file.read_text().split("\n")[:-1] if file.exists() else []
    return [json.loads(line) for line in whole]


def _until(holds: Callable[[], bool], running: subprocess.Popen[str] | None = None) -> None:
    latest = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < latest and (running is None or running.poll() is None)
        time.sleep(0.02)


def _workers(found: Cluster) -> set[int]:
    """Return the processes below the actor of the first node: templates and modules."""
    actors = set()
    for pid in descendants_of(found.raylet(0)):
        with suppress(OSError):  # it ends meanwhile
            actors |= {pid} if b"ray::" in Path(f"/proc/{pid}/cmdline").read_bytes() else set()
    return {below for one in actors for below in descendants_of(one)}


def test_code_and_secrets_reach_nodes_and_modules_reach_no_port(project: Path) -> None:
    """A value of a secret is in no file, object store, argument or environment of Ray's, where others are found."""
    with cluster(2) as found:
        ports = found.ports()
        for place in ports:
            socket.create_connection(place, 5).close()
        _write_tasks(project, [{"ports": ports, "leaves": f"text {at}"} for at in range(4)])
        value = "hunter2-" + random.Random(7).randbytes(16).hex()
        running = _begun(project, found.address, "--send-secrets", GROUND_KEY=value)
        answer, _ = running.communicate(timeout=240)
        assert running.returncode == 0, answer
        results = _lines(project / "out/results.jsonl")
        outputs = [json.loads(one["response"])["output"] for one in results]
        assert all(one["reached"] == [] for one in outputs)
        assert {one["key"] for one in outputs} == {hashlib.sha256(value.encode()).hexdigest()}
        assert (project / "out/t3/left.txt").read_text() == "text 3"
        ray.init(found.address, log_to_driver=False, configure_logging=False)
        try:
            kept = ray.put(b"found-in-a-store" * 100_000)  # noqa: F841 - an object lives as long as its reference
            seen = found.found(b"found-in-a-store")
        finally:
            ray.shutdown()
        assert seen
        assert found.found(value.encode()) == []


def test_a_killed_driver_ends_the_sessions_and_the_run_goes_on(project: Path) -> None:
    with cluster(1, GROUND_KEY="the node's") as found:
        _write_tasks(
            project, [{"append": f"t{at}", "file": str(project / "shared/ids"), "after": 1} for at in range(6)]
        )
        running = _begun(project, found.address, "--per-node", "2")
        _until(lambda: (project / "shared/ids").exists() and bool(_workers(found)), running)
        running.kill()
        running.wait()
        _until(lambda: not _workers(found))
        again = _begun(project, found.address, "--resume")
        again.communicate(timeout=240)
        results = _lines(project / "out/results.jsonl")
        lost = {one["id"] for one in results if one["status"] == "lost"}
        seen = Counter((project / "shared/ids").read_text().split())
        assert len(results) == 6 and len(lost) <= 2
        assert set(seen.values()) == {1} and {one["id"] for one in results} - set(seen) <= lost


@pytest.mark.parametrize("seed", [5, 11])
def test_killed_nodes_lose_nothing_and_repeat_nothing_in_silence(project: Path, seed: int) -> None:
    chosen = random.Random(seed)
    per_node, ids = 3, project / "shared/ids"
    with cluster(3, GROUND_KEY="the node's") as found:
        orders = [{"append": f"t{at}", "file": str(ids), "after": chosen.uniform(0, 0.5)} for at in range(60)]
        _write_tasks(project, orders)
        running = _begun(project, found.address, "--per-node", str(per_node))
        results = project / "out/results.jsonl"
        for node, after in ((0, chosen.randint(3, 15)), (1, chosen.randint(20, 35))):
            _until(lambda after=after: len(_lines(results)) >= after, running)  # type: ignore[misc]
            found.kill(node)
        answer, _ = running.communicate(timeout=280)
    told = json.loads(answer)
    lines = {one["id"]: one for one in _lines(results)}
    assert len(lines) == 60 == len(_lines(results)), told
    seen = Counter(ids.read_text().split())
    lost = {id for id, one in lines.items() if one["status"] == "lost"}
    assert [id for id, times in seen.items() if times > 1 and len(lines[id]["acted"]) < times] == []
    assert set(lines) - set(seen) <= lost
    assert len(lost) <= 2 * per_node and all(not lines[id]["repeatable"] for id in lost)
    assert told["lost"] == len(lost) and told["failed"] == 0 and running.returncode == (1 if lost else 0)
