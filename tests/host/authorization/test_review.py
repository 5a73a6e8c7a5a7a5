"""A review tells what a plan grants, what of that takes an accepted plan, and what would fit where nothing is said."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

from paddock.authorization.consent import ModuleReview, PlanReview
from paddock.authorization.review import review_plan
from paddock.errors import PolicyRefusedError
from paddock.plan.load import load_plan
from paddock.plan.model import MountPlan
from paddock.plan.permissions import Permissions
from paddock.plan.source_map import Location
from paddock.policy.evaluate import EvaluationContext, evaluate
from paddock.policy.files.accepted_plans import AcceptedGrant
from paddock.policy.files.policy import Policy
from paddock.policy.files.policy_file import PolicyFile
from paddock.policy.grant_request import ModuleRequest, OperatorGrant
from paddock.policy.owner import Owner
from paddock.policy.rule import Rule
from paddock.policy.trust import Trust
from paddock_sources import Resolution
from paddock_sources.resolution import ServerProgram
from support.linked_tree import link

HEAD = "session: {orchestrator: loop-basic, context: context-simple}\n"


class Scene:
    """A project with a plan in it, and an operator with a policy and some variables."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "project"
        (self.folder / "logs").mkdir(parents=True)
        (root / "elsewhere").mkdir()
        (self.folder / "link").symlink_to(root / "elsewhere")
        self.elsewhere = root / "elsewhere"
        self.root = root
        self.environ: dict[str, str] = {}
        self.policy = Policy(())

    def plan(self, text: str) -> MountPlan:
        path = self.folder / "plan.yaml"
        path.write_text(HEAD + dedent(text))
        return load_plan(path)

    def rule(self, text: str) -> None:
        path = self.root / "policy.toml"
        path.write_text(dedent(text))
        path.chmod(0o600)
        file = PolicyFile.read(path, self.owner)
        assert file is not None
        self.policy = Policy((file,))

    @property
    def owner(self) -> Owner:
        return Owner(os.geteuid(), Path("/home/nobody-in-particular"), lambda uid, gid: False)

    @property
    def context(self) -> EvaluationContext:
        return EvaluationContext(self.policy, Trust(False), self.folder, self.owner, self.environ)

    def asked(self, plan: MountPlan, given: Mapping[str, Sequence[OperatorGrant]] | None = None) -> list[ModuleRequest]:
        return [
            ModuleRequest(entry, f"/code/{entry.module}", tuple((given or {}).get(entry.path, ())))
            for entry in plan.entries()
        ]

    def review(self, text: str, given: Mapping[str, Sequence[OperatorGrant]] | None = None) -> PlanReview:
        plan = self.plan(text)
        resolutions = {entry.path: self.resolution(entry.module) for entry in plan.entries()}
        return review_plan(plan, self.asked(plan, given), resolutions, self.context, self.environ)

    def resolution(self, module: str) -> Resolution:
        code = self.root / "code" / module
        package = code / f"amplifier_module_{module.replace('-', '_')}"
        package.mkdir(parents=True, exist_ok=True)
        return Resolution(module, f"/code/{module}", code, package.name, package, code, "tool")


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    tmp_path.chmod(0o700)
    return Scene(tmp_path.resolve())


def module(review: PlanReview, name: str) -> ModuleReview:
    (found,) = (one for one in review.modules if one.name == name)
    return found


def test_what_comes_with_a_server_is_shown_and_takes_no_acceptance(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = ServerProgram(("/usr/bin/python3",), (Path("/usr/bin/python3"),), (Path("/cache/site"),))
    code = replace(scene.resolution("tool-mcp-a"), source="mcp+pypi:mcp-a==1", server=server)
    monkeypatch.setattr(scene, "resolution", lambda module: code)
    found = module(scene.review("tools: [{module: tool-mcp-a, source: 'mcp+pypi:mcp-a==1'}]"), "tool-mcp-a")
    assert found.granted == ("runs /usr/bin/python3, reads its own files (from mcp+pypi:mcp-a==1)",)
    assert found.needs_trust == ()


def test_each_module_is_in_it_in_the_order_of_the_plan(scene: Scene) -> None:
    review = scene.review(
        """
        providers:
          - {module: provider-mock}
          - {module: provider-mock, instance_id: second}
        tools: [{module: tool-todo}]
        """
    )
    assert [(one.name, one.kind, one.source, one.place) for one in review.modules] == [
        ("loop-basic", "orchestrator", "/code/loop-basic", "session.orchestrator"),
        ("context-simple", "context", "/code/context-simple", "session.context"),
        ("provider-mock", "provider", "/code/provider-mock", "providers[0]"),
        ("second", "provider", "/code/provider-mock", "providers[1]"),
        ("tool-todo", "tool", "/code/tool-todo", "tools[0]"),
    ]
    assert review.plan == str(scene.folder / "plan.yaml")
    assert review.digest == scene.plan("").digest or review.digest.startswith("sha256:")
    assert not review.needs_trust and not review.has_proposals
    assert review.grants == ()


def test_what_a_plan_grants_is_told_in_words_and_what_takes_trust_apart(scene: Scene) -> None:
    review = scene.review(
        f"""
        tools:
          - module: tool-x
            isolation: landlock
            permissions:
              read: [., logs, link, {scene.elsewhere}, not-there]
              write: [logs]
              net: [Example.ORG, "10.0.0.0/8:80"]
              env: [EDITOR, "TOKEN=v3ry-s3cret"]
              secrets: [PLAIN, {{name: KEY, inject: example.org}}]
              run: [git, "*"]
              call: ["tools:x"]
              emit: ["x:*"]
              hooks: ["tool:pre"]
              mount: [providers]
        """
    )
    found = module(review, "tool-x")
    trusted = {
        f"reads link, which is {scene.elsewhere}",
        f"reads {scene.elsewhere}",
        "connects to example.org:443",
        "connects to 10.0.0.0/8:80",
        "is passed your variable EDITOR",
        "is given the value of PLAIN",
        "has KEY sent to example.org:443 for it, and never sees it",
        "runs at isolation level landlock",
        "mounts, and so acts for the whole session: providers",
    }
    assert set(found.needs_trust) == trusted
    assert set(found.granted) - trusted == {
        f"reads the working directory, {scene.folder}",
        f"reads logs, which is {scene.folder / 'logs'}",
        "reads not-there",
        f"writes logs, which is {scene.folder / 'logs'}",
        "has the variable TOKEN as the plan sets it",
        "runs git",
        "runs any program of the system, and any other that it sees",
        "calls without being handed it: tools:x",
        "emits events: x:*",
        "handles events: tool:pre",
    }
    assert "v3ry-s3cret" not in str(review)
    assert review.needs_trust and found.proposed is None and found.lacks == ()


def test_a_grant_that_opens_what_other_programs_run_says_what_follows(scene: Scene) -> None:
    for name in (".git", ".vscode", "deep/.git/hooks"):
        (scene.folder / name).mkdir(parents=True)
    review = scene.review(
        """
        tools:
          - {module: tool-x, permissions: {read: [.git], write: [., .git, deep/.git/hooks, .vscode]}}
        """
    )
    found = module(review, "tool-x")
    commits = "it may commit, and your next git command there may run its code"
    opened = {
        f"writes .git, which is {scene.folder / '.git'}: {commits}",
        f"writes deep/.git/hooks, which is {scene.folder / 'deep/.git/hooks'}: {commits}",
        f"writes .vscode, which is {scene.folder / '.vscode'}: your editor, when it opens the folder, may run its code",
    }
    assert set(found.needs_trust) == opened
    assert set(found.granted) - opened == {
        f"reads .git, which is {scene.folder / '.git'}",
        f"writes the working directory, {scene.folder}",
    }


def test_what_stays_closed_in_a_folder_to_write_to_is_named_in_one_line(scene: Scene) -> None:
    tools = 'tools: [{module: tool-files, permissions: {write: [".", ".git"]}}]\n'
    assert module(scene.review(tools), "tool-files").lacks == ()
    (scene.folder / ".git" / "objects").mkdir(parents=True)
    (scene.folder / ".github" / "workflows").mkdir(parents=True)
    (scene.folder / "AGENTS.md").touch()
    asked = module(scene.review(tools), "tool-files")
    (line,) = asked.lacks
    assert asked.opens == Permissions(write=(".", ".git", ".github", "AGENTS.md"))
    assert line == (
        "writing .github, AGENTS.md, which your own programs run (kept at `ns` and `bwrap`); "
        '`write: [".", ".git", ".github", "AGENTS.md"]` under `permissions` opens that'
    )
    opened = 'tools: [{module: tool-files, permissions: {write: [".", ".git", ".github", "AGENTS.md"]}}]\n'
    assert module(scene.review(opened), "tool-files").lacks == ()
    scene.environ = {"XDG_CACHE_HOME": str(scene.folder)}  # where no grant opens anything
    (scene.folder / "paddock" / "downloads" / ".git" / "objects").mkdir(parents=True)
    assert module(scene.review(tools), "tool-files").lacks == asked.lacks
    for number in range(10):
        (scene.folder / f".mise.{number}.toml").touch()
    (line,) = module(scene.review(tools), "tool-files").lacks
    assert ".mise.6.toml and 4 more, which" in line


def test_a_repository_names_nothing_else_by_its_names_in_what_opens(scene: Scene) -> None:
    tools = "tools: [{module: tool-files, permissions: {write: [.]}}]\n"
    for folder in ("~", "!x", "a\nb"):
        (scene.folder / folder).mkdir()
        (scene.folder / folder / ".vscode").mkdir()
    asked = module(scene.review(tools), "tool-files")
    assert asked.opens == Permissions(write=(".", "./!x/.vscode", "./~/.vscode"))
    assert "writing ./!x/.vscode, ./~/.vscode, which" in asked.lacks[0]


def test_no_line_opens_a_secret_file_that_stays_unread(scene: Scene) -> None:
    for name in (".env", "AGENTS.md"):
        (scene.folder / name).touch()
    (line,) = module(scene.review("tools: [{module: tool-files, permissions: workspace}]\n"), "tool-files").lacks
    assert '`preset: workspace, write: ["AGENTS.md"]` under `permissions` opens that' in line and ".env" not in line


def test_what_is_told_to_take_trust_is_what_is_refused_without(scene: Scene) -> None:
    text = f"""
        tools:
          - {{module: tool-a, permissions: {{read: [.], run: [sh]}}}}
          - {{module: tool-b, permissions: {{read: [{scene.elsewhere}]}}}}
          - {{module: tool-c, permissions: {{net: [example.org]}}}}
          - {{module: tool-d, permissions: workspace}}
          - {{module: tool-e, isolation: none}}
          - {{module: tool-f, isolation: ns}}
          - {{module: tool-g, permissions: {{env: [A]}}}}
          - {{module: tool-h, permissions: {{env: ["A=b"]}}}}
        """
    review = scene.review(text)
    for asked in scene.asked(scene.plan(text)):
        try:
            evaluate([asked], scene.context)
            refused = 0
        except PolicyRefusedError as error:
            refused = len(error.refusals)
        assert len(module(review, asked.entry.module).needs_trust) == refused
    assert [one.name for one in review.modules if one.needs_trust] == ["tool-b", "tool-c", "tool-e", "tool-g"]


def test_an_ordinary_plan_is_proposed_what_fits_each_of_its_modules(scene: Scene) -> None:
    scene.environ = {"OPENAI_API_KEY": "v3ry-s3cret"}
    review = scene.review(
        """
        providers: [{module: provider-openai, config: {default_model: gpt-x}}]
        tools: [{module: tool-filesystem}, {module: tool-bash}, {module: tool-unheard-of}]
        hooks: [{module: hooks-logging, config: {path: logs/session.jsonl}}]
        """
    )
    assert review.has_proposals and not review.needs_trust
    assert {one.name: one.proposed.as_written() for one in review.modules if one.proposed is not None} == {
        "provider-openai": {
            "net": ["api.openai.com:443"],
            "secrets": [{"name": "OPENAI_API_KEY", "inject": "api.openai.com:443"}],
            "env": ["OPENAI_API_KEY=${OPENAI_API_KEY}"],
        },
        "tool-filesystem": "workspace",
        "tool-bash": "shell",
        "hooks-logging": {"write": ["./logs"]},
    }
    for one in review.modules:
        assert bool(one.proposed) == bool(one.proposed_lines)
        assert bool(one.lacks) == (one.name not in ("loop-basic", "context-simple"))
    assert "v3ry-s3cret" not in str(review)


def test_the_repository_that_a_linked_working_tree_brings_is_asked_about(scene: Scene) -> None:
    """Apart from what the plan states, or with what is proposed; and not where git cannot be run."""
    main = link(scene.folder, scene.root / "main")
    review = scene.review(
        """
        tools:
          - {module: tool-a, permissions: {read: ["."], run: [git]}}
          - {module: tool-b, permissions: {read: ["."], run: [bash]}}
          - {module: tool-bash}
        """
    )
    line = f"reads {main}, the repository of {scene.folder}"
    assert module(review, "tool-a").needs_trust == (line,) and not module(review, "tool-b").needs_trust
    assert line in module(review, "tool-bash").proposed_lines and not module(review, "tool-bash").needs_trust


def test_what_is_proposed_can_be_started_once_it_is_accepted(scene: Scene) -> None:
    scene.environ = {"OPENAI_API_KEY": "k"}
    text = """
        providers: [{module: provider-openai, config: {api_key: "${OPENAI_API_KEY}"}}]
        tools: [{module: tool-bash}]
        """
    review = scene.review(text)
    assert [(one.place, one.source) for one in review.grants] == [
        ("providers[0]", "/code/provider-openai"),
        ("tools[0]", "/code/tool-bash"),
    ]
    by_place = {one.place: one for one in review.grants}
    given = {place: (_given(one),) for place, one in by_place.items()}
    accepted = replace(scene.context, trust=Trust(True))
    decisions = evaluate(scene.asked(scene.plan(text), given), accepted)
    assert decisions[2].entry.permissions.net == ("api.openai.com:443",)
    assert decisions[3].entry.permissions.run == ("*",)


def _given(grant: AcceptedGrant) -> OperatorGrant:
    return OperatorGrant(grant.permissions, Rule(Location("the review"), "accepted"))


@pytest.mark.parametrize("permissions", ["isolated", "{}", "{read: [logs]}"])
def test_a_module_whose_entry_says_what_it_has_is_proposed_nothing(scene: Scene, permissions: str) -> None:
    review = scene.review(f"tools: [{{module: tool-bash, permissions: {permissions}}}]")
    assert not review.has_proposals
    assert module(review, "tool-bash").lacks == ()


def test_a_module_that_the_operator_gave_something_is_proposed_nothing(scene: Scene) -> None:
    given = OperatorGrant(Permissions(preset="workspace-read"), Rule(Location("the command line"), "--grant"))
    review = scene.review("tools: [{module: tool-bash}]", {"tools[0]": (given,)})
    assert not review.has_proposals


def test_what_the_operator_gave_is_told_apart_from_what_the_plan_grants(scene: Scene) -> None:
    given = OperatorGrant(Permissions(read=(".",), run=("git",)), Rule(Location("the command line"), "--grant"))
    review = scene.review("tools: [{module: tool-x, permissions: {run: [git]}}]", {"tools[0]": (given,)})
    found = module(review, "tool-x")
    assert found.granted == ("runs git",)
    assert found.given == (f"reads the working directory, {scene.folder}",)


def test_what_a_policy_is_against_is_not_proposed_and_the_rule_is_told(scene: Scene) -> None:
    text = "tools: [{module: tool-bash}, {module: tool-filesystem}]"
    assert module(scene.review(text), "tool-bash").proposed == Permissions(preset="shell")
    scene.rule(
        """
        [[module]]
        match = "/code/*"
        grants = "workspace"
        """
    )
    review = scene.review(text)
    bash = module(review, "tool-bash")
    assert bash.proposed is None and bash.proposed_lines == ()
    assert any(f"{scene.root / 'policy.toml'}:4 is against it" in one for one in bash.lacks)
    assert module(review, "tool-filesystem").proposed == Permissions(preset="workspace")


def test_what_a_policy_refuses_anyhow_says_nothing_about_a_proposal(scene: Scene) -> None:
    scene.rule('minimum_isolation = "ns"\n')
    review = scene.review("tools: [{module: tool-filesystem, isolation: landlock}]")
    assert module(review, "tool-filesystem").proposed == Permissions(preset="workspace")


def test_what_the_machine_cannot_give_is_not_proposed(scene: Scene) -> None:
    scene.root.chmod(0o777)
    found = module(scene.review("tools: [{module: tool-filesystem}]"), "tool-filesystem")
    assert found.proposed is None
    assert any("not given:" in one for one in found.lacks)


def test_a_plan_that_is_no_file_is_told_as_one_of_the_application(scene: Scene) -> None:
    plan = load_plan({"session": {"orchestrator": "loop-basic", "context": "context-simple"}})
    resolutions = {entry.path: scene.resolution(entry.module) for entry in plan.entries()}
    assert review_plan(plan, scene.asked(plan), resolutions, scene.context, {}).plan == "of this application"


def test_a_manifests_advice_is_taken_for_unknown_modules(scene: Scene) -> None:
    code = scene.resolution("tool-unheard-of").root
    (code / "pyproject.toml").write_text('[tool.paddock.permissions]\nread = ["logs"]\nrun = ["*"]\n')
    found = module(scene.review("tools: [{module: tool-unheard-of}]"), "tool-unheard-of")
    assert found.proposed == Permissions(read=("logs", "!@secrets"))
    assert any("its own manifest" in line for line in found.proposed_lines)
    assert any("run *" in one for one in found.lacks)
