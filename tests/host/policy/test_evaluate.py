"""What is granted is what was asked for and every rule lets be granted, or it is refused with the rule and its line."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from failures import failing
from paddock.errors import PlanError, PolicyRefusedError, render
from paddock.isolation.enforcement import require_enforced
from paddock.plan.load import load_plan
from paddock.plan.permissions import Permissions, as_accepted
from paddock.plan.source_map import Location
from paddock.policy.decision import Decision
from paddock.policy.evaluate import EvaluationContext, evaluate, refuse_sources
from paddock.policy.files.policy import Policy
from paddock.policy.files.policy_file import PolicyFile
from paddock.policy.grant_request import ModuleRequest, OperatorGrant
from paddock.policy.grants import Grants
from paddock.policy.limits import ResourceLimits
from paddock.policy.rule import Rule
from paddock.policy.trust import Trust
from paddock_sandbox.profile import IsolationLevel
from support.linked_tree import link
from support.rows import each_row

from .entries import entry, owner

REPOSITORY = "git+https://github.com/org/repo@0123456789012345678901234567890123456789"
FLAG = Rule(Location("command line"), "--grant tool-x=…")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Return a working directory with a project in it, which has a link out of it."""
    folder = tmp_path / "work"
    (folder / "src").mkdir(parents=True)
    (folder / "out").mkdir()
    (tmp_path / "secret").mkdir()
    (folder / "link").symlink_to("../secret")
    for place in (folder / "src/tool", tmp_path / "secret/tool"):
        place.write_text("#!/bin/sh\n")
        place.chmod(0o755)
    (folder / "src/foreign").write_text(f"#!{tmp_path}/secret/tool\n")
    (folder / "src/foreign").chmod(0o755)
    return folder


def policy(*texts: str) -> Policy:
    names = ["/etc/paddock/policy.toml", "/home/x/.config/paddock/policy.toml"]
    return Policy(tuple(PolicyFile.parse(text, name) for text, name in zip(texts, names, strict=False)))


def situation(
    work: Path, *texts: str, accepted: bool = True, secrets: Mapping[str, str] | None = None
) -> EvaluationContext:
    return EvaluationContext(policy(*texts), Trust(accepted), work, owner(work.parent), secrets or {})


def decide(
    work: Path,
    *texts: str,
    source: str = REPOSITORY,
    accepted: bool = True,
    secrets: Mapping[str, str] | None = None,
    given: Mapping[str, object] | str | None = None,
    named: IsolationLevel | None = None,
    **keys: object,
) -> Decision:
    permissions = Permissions.parse(given)
    asked = ModuleRequest(entry(**keys), source, (OperatorGrant(permissions, FLAG),) if given else (), named)
    (decision,) = evaluate([asked], situation(work, *texts, accepted=accepted, secrets=secrets))
    return decision


def refused(act: Callable[[], object]) -> list[tuple[str, str, str, int | None]]:
    """Return place, message, rule's file and line of everything that is refused."""
    with pytest.raises(PolicyRefusedError) as caught:
        act()
    error = caught.value
    assert error.exit_code == 4
    shown = render(error)
    for one in error.refusals:
        assert one.message in shown and one.rule in shown and one.hint and one.hint in shown
        assert one.as_dict()["rule"] == {"text": one.rule, "file": one.rule_file, "line": one.rule_line}
    return [(one.path, one.message, one.rule_file, one.rule_line) for one in error.refusals]


def capped(grants: str, match: str = "*") -> str:
    return f'[[module]]\nmatch = "{match}"\n[module.grants]\n{grants}\n'


# -- nothing in the way


def test_only_what_a_person_wrote_is_a_written_loopback(work: Path) -> None:
    older = as_accepted(Permissions(preset="shell"), 1).model_copy(update={"net": ("self",)})  # as if the first had it
    for asked, is_written in ((older, False), (Permissions(net=("self",)), True), (Permissions(preset="shell"), False)):
        for request in (
            ModuleRequest(entry().model_copy(update={"permissions": asked}), REPOSITORY),
            ModuleRequest(entry(), REPOSITORY, (OperatorGrant(asked, FLAG),)),
        ):
            (decision,) = evaluate([request], situation(work))
            assert decision.entry.permissions.preset or "self" in decision.entry.permissions.net
            assert decision.loopback_is_written is is_written, request


def test_an_unbounded_request_is_granted_as_it_was_asked_for(work: Path) -> None:
    written = {"read": ["."], "net": ["a.example"], "run": ["*"], "secrets": ["KEY"], "env": ["HOME"]}
    decision = decide(work, permissions=written, limits={"memory_max": "8G"}, isolation="landlock")
    assert decision.entry.permissions == Permissions.model_validate(written)
    assert decision.limits.memory_max == decision.entry.limits.memory_max == 8 << 30
    assert decision.floor.levels == ("ns", "bwrap") and not decision.floor.is_fixed


def test_its_own_loopback_takes_no_trust_and_a_host_beside_it_does(work: Path) -> None:
    assert decide(work, permissions={"net": ["self"]}, accepted=False).entry.permissions.net == ("self",)
    told = refused(lambda: decide(work, permissions={"net": ["self", "a.example"]}, accepted=False))
    assert [path for path, *_ in told] == ["tools[0].permissions.net[1]"]


def test_what_the_operator_gives_adds_to_what_the_plan_says(work: Path) -> None:
    decision = decide(work, permissions={"read": ["src"], "net": ["a.example"]}, given={"read": [".", "src"]})
    permissions = decision.entry.permissions
    assert (permissions.read, permissions.net, permissions.preset) == (("src", "."), ("a.example",), None)


def test_a_preset_that_is_given_counts_as_what_it_stands_for(work: Path) -> None:
    permissions = decide(work, permissions={"net": ["a.example"]}, given="shell").entry.permissions
    assert (permissions.write, permissions.run, permissions.net) == ((".",), ("*",), ("a.example", "self"))


def test_every_rule_that_was_looked_at_is_kept_with_its_line(tmp_path: Path, work: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "session: {orchestrator: loop-basic, context: context-simple}\n"
        "tools:\n- module: tool-x\n  permissions:\n    net: [a.example]\n    env: [MODE=secret]\n"
    )
    loaded = load_plan(plan)
    text = (
        "minimum_isolation = 'bwrap'\ngit_hosts = ['github.com']\nmax_limits = {tasks_max = 8, calls_max = 10000}\n"
        + capped("net = ['a.example', 'b.example']", "git+https://github.com/*")
        + "[[module]]\nmatch = '/srv/*'\n"
    )
    where = EvaluationContext(
        policy(text), Trust(True, Rule(Location("grants.toml", 3), "accepted")), work, owner(), {}, loaded.positions
    )
    (decision,) = evaluate([ModuleRequest(loaded.tools[0], REPOSITORY)], where)
    consulted = {
        (one.rule.location.file.rpartition("/")[2], one.rule.location.line, one.rule.text): one.outcome
        for one in decision.consulted
    }
    match = '[[module]] match = "git+https://github.com/*"'
    assert consulted == {
        ("plan.yaml", 5, "tools[0].permissions.net = [`a.example`]"): "asks for net",
        ("plan.yaml", 6, "tools[0].permissions.env = [`MODE`]"): "asks for env",
        ("grants.toml", 3, "accepted"): "the plan is accepted",
        ("policy.toml", 1, "minimum_isolation = bwrap"): "is the minimum",
        ("policy.toml", 2, 'git_hosts = ["github.com"]'): "lists `github.com`",
        ("policy.toml", 3, "max_limits.tasks_max = 8"): "lowers the default, 32",
        ("policy.toml", 3, "max_limits.calls_max = 10000"): "2048 is within it",
        ("policy.toml", 5, match): "is about `git+https://github.com/org/repo`",
        ("policy.toml", 7, f'{match}, grants.net = ["a.example", "b.example"]'): "is kept",
        ("policy.toml", 9, '[[module]] match = "file:///srv/*"'): "is not about `git+https://github.com/org/repo`",
    }


# -- caps, family by family

CAPS: list[tuple[str, dict[str, Any], bool]] = [
    ("net = ['*.example.org']", {"net": ["api.example.org"]}, True),
    ("net = ['*.example.org']", {"net": ["example.org"]}, False),
    ("net = ['127.0.0.0/8:80', 'public']", {"net": ["self"]}, False),
    ("net = ['self']", {"net": ["self"]}, True),
    ("net = ['public']", {"net": ["public", "*.example.org:80"]}, True),
    ("net = ['*.example.org', '10.0.0.0/8']", {"net": ["public"]}, False),
    ("net = ['self']", {"net": ["127.0.0.1:80"]}, False),
    ("net = []", {"net": ["api.example.org"]}, False),
    ("run = ['git', 'py*']", {"run": ["git", "python3"]}, True),
    ("run = ['git', 'py*']", {"run": ["*"]}, False),
    ("env = ['MODE', 'LC_*']", {"env": ["MODE=x", "LC_ALL"]}, True),
    ("env = ['MODE']", {"env": ["PATH=/evil"]}, False),
    ("call = ['tools']", {"call": ["tools:bash"]}, True),
    ("call = ['tools']", {"call": ["*"]}, False),
    ("emit = ['tool:*']", {"emit": ["tool:pre"]}, True),
    ("emit = ['tool:*']", {"emit": ["*"]}, False),
    ("hooks = ['tool:post']", {"hooks": ["tool:post"]}, True),
    ("hooks = ['tool:post']", {"hooks": ["tool:*"]}, False),
    ("mount = ['context']", {"mount": ["context"]}, True),
    ("mount = ['context']", {"mount": ["providers"]}, False),
    ("mount = []", {"mount": ["context"]}, False),
    ("mount = ['*']", {"mount": ["providers", "orchestrator", "context"]}, True),
    ("secrets = ['KEY']", {"secrets": ["KEY"]}, True),
    ("secrets = ['KEY']", {"secrets": ["OTHER"]}, False),
    ("secrets = [{name = 'KEY', inject = 'host'}]", {"secrets": ["KEY"]}, False),
    (
        "secrets = [{name = 'KEY', inject = 'host'}]",
        {"secrets": [{"name": "KEY", "inject": "host"}], "net": ["a.example"]},
        True,
    ),
    (
        "secrets = [{name = 'KEY', inject = 'b.example'}]",
        {"secrets": [{"name": "KEY", "inject": "host"}], "net": ["a.example"]},
        False,
    ),
    ("secrets = []", {"env": ["KEY"]}, False),
    ("secrets = []\nenv = ['KEY']", {"env": ["KEY"]}, True),
    ("secrets = ['KEY']", {"env": ["KEY"]}, True),
    ("secrets = [{name = 'KEY', inject = 'host'}]", {"env": ["KEY"]}, False),
    ("secrets = []", {"env": ["KEY=value"]}, True),
    ("read = ['.']", {"read": ["src", "."]}, True),
    ("read = ['src']", {"read": ["."]}, False),
    ("read = ['src']", {"read": ["src/../out"]}, False),
    ("read = ['.']", {"read": ["link"]}, False),
    ("read = ['link']", {"read": ["link"]}, False),
    ("read = []", {"read": ["src"]}, False),
    ("read = ['src']", {"write": ["out"]}, False),
    ("read = ['src']", {"write": ["src"]}, True),
    ("read = []\nwrite = ['out']", {"write": ["out"], "read": ["out"]}, True),
    ("read = ['.']\nwrite = ['out']", {"write": ["src"]}, False),
    ("write = ['out']", {"write": ["out"]}, True),
    ("write = ['out']", {"write": ["link"]}, False),
    ("write = ['.']", {"write": ["link"]}, False),
    ("write = ['~/work']", {"write": ["."]}, True),
    ("write = ['~/work']", {"write": ["~"]}, False),
    ("net = []", {"read": ["."], "run": ["*"], "secrets": ["KEY"]}, True),
    ("run = ['src/']", {"run": ["src/tool", "./src/"]}, True),
    ("run = ['src/']", {"run": ["src/foreign"]}, False),  # by its interpreter
    ("run = ['src/', '~/secret/']", {"run": ["src/foreign", "~/secret/tool"]}, True),
    ("run = ['./']", {"run": ["link/tool"]}, False),
    ("run = ['./']", {"run": ["git"]}, False),
    ("run = ['tool']", {"run": ["src/tool"]}, False),
    ("run = ['*']", {"run": ["src/tool", "~/secret/tool", "git"]}, True),
    ("run = ['*']\nread = ['.']", {"run": ["src/tool"]}, True),
    ("run = ['*']\nread = ['.']", {"run": ["~/secret/tool"]}, False),
    ("read = ['src']", {"run": ["src/tool"]}, True),
    ("read = ['out']", {"run": ["src/tool"]}, False),
    ("read = []", {"run": ["git"]}, True),
]


@each_row("how", ["plan", "given"])
@each_row(("caps", "permissions", "within"), CAPS)
def test_a_cap_holds_for_every_way_to_grant(
    work: Path, caps: str, permissions: dict[str, Any], within: bool, how: str
) -> None:
    keys: dict[str, Any] = {"permissions": permissions} if how == "plan" else {"given": permissions}
    secrets = {"KEY": "s3cret", "OTHER": "x"}
    decide(work, secrets=secrets, **keys)
    if within:
        decide(work, capped(caps), secrets=secrets, **keys)
        return
    ((path, message, file, line),) = refused(lambda: decide(work, capped(caps), secrets=secrets, **keys))
    family = next(iter(permissions))
    assert path.startswith(f"tools[0].permissions.{family}[") if how == "plan" else path == ""
    assert message.startswith(family) and "may be granted" in message
    assert file == "/etc/paddock/policy.toml" and line in (4, 5)
    assert how == "plan" or "given by command line: --grant tool-x=…" in message


@each_row(
    ("preset", "caps", "within"),
    [
        ("workspace", "write = ['out']", False),
        ("workspace", "write = ['.']", True),
        ("workspace-read", "write = []", True),
        ("shell", "run = ['git']", False),
        ("isolated", "read = []\nwrite = []\nrun = []\nnet = []", True),
    ],
)
def test_a_preset_is_capped_as_what_it_stands_for(work: Path, preset: str, caps: str, within: bool) -> None:
    decide(work, permissions=preset)
    if within:
        assert decide(work, capped(caps), permissions=preset).entry.permissions.preset == preset
    else:
        ((path, *_),) = refused(lambda: decide(work, capped(caps), permissions=preset))
        assert path == "tools[0].permissions"


def test_a_preset_as_a_cap_caps_every_family(work: Path) -> None:
    rule = '[[module]]\nmatch = "*"\ngrants = "workspace-read"\n'
    assert decide(work, rule, permissions={"read": ["src"]}).entry.permissions.read == ("src",)
    everything = {"write": ["src"], "net": ["a.example"], "env": ["X=1"], "run": ["git"], "call": ["context"]}
    everything |= {"emit": ["tool:pre"], "hooks": ["tool:pre"], "mount": ["context"], "secrets": ["KEY"]}
    assert len(refused(lambda: decide(work, rule, secrets={"KEY": "x"}, permissions=everything))) == len(everything)


def test_the_value_of_a_variable_is_never_shown(work: Path) -> None:
    with pytest.raises(PolicyRefusedError) as caught:
        decide(work, capped("env = []"), permissions={"env": ["TOKEN=hunter2"]})
    assert "hunter2" not in render(caught.value) + str(caught.value.refusals[0].as_dict())


# -- which rules hold


@each_row(
    ("source", "said"),
    [
        (REPOSITORY, ["evil.example"]),
        ("git+https://github.com/org/trusted@0123456789012345678901234567890123456789", []),
        ("git+https://github.com/ORG/trusted", ["evil.example", "api.example"]),
        ("git+ssh://git@github.com/org/trusted", ["evil.example", "api.example"]),
        ("git+https://github.com/other/repo", ["evil.example", "api.example"]),
        ("builtin:tool-x", ["evil.example", "api.example"]),
    ],
)
def test_the_most_specific_rule_holds_in_any_spelling(work: Path, source: str, said: list[str]) -> None:
    text = (
        capped("net = []")
        + capped("net = ['api.example']", "git+https://github.com/org/*")
        + capped("net = ['api.example', 'evil.example']", "git+https://github.com/org/trusted")
    )
    permissions = {"net": ["evil.example", "api.example"]}
    if not said:
        assert decide(work, text, source=source, permissions=permissions)
        return
    messages = [
        message for _, message, *_ in refused(lambda: decide(work, text, source=source, permissions=permissions))
    ]
    assert {host for host in permissions["net"] if any(f"`{host}`" in message for message in messages)} == set(said)


def test_no_file_loosens_another(work: Path) -> None:
    loose, strict = capped("net = ['*.x.example']"), capped("net = ['a.x.example']")
    assert decide(work, loose, strict, permissions={"net": ["a.x.example"]})
    for texts in ((loose, strict), (strict, loose)):
        assert len(refused(lambda texts=texts: decide(work, *texts, permissions={"net": ["b.x.example"]}))) == 1


def test_a_folder_is_matched_where_it_really_is(work: Path) -> None:
    (work / "module").symlink_to("../secret")
    text = capped("net = []", f"{work.parent}/secret")
    assert refused(lambda: decide(work, text, source=str(work / "module"), permissions={"net": ["a.example"]}))


@each_row("text", [capped("net = []", "git+*"), "git_hosts = ['github.com']", "require_pinned = true"])
def test_an_ambiguous_source_is_refused_where_rules_depend_on_it(work: Path, text: str) -> None:
    source = "git+https://github.com/evil/../org/repo"
    assert decide(work, "minimum_isolation = 'ns'", source=source)
    ((path, message, *_),) = refused(lambda: decide(work, text, source=source, **{"module": "tool-x"}))
    assert path == "tools[0]" and "can be read in two ways" in message


# -- where modules come from


@each_row(
    ("hosts", "source", "listed"),
    [
        ("['github.com']", REPOSITORY, True),
        ("['github.com']", "git+ssh://git@GitHub.com./org/repo", True),
        ("['*.example.org']", "git+https://git.example.org/a", True),
        ("['git.example:8443']", "git+https://git.example:8443/a", True),
        ("['[::1]:8443']", "git+https://[::1]:8443/a", True),
        ("[]", "/srv/module", True),
        ("[]", "builtin:tool-x", True),
        ("[]", REPOSITORY, False),
        ("['github.com']", "git+https://github.com:8443/org/repo", False),
        ("['git.example:8443']", "git+https://git.example/a", False),
        ("['*.example.org']", "git+https://example.org/a", False),
        ("['github.com']", "git+https://github.com@evil.example/org/repo", False),
        ("['github.com']", "git+https://github.com.evil.example/org/repo", False),
        ("['github.com']", "git+https://evil.example/github.com/repo", False),
    ],
)
def test_repositories_come_from_hosts_that_are_listed(work: Path, hosts: str, source: str, listed: bool) -> None:
    text = f"git_hosts = {hosts}"
    if listed:
        assert decide(work, text, source=source)
        refuse_sources({"tools[0].source": source}, policy(text))
    else:
        ((_, message, file, line),) = refused(lambda: decide(work, text, source=source))
        assert "repositories may come from" in message and (file, line) == ("/etc/paddock/policy.toml", 1)
        assert refused(lambda: refuse_sources({"tools[0].source": source}, policy(text)))[0][0] == "tools[0].source"


def test_a_repository_here_is_bound_where_that_is_asked(work: Path) -> None:
    here, bound = f"git+file://{work}", "bind_local_git = true\ngit_hosts = ['{}']"
    assert decide(work, "git_hosts = ['github.com']", source=here)
    assert decide(work, bound.format("localhost"), source=here)
    ((_, message, *_),) = refused(lambda: decide(work, bound.format("github.com"), source=here))
    assert "is on `127.0.0.1`, and repositories may come from: `github.com`" in message


@each_row(
    ("match", "denied"),
    [
        ("git+https://github.com/org/*", True),
        ("git+https://GitHub.com/ORG/repo", True),
        ("commit:0123456789012345678901234567890123456789", True),
        ("commit:1123456789012345678901234567890123456789", False),
        ("git+https://github.com/other", False),
        ("*", True),
    ],
)
def test_what_a_rule_denies_is_refused_with_its_reason(work: Path, match: str, denied: bool) -> None:
    text = f"module = [{{match = '{match}', deny = 'it steals'}}]"
    asks = (lambda: decide(work, text), lambda: refuse_sources({"tools[0].source": REPOSITORY}, policy(text)))
    for ask in asks:
        if denied:
            ((_, message, _, line),) = refused(ask)
            assert message == "`git+https://github.com/org/repo` is denied: it steals" and line == 1
        else:
            ask()
    # The more specific rule counts, but a version is the most specific there is.
    allowed = "[[module]]\nmatch = 'git+https://github.com/org/repo'\nlimits = {tasks_max = 8}\n"
    is_denied = denied and match.startswith("commit:")
    both = f"{allowed}[[module]]\nmatch = '{match.replace('GitHub.com/ORG/repo', 'github.com/*')}'\ndeny = 'it steals'"
    assert bool(refused(lambda: decide(work, both)) if is_denied else decide(work, both))


def test_every_files_list_of_hosts_counts(work: Path) -> None:
    assert decide(work, "git_hosts = ['github.com', 'git.example']", "git_hosts = ['github.com']")
    assert refused(lambda: decide(work, "git_hosts = ['git.example']", "git_hosts = ['github.com']"))


@each_row("source", ["https://user:hunter2@evil.example/a", "https://user:hunter2@evil.example/../a"])
def test_a_password_in_a_source_is_never_shown(work: Path, source: str) -> None:
    for text in ("git_hosts = []", "require_pinned = true"):
        with pytest.raises(PolicyRefusedError) as caught:
            decide(work, text, source=f"git+{source}")
        assert "hunter2" not in render(caught.value)


@each_row(
    ("source", "pinned"),
    [
        (REPOSITORY, True),
        ("git+https://github.com/org/repo@" + "a" * 64, True),
        ("/srv/module", True),
        ("builtin:tool-x", True),
        ("git+https://github.com/org/repo", False),
        ("git+https://github.com/org/repo@v1.2.0", False),
        ("git+https://github.com/org/repo@0123456", False),
        ("git+https://github.com/org/repo@" + "A" * 40, False),
        ("some-package", False),
    ],
)
def test_what_is_not_pinned_is_refused_where_it_has_to_be(work: Path, source: str, pinned: bool) -> None:
    assert decide(work, source=source)
    if pinned:
        assert decide(work, "require_pinned = true", source=source)
    else:
        assert refused(lambda: decide(work, "require_pinned = true", source=source))


# -- limits


def test_a_limit_above_a_cap_is_refused_and_a_default_is_lowered(work: Path) -> None:
    text = "max_limits = {memory_max = '128M', runtime_max = '10s', output_max = '1K'}"
    decision = decide(work, text, limits={"memory_max": "64M"})
    assert (decision.limits.memory_max, decision.limits.runtime_max, decision.limits.output_max) == (
        64 << 20,
        10.0,
        1024,
    )
    again = ResourceLimits.of(decision.entry)
    assert (again.memory_max, again.runtime_max, again.output_max) == (64 << 20, 10.0, 1024)
    ((path, message, _, line),) = refused(lambda: decide(work, text, limits={"memory_max": "256M"}))
    assert (path, line) == ("tools[0].limits.memory_max", 1) and "256 MiB is more than 128 MiB" in message


def test_call_max_is_at_least_runtime_max_and_none_takes_acceptance(work: Path) -> None:
    assert decide(work, limits={"runtime_max": "2s"}).limits.call_max == 20.0
    assert decide(work, limits={"call_max": "none"}).limits.call_max == math.inf
    ((path, message, *_),) = refused(lambda: decide(work, accepted=False, limits={"call_max": "none"}))
    assert path == "tools[0].limits.call_max" and message.startswith("calls without an end")
    with pytest.raises(PlanError) as caught:
        decide(work, limits={"runtime_max": "2s", "call_max": "1s"})
    assert "1 s is less than runtime_max, which is 2 s" in render(caught.value)


def test_the_lowest_cap_of_all_files_and_rules_holds(work: Path) -> None:
    rule = '[[module]]\nmatch = "git+*"\nlimits = {tasks_max = 8}\n'
    assert decide(work, "max_limits = {tasks_max = 16}", rule).limits.tasks_max == 8
    assert decide(work, "max_limits = {tasks_max = 4}", rule).limits.tasks_max == 4
    assert decide(work, "max_limits = {tasks_max = 16}", rule, source="/srv/x").limits.tasks_max == 16


def test_an_unenforceable_cap_is_refused_unless_its_file_allows_it(work: Path) -> None:
    cap, excuse = "max_limits = {cpu_quota = '50%'}", "allow_unenforced = ['cpu_quota']\n"

    def start(*texts: str, **limits: str) -> None:
        decision = decide(work, *texts, limits=limits)
        require_enforced(decision.entry, decision.limits, "ns", ())

    for limits, place in (({}, "tools[0]"), ({"cpu_quota": "40%"}, "tools[0].limits.cpu_quota")):
        ((path, message, file, line),) = refused(lambda limits=limits: start(cap, **limits))
        assert (path, file, line) == (place, "/etc/paddock/policy.toml", 1)
        assert "cannot be enforced" in message and ("`cpu_quota`" in message) is not bool(limits)
    start(excuse + cap)
    assert refused(lambda: start(cap, excuse))
    decision = decide(work, cap)
    require_enforced(decision.entry, decision.limits, "ns", {"cpu"})


def test_a_limit_of_the_plan_may_go_unenforced_where_a_policy_says_so(work: Path) -> None:
    def start(*texts: str) -> None:
        decision = decide(work, *texts, limits={"cpu_quota": "50%"})
        require_enforced(decision.entry, decision.limits, "ns", ())

    with pytest.raises(PlanError, match="cannot be enforced"):
        start()
    start("allow_unenforced = ['cpu_quota']")


# -- levels


@each_row(
    ("texts", "levels", "is_fixed"),
    [
        ((), ("ns", "bwrap"), False),
        (("minimum_isolation = 'ns'",), ("ns",), True),
        (("minimum_isolation = 'bwrap'",), ("ns", "bwrap"), True),
        (("", "minimum_isolation = 'landlock'"), ("ns", "bwrap", "landlock"), True),
        (("minimum_isolation = 'bwrap'", "minimum_isolation = 'landlock'"), ("ns", "bwrap"), True),
        (("minimum_isolation = 'landlock'", "minimum_isolation = 'ns'"), ("ns",), True),
        (("[[module]]\nmatch = 'git+*'\nlevel = 'ns'", "minimum_isolation = 'landlock'"), ("ns",), True),
        (("[[module]]\nmatch = 'builtin:*'\nlevel = 'ns'",), ("ns", "bwrap"), False),
    ],
)
def test_the_strictest_minimum_is_the_floor(
    work: Path, texts: tuple[str, ...], levels: tuple[str, ...], is_fixed: bool
) -> None:
    floor = decide(work, *texts).floor
    assert (floor.levels, floor.is_fixed) == (levels, is_fixed)


@each_row("accepted", [True, False])
@each_row(
    ("minimum", "level", "meets"),
    [
        ("ns", "bwrap", False),
        ("bwrap", "landlock", False),
        ("landlock", "none", False),
        ("landlock", "landlock", True),
        ("bwrap", "ns", True),
    ],
)
@each_row("how", ["plan", "flag"])
def test_a_minimum_of_the_policy_is_never_lowered(
    work: Path, minimum: str, level: IsolationLevel, meets: bool, accepted: bool, how: str
) -> None:
    keys: dict[str, Any] = {"isolation": level} if how == "plan" else {"named": level}
    text = f"minimum_isolation = '{minimum}'"
    if meets:
        assert decide(work, text, accepted=accepted, **keys).floor.is_fixed
        return
    ((path, message, _, line),) = refused(lambda: decide(work, text, accepted=accepted, **keys))
    assert (path, line) == ("tools[0].isolation" if how == "plan" else "", 1)
    assert f"`{level}` is weaker than the minimum, `{minimum}`" in message


@each_row("keys", [{"isolation": "none"}, {"named": "none"}])
def test_what_a_rule_bounds_is_not_run_where_nothing_is_enforced(work: Path, keys: dict[str, Any]) -> None:
    text = capped("net = []", "git+*")
    assert decide(work, **keys) and decide(work, text, isolation="landlock")
    assert decide(work, text, source="/srv/x", **keys)
    ((_, message, _, line),) = refused(lambda: decide(work, text, **keys))
    assert "enforces nothing" in message and line == 2


# -- a plan that nobody accepted


UNTRUSTED: list[tuple[dict[str, Any], bool]] = [
    ({"permissions": {"read": ["."], "write": ["out"]}}, True),
    ({"permissions": "workspace"}, True),
    ({"permissions": "shell"}, True),
    ({"permissions": {"run": ["*"], "call": ["*"], "emit": ["*"], "hooks": ["*"]}}, True),
    ({"permissions": {"env": ["MODE=fast"]}}, True),
    ({"permissions": {"run": ["sh", "./src/tool", "src/"]}}, True),
    ({"permissions": {"run": ["~/secret/tool"]}}, False),
    ({"permissions": {"run": ["link/tool"]}}, False),
    ({"permissions": {"run": ["src/foreign"]}}, False),
    ({"isolation": "ns"}, True),
    ({"isolation": "bwrap"}, True),
    ({"permissions": {"net": ["a.example"]}}, False),
    ({"permissions": {"net": ["public"]}}, False),
    ({"permissions": {"secrets": ["KEY"]}}, False),
    ({"permissions": {"env": ["KEY"]}}, False),
    ({"permissions": {"read": ["/usr"]}}, False),
    ({"permissions": {"read": [".."]}}, False),
    ({"permissions": {"read": ["src/../../secret"]}}, False),
    ({"permissions": {"read": ["link"]}}, False),
    ({"permissions": {"write": ["~"]}}, False),
    ({"permissions": {"read": ["."], "write": [".", ".git"]}}, False),
    ({"permissions": {"write": [".git/hooks"]}}, False),
    ({"permissions": {"write": [".vscode"]}}, False),
    ({"permissions": {"write": ["bare"]}}, False),
    ({"permissions": {"write": ["tools/hooks"]}}, False),
    ({"permissions": {"write": [".envrc"]}}, False),
    ({"permissions": {"write": ["conf/envrc"]}}, False),
    ({"permissions": {"write": ["conf", "tools"]}}, True),
    ({"permissions": {"read": [".git"]}}, True),
    ({"isolation": "landlock"}, False),
    ({"isolation": "none"}, False),
]


@pytest.fixture
def guarded_work(work: Path) -> Path:
    for name in (".git/hooks", ".vscode", "bare/objects", "bare/refs"):
        (work / name).mkdir(parents=True)
    (work / "bare" / "HEAD").write_text("ref: refs/heads/main\n")
    for name in (".git/objects", ".git/refs", "tools/hooks", "conf"):
        (work / name).mkdir(parents=True)
    (work / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (work / ".git/config").write_text("[core]\n\thooksPath = tools/hooks\n")
    (work / "conf/envrc").touch()
    (work / ".envrc").symlink_to("conf/envrc")
    return work


@each_row(("keys", "harmless"), UNTRUSTED)
def test_an_unaccepted_plan_stays_in_its_folder(guarded_work: Path, keys: dict[str, Any], harmless: bool) -> None:
    secrets = {"KEY": "x"}
    assert decide(guarded_work, secrets=secrets, **keys)
    if harmless:
        assert decide(guarded_work, accepted=False, secrets=secrets, **keys)
        return
    with pytest.raises(PolicyRefusedError) as caught:
        decide(guarded_work, accepted=False, secrets=secrets, **keys)
    (refusal,) = caught.value.refusals
    assert refusal.path.startswith("tools[0].") and "--trust-plan" in refusal.hint
    assert (refusal.rule_file, refusal.rule_line) == ("built in", None)


def test_a_changed_plan_is_refused_with_the_line_of_its_acceptance(work: Path) -> None:
    rule = Rule(Location("/home/x/grants.toml", 7), "another version of this plan was accepted")
    where = EvaluationContext(policy(), Trust(False, rule), work, owner(), {})
    asked = ModuleRequest(entry(permissions={"net": ["a.example"]}), REPOSITORY)
    ((_, _, file, line),) = refused(lambda: evaluate([asked], where))
    assert (file, line) == ("/home/x/grants.toml", 7)


@each_row(
    "permissions",
    [{"net": ["a.example"]}, {"secrets": ["KEY"]}, {"env": ["KEY"]}, {"read": ["~"]}, {"run": ["~/secret/tool"]}],
)
def test_what_the_operator_gives_takes_no_accepted_plan(work: Path, permissions: dict[str, Any]) -> None:
    assert decide(work, accepted=False, secrets={"KEY": "x"}, given=permissions)
    assert decide(work, accepted=False, secrets={"KEY": "x"}, given=permissions, permissions=permissions)


def test_a_level_that_a_flag_names_takes_no_accepted_plan(work: Path) -> None:
    assert decide(work, accepted=False, isolation="landlock", named="landlock")
    assert refused(lambda: decide(work, accepted=False, isolation="none", named="landlock"))


def test_a_level_that_a_policy_lets_be_takes_no_accepted_plan(work: Path) -> None:
    assert decide(work, "", "minimum_isolation = 'landlock'", accepted=False, isolation="landlock")


# -- secrets


def problems(act: Callable[[], object]) -> dict[str, str]:
    with pytest.raises(PlanError) as caught:
        act()
    assert caught.value.exit_code == 1
    return {one.path: f"{one.message} | {one.hint}" for one in caught.value.problems}


def test_a_reference_without_a_grant_is_the_plans_mistake(work: Path) -> None:
    found = problems(lambda: decide(work, config={"key": "${KEY}"}, secrets={"KEY": "x"}))
    assert "not granted" in found["tools[0].config.key"] and "secrets: [KEY]" in found["tools[0].config.key"]
    assert decide(work, config={"key": "${KEY}"}, secrets={"KEY": "x"}, given={"secrets": ["KEY"]})


def test_a_secret_that_has_no_value_is_missed_before_anything_starts(work: Path) -> None:
    keys: dict[str, Any] = {"config": {"key": "${KEY}"}, "permissions": {"secrets": ["KEY"]}}
    assert decide(work, secrets={"KEY": ""}, **keys)
    assert "KEY" in problems(lambda: decide(work, **keys))["tools[0].config.key"]
    injected = {"secrets": [{"name": "KEY", "inject": "host"}], "net": ["a.example"]}
    assert decide(work, secrets={"KEY": "x"}, permissions=injected)
    found = problems(lambda: decide(work, permissions=injected))
    assert "`KEY` has no value | set `KEY` first: `read -rs KEY && export" in found["tools[0].permissions.secrets[0]"]


def test_a_variable_may_hold_a_secret_that_is_granted(work: Path) -> None:
    keys: dict[str, Any] = {"permissions": {"env": ["API=${KEY}"], "secrets": ["KEY"]}}
    assert decide(work, secrets={"KEY": "x"}, **keys)
    assert "tools[0].permissions.env[0]" in problems(lambda: decide(work, **keys))
    assert "tools[0].permissions.env[0]" in problems(lambda: decide(work, permissions={"env": ["API=${KEY}"]}))


def test_a_secret_is_injected_only_where_the_module_may_connect(work: Path) -> None:
    keys = {"secrets": [{"name": "KEY", "inject": "host"}]}
    found = problems(lambda: decide(work, permissions=keys, secrets={"KEY": "x"}))
    assert "the only host of `net`, and that has none" in found["tools[0].permissions.secrets[0]"]


@each_row(
    ("permissions", "path"),
    [
        ({"secrets": ["KEY", {"name": "KEY", "inject": "host"}], "net": ["a.example"]}, "secrets[1]"),
        ({"env": ["MODE=a", "MODE=b"]}, "env[1]"),
        ({"env": ["MODE", "MODE=b"]}, "env[1]"),
        ({"env": ["KEY"], "secrets": [{"name": "KEY", "inject": "host"}], "net": ["a.example"]}, "env[0]"),
    ],
)
def test_grants_that_contradict_each_other_are_the_plans_mistake(work: Path, permissions: Any, path: str) -> None:
    found = problems(lambda: decide(work, permissions=permissions, secrets={"KEY": "x"}))
    assert set(found) == {f"tools[0].permissions.{path}"}


def test_what_the_operator_gives_may_not_contradict_the_plan(work: Path) -> None:
    injected = {"secrets": [{"name": "KEY", "inject": "host"}], "net": ["a.example"]}
    found = problems(lambda: decide(work, permissions={"secrets": ["KEY"]}, given=injected, secrets={"KEY": "x"}))
    assert "granted twice" in found["tools[0].permissions"]


# -- everything at once


def test_everything_wrong_with_every_entry_is_told_at_once_with_its_line(tmp_path: Path, work: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "session: {orchestrator: loop-basic, context: context-simple}\n"
        "tools:\n"
        "- module: tool-a\n"
        "  config: {key: '${KEY}'}\n"
        "  permissions:\n"
        "    net:\n"
        "    - a.example\n"
        "    - b.example\n"
        "- module: tool-b\n"
        "  isolation: none\n"
        "  limits:\n"
        "    tasks_max: 64\n"
    )
    loaded = load_plan(plan)
    text = "minimum_isolation = 'ns'\nmax_limits = {tasks_max = 8}\n" + capped("net = ['a.example']")
    where = EvaluationContext(policy(text), Trust(True), work, owner(), {}, loaded.positions)
    with pytest.raises(PolicyRefusedError) as caught:
        evaluate([ModuleRequest(one, REPOSITORY) for one in loaded.tools], where)
    error = caught.value
    assert [(one.path, one.line, one.rule_line) for one in error.refusals] == [
        ("tools[0].permissions.net[1]", 8, 6),
        ("tools[1].isolation", 10, 1),
        ("tools[1].limits.tasks_max", 12, 2),
    ]
    assert [(one.path, one.line) for one in error.problems] == [("tools[0].config.key", 4)]
    shown = render(error)
    assert f"{plan}:8: tools[0].permissions.net[1]: net `b.example`" in shown
    assert "by /etc/paddock/policy.toml:6: " in shown
    told: Any = error.facts()["problems"]
    assert [(one["path"], one["line"], one["file"]) for one in told] == [
        ("tools[0].permissions.net[1]", 8, str(plan)),
        ("tools[1].isolation", 10, str(plan)),
        ("tools[1].limits.tasks_max", 12, str(plan)),
        ("tools[0].config.key", 4, str(plan)),
    ]
    assert told[0]["rule"]["file"] == "/etc/paddock/policy.toml" and told[0]["rule"]["line"] == 6


def test_a_path_that_cannot_be_followed_is_told_where_a_rule_asks_for_it(work: Path) -> None:
    assert decide(work, permissions={"read": ["missing"]})
    with failing("GrantError", "does not exist"):
        decide(work, accepted=False, permissions={"read": ["missing"]})
    with failing("GrantError", "does not exist"):
        decide(work, capped("read = ['.']"), permissions={"read": ["missing"]})


@pytest.mark.parametrize(("text", "accepted"), [(capped("read = ['.']"), True), ("", False)])
def test_a_path_that_leads_elsewhere_by_the_time_it_is_shown_is_refused(work: Path, text: str, accepted: bool) -> None:
    one = entry(permissions={"read": ["src"]})
    (decision,) = evaluate([ModuleRequest(one, REPOSITORY)], situation(work, text, accepted=accepted))

    def look() -> Grants:
        return Grants.of(decision.entry, work, owner(), lambda path, is_written: None)

    decision.paths.check(look())
    os.rename(work / "src", work / "was-src")
    (work / "src").symlink_to("../secret")
    ((path, message, *_),) = refused(lambda: decision.paths.check(look()))
    assert path == "tools[0].permissions.read[0]" and str(work.parent / "secret") in message


def test_a_program_whose_interpreter_lies_elsewhere_by_then_is_refused(work: Path) -> None:
    one = entry(permissions={"run": ["src/tool"]})
    (decision,) = evaluate([ModuleRequest(one, REPOSITORY)], situation(work, accepted=False))
    (work / "src/tool").write_text(f"#!{work.parent}/secret/tool\n")
    shown = Grants.of(decision.entry, work, owner(), lambda path, is_written: None)
    ((path, message, *_),) = refused(lambda: decision.paths.check(shown))
    assert path == "tools[0].permissions.run[0]" and str(work.parent / "secret/tool") in message


@pytest.mark.parametrize(
    ("text", "accepted", "given", "is_seen"),
    [
        ("", True, False, True),
        ("", False, False, False),
        ("", False, True, True),
        (capped("run = ['*']"), True, False, True),
        (capped("run = ['*']\nread = ['.']\nwrite = ['.']"), True, True, False),
        (capped("read = ['.']\nwrite = ['.']"), True, False, False),
    ],
)
def test_an_environment_shows_its_python_as_rules_let_it(
    work: Path, text: str, accepted: bool, given: bool, is_seen: bool
) -> None:
    (work / ".venv/bin").mkdir(parents=True)
    python = work.parent / "secret/bin/python"
    for file in (python, work.parent / "secret/lib/python3/os.py"):
        file.parent.mkdir(parents=True)
        file.write_bytes(b"\x7fELF")
        file.chmod(0o755)
    (work / ".venv/bin/python").symlink_to(python)
    (work / ".venv/pyvenv.cfg").touch()
    keys: dict[str, Any] = {"given": "shell"} if given else {"permissions": "shell"}
    decision = decide(work, text, accepted=accepted, **keys)
    grants = Grants.of(decision.entry, work, owner(work.parent), lambda path, is_written: None, decision.paths.lets_see)
    found, left_out = (grants.environments, grants.left_out)
    assert [one.name for one in (found if is_seen else left_out)] == [".venv/bin/python"]
    assert not (left_out if is_seen else found)


@pytest.mark.parametrize(
    ("text", "accepted", "others", "is_read"),
    [
        ("", True, {}, True),
        ("", False, {}, False),
        (capped("read = ['.', '../main']"), True, {}, True),
        (capped("read = ['.']"), True, {}, False),
        (capped("run = ['git']"), True, {}, True),
        ("", True, {"write": ["../main"]}, False),
        ("", True, {"write": ["../main/.git/refs"]}, False),
        ("", True, {"write": ["out"], "read": ["../main"]}, True),
    ],
)
def test_a_linked_tree_brings_its_repository_as_rules_and_writers_let_it(
    work: Path, text: str, accepted: bool, others: dict[str, Any], is_read: bool
) -> None:
    """And nothing is refused for it, as nobody asked for it."""
    git = link(work, work.parent / "main")
    mine = entry(permissions={"read": ["."], "run": ["git"]})
    other = entry(module="tool-y", path="tools[1]", permissions=others)
    asked = [ModuleRequest(one, REPOSITORY) for one in (mine, other)]
    decision = evaluate(asked, situation(work, text, accepted=accepted))[0]
    assert decision.entry.permissions.read == ((".", str(git)) if is_read else (".",))


def test_a_repository_that_is_a_link_by_now_is_not_shown(work: Path) -> None:
    """A module of another session, which may write around it, might have put it there since it was found."""
    git = link(work, work.parent / "main")
    decision = decide(work, permissions={"read": ["."], "run": ["git"]})

    def look() -> None:
        decision.paths.check(Grants.of(decision.entry, work, owner(work.parent), lambda path, is_written: None))

    look()
    git.rename(work.parent / "moved")
    git.symlink_to(work.parent / "secret")
    ((_, message, file, _),) = refused(look)
    assert f"`{git}`" in message and "is a link by now" in message and file == "built in"


def test_no_repository_in_a_kept_home_is_brought(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module might have made it there."""
    monkeypatch.setenv("XDG_STATE_HOME", str(work.parent / "state"))
    link(work, work.parent / "state/paddock/homes/x/home")
    assert decide(work, permissions={"read": ["."], "run": ["*"]}).entry.permissions.read == (".",)


def test_a_path_that_the_operator_gave_may_lead_anywhere(work: Path) -> None:
    one = ModuleRequest(entry(), REPOSITORY, (OperatorGrant(Permissions(read=("~/secret",)), FLAG),))
    (decision,) = evaluate([one], situation(work, accepted=False))
    decision.paths.check(Grants.of(decision.entry, work, owner(work.parent), lambda path, is_written: None))


def test_a_refusal_is_told_of_a_call_in_the_words_of_its_options(work: Path) -> None:
    one = ModuleRequest(entry(path="", permissions={"net": ["a.example"]}), REPOSITORY)
    with pytest.raises(PolicyRefusedError) as caught:
        evaluate([one], situation(work, capped("net = []")))
    caught.value.retell("the call", lambda path: f"--allow-{path.split('.')[1].partition('[')[0]}")
    shown = render(caught.value)
    assert "policy refuses what the call asks for" in shown and "--allow-net: net `a.example` is more" in shown


def test_what_is_refused_later_can_be_told_with_its_line(work: Path) -> None:
    with pytest.raises(PolicyRefusedError) as caught:
        decide(work, capped("net = []"), permissions={"net": ["a.example"]})
    caught.value.locate("plan.yaml", lambda path: ("", {"tools[0].permissions.net[0]": 9}.get(path)))
    assert "plan.yaml:9: tools[0].permissions.net[0]: net `a.example`" in render(caught.value)


# -- closed networks


CLOSED = "refused_networks = ['203.0.113.0/24', '2001:db8::/32']\n"


@each_row("written", ["203.0.113.7:443", "203.0.113.128/25", "[2001:db8::1]:443"])
def test_a_grant_in_a_network_that_is_closed_is_refused_with_its_line(work: Path, written: str) -> None:
    ((path, message, file, line),) = refused(lambda: decide(work, f"\n{CLOSED}", permissions={"net": [written]}))
    assert (path, file, line) == ("tools[0].permissions.net[0]", "/etc/paddock/policy.toml", 2)
    assert message == f"net `{written}` is in a network that no module may connect to"


def test_networks_that_are_closed_are_known_where_a_module_connects(work: Path) -> None:
    decision = decide(work, CLOSED, "refused_networks = ['10.0.0.1']", permissions={"net": ["public", "10.0.0.0/8"]})
    assert [str(one.network) for one in decision.closed_networks] == ["203.0.113.0/24", "2001:db8::/32", "10.0.0.1/32"]
    rules = {one.rule.text: one.outcome for one in decision.consulted}
    assert rules['refused_networks = ["203.0.113.0/24", "2001:db8::/32"]'] == "is kept"
