"""A plan is accepted as it is; one that was edited since is another plan, and told as that."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from paddock.errors import PolicyRefusedError, render
from paddock.plan.load import load_plan
from paddock.plan.model import MountPlan
from paddock.plan.permissions import Permissions
from paddock.policy.evaluate import EvaluationContext, evaluate
from paddock.policy.files.accepted_plans import AcceptedGrant
from paddock.policy.files.grants import GrantsFile
from paddock.policy.files.policy import Policy
from paddock.policy.grant_request import ModuleRequest
from paddock.policy.trust import PlanAcceptance, lies_outside
from paddock_sources import parse_source
from support.rows import each_row

from .entries import owner

PLAN = """\
session: {orchestrator: loop-basic, context: context-simple}
tools:
  - module: tool-x
    permissions: {net: [example.org]}
  - module: tool-y
"""
SHELL = AcceptedGrant("tools[1]", "/code/tool-y", Permissions(preset="shell"))


@pytest.fixture
def file(tmp_path: Path) -> GrantsFile:
    tmp_path.chmod(0o700)
    return GrantsFile(owner(), tmp_path / "paddock" / "grants.toml")


def plan_at(path: Path, text: str = PLAN) -> MountPlan:
    path.write_text(text)
    return load_plan(path)


def decide(plan: MountPlan, acceptance: PlanAcceptance, folder: Path) -> list[Permissions]:
    asked = [
        ModuleRequest(entry, f"/code/{entry.module}", acceptance.given(entry, f"/code/{entry.module}"))
        for entry in plan.tools
    ]
    situation = EvaluationContext(Policy(()), acceptance.trust, folder, owner(), {}, plan.positions)
    return [decision.entry.permissions for decision in evaluate(asked, situation)]


def test_an_accepted_plan_has_what_it_says_and_what_was_given_with_it(file: GrantsFile, tmp_path: Path) -> None:
    plan = plan_at(tmp_path / "plan.yaml")
    PlanAcceptance.accepting(plan, file, [SHELL])
    acceptance = PlanAcceptance.of(plan, file)
    assert acceptance.trust.accepted and acceptance.accepted is not None
    rule = acceptance.trust.rule
    assert rule is not None and rule.location.file == str(file.path)
    assert f"sha256 {plan.digest[7:19]}" in rule.text
    first, second = decide(plan, acceptance, tmp_path)
    assert first.net == ("example.org",)
    assert second.run == ("*",) and second.write == (".",)
    assert acceptance.given(plan.tools[0], "/code/tool-y") == ()
    (given,) = acceptance.given(plan.tools[1], "/code/tool-y")
    lines = file.path.read_text().splitlines()
    assert given.rule.location.line is not None and "tool-y" in lines[given.rule.location.line - 1]


def test_a_plan_that_was_edited_since_is_refused_as_that(file: GrantsFile, tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    accepted = PlanAcceptance.accepting(plan_at(path), file, [SHELL])
    assert accepted.accepted is not None
    edited = plan_at(path, PLAN.replace("example.org", "example.com"))
    acceptance = PlanAcceptance.of(edited, file)
    assert not acceptance.trust.accepted
    assert acceptance.given(edited.tools[1], "/code/tool-y") == ()
    with pytest.raises(PolicyRefusedError) as caught:
        decide(edited, acceptance, tmp_path)
    told = render(caught.value)
    assert "`example.com`" in told and f"{path}:4" in told
    assert f"{file.path}:{accepted.accepted.line}: accepted on {accepted.accepted.day} as it was then" in told
    assert "and edited since" in told and "--trust-plan" in told


def test_the_same_plan_elsewhere_is_another_one(file: GrantsFile, tmp_path: Path) -> None:
    PlanAcceptance.accepting(plan_at(tmp_path / "plan.yaml"), file)
    acceptance = PlanAcceptance.of(plan_at(tmp_path / "copy.yaml"), file)
    assert not acceptance.trust.accepted and acceptance.trust.rule is None


def test_a_plan_that_is_in_no_file_is_accepted_by_what_it_says(file: GrantsFile) -> None:
    written = {"session": {"orchestrator": "loop-basic", "context": "context-simple"}}
    PlanAcceptance.accepting(load_plan(written), file)
    assert PlanAcceptance.of(load_plan(written), file).trust.accepted
    other = PlanAcceptance.of(load_plan({**written, "tools": []}), file)
    assert not other.trust.accepted and other.trust.rule is None


def test_a_plan_whose_name_is_no_text_is_accepted_like_any_other(file: GrantsFile, tmp_path: Path) -> None:
    plan = plan_at(Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.yaml")))
    PlanAcceptance.accepting(plan, file)
    assert PlanAcceptance.of(plan, file).trust.accepted


@each_row(
    "inside, is_outside", [("server.py", False), ("new/server.py", False), ("../server.py", True), ("link", True)]
)
def test_a_command_lies_where_it_leads(inside: str, is_outside: bool, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir(exist_ok=True)
    (tmp_path / "server.py").touch()
    if inside == "link":
        (project / "link").symlink_to(tmp_path / "server.py")
    source = parse_source(f"mcp+command:./{inside}").anchored(project).held().text
    assert lies_outside(source, [project]) is is_outside


def test_a_repository_lies_where_git_will_read_it(tmp_path: Path) -> None:
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere" / "private.git"
    project.mkdir()
    elsewhere.mkdir(parents=True)
    (project / "inside").mkdir()
    (project / "own.git").symlink_to(project / "inside")
    for name in ("repo.git", "bare", "a@b.git"):
        (project / name).symlink_to(elsewhere)
    within = ("inside", "own", "own.git", "own%2Egit", "missing")
    beyond = (
        "repo.git",
        "repo",
        "repo%2Egit",
        "repo.gi%74",
        "repo.git/",
        "bare",
        "b%61re",
        "a%40b.git",
        "a%40b",
    )
    sources = {name: parse_source(f"git+file://{project}/{name}@main").held() for name in (*within, *beyond)}
    judged = {name: lies_outside(source.text, [project]) for name, source in sources.items()}
    assert judged == {name: name in beyond for name in judged}
    for name in ("own.git", "repo.git"):  # a link that is there since it was chosen: no more can be said
        assert lies_outside(f"git+file://{project}/{name}@main", [project])
    assert lies_outside("git+file:///proc/self/cwd/repo%2Egit", [project])
