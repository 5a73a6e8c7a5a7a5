"""Bundles as people run them: from a folder, from a repository, pinned, offline afterwards, and updated."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from integration.command_line import paddock
from sources.git.origin_repository import OriginRepository

pytestmark = pytest.mark.usefixtures("in_tmp_path")

HARBOUR = Path(__file__).parents[1] / "fixtures/bundles/harbour"
_LOG = "hooks: [{module: hooks-logging, permissions: {write: [.]}}]\n"


def test_a_bundle_is_fetched_pinned_run_offline_and_updated(tmp_path: Path) -> None:
    origin = OriginRepository(tmp_path / "origin")
    shutil.copytree(HARBOUR, origin.folder, dirs_exist_ok=True)
    origin.commit()
    Path("plan.yaml").write_text(f"extends: {origin.address}@main\n{_LOG}")
    refused = paddock("run", "plan.yaml", "When?")
    assert refused.returncode == 1 and "`paddock lock plan.yaml`" in refused.stderr  # its address is of this machine
    assert not Path("paddock.lock").exists()
    assert paddock("lock").returncode == 0
    lock = Path("paddock.lock").read_text()
    assert lock.count("[[bundle]]") == 1 and f'commit = "{origin.head()}"' in lock

    listed = json.loads(paddock("list", "--json").stdout)
    assert [one["name"] for one in listed["bundles"]] == ["harbour", "tides", "harbour-logging"]
    first = paddock("run", "--trust-plan", "--offline", "plan.yaml", "When?")
    assert (first.stdout.strip(), first.returncode) == ("The tide is high.", 0)

    (origin.folder / "context/rules.md").write_text("Fast boats first.\n")
    (origin.folder / "agents/keeper.md").write_text("---\nname: keeper\n---\nKeep it dark.\n")
    origin.commit()
    assert paddock("verify").returncode == 0
    updated = paddock("update", "--json")
    facts = json.loads(updated.stdout)
    assert [one["new"]["commit"] for one in facts["bundles"]] == [origin.head()]
    assert {"-Slow boats first.", "+Fast boats first.", "+Keep it dark.", "~ agent harbour:keeper"} <= {
        *facts["differences"]
    }
    assert origin.head() in Path("paddock.lock").read_text()


def test_a_bundle_runs_by_its_folder_without_a_plan(tmp_path: Path) -> None:
    shutil.copytree(HARBOUR, "harbour")
    Path("harbour/behaviors/logging.yaml").write_text("bundle: {name: harbour-logging}\n")
    bundle = Path("harbour/bundle.md")
    bundle.write_text(bundle.read_text().replace("hooks-logging, config", "hooks-status-context, settings"))
    answered = paddock("run", "./harbour", "When?")
    assert (answered.stdout.strip(), answered.returncode) == ("The tide is high.", 0)
    assert not Path("harbour/paddock.lock").exists() and not Path("plan.yaml").exists()


def test_a_bundle_that_is_not_there_is_named_as_it_was_written(tmp_path: Path) -> None:
    missing, nameless = str(tmp_path / "nosuch.md"), tmp_path / "nameless.md"
    nameless.write_text("# Rules\n")
    for args in (("run", missing, "hello"), ("init", "--from", missing), ("why", "--plan", missing, "x", "read", "y")):
        done = paddock(*args)
        assert done.returncode == 1 and f"`{missing}`" in done.stderr and "correct the" in done.stderr, done.stderr
        assert "plan.yaml" not in done.stderr and "unfinished" not in done.stderr, done.stderr
    done = paddock("init", "--from", str(nameless))
    assert "unfinished" not in done.stderr and f"{nameless}:1: bundle.name" in done.stderr
