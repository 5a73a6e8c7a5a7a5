"""Modules are cleared together: by what is asked for, what the operator gives and accepts, and what policies let be."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from paddock.authorization.authorizer import Authorization, Authorizer, PlanStart
from paddock.authorization.consent import ConsentAnswer, PlanReview
from paddock.errors import ConsentRefusedError, PlanError, PolicyFileError, PolicyRefusedError, Refusal
from paddock.plan.load import load_plan
from paddock.plan.model import EntryPlace, ModuleEntry, MountPlan
from paddock.plan.permissions import Permissions
from paddock.policy.files.accepted_plans import AcceptedPlan
from paddock.policy.files.grants import GrantsFile
from paddock.policy.files.policy import Policy
from paddock.policy.files.policy_file import PolicyFile
from paddock.policy.secrets.store import SecretError
from paddock_sandbox.profile import IsolationLevel
from paddock_sources import Resolution

_HEAD = "session: {orchestrator: loop-basic, context: context-simple}\n"
_FIRST = 3  # the line of the plan's first tool
_ASKING = "- {module: tool-x, permissions: {net: [example.org]}}"
_SILENT = "- {module: tool-filesystem}"


@dataclass
class Person:
    """Somebody who always gives the same answer; keeps what was shown."""

    answer: ConsentAnswer
    seen: list[PlanReview] = field(default_factory=list)

    async def ask(self, review: PlanReview) -> ConsentAnswer:
        self.seen.append(review)
        return self.answer


class Scene:
    """A project, and an operator's own files."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.work = self.root / "work"
        self.config = self.root / "config/paddock"
        for folder in (self.work, self.config):
            folder.mkdir(parents=True)
            folder.chmod(0o700)
        self.environ: dict[str, str] = {"XDG_CONFIG_HOME": str(self.config.parent), "HOME": str(self.root)}
        self.sources: dict[str, str] = {}
        self.weaker: IsolationLevel | None = None

    def plan(self, tools: str) -> MountPlan:
        path = self.root / "plan.yaml"
        path.write_text(f"{_HEAD}tools:\n{dedent(tools)}\n", encoding="utf-8")
        return load_plan(path)

    def write(self, name: str, text: str) -> Path:
        path = self.config / name
        path.write_text(dedent(text), encoding="utf-8")
        path.chmod(0o600)
        return path

    def accepted(self) -> tuple[AcceptedPlan, ...]:
        return GrantsFile.of_user(self.environ).all()

    def resolution(self, module: str) -> Resolution:
        code = self.root / "code" / module
        package = code / f"amplifier_module_{module.replace('-', '_')}"
        package.mkdir(parents=True, exist_ok=True)
        return Resolution(module, self.sources.get(module, str(code)), code, package.name, package, code, "tool")

    async def clear(
        self,
        plan: MountPlan,
        *,
        consent: Person | None = None,
        trust_plan: bool = False,
        grants: Mapping[str, str] | None = None,
        named: IsolationLevel | None = None,
        policy: Policy | None = None,
    ) -> Authorization:
        async def weaker_level() -> IsolationLevel | None:
            return self.weaker

        authorizer = await Authorizer.at_work(self.work, self.environ, policy)
        return await authorizer.authorize_plan(
            PlanStart(plan, trust_plan, grants or {}, named, consent),
            {entry.path: self.resolution(entry.module) for entry in plan.entries()},
            weaker_level,
        )

    async def clear_call(self, named: IsolationLevel | None = None, **keys: object) -> Authorization:
        entry = ModuleEntry.read({"module": "tool-x", **keys}, EntryPlace("tool", "", self.work))
        authorizer = await Authorizer.at_work(self.work, self.environ, None)
        return await authorizer.authorize_call(entry, self.resolution("tool-x"), named)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def _tool(authorization: Authorization) -> Permissions:
    return authorization.modules[-1].entry.permissions


async def _refused(scene: Scene, tools: str, **how: Any) -> Refusal:
    with pytest.raises(PolicyRefusedError) as refused:
        await scene.clear(scene.plan(tools), **how)
    (refusal,) = refused.value.refusals
    assert refused.value.origin == str(scene.root / "plan.yaml")
    return refusal


# -- what is accepted ----------------------------------------------------------------------


async def test_modules_are_authorized_in_plan_order(scene: Scene) -> None:
    authorized = await scene.clear(scene.plan("- {module: tool-x}\n- {module: tool-y}"))
    assert [module.entry.path for module in authorized.modules] == [
        "session.orchestrator",
        "session.context",
        "tools[0]",
        "tools[1]",
    ]
    assert [module.resolution.root.name for module in authorized.modules] == [
        "loop-basic",
        "context-simple",
        "tool-x",
        "tool-y",
    ]
    assert not authorized.trust.accepted and not authorized.accepts_weaker


async def test_a_flag_accepts_a_plan_this_once_and_with_it_a_weaker_level(scene: Scene) -> None:
    authorized = await scene.clear(scene.plan(_ASKING), trust_plan=True)
    assert _tool(authorized).net == ("example.org",)
    assert authorized.trust.accepted and authorized.accepts_weaker
    assert authorized.trust.rule is not None and authorized.trust.rule.text == "--trust-plan"
    assert scene.accepted() == ()
    await _refused(scene, _ASKING)


async def test_an_operator_who_accepts_is_asked_once(scene: Scene) -> None:
    scene.weaker, person = "landlock", Person(ConsentAnswer.ACCEPT)
    authorized = await scene.clear(scene.plan(_ASKING), consent=person)
    assert _tool(authorized).net == ("example.org",)
    assert authorized.accepts_weaker and authorized.trust.rule is not None
    assert (
        authorized.trust.rule.location.file == str(scene.config / "grants.toml") and authorized.trust.rule.location.line
    )
    (review,) = person.seen
    assert review.digest == scene.accepted()[0].digest
    assert (review.weaker_level, review.warnings) == ("landlock", ())
    again = await scene.clear(scene.plan(_ASKING), consent=person)
    assert _tool(again).net == ("example.org",) and len(person.seen) == 1


async def test_accepted_proposals_are_granted_and_remembered(scene: Scene) -> None:
    plan = scene.plan(_SILENT)
    assert _tool(await scene.clear(plan)) == Permissions()
    person = Person(ConsentAnswer.ACCEPT)
    for _ in range(2):
        given = _tool(await scene.clear(plan, consent=person))
        assert given.read_paths and given.read_paths == given.write
    assert len(person.seen) == 1
    assert [grant.place for grant in scene.accepted()[0].grants] == ["tools[0]"]
    assert _tool(await scene.clear(plan)) == given


async def test_a_plan_that_asks_for_nothing_more_raises_no_question(scene: Scene) -> None:
    person = Person(ConsentAnswer.STOP)
    await scene.clear(scene.plan("- {module: tool-x, permissions: {read: [.]}}"), consent=person)
    assert not person.seen


@pytest.mark.parametrize("tools", [_ASKING, _SILENT])
async def test_after_stop_nothing_is_authorised_or_remembered(scene: Scene, tools: str) -> None:
    with pytest.raises(ConsentRefusedError):
        await scene.clear(scene.plan(tools), consent=Person(ConsentAnswer.STOP))
    assert scene.accepted() == ()


async def test_an_unaccepted_plan_gets_only_what_needs_no_consent(scene: Scene) -> None:
    person = Person(ConsentAnswer.AS_IT_IS)
    authorized = await scene.clear(scene.plan(_SILENT), consent=person)
    assert _tool(authorized) == Permissions() and not authorized.accepts_weaker
    await _refused(scene, _ASKING, consent=person)
    assert len(person.seen) == 2 and scene.accepted() == ()


async def test_an_accepted_plan_that_was_edited_is_asked_about_again(scene: Scene) -> None:
    person = Person(ConsentAnswer.ACCEPT)
    await scene.clear(scene.plan(_ASKING), consent=person)
    edited = _ASKING.replace("example.org", "example.com")
    refusal = await _refused(scene, edited)
    assert refusal.rule.endswith("and edited since") and refusal.rule_line is not None
    assert refusal.rule_file == str(scene.config / "grants.toml")
    await scene.clear(scene.plan(edited), consent=person)
    assert len(person.seen) == 2


async def test_what_was_given_to_a_module_is_not_given_to_code_from_elsewhere(scene: Scene) -> None:
    plan, person = scene.plan(_SILENT), Person(ConsentAnswer.ACCEPT)
    given = _tool(await scene.clear(plan, consent=person))
    scene.sources["tool-filesystem"] = str(scene.root / "other")
    assert _tool(await scene.clear(plan)) == Permissions()
    assert _tool(await scene.clear(plan, consent=person)) == given  # asked again, and accepted again
    assert len(person.seen) == 2


async def test_an_acceptance_that_cannot_be_kept_is_for_this_time_and_said_to_be(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    (scene.config / "grants.toml.lock").mkdir()
    authorized = await scene.clear(scene.plan(_ASKING), consent=Person(ConsentAnswer.ACCEPT))
    assert authorized.trust.accepted and _tool(authorized).net == ("example.org",)
    assert "accepted for this time only: " in caplog.text and "grants.toml" in caplog.text
    assert scene.accepted() == ()


# -- flags ---------------------------------------------------------------------------------


async def test_a_flag_gives_a_preset_to_every_module_of_a_name_and_to_no_other(scene: Scene) -> None:
    plan = scene.plan("- {module: tool-x}\n- {module: tool-x, instance_id: second}\n- {module: tool-y}")
    authorized = await scene.clear(plan, grants={"second": "workspace", "tool-x": "workspace-read"})
    assert not authorized.trust.accepted
    x, second, y = (module.entry.permissions for module in authorized.modules[2:])
    assert (x.read, x.write) == ((".", "!@secrets"), ())
    assert (second.read, second.write) == ((".", "!@secrets"), (".",))
    assert y == Permissions()


@pytest.mark.parametrize(
    ("grants", "said"),
    [
        ({"tool-z": "shell"}, "did you mean `tool-x`?"),
        ({"something-else": "shell"}, "its modules: loop-basic, context-simple, tool-x"),
        ({"tool-x": "everything"}, "presets: isolated, workspace-read, workspace, shell"),
    ],
)
async def test_a_flag_about_what_is_not_there_is_told(scene: Scene, grants: dict[str, str], said: str) -> None:
    with pytest.raises(PlanError) as refused:
        await scene.clear(scene.plan("- {module: tool-x}"), grants=grants)
    ((path, hint),) = [(problem.path, problem.hint) for problem in refused.value.problems]
    assert path == "--grant" and said in hint


async def test_the_flags_of_a_call_are_accepted_and_no_weaker_level_with_them(scene: Scene) -> None:
    authorized = await scene.clear_call(permissions={"net": ["example.org"], "read": [str(scene.root)]})
    assert _tool(authorized).net == ("example.org",)
    assert authorized.trust.accepted and not authorized.accepts_weaker


# -- policies ------------------------------------------------------------------------------


async def test_no_acceptance_and_no_flag_lifts_what_a_policy_of_the_user_refuses(scene: Scene) -> None:
    policy = scene.write("policy.toml", '[[module]]\nmatch = "*"\ngrants = {net = ["example.com"], write = []}\n')
    hows: list[dict[str, Any]] = [
        {},
        {"trust_plan": True},
        {"consent": Person(ConsentAnswer.ACCEPT)},
        {"named": "none"},
    ]
    for how in hows:
        with pytest.raises(PolicyRefusedError) as refused:
            await scene.clear(scene.plan(_ASKING), **how)
        by_policy = [one for one in refused.value.refusals if one.rule_file == str(policy)]
        assert ("tools[0].permissions.net[0]", _FIRST, 3) in [(one.path, one.line, one.rule_line) for one in by_policy]
    with pytest.raises(PolicyRefusedError):
        await scene.clear(scene.plan("- {module: tool-x}"), grants={"tool-x": "workspace"})
    with pytest.raises(PolicyRefusedError):
        await scene.clear_call(permissions={"net": ["example.org"]})


async def test_a_later_policy_bounds_earlier_acceptances(scene: Scene) -> None:
    plan = scene.plan(_SILENT)
    await scene.clear(plan, consent=Person(ConsentAnswer.ACCEPT))
    policy = scene.write("policy.toml", '[[module]]\nmatch = "*"\ngrants = {write = []}\n')
    with pytest.raises(PolicyRefusedError) as refused:
        await scene.clear(plan)
    assert {(one.rule_file, one.rule_line) for one in refused.value.refusals} == {(str(policy), 3)}


async def test_a_policy_that_is_given_only_narrows_those_that_are_written(scene: Scene) -> None:
    rule = '[[module]]\nmatch = "*"\ngrants = {{{} = []}}\n'
    await scene.clear(scene.plan(_ASKING), trust_plan=True, policy=Policy(()))
    given = Policy((PolicyFile.parse(rule.format("net"), "given"),))
    refusal = await _refused(scene, _ASKING, trust_plan=True, policy=given)
    assert (refusal.rule_file, refusal.rule_line) == ("given", 3)
    written = scene.write("policy.toml", rule.format("net"))
    refusal = await _refused(scene, _ASKING, trust_plan=True, policy=Policy(()))
    assert (refusal.rule_file, refusal.rule_line) == (str(written), 3)
    scene.write("policy.toml", "not understood")
    with pytest.raises(PolicyFileError):
        await scene.clear(scene.plan(_ASKING), trust_plan=True, policy=Policy(()))


# -- secrets -------------------------------------------------------------------------------

_USING = "- {module: tool-x, config: {key: '${KEY}'}, permissions: {secrets: [KEY, SPARE]}}"


async def test_secrets_are_those_that_are_used_and_no_others(scene: Scene) -> None:
    scene.environ |= {"KEY": "the key itself", "SPARE": "another one", "UNASKED": "a third"}
    authorized = await scene.clear(scene.plan(_USING), trust_plan=True)
    assert dict(authorized.secrets) == {"KEY": "the key itself"}
    assert authorized.modules[-1].entry.config == {"key": "${KEY}"}  # what is kept and shown of it has no value
    assert "the key itself" not in repr(authorized)
    assert authorized.secrets.mask("it is the key itself") == "it is [secret KEY]"


async def test_a_command_for_a_secret_is_run_once_all_else_is_decided(scene: Scene) -> None:
    ran = scene.root / "ran"
    scene.write("secrets.toml", f'[KEY]\ncommand = ["sh", "-c", "echo >> {ran}; echo the-key"]\n')
    with pytest.raises(PolicyRefusedError):
        await scene.clear(scene.plan(_USING))
    with pytest.raises(PlanError):
        await scene.clear(
            scene.plan(f"{_USING}\n- {{module: tool-y, permissions: {{env: [A=b, A=c]}}}}"), trust_plan=True
        )
    with pytest.raises(ConsentRefusedError):
        await scene.clear(scene.plan(_USING), consent=Person(ConsentAnswer.STOP))
    assert not ran.exists()
    authorized = await scene.clear(scene.plan(f"{_USING}\n{_USING}"), trust_plan=True)
    assert dict(authorized.secrets) == {"KEY": "the-key"}
    assert ran.read_text() == "\n"


async def test_a_secret_that_cannot_be_had_is_told_with_the_line_of_its_module(scene: Scene) -> None:
    secrets = scene.write("secrets.toml", f'\n[KEY]\nfile = "{scene.root}/missing"\n')
    with pytest.raises(SecretError) as refused:
        await scene.clear(scene.plan(_USING), trust_plan=True)
    (problem,) = refused.value.problems
    assert (refused.value.origin, problem.path, problem.line) == (str(scene.root / "plan.yaml"), "tools[0]", _FIRST)
    assert f"{secrets}:2" in problem.message and problem.hint


async def test_a_value_that_is_too_short_to_be_hidden_is_told(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.environ["KEY"] = "abc"
    with caplog.at_level(logging.WARNING):
        await scene.clear(scene.plan(_USING), trust_plan=True)
    assert "the value of secret `KEY` is too short to be hidden" in caplog.text and "abc" not in caplog.text


@pytest.mark.parametrize("name", ["policy.toml", "grants.toml", "secrets.toml"])
async def test_a_file_of_the_operators_that_others_may_write_clears_nothing(scene: Scene, name: str) -> None:
    plan = scene.plan("- {module: tool-x}")
    scene.write(name, "")
    await scene.clear(plan)
    (scene.config / name).chmod(0o622)
    with pytest.raises(PolicyFileError) as refused:
        await scene.clear(plan)
    assert refused.value.file == str(scene.config / name)
    assert any("chmod go-w" in hint for hint in refused.value.hints)


async def test_a_link_that_leads_elsewhere_makes_another_plan(scene: Scene) -> None:
    for name in ("one", "other"):
        (scene.root / name).mkdir()
    link = scene.work / "link"
    link.symlink_to(scene.root / "one")
    asking = "- {module: tool-filesystem, permissions: {write: [./link]}}"
    await scene.clear(scene.plan(asking), consent=Person(ConsentAnswer.ACCEPT))
    await scene.clear(scene.plan(asking))
    link.unlink()
    link.symlink_to(scene.root / "other")
    with pytest.raises(PolicyRefusedError, match="edited since"):
        await scene.clear(scene.plan(asking))


# -- every public host


_WEB = "- {module: tool-web, permissions: {net: [public]}}"


async def test_one_asked_about_the_whole_web_is_told_what_else_the_plan_reads(scene: Scene) -> None:
    scene.environ["KEY"] = "a value of some length"
    person = Person(ConsentAnswer.ACCEPT)
    plan = scene.plan(
        f"""\
        {_WEB}
        - {{module: tool-a, permissions: {{read: [.]}}}}
        - {{module: tool-filesystem}}
        - module: tool-b
          permissions: {{secrets: [KEY, {{name: HIDDEN, inject: host}}], net: [a.example.org]}}
        - {{module: tool-c, permissions: {{call: [context]}}}}
        - {{module: tool-d, permissions: {{run: [env]}}}}"""
    )
    scene.environ["HIDDEN"] = "another value of some length"
    await scene.clear(plan, consent=person)
    (review,) = person.seen
    (warning,) = review.warnings
    assert warning.startswith(
        "tool-web may connect to ANY public host, so what is read anywhere in this plan can leave: "
    )
    assert "files (tool-a, tool-filesystem); " in warning  # of which the second would be given it
    assert "secrets and variables (tool-b); " in warning
    assert "the conversation (loop-basic, context-simple, tool-c). " in warning
    assert "tool-d" not in warning


# -- what is fetched with the operator's rights -----------------------------------------------

_TAKES = {"tools[0].source": "it is behind ssh", "tools[1].source": "it is behind ssh"}


async def _check_rights(scene: Scene, person: Person | None) -> None:
    authorizer = await Authorizer.at_work(scene.work, scene.environ, None)
    await authorizer.check_rights(PlanStart(scene.plan(f"{_SILENT}\n{_ASKING}"), consent=person), _TAKES)


async def test_one_who_lets_sources_be_fetched_accepts_nothing_else(scene: Scene) -> None:
    person = Person(ConsentAnswer.ACCEPT)
    await _check_rights(scene, person)
    (review,) = person.seen
    assert (review.modules, review.moved, review.fetches) == ((), (), ("it is behind ssh",))
    assert not review.is_of_the_lock and not review.is_accepted
    assert scene.accepted() == ()


async def test_one_who_stops_before_a_fetch_stops_the_start(scene: Scene) -> None:
    with pytest.raises(ConsentRefusedError):
        await _check_rights(scene, Person(ConsentAnswer.STOP))
    assert scene.accepted() == ()


@pytest.mark.parametrize("person", [None, Person(ConsentAnswer.AS_IT_IS)], ids=["no consent", "no person"])
async def test_without_a_person_each_source_is_refused_with_its_line(scene: Scene, person: Person | None) -> None:
    with pytest.raises(PolicyRefusedError) as refused:
        await _check_rights(scene, person)
    assert [(one.path, one.line) for one in refused.value.refusals] == [
        ("tools[0].source", _FIRST),
        ("tools[1].source", _FIRST + 1),
    ]
    assert "it is behind ssh, which needs a plan that you accepted" in str(refused.value)


async def test_what_was_given_opens_nothing_that_git_runs_by_a_later_link(scene: Scene) -> None:
    """And what opens it at once is not proposed."""
    (scene.work / ".git/hooks").mkdir(parents=True)
    out = scene.work / "out"
    out.mkdir()
    root = scene.resolution("tool-x").root
    (root / "pyproject.toml").write_text('[tool.paddock]\npermissions = {write = ["./out", "./.git", ".git/hooks"]}\n')
    plan, person = scene.plan("- {module: tool-x}"), Person(ConsentAnswer.ACCEPT)
    for _ in range(2):
        assert _tool(await scene.clear(plan, consent=person)).write == ("./out",)
    assert len(person.seen) == 1
    out.rmdir()
    out.symlink_to(".git/hooks")
    with pytest.raises(PolicyRefusedError) as refused:
        await scene.clear(plan, consent=person)
    (refusal,) = refused.value.refusals
    assert "for which it was not given" in refusal.message and refusal.hint == "grant it in the plan, by where it leads"
