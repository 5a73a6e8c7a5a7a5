"""Bundles as people run them: from a folder, from a repository, pinned, offline afterwards, and updated."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from integration.command_line import paddock
from sources.git.origin_repository import OriginRepository
from sources.git_repositories import module_files
from sources.index_server import IndexServer

pytestmark = pytest.mark.usefixtures("in_tmp_path")

HARBOUR = Path(__file__).parents[1] / "fixtures/bundles/harbour"
OWN = 'Of ["the bay", true]'
_LOG = "hooks: [{module: hooks-logging, permissions: {write: [.]}}]\n"


def test_a_bundle_is_fetched_pinned_run_offline_and_updated(tmp_path_factory: pytest.TempPathFactory) -> None:
    mirror = tmp_path_factory.mktemp("mirror")
    origin = OriginRepository(mirror / "origin")
    shutil.copytree(HARBOUR, origin.folder, dirs_exist_ok=True)
    origin.commit()
    Path("plan.yaml").write_text(f"extends: {origin.address}@main\n{_LOG}")
    refused = paddock("run", "plan.yaml", "When?")
    assert refused.returncode == 1 and "`paddock lock plan.yaml`" in refused.stderr  # its address is of this machine
    assert not Path("paddock.lock").exists()
    Path("plan.yaml").write_text(f"extends: git+https://127.0.0.1:9/origin@main\n{_LOG}")
    settings = Path(os.environ["HOME"], ".config/paddock/sources.toml")
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(f'[mirrors]\n"https://127.0.0.1:9/" = "{mirror}/"\n')
    locked = paddock("lock")
    assert locked.returncode == 0 and f"from the mirror {mirror}/" in locked.stdout
    lock = Path("paddock.lock").read_text()
    assert lock.count("[[bundle]]") == 1 and f'commit = "{origin.head()}"' in lock
    assert 'source = "git+https://127.0.0.1:9/origin@main"' in lock and str(mirror) not in lock

    listed = json.loads(paddock("list", "--json").stdout)
    assert [one["name"] for one in listed["bundles"]] == ["harbour", "tides", "harbour-logging"]
    first = paddock("run", "--trust-plan", "--offline", "plan.yaml", "When?")
    assert (first.stdout.strip(), first.returncode) == ("The tide is high.", 0)

    (origin.folder / "context/rules.md").write_text("Fast boats first.\n")
    (origin.folder / "agents/keeper.md").write_text("---\nname: keeper\n---\nKeep it dark.\n")
    origin.commit()
    verified = paddock("verify")
    assert verified.returncode == 0 and f"from the mirror {mirror}/" in verified.stdout
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
    assert "bundle harbour brings the instruction and 2 agents" in answered.stderr
    assert f"plan {tmp_path}/harbour (sha256" in answered.stderr  # as it was named
    kept = [*Path(os.environ["HOME"], ".local/state/paddock/bundles").iterdir()]
    forgotten = paddock("policy", "forget", "./harbour")
    assert (len(kept), forgotten.returncode) == (1, 0)
    assert f"forgotten  {tmp_path}/harbour\n" in forgotten.stdout
    again = paddock("policy", "forget", "./harbour")
    assert not kept[0].exists() and again.returncode == 1 and "no version of " in again.stderr


def test_what_others_include_by_ssh_is_not_fetched_with_the_users_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = tmp_path / "asked"
    monkeypatch.setenv("GIT_SSH_COMMAND", f"touch {asked}; false")
    private = "git+ssh://git@127.0.0.1/org/private@main"
    Path("bundle.md").write_text(f"---\nbundle: {{name: theirs}}\nincludes: ['{private}']\n---\n")
    Path("plan.yaml").write_text("extends: ./bundle.md\n")
    refused = paddock("lock")
    assert refused.returncode == 1 and "bundle.md:3: " in refused.stderr and "`extends`" in refused.stderr
    assert not asked.exists()
    Path("plan.yaml").write_text(f"extends: ['{private}', ./bundle.md]\n")
    assert paddock("lock").returncode == 1 and asked.exists()  # the person named it


def test_a_bundle_that_is_not_there_is_named_as_it_was_written(tmp_path: Path) -> None:
    missing, nameless = str(tmp_path / "nosuch.md"), tmp_path / "nameless.md"
    nameless.write_text("# Rules\n")
    for args in (("run", missing, "hello"), ("init", "--from", missing), ("why", "--plan", missing, "x", "read", "y")):
        done = paddock(*args)
        assert done.returncode == 1 and f"`{missing}`" in done.stderr and "correct the" in done.stderr, done.stderr
        assert "plan.yaml" not in done.stderr and "unfinished" not in done.stderr, done.stderr
    done = paddock("init", "--from", str(nameless))
    assert "unfinished" not in done.stderr and f"{nameless}:1: bundle.name" in done.stderr


def test_a_bundle_is_added_to_a_plan_and_removed_again() -> None:
    shutil.copytree(HARBOUR, "harbour")
    before = "# mine\nsession: {orchestrator: loop-basic, context: context-simple}\nproviders: []\n"
    Path("plan.yaml").write_text(before)
    asked = paddock("add", "./harbour")
    assert asked.returncode == 1 and "`--to PLAN`" in asked.stderr
    added = json.loads(paddock("add", "./harbour", "--to", "plan.yaml", "--json").stdout)
    assert (added["extends"], added["bundles"]) == ("./harbour", ["harbour", "tides", "harbour-logging"])
    assert Path("plan.yaml").read_text() == f"{before}\nextends:\n  - ./harbour\n"
    unknown = paddock("remove", "harbour-logging", "--from", "plan.yaml")
    assert unknown.returncode == 1 and "a bundle goes by its address in the plan: `./harbour`" in unknown.stderr
    assert paddock("remove", "./harbour", "--from", "plan.yaml").returncode == 0
    assert Path("plan.yaml").read_text().strip() == before.strip()


def test_a_package_of_the_same_repository_is_its_own_and_no_index_is_asked(tmp_path: Path) -> None:
    origin = OriginRepository(tmp_path / "origin")
    asked = "self.coordinator.get_capability('bundle_package_paths') or []"
    answer = f"[charts.OF, *[charts.__file__.startswith(path) for path in {asked}]]"
    tool = module_files(imports="import charts", answer=answer, requires=["bay-charts>=1"])
    code = tool.popitem()
    tool[code[0]] = code[1].replace("    await", "    Tool.coordinator = coordinator\n    await")
    files = {f"modules/tool-greet/{name}": content for name, content in tool.items()}
    packages = "[tool.hatch.build.targets.wheel]\npackages = ['charts']\n"
    project = f"[project]\nname = 'bay-charts'\nversion = '1.2'\n{packages}"
    commit = origin.commit({**files, "pyproject.toml": project, "charts/__init__.py": "OF = 'the bay'\n"})
    entry = f"{{module: tool-greet, source: '{origin.address}@main#subdirectory=modules/tool-greet'}}"
    steps = 'responses: [{tool_calls: [{name: tool_greet, arguments: {}}]}, "Of {last_tool_result}"]'
    Path("plan.yaml").write_text(
        "session: {orchestrator: loop-basic, context: context-simple}\n"
        f"providers: [{{module: provider-mock, config: {{{steps}}}}}]\ntools: [{entry}]\n"
    )
    with IndexServer() as index:
        index.add_wheel("bay-charts", "9.0", {"charts/__init__.py": "OF = 'the attacker'\n"})
        environ = {"UV_DEFAULT_INDEX": index.url}
        answered = paddock("run", "--trust-plan", "plan.yaml", "Of what?", environ=environ)
        assert answered.stdout.strip() == OWN, answered.stderr
        assert not index.requests
        (tmp_path / "other").mkdir()
        (tmp_path / "other/plan.yaml").write_text(Path("plan.yaml").read_text())
        origin.commit({"pyproject.toml": project.replace("bay-charts", "other")})  # now only the index has the name
        deceived = paddock("run", "--trust-plan", "plan.yaml", "Of what?", environ=environ, cwd=tmp_path / "other")
        assert deceived.stdout.strip() == 'Of ["the attacker"]', deceived.stderr
    assert Path("paddock.lock").read_text().count(commit) == 2  # pinned with the module
    assert paddock("run", "--trust-plan", "--offline", "plan.yaml", "Again?").stdout.strip() == OWN
