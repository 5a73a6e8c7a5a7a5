"""What nothing locks is chosen once a day, whichever command starts it, and anew by those that write a lock."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from host.authoring.installed_wheels import TEST_RUNNERS, offer
from integration.command_line import paddock
from paddock import Session
from sources.git_repositories import lay_out, module_files
from sources.index_server import IndexServer

pytestmark = pytest.mark.usefixtures("in_tmp_path")

_SECONDS = 100
_TOOL = {"module": "tool-greet", "source": "./tool-greet", "permissions": {"net": ["example.com"]}}
_PLAN: dict[str, Any] = {
    "session": {"orchestrator": "loop-basic", "context": "context-simple"},
    "providers": [{"module": "provider-mock", "config": {"fallback": "You said: {prompt}"}}],
    "tools": [_TOOL],
}


@pytest.fixture(autouse=True)
def index(in_tmp_path: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[IndexServer]:
    """An index, and a folder with a module that depends on a package in it, in any version."""
    lay_out(Path("tool-greet"), module_files(answer="'hello'", imports="import leaf", requires=["leaf"]))
    Path("plan.json").write_text(json.dumps(_PLAN))
    with IndexServer() as index:
        index.add_wheel("leaf", "1.0")
        monkeypatch.setenv("UV_DEFAULT_INDEX", index.url)
        yield index


@pytest.mark.exhaustive
def test_a_run_that_is_refused_again_and_again_chooses_once(index: IndexServer) -> None:
    asked = []
    for _ in range(3):
        index.requests.clear()
        done = paddock("run", "plan.json", "hi")
        assert done.returncode == 4 and not Path("paddock.lock").exists(), done.stderr
        asked.append(bool(index.requests))
    assert asked == [True, False, False]


@pytest.mark.exhaustive
def test_trials_of_a_module_choose_once(index: IndexServer) -> None:
    offer(index, *TEST_RUNNERS)
    Path("tool-greet/test_leaf.py").write_text("def test_it_is_there():\n    import leaf\n")
    for command in ("validate", "test"):
        asked = []
        for _ in range(2):
            index.requests.clear()
            done = paddock("module", command, "./tool-greet")
            assert done.returncode == 0, done.stderr
            asked.append(bool(index.requests))
        assert asked == [True, False], command


@pytest.mark.exhaustive
async def test_a_plan_that_is_a_mapping_chooses_once(index: IndexServer) -> None:
    asked = []
    for _ in range(2):
        index.requests.clear()
        with anyio.fail_after(_SECONDS):
            async with Session(_PLAN, trust_plan=True) as session:
                assert await session.execute("hi") == "You said: hi"
        asked.append(bool(index.requests))
    assert asked == [True, False]


def test_a_new_plan_is_locked_with_what_its_modules_depend_on(index: IndexServer) -> None:
    done = paddock("init", "--tool", "./tool-greet", "--yes")
    assert done.returncode == 0 and 'name = "leaf"' in Path("paddock.lock").read_text(), done.stderr
    index.requests.clear()
    assert paddock("run", "plan.yaml", "hi", "--trust-plan").returncode == 0 and not index.requests


def test_a_new_plan_is_written_where_the_index_is_out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    done = paddock("init", "--tool", "./tool-greet", "--yes")
    assert done.returncode == 0 and Path("plan.yaml").exists() and not Path("paddock.lock").exists(), done.stderr
    assert "tool-greet is not locked yet" in done.stderr and "could not be reached" in done.stderr


@pytest.mark.exhaustive
def test_what_is_locked_is_chosen_anew(index: IndexServer) -> None:
    def locked() -> str:
        return next(line for line in Path("paddock.lock").read_text().splitlines() if line.startswith('version = "'))

    assert paddock("run", "plan.json", "hi").returncode == 4
    index.add_wheel("leaf", "2.0")
    assert paddock("lock", "plan.json").returncode == 0 and locked() == 'version = "2.0"'
    index.add_wheel("leaf", "3.0")
    done = paddock("update", "--plan", "plan.json", "--packages")
    assert done.returncode == 0 and locked() == 'version = "3.0"', done.stderr
    Path("paddock.lock").unlink()
    index.add_wheel("leaf", "4.0")
    assert paddock("add", "./tool-greet", "--yes").returncode == 0 and locked() == 'version = "4.0"'
