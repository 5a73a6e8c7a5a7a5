"""MCP servers run as modules: what a server is given with its source, and what it is not."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from integration.acting_server import SERVER
from integration.command_line import paddock, require_level
from paddock.session.tool_call import ToolCallOutcome, ToolCallSession
from paddock_sandbox.profile import IsolationLevel
from paddock_sources.environment.interpreter import Interpreter
from sources.git.origin_repository import OriginRepository
from sources.index_server import IndexServer
from support.registries import skip_unreached

pytestmark = pytest.mark.usefixtures("in_tmp_path")

_SECONDS = 60


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[IndexServer]:
    """An index with the server in a package, and nothing else."""
    with IndexServer() as index:
        monkeypatch.setenv("UV_DEFAULT_INDEX", index.url)
        scripts = "[console_scripts]\nother = acts:act\nserve = acts:run\n"
        index.add_wheel("mcp-server-acts", "1.0", {"acts.py": SERVER}, entry_points=scripts)
        yield index


async def _call(source: str, **arguments: str) -> ToolCallOutcome:
    permissions = {"write": ["."]}
    with anyio.fail_after(_SECONDS):
        return await ToolCallSession(source, "act", arguments, permissions=permissions).run()


def test_a_server_of_an_index_is_called_and_reads_only_what_it_was_granted(index: IndexServer, tmp_path: Path) -> None:
    source, secret = "mcp+pypi:mcp-server-acts==1.0", tmp_path / "secret"
    secret.write_text("mine")
    asked = json.dumps({"path": str(secret)})
    call = ("call", source, "act", asked, "--config", '{"bin": "serve"}')
    refused = paddock(*call)
    assert (refused.returncode, "No such file" in refused.stderr) == (1, True), refused.stderr
    (remedy,) = re.findall(r"--allow-read=\S+", refused.stderr)
    index.requests.clear()
    allowed = paddock(*call, remedy, "--offline", "--locked")
    assert (allowed.returncode, allowed.stdout, index.requests) == (0, "mine\n", []), allowed.stderr


async def test_no_server_changes_its_own_files_where_it_may_write_around_them(tmp_path: Path) -> None:
    server = tmp_path / "server.py"
    server.write_text(SERVER)
    outside = subprocess.run([sys.executable, "-c", "import server; server.act('OWN', 'a')"], cwd=tmp_path, check=False)
    assert outside.returncode == 0 and server.read_text().endswith("#")
    source = f"mcp+command:{server}"
    beside = await _call(source, path=str(tmp_path / "new"), mode="a")
    assert (beside.result.success, (tmp_path / "new").read_text()) == (True, "#")
    own = await _call(source, path="OWN", mode="a")
    assert own.error is None and "Read-only file system" in str(own.result.error)
    assert server.read_text().count("#") == SERVER.count("#") + 1


@pytest.mark.exhaustive
def test_servers_are_added_listed_updated_and_removed_as_any_module(index: IndexServer, tmp_path: Path) -> None:
    index.add_wheel("mcp-server-one", "1.0", {"acts.py": SERVER}, entry_points="[console_scripts]\none = acts:run\n")
    (tmp_path / "server.py").write_text(SERVER)
    Path("plan.yaml").write_text("session: {orchestrator: loop-basic, context: context-simple}\nproviders: []\n")

    def told(*args: str) -> str:
        done = paddock(*args)
        assert done.returncode == 0, done.stderr
        return " ".join(done.stdout.split())

    for source in ("mcp+pypi:mcp-server-one", "mcp+command:./server.py"):
        added = told("add", source, "--to", "plan.yaml", "--yes")
        assert "with its source" in added and f"reads its own files{'' if 'pypi' in source else ' and '}" in added
    listed = told("list", "plan.yaml")
    assert "tool-mcp-one version, 1.0 mcp+pypi:mcp-server-one" in listed
    assert "tool-mcp-server command, not locked mcp+command:./server.py" in listed
    index.add_wheel("mcp-server-one", "2.0", {"acts.py": SERVER}, entry_points="[console_scripts]\none = acts:run\n")
    assert told("update", "tool-mcp-one") == "tool-mcp-one updated 1.0 (no date) → 2.0 (no date)"
    told("sync", "plan.yaml")
    assert "tool-mcp-one as locked" in told("verify", "plan.yaml")
    assert "run: []" not in told("why", "--plan", "plan.yaml", "tool-mcp-one", "run", str(Interpreter.this().path))
    for name in ("tool-mcp-one", "tool-mcp-server"):
        told("remove", name, "--from", "plan.yaml")
    assert "mcp+" not in Path("plan.yaml").read_text() + Path("paddock.lock").read_text()


@pytest.mark.exhaustive  # it asks PyPI
@pytest.mark.parametrize("isolation", ["ns", "landlock"])
def test_servers_of_pypi_answer_and_one_needs_what_the_call_grants(isolation: IsolationLevel, tmp_path: Path) -> None:
    require_level(isolation)
    at = ("--isolation", isolation)
    zone = paddock(
        "call", "mcp+pypi:mcp-server-time==2026.10.19", "get_current_time", '{"timezone": "Asia/Tokyo"}', *at
    )
    skip_unreached(zone)
    assert (zone.returncode, json.loads(zone.stdout)["timezone"]) == (0, "Asia/Tokyo"), zone.stderr
    repository = OriginRepository(tmp_path / "repository")
    repository.commit({"a": "b"})
    log = (
        "call",
        "mcp+pypi:mcp-server-git==2026.10.19",
        "git_log",
        json.dumps({"repo_path": str(repository.folder)}),
        *at,
    )
    refused = paddock(*log)
    assert refused.returncode == 1 and "Bad git executable" in refused.stderr
    granted = paddock(*log, "--allow-run=git", f"--allow-read={repository.folder}")
    assert granted.returncode == 0 and granted.stdout.startswith("Commit history:"), granted.stderr
