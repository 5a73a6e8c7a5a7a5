"""What an operator's policy does not let be granted is had by nobody, however it is asked for: with the real commands.

The machine's policy is laid where the command looks for it, in a mount namespace of its own; the user's is where
XDG_CONFIG_HOME says. Whatever is refused is first seen to be had where no policy is. What only the decision differs in
is decided in this process, from the same files.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from integration.conftest import WriteModule
from integration.policy_ground import READ, SAID_ON, SYSTEM_FILE, Ground, copy_of_a_tool, refusals
from integration.probe import tool_code
from paddock import PaddockError, Policy, Session

pytestmark = pytest.mark.usefixtures("commands_end")

_POLICY = """\
minimum_isolation = "bwrap"
git_hosts = ["git.example.org"]

[max_limits]
tasks_max = 24

[[module]]
match = "*"
grants.read = ["."]
grants.write = ["./out"]
grants.net = ["example.org", "*.example.net:8443"]
grants.env = ["LANG"]
grants.secrets = ["KEPT", {name = "INJECTED", inject = "host"}]
grants.run = ["cat"]
grants.call = []
grants.hooks = ["session:*"]
"""
_LINES = {line.partition(" = ")[0]: number for number, line in enumerate(_POLICY.splitlines(), 1)}
# Lets everything be granted, and names the source more exactly than the other policy does.
_GENEROUS = """\
allow_unenforced = ["tasks_max"]

[max_limits]
tasks_max = 4096

[[module]]
match = "builtin:tool-filesystem"
limits = {tasks_max = 4096}

[module.grants]
read = ["/"]
write = ["/"]
net = ["example.com", "*.example.net", "*.example.org", "example.org:80", "127.0.0.1:443", "self"]
env = ["*"]
secrets = ["*"]
run = ["*"]
call = ["*"]
hooks = ["*"]
"""


# -- whoever asks --------------------------------------------------------------------------


@dataclass(frozen=True)
class Attempt:
    """What is asked for and how, with the rule that is against it; `place` is where it was asked for."""

    rule: str
    place: str
    said: str = ""
    args: tuple[str, ...] = ()

    def make(self, ground: Ground, *options: str) -> subprocess.CompletedProcess[str]:
        if self.args[:1] == ("call",):
            return ground.paddock(*self.args, *options, "--json")
        ground.write_plan(self.said or "permissions: {}")
        return ground.run("--trust-plan", *self.args, *options)


def _asks(family: str, value: str) -> Attempt:
    return Attempt(f"grants.{family}", f"permissions.{family}[0]", f"permissions: {{{family}: [{value}]}}")


def _calls(rule: str, place: str, *options: str) -> Attempt:
    return Attempt(rule, place, args=(*READ, *options))


# With the commands, once by each way in which something is asked for; what else is asked for is decided below.
_ATTEMPTS = [
    _asks("read", "../other"),
    Attempt("minimum_isolation", "isolation", "isolation: landlock"),
    Attempt("grants.write", "", "", ("--grant", "tool-filesystem=workspace")),
    Attempt("minimum_isolation", "", "", ("--isolation", "none")),
    _calls("grants.net", "--allow-net", "--allow-net=example.com"),
    _calls("tasks_max", "--limit tasks_max", "--limit", "tasks_max=25"),
]
_REPEATING = [
    Attempt("tasks_max", "limits.tasks_max", "limits: {tasks_max: 25}"),
    _calls("minimum_isolation", "", "--isolation", "none"),
    _asks("write", "."),
    _asks("net", "example.com"),
    _asks("env", "PROBE"),
    _asks("secrets", "INJECTED"),
    _asks("run", "sh"),
    _asks("call", "tools"),
    _asks("hooks", "'*'"),
    Attempt("grants.write", "permissions", "permissions: workspace"),
    Attempt("minimum_isolation", "isolation", "isolation: none"),
    Attempt("minimum_isolation", "", "", ("--isolation", "landlock")),
    _calls("grants.read", "--allow-read", "--allow-read=../other"),
]
_ASKED = [
    _asks("read", "../other"),
    _asks("read", "link"),
    _asks("read", "out/../../other"),
    _asks("write", "."),
    _asks("write", "../other"),
    _asks("net", "example.com"),
    _asks("net", "'example.org:80'"),
    _asks("net", "'*.example.org'"),
    _asks("net", "'*.example.net'"),
    _asks("net", "'127.0.0.1:443'"),
    _asks("env", "PROBE"),
    _asks("env", "PROBE=x"),
    _asks("env", "lang"),
    _asks("secrets", "PROBE"),
    _asks("secrets", "INJECTED"),
    _asks("run", "'*'"),
    _asks("run", "sh"),
    _asks("call", "tools"),
    _asks("hooks", "'tool:*'"),
    _asks("hooks", "'*'"),
    Attempt("grants.write", "permissions", "permissions: workspace"),
    Attempt("grants.run", "permissions", "permissions: shell"),
    Attempt("tasks_max", "limits.tasks_max", "limits: {tasks_max: 25}"),
]


def _name(attempt: Attempt) -> str:
    return " ".join(attempt.args[4:] if attempt.args[:1] == ("call",) else (attempt.said, *attempt.args)).strip()


@pytest.mark.parametrize("attempt", _ASKED, ids=_name)
def test_no_entry_of_a_plan_loosens_the_policy_of_the_machine(ground: Ground, attempt: Attempt) -> None:
    ground.own_rule(_GENEROUS)
    ground.write_plan(attempt.said)
    assert ground.judge().returncode == 0
    file, place = ground.rule(_POLICY), f"tools[0].{attempt.place}"
    done = ground.judge()
    assert f"{ground.plan}:{SAID_ON}: {place}: " in done.stderr
    assert (place, _LINES[attempt.rule]) in refusals(done, file)


@pytest.mark.parametrize(("preset", "rule"), [("workspace", "grants.write"), ("shell", "grants.run")])
def test_no_preset_that_is_given_loosens_the_policy_of_the_machine(ground: Ground, preset: str, rule: str) -> None:
    ground.own_rule(_GENEROUS)
    ground.write_plan("permissions: {read: [.]}")
    grants = {"tool-filesystem": preset}
    assert ground.judge(grants=grants).returncode == 0
    file = ground.rule(_POLICY)
    assert ("", _LINES[rule]) in refusals(ground.judge(grants=grants), file)


@pytest.mark.parametrize(
    ("family", "value"),
    [
        ("read", "../other"),
        ("write", "."),
        ("net", "example.com"),
        ("env", "PROBE"),
        ("secrets", "PROBE"),
        ("run", "*"),
        ("call", "tools"),
        ("hooks", "tool:pre"),
    ],
)
def test_no_option_of_a_call_loosens_the_policy_of_the_machine(ground: Ground, family: str, value: str) -> None:
    ground.own_rule(_GENEROUS)
    assert ground.judge_call(**{family: value}).returncode == 0
    file = ground.rule(_POLICY)
    done = ground.judge_call(**{family: value})
    assert (f"--allow-{family}", _LINES[f"grants.{family}"]) in refusals(done, file)


@pytest.mark.exhaustive("isolation none", "--limit", "--grant")
@pytest.mark.parametrize(
    "attempt",
    [*_ATTEMPTS, *(pytest.param(one, marks=pytest.mark.exhaustive) for one in _REPEATING)],
    ids=_name,
)
def test_nothing_that_is_asked_for_loosens_the_policy_of_the_machine(policed: Ground, attempt: Attempt) -> None:
    if "none" not in attempt.said.split() and "none" not in attempt.args:  # which is refused wherever a rule has caps
        policed.own_rule(_GENEROUS)
    accepting = () if "--isolation" in attempt.args else ("--isolation", policed.levels()[0])
    without = attempt.make(policed, *accepting)
    assert without.returncode == 0, without.stderr
    shutil.rmtree(policed.state / "paddock")

    policed.rule(_POLICY)
    place = f"tools[0].{attempt.place}" if attempt.said and attempt.place else attempt.place
    done = attempt.make(policed)
    assert (place, _LINES[attempt.rule]) in refusals(done, SYSTEM_FILE)
    assert policed.is_untouched()
    (refused,) = policed.audited()
    assert refused["event"] == ("call.refused" if attempt.args[:1] == ("call",) else "plan.refused")
    assert any(line in done.stderr for line in refused["why"] if f"by {SYSTEM_FILE}" in line)
    if attempt.said and attempt.place:
        assert f"{policed.plan}:{SAID_ON}: {place}: " in done.stderr


_VARIABLES = [
    {"XDG_CONFIG_HOME": "/nowhere"},
    {"XDG_CONFIG_DIRS": "{root}/config", "XDG_CONFIG_HOME": ""},
    {"HOME": "{root}/other"},
    {"PADDOCK_POLICY": "{root}/config/paddock/policy.toml"},
    {"AMPLIFIER_MODULE_TOOL_FILESYSTEM": "{root}/copy"},
    {"AMPLIFIER_MODULE_TOOL_FILESYSTEM": "file://{root}/copy"},
    {"AMPLIFIER_MODULE_TOOL_FILESYSTEM": "builtin:tool-filesystem"},
]


def _values(environ: Mapping[str, str]) -> str:
    return " ".join(environ.values())


@pytest.mark.parametrize("environ", _VARIABLES, ids=_values)
def test_no_variable_loosens_what_is_decided(ground: Ground, environ: dict[str, str]) -> None:
    given = _under_a_generous_rule(ground, environ)
    assert ground.judge(environ=given).returncode == 0
    file = ground.rule(_POLICY)
    assert ("tools[0].permissions.net[0]", _LINES["grants.net"]) in refusals(ground.judge(environ=given), file)


@pytest.mark.parametrize(
    "environ",
    [
        pytest.param(_VARIABLES[0], marks=pytest.mark.exhaustive),
        {**_VARIABLES[1], **_VARIABLES[3], **_VARIABLES[4]},
    ],
    ids=_values,
)
def test_no_variable_loosens_the_policy_of_the_machine(policed: Ground, environ: dict[str, str]) -> None:
    given = _under_a_generous_rule(policed, environ)
    without = policed.run("--trust-plan", "--isolation", policed.levels()[0], environ=given)
    assert without.returncode == 0, without.stderr
    policed.rule(_POLICY)
    found = refusals(policed.run("--trust-plan", environ=given), SYSTEM_FILE)
    assert ("tools[0].permissions.net[0]", _LINES["grants.net"]) in found


def _under_a_generous_rule(ground: Ground, environ: Mapping[str, str]) -> dict[str, str]:
    copy_of_a_tool(ground.root / "copy")
    ground.own_rule(_GENEROUS)
    ground.write_plan("permissions: {net: [example.com]}")
    return {name: value.format(root=ground.root) for name, value in environ.items()}


_HOST = """
import asyncio, json, sys
from pathlib import Path
from paddock import Session
from paddock.errors import PolicyRefusedError
from paddock.session.tool_call import ToolCallSession
from paddock.policy.files.policy import Policy
from paddock.policy.owner import Owner
from paddock.policy.files.policy_file import PolicyFile

own, level, policy = sys.argv[1], sys.argv[2], Policy()
if sys.argv[3]:
    policy = Policy((PolicyFile.read(Path(sys.argv[3]), Owner.current({})),))

async def main():
    said = []
    try:
        async with Session(own, policy=policy, trust_plan=True, isolation=level):
            said.append("opened")
    except PolicyRefusedError as error:
        # An ordinary user's tests have the machine's file in a user namespace, where `landlock` is the only level there
        # is. That the minimum refuses it as well is not what is tried here.
        said.append([(one.path, one.rule_file) for one in error.refusals if "minimum_isolation" not in one.rule])
    call = ToolCallSession(
        "tool-filesystem", "read_file", {"file_path": "file"},
        permissions={"read": ["."], "net": ["example.com"]}, isolation=level,
    )
    outcome = await call.run()
    said.append("called" if outcome.error is None else type(outcome.error).__name__)
    print(json.dumps(said))

asyncio.run(main())
"""


@pytest.mark.exhaustive("_GENEROUS")
@pytest.mark.parametrize("own", [pytest.param("", marks=pytest.mark.exhaustive), "_GENEROUS", "_POLICY"])
def test_a_policy_that_an_application_gives_only_narrows_the_machines(policed: Ground, own: str) -> None:
    given = "" if not own else str(policed.own_rule(globals()[own]).rename(policed.root / "application.toml"))
    policed.write_plan("permissions: {net: [example.com]}")
    level = policed.levels()[0]

    def said() -> list[Any]:
        done = policed.python(_HOST, str(policed.plan), level, given)
        assert done.returncode == 0, done.stderr
        told: list[Any] = json.loads(done.stdout)
        return told

    if own == "_POLICY":
        assert said() == [[["tools[0].permissions.net[0]", given]], "called"]
        return
    assert said() == ["opened", "called"]
    policed.rule(_POLICY)
    assert said() == [[["tools[0].permissions.net[0]", SYSTEM_FILE]], "PolicyRefusedError"]


@pytest.mark.exhaustive
def test_what_was_accepted_before_there_was_a_policy_is_held_to_it(policed: Ground) -> None:
    policed.write_plan("permissions: {net: [example.com]}")
    policed.accept()
    assert policed.run("--isolation", policed.levels()[0]).returncode == 0
    policed.rule(_POLICY)
    assert refusals(policed.run(), SYSTEM_FILE) == [("tools[0].permissions.net[0]", _LINES["grants.net"])]


def test_what_a_policy_lets_be_granted_is_had(policed: Ground) -> None:
    if not {"ns", "bwrap"} & {*policed.levels()}:
        pytest.skip(f"only these levels can be had here: {policed.levels()}")
    policed.rule(_POLICY)
    granted = (
        "read: [., out], write: [out], net: [example.org, 'a.example.net:8443'], env: [LANG], run: [cat], "
        "secrets: [KEPT, {name: INJECTED, inject: example.org}], hooks: ['session:start']"
    )
    policed.write_plan(
        f"permissions: {{{granted}}}\n    limits: {{tasks_max: 24}}\n    isolation: {policed.levels()[0]}"
    )
    done = policed.run("--trust-plan")
    assert done.returncode == 0, done.stderr


def test_a_default_above_the_most_there_is_is_lowered_to_it(policed: Ground) -> None:
    policed.rule('[max_limits]\nruntime_max = "300ms"\n')
    level = policed.levels()[0]
    within = policed.paddock(*READ, "--isolation", level, "--json")
    assert within.returncode == 0, within.stderr
    beyond = policed.paddock(*READ, "--isolation", level, "--limit", "runtime_max=301ms", "--json")
    assert refusals(beyond, SYSTEM_FILE) == [("--limit runtime_max", 2)]


def test_a_minimum_that_cannot_be_had_starts_nothing_weaker(policed: Ground) -> None:
    missing = [level for level in ("ns", "bwrap") if level not in policed.levels()]
    if "ns" not in missing:
        pytest.skip(f"the strongest level can be had here: {policed.levels()}")
    policed.rule('minimum_isolation = "ns"\n')
    policed.write_plan("permissions: {}")
    done = policed.run("--trust-plan")
    told = json.loads(done.stdout)
    assert (done.returncode, told["error"]["type"]) == (1, "IsolationUnavailableError")
    assert f"{SYSTEM_FILE}:1: minimum_isolation = ns" in done.stderr and "--isolation" not in done.stderr


_TELLING = """
    found = {}
    for name in ("work/file", "other/file"):
        try:
            found[name] = open(f"{input['root']}/{name}").read()
        except OSError as error:
            found[name] = type(error).__name__
    return ToolResult(output={"found": found, "probe": os.environ.get("PROBE"), "config": config})
"""


def test_a_configuration_grants_nothing_whatever_it_says(ground: Ground, write_module: WriteModule) -> None:
    source = write_module("tool-tell", tool_code("tell", _TELLING))
    config = {
        "permissions": {"read": ["/"], "env": ["PROBE"]},
        "isolation": "none",
        "policy": {"minimum_isolation": "none"},
        "allowed_read_paths": ["/"],
        "working_dir": str(ground.root),
    }
    arguments = json.dumps({"root": str(ground.root)})
    outputs = []
    for permissions in (["--allow-read=."], ["--allow-read=.", "--allow-read=../other", "--allow-env=PROBE"]):
        done = ground.paddock("call", source, "tell", arguments, "--config", json.dumps(config), *permissions, "--json")
        assert done.returncode == 0, done.stderr
        outputs.append(json.loads(done.stdout)["output"])
    assert outputs[1] == {
        "found": {"work/file": "content", "other/file": "another's"},
        "probe": "a probe",
        "config": config,
    }
    assert outputs[0]["found"]["work/file"] == "content"
    assert outputs[0]["found"]["other/file"] in ("FileNotFoundError", "PermissionError")
    assert outputs[0]["probe"] is None


@pytest.mark.parametrize(
    "said",
    [
        "policy: {minimum_isolation: none}",
        "minimum_isolation: none",
        "trust_plan: true",
        "trusted: true",
        "grants: {tool-filesystem: shell}",
        "accepted: true",
    ],
)
def test_nothing_at_the_top_of_a_plan_stands_in_for_accepting_it(ground: Ground, said: str) -> None:
    ground.write_plan("permissions: {read: [../other]}")
    ground.plan.write_text(ground.plan.read_text() + said + "\n")
    assert ground.judge().returncode == 0
    done = ground.judge(trust=False)
    told = json.loads(done.stdout)
    assert (done.returncode, told["error"]["type"]) in [(4, "PolicyRefusedError"), (1, "PlanError")]


def test_a_plan_that_says_it_is_accepted_starts_nothing(ground: Ground) -> None:
    ground.write_plan("permissions: {read: [../other]}")
    ground.plan.write_text(ground.plan.read_text() + "trusted: true\n")
    done = ground.run()
    told = json.loads(done.stdout)
    assert (done.returncode, told["error"]["type"]) in [(4, "PolicyRefusedError"), (1, "PlanError")]
    assert ground.is_untouched()


@pytest.mark.parametrize("policy", [{"minimum_isolation": "ns"}, "minimum_isolation = 'ns'", Path("policy.toml")])
def test_what_is_no_policy_is_refused_with_how_to_make_one(policy: Any) -> None:
    with pytest.raises(TypeError, match=r"has to be a paddock\.Policy, .* `paddock\.Policy\.parse\(text\)`"):
        Session({"session": {"orchestrator": "loop-basic", "context": "context-simple"}}, policy=policy)


def test_a_policy_is_made_of_text_as_readme_says() -> None:
    text = '[[module]]\nmatch = "*"\ngrants = "workspace-read"\n'
    (file,) = Policy.parse(text).files
    assert (file.name, len(file.modules)) == ("the application's policy", 1)
    with pytest.raises(PaddockError, match=r"app\.toml.*nonsense"):
        Policy.parse("nonsense = 1", "app.toml")
