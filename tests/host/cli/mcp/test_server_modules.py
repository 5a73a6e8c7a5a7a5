"""`paddock init --from` a client's file: a plan whose tools are its servers; and what a run of that file says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from paddock.cli.init.init_command import init
from paddock.errors import PlanError
from paddock.plan.load import load_plan
from paddock_sources import BuiltinSource


@pytest.fixture(autouse=True)
def _in_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own").write_text("#!/bin/sh\n")
    (tmp_path / "own").chmod(0o755)
    (tmp_path / "data").mkdir()
    servers = {
        "My Own": {"command": "./own", "args": ["--db", "data"], "env": {"TOKEN": "sekrit"}},
        "far": {"url": "https://x"},
    }
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    monkeypatch.chdir(tmp_path)
    # Their versions are chosen in other tests; where no index is to be had, that is tried for seconds.
    monkeypatch.setattr(BuiltinSource, "has_dependencies", lambda source, module_id: False)


def written(*args: str) -> Result:
    return CliRunner().invoke(init, ["--from", ".mcp.json", *args], standalone_mode=False)


def test_the_servers_of_a_client_are_tools_of_a_plan() -> None:
    done = written("--provider", "provider-mock", "--yes")
    assert (done.exception, done.return_value) == (None, 0), done.output
    plan = load_plan("plan.yaml")
    (tool,) = plan.tools
    assert (tool.module, tool.source) == ("tool-mcp-my-own", f"mcp+command:{Path.cwd()}/own")
    assert tool.config == {"args": ["--db", "data"]}
    assert tool.permissions.as_written() == {"read": ["data", "!@secrets"], "env": ["TOKEN"]}
    assert plan.providers[0].module == "provider-mock" and plan.orchestrator.module == "loop-basic"
    text = Path("plan.yaml").read_text()
    assert "the value of TOKEN in that file: set the variable yourself" in text and "sekrit" not in text + done.output
    assert "far is left out: it is remote" in done.stderr


def test_a_plan_that_is_there_stays_and_other_tools_are_no_part_of_it() -> None:
    Path("plan.yaml").write_text("mine")
    assert written("--yes").return_value == 1 and Path("plan.yaml").read_text() == "mine"
    assert "leave out --tool" in str(written("--tool", "tool-bash").exception)


@pytest.mark.parametrize("key", ["mcpServers", "servers", "context_servers"])
def test_a_clients_file_in_place_of_a_plan_is_refused_with_a_way(key: str) -> None:
    Path("mcp.json").write_text(json.dumps({key: {}}))
    with pytest.raises(PlanError) as caught:
        load_plan("mcp.json")
    assert caught.value.detail == ("is a client's list of MCP servers, and no plan",)
    assert caught.value.hints == ("`paddock init --from mcp.json` writes a plan that has them",)
