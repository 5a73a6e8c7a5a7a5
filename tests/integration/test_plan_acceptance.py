"""What a plan gets before it is accepted, and what makes an accepted plan another one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from integration.command_line import paddock, reachable_level
from integration.tricky_tool import json_output, plan_of
from paddock.plan.load import load_plan
from paddock.policy.files.grants import GrantsFile
from paddock.policy.owner import Owner
from paddock.policy.trust import PlanAcceptance, with_places

pytestmark = pytest.mark.usefixtures("commands_end")

_SAYING = """\
session: {{orchestrator: loop-basic, context: context-simple}}
providers:
  - module: provider-mock
tools:
  - module: tool-filesystem
    {said}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder to work in, beside another one, with a link from the one to the other."""
    for name in ("work/inside", "other"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "work/link").symlink_to("../other")
    return tmp_path / "work"


def test_grants_that_need_acceptance_are_refused_until_then(project: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    granted = (
        "{read: [inside, ../other, /usr/share, link], write: [../other, link], net: [example.com], "
        "secrets: [PROBE], env: [PROBE]}"
    )
    plan.write_text(_SAYING.format(said=f"permissions: {granted}\n    isolation: none"), encoding="utf-8")
    places = {
        *(f"permissions.read[{index}]" for index in (1, 2, 3)),
        *(f"permissions.write[{index}]" for index in (0, 1)),
        *(f"permissions.{family}[0]" for family in ("net", "secrets", "env")),
        "isolation",
    }
    run = ["run", str(plan), "hello", "-C", str(project), "--isolation", reachable_level(), "--json"]
    refused = paddock(*run, environ={"PROBE": "a probe"})
    reported = json_output(refused)
    assert (refused.returncode, reported["response"], reported["error"]["type"]) == (4, None, "PolicyRefusedError")
    problems = reported["error"]["problems"]
    assert {(one["path"], one["file"], one["line"]) for one in problems} == {
        (f"tools[0].{place}", str(plan), 7 if place == "isolation" else 6) for place in places
    }
    assert len(problems) == len(places)
    for problem in problems:
        place, rule = problem["path"], problem["rule"]
        assert rule["text"].startswith("a plan that you have not accepted gets no network") and rule["line"] is None
        assert f"{plan}:{problem['line']}: {place}: " in refused.stderr
        assert f"by {rule['file']}: {rule['text']}" in refused.stderr
    assert "hint: take it out of the plan, or accept the plan:" in refused.stderr
    assert "hint: tools[0].isolation: take it out of the plan, or accept the plan:" in refused.stderr
    # Once for all that stand together: it is long.
    assert refused.stderr.count("a plan that you have not accepted gets no network") == 1
    assert not reported["modules"] and "started" not in refused.stderr
    # At level `none`, which enforces none of them, all are had once they are accepted.
    accepted = paddock(*run, "--trust-plan", environ={"PROBE": "a probe"})
    assert accepted.returncode == 0, accepted.stderr


def test_an_unaccepted_plan_gets_what_needs_no_acceptance(project: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    granted = "{read: [.], write: [inside], env: [A=b], run: [sh], call: [tools], hooks: ['tool:*'], emit: [x]}"
    plan.write_text(_SAYING.format(said=f"permissions: {granted}"), encoding="utf-8")
    done = paddock("run", str(plan), "hello", "-C", str(project))
    assert done.returncode == 0, done.stderr


def _accept(plan: Path, project: Path) -> GrantsFile:
    """Have a plan accepted as it is, for a folder to work in, and return where that is kept."""
    grants = GrantsFile.of_user(os.environ)
    PlanAcceptance.accepting(with_places(load_plan(plan), project, Owner.current(os.environ)), grants)
    return grants


def test_a_plan_that_was_edited_or_leads_elsewhere_is_not_the_accepted_one(project: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(_SAYING.format(said="permissions: {read: [../other, link]}"), encoding="utf-8")
    grants = _accept(plan, project)
    run = ["run", str(plan), "hello", "-C", str(project), "--json"]
    assert paddock(*run).returncode == 0
    (tmp_path / "third").mkdir()
    (project / "link").unlink()
    (project / "link").symlink_to("../third")
    refused = paddock(*run)
    assert refused.returncode == 4
    both = [f"tools[0].permissions.read[{index}]" for index in (0, 1)]
    assert [problem["path"] for problem in json_output(refused)["error"]["problems"]] == both
    (project / "link").unlink()
    (project / "link").symlink_to("../other")
    plan.write_text(_SAYING.format(said="permissions: {read: [../other, /usr/share]}"), encoding="utf-8")
    refused = paddock(*run)
    problems = json_output(refused)["error"]["problems"]
    assert refused.returncode == 4
    assert [problem["path"] for problem in problems] == both
    for problem in problems:
        rule = problem["rule"]
        assert rule["file"] == str(grants.path) and rule["line"] and rule["text"].endswith(", and edited since")
        assert f"by {grants.path}:{rule['line']}: {rule['text']}" in refused.stderr
    assert paddock(*run, "--trust-plan").returncode == 0


def test_no_link_made_later_opens_what_git_runs_to_an_accepted_plan(project: Path, tmp_path: Path) -> None:
    """As a module may make one that may write around its place; a link to other files takes no new consent."""
    plan, out = tmp_path / "plan.yaml", project / "out"
    plan.write_text(_SAYING.format(said="permissions: {write: [., out]}"), encoding="utf-8")
    subprocess.run(["git", "init", "-q", str(project)], check=True, timeout=60)
    (project / "other").mkdir()
    out.mkdir()
    _accept(plan, project)
    run = ["run", str(plan), "hello", "-C", str(project), "--json"]
    out.rmdir()
    out.symlink_to("other")
    assert paddock(*run).returncode == 0
    for target in (".git", ".git/hooks"):
        out.unlink()
        out.symlink_to(target)
        refused = paddock(*run)
        assert refused.returncode == 4, target
        (problem,) = json_output(refused)["error"]["problems"]
        assert problem["path"] == "tools[0].permissions.write[1]"
        assert "what your own programs run by themselves" in problem["message"]
    _accept(plan, project)
    assert paddock(*run).returncode == 0


def test_what_a_plan_alone_shows_is_refused_before_its_code_is_found(tmp_path: Path) -> None:
    tool = {"module": "tool-gone", "source": "./nowhere", "permissions": {"secrets": ["UNSET_KEY"]}}
    plan = plan_of(tmp_path, tools=[{**tool, "config": {"key": "${UNSET_KEY}"}}])
    for options, said in (
        (["--trust-plan"], "`UNSET_KEY` is not set"),
        (["--grant", "tool-gon=isolated"], "did you mean `tool-gone`?"),
    ):
        done = paddock("run", plan, "hello", *options)
        assert done.returncode == 1 and said in done.stderr and "no code was found" not in done.stderr, done.stderr
    # What needs consent comes first in a plan that was not accepted, and all of it at once.
    refused = paddock("run", plan, "hello")
    assert refused.returncode == 4 and "no code was found" not in refused.stderr
    assert "needs a plan that you accepted" in refused.stderr and "`UNSET_KEY` is not set" in refused.stderr
    # What Paddock would propose takes a look at the code.
    assert "no code was found" in paddock("run", plan, "hello", "--print-grants").stderr


def test_a_weaker_level_in_a_plan_is_refused_until_somebody_accepts_it(tmp_path: Path, tricky: str) -> None:
    plan = plan_of(tmp_path, tools=[{"module": "tool-tricky", "source": tricky, "isolation": "none"}])
    refused = paddock("run", plan, "hello", "--isolation", reachable_level(), "--json")
    reported = json_output(refused)
    assert (refused.returncode, reported["error"]["type"]) == (4, "PolicyRefusedError")
    ((path, fix),) = [(problem["path"], problem["hint"]) for problem in reported["error"]["problems"]]
    assert path == "tools[0].isolation" and "accept the plan:" in fix and "`--isolation none`" in fix
    assert f"hint: {path}: {fix}" in refused.stderr
    assert all(not module["level"] for module in reported["modules"])
    accepted = paddock("run", plan, "hello", "--trust-plan", "--json")
    reported = json_output(accepted)
    assert accepted.returncode == 0
    assert {module["module"]: module["level"] for module in reported["modules"]} == {
        "loop-basic": reachable_level(),
        "context-simple": reachable_level(),
        "provider-mock": reachable_level(),
        "tool-tricky": "none",
    }
    assert "WARNING: NO ISOLATION, level none: tool-tricky" in accepted.stderr.splitlines()
