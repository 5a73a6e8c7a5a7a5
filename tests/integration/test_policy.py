"""What an operator's policy does not let be granted is had by nobody, however it is asked for: with the real commands.

The machine's policy is laid where the command looks for it, in a mount namespace of its own; the user's is where
XDG_CONFIG_HOME says. Whatever is refused is first seen to be had where no policy is.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from integration.command_line import nothing_outlives_its_command, paddock
from integration.conftest import WriteModule
from integration.policed_machine import SYSTEM_FOLDER, PolicedMachine, why_not
from paddock import PaddockError, Policy, Session
from paddock.kernel.tool_call import ToolCall
from paddock.plan.loading import load_plan
from paddock.policy import Owner
from paddock.policy.grants_file import GrantsFile
from paddock.policy.trust import Acceptance, with_places

_SYSTEM_FILE = f"{SYSTEM_FOLDER}/policy.toml"
_COMMAND = (sys.executable, "-c", "from paddock.cli import main; main()")
_READ = ("call", "tool-filesystem", "read_file", '{"file_path": "file"}', "--allow-read=.")

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
net = ["example.com", "*.example.net", "*.example.org", "example.org:80", "127.0.0.1:443"]
env = ["*"]
secrets = ["*"]
run = ["*"]
call = ["*"]
hooks = ["*"]
"""
_PLAN = """\
session: {{orchestrator: loop-basic, context: context-simple}}
providers: [{{module: provider-mock}}]
tools:
  - module: tool-filesystem
    {said}
"""
_SAID_ON = 5  # the line of what the plan says of its tool
_LEVELS: list[str] = []  # that can be had on the machine with a policy, once that is known


class Ground:
    """A project with a plan, its user's own files, and what the operator of the machine says."""

    def __init__(self, root: Path, machine: PolicedMachine | None) -> None:
        self.root = root
        self.work = root / "work"
        self.config = root / "config/paddock"
        self.state = root / "state"
        self.system = root / "system"
        self.plan = root / "plan.yaml"
        self._machine = machine
        for folder in (self.work / "out", root / "other", self.config, self.state, self.system):
            folder.mkdir(parents=True)
        (self.work / "file").write_text("content")
        (root / "other/file").write_text("another's")
        (self.work / "link").symlink_to("../other")

    @property
    def environ(self) -> dict[str, str]:
        return {
            "XDG_CONFIG_HOME": str(self.config.parent),
            "XDG_STATE_HOME": str(self.state),
            "LANG": "C.UTF-8",
            "PROBE": "a probe",
            "KEPT": "a key that is kept",
            "INJECTED": "a key that is injected",
        }

    def rule(self, text: str) -> None:
        """Have the operator of the machine write a policy."""
        (self.system / "policy.toml").write_text(text)

    def own_rule(self, text: str) -> Path:
        """Have the user write one."""
        path = self.config / "policy.toml"
        path.write_text(text)
        path.chmod(0o600)
        return path

    def write_plan(self, said: str) -> Path:
        self.plan.write_text(_PLAN.format(said=said), encoding="utf-8")
        return self.plan

    def accept(self) -> None:
        """Have the user accept the plan as it is."""
        plan = with_places(load_plan(self.plan, environ={}), self.work, Owner.current(os.environ))
        Acceptance.accepting(plan, GrantsFile.of_user(self.environ))

    def paddock(self, *args: str, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command in the project, on a machine with the operator's policy if there is one to be had here."""
        environ = {**self.environ, **(environ or {})}
        if self._machine is None:
            return paddock(*args, cwd=self.work, environ=environ)
        return self._machine.run(self.system, [*_COMMAND, *args], folder=self.work, environ=environ)

    def python(self, code: str, *args: str) -> subprocess.CompletedProcess[str]:
        """Run a program in the project, on a machine with the operator's policy."""
        assert self._machine is not None
        command = [sys.executable, "-c", code, *args]
        return self._machine.run(self.system, command, folder=self.work, environ=self.environ)

    def run(self, *options: str, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return self.paddock("run", str(self.plan), "hello", *options, "--json", environ=environ)

    def levels(self) -> list[str]:
        """Return the levels that can be had here, the strongest first."""
        if not _LEVELS:
            told = json.loads(self.paddock("doctor", "--json").stdout)
            _LEVELS.extend(found["level"] for found in told["levels"] if found["reachable"])
        return _LEVELS

    def audited(self) -> list[dict[str, Any]]:
        return [json.loads(line) for log in self.state.rglob("audit.jsonl") for line in log.read_text().splitlines()]

    def is_untouched(self) -> bool:
        """Whether no session ever began, by the account that is kept of them."""
        began = [one for one in self.audited() if one["event"] not in ("plan.refused", "call.refused")]
        return not began and not list(self.state.glob("paddock/sessions/*"))


@pytest.fixture(autouse=True)
def _nothing_outlives_its_command(
    nothing_is_left_behind: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    with nothing_outlives_its_command(tmp_path / "scratch", monkeypatch):
        yield


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    """A ground on this machine as it is."""
    return Ground(tmp_path.resolve(), None)


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> PolicedMachine:
    if why_not():
        pytest.skip(why_not())
    return PolicedMachine(tmp_path_factory.getbasetemp().resolve())


@pytest.fixture
def policed(tmp_path: Path, machine: PolicedMachine) -> Ground:
    """A ground on a machine whose operator may write a policy."""
    return Ground(tmp_path.resolve(), machine)


def refusals(done: subprocess.CompletedProcess[str], file: str | Path) -> list[tuple[str, int | None]]:
    """Return place and rule's line of each thing that rules of a file refused; both outputs have to say the same."""
    told = json.loads(done.stdout)
    assert (done.returncode, told["error"]["type"]) == (4, "PolicyRefusedError"), done.stderr
    assert not told.get("modules")
    assert not [line for line in done.stderr.splitlines() if line.startswith("isolation: ") or "started" in line]
    found = []
    for problem in told["error"]["problems"]:
        where = f"{problem['file']}:{problem['line']}: " if problem["line"] else ""
        place = f"{problem['path']}: " if problem["path"] else ""
        assert f"{where}{place}{problem['message']}" in done.stderr
        assert problem["hint"] and problem["hint"] in done.stderr
        if "rule" in problem and problem["rule"]["file"] == str(file):
            rule = problem["rule"]
            assert f"  by {rule['file']}:{rule['line']}: {rule['text']}" in done.stderr
            found.append((problem["path"], rule["line"]))
    return found


# -- whoever asks --------------------------------------------------------------------------


@dataclass(frozen=True)
class Attempt:
    """What is asked for and how, with the rule that is against it; `place` is where it was asked for."""

    rule: str
    place: str
    said: str = ""
    args: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)

    def make(self, ground: Ground, *options: str) -> subprocess.CompletedProcess[str]:
        if self.args[:1] == ("call",):
            return ground.paddock(*self.args, *options, "--json", environ=self.environ)
        ground.write_plan(self.said or "permissions: {}")
        return ground.run("--trust-plan", *self.args, *options, environ=self.environ)


def _asks(family: str, value: str) -> Attempt:
    return Attempt(f"grants.{family}", f"permissions.{family}[0]", f"permissions: {{{family}: [{value}]}}")


def _calls(rule: str, place: str, *options: str) -> Attempt:
    return Attempt(rule, place, args=(*_READ, *options))


_ATTEMPTS = [
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
    Attempt("minimum_isolation", "isolation", "isolation: landlock"),
    Attempt("minimum_isolation", "isolation", "isolation: none"),
    Attempt("tasks_max", "limits.tasks_max", "limits: {tasks_max: 25}"),
    Attempt("grants.write", "", "", ("--grant", "tool-filesystem=workspace")),
    Attempt("grants.run", "", "permissions: {read: [.]}", ("--grant", "tool-filesystem=shell")),
    Attempt("minimum_isolation", "", "", ("--isolation", "landlock")),
    Attempt("minimum_isolation", "", "", ("--isolation", "none")),
    _calls("grants.read", "--allow-read", "--allow-read=../other"),
    _calls("grants.write", "--allow-write", "--allow-write=."),
    _calls("grants.net", "--allow-net", "--allow-net=example.com"),
    _calls("grants.env", "--allow-env", "--allow-env=PROBE"),
    _calls("grants.secrets", "--allow-secrets", "--allow-secrets=PROBE"),
    _calls("grants.run", "--allow-run", "--allow-run=*"),
    _calls("grants.call", "--allow-call", "--allow-call=tools"),
    _calls("grants.hooks", "--allow-hooks", "--allow-hooks=tool:pre"),
    _calls("tasks_max", "--limit tasks_max", "--limit", "tasks_max=25"),
    _calls("minimum_isolation", "", "--isolation", "none"),
]


def _name(attempt: Attempt) -> str:
    return " ".join(attempt.args[4:] if attempt.args[:1] == ("call",) else (attempt.said, *attempt.args)).strip()


@pytest.mark.parametrize("attempt", _ATTEMPTS, ids=_name)
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
    assert (place, _LINES[attempt.rule]) in refusals(done, _SYSTEM_FILE)
    assert policed.is_untouched()
    (refused,) = policed.audited()
    assert refused["event"] == ("call.refused" if attempt.args[:1] == ("call",) else "plan.refused")
    assert any(line in done.stderr for line in refused["why"] if f"by {_SYSTEM_FILE}" in line)
    if attempt.said and attempt.place:
        assert f"{policed.plan}:{_SAID_ON}: {place}: " in done.stderr


@pytest.mark.parametrize(
    "environ",
    [
        {"XDG_CONFIG_HOME": "/nowhere"},
        {"XDG_CONFIG_DIRS": "{root}/config", "XDG_CONFIG_HOME": ""},
        {"HOME": "{root}/other"},
        {"PADDOCK_POLICY": "{root}/config/paddock/policy.toml"},
        {"AMPLIFIER_MODULE_TOOL_FILESYSTEM": "{root}/copy"},
        {"AMPLIFIER_MODULE_TOOL_FILESYSTEM": "file://{root}/copy"},
        {"AMPLIFIER_MODULE_TOOL_FILESYSTEM": "builtin:tool-filesystem"},
    ],
    ids=lambda environ: " ".join(environ.values()),
)
def test_no_variable_loosens_the_policy_of_the_machine(policed: Ground, environ: dict[str, str]) -> None:
    _copy_of_a_tool(policed.root / "copy")
    policed.own_rule(_GENEROUS)
    policed.write_plan("permissions: {net: [example.com]}")
    given = {name: value.format(root=policed.root) for name, value in environ.items()}
    without = policed.run("--trust-plan", "--isolation", policed.levels()[0], environ=given)
    assert without.returncode == 0, without.stderr
    policed.rule(_POLICY)
    found = refusals(policed.run("--trust-plan", environ=given), _SYSTEM_FILE)
    assert ("tools[0].permissions.net[0]", _LINES["grants.net"]) in found


_HOST = """
import asyncio, json, sys
from pathlib import Path
from paddock import Session
from paddock.errors import PolicyRefusedError
from paddock.kernel.tool_call import ToolCall
from paddock.policy import Policy
from paddock.policy.owner import Owner
from paddock.policy.policy_file import PolicyFile

own, level, policy = sys.argv[1], sys.argv[2], Policy()
if sys.argv[3]:
    policy = Policy((PolicyFile.read(Path(sys.argv[3]), Owner.current({})),))

async def main():
    said = []
    try:
        async with Session(own, policy=policy, trust_plan=True, isolation=level):
            said.append("opened")
    except PolicyRefusedError as error:
        said.append([(one.path, one.rule_file) for one in error.refusals])
    call = ToolCall(
        "tool-filesystem", "read_file", {"file_path": "file"}, policy=policy,
        permissions={"read": ["."], "net": ["example.com"]}, isolation=level,
    )
    outcome = await call.run()
    said.append("called" if outcome.error is None else type(outcome.error).__name__)
    print(json.dumps(said))

asyncio.run(main())
"""


@pytest.mark.parametrize("own", ["", "_GENEROUS", "_POLICY"])
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
        assert said() == [[["tools[0].permissions.net[0]", given]], "PolicyRefusedError"]
        return
    assert said() == ["opened", "called"]
    policed.rule(_POLICY)
    assert said() == [[["tools[0].permissions.net[0]", _SYSTEM_FILE]], "PolicyRefusedError"]


def test_what_was_accepted_before_there_was_a_policy_is_held_to_it(policed: Ground) -> None:
    policed.write_plan("permissions: {net: [example.com]}")
    policed.accept()
    assert policed.run("--isolation", policed.levels()[0]).returncode == 0
    policed.rule(_POLICY)
    assert refusals(policed.run(), _SYSTEM_FILE) == [("tools[0].permissions.net[0]", _LINES["grants.net"])]


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
    within = policed.paddock(*_READ, "--isolation", level, "--json")
    assert within.returncode == 0, within.stderr
    beyond = policed.paddock(*_READ, "--isolation", level, "--limit", "runtime_max=301ms", "--json")
    assert refusals(beyond, _SYSTEM_FILE) == [("--limit runtime_max", 2)]


def test_a_minimum_that_cannot_be_had_starts_nothing_weaker(policed: Ground) -> None:
    missing = [level for level in ("ns", "bwrap") if level not in policed.levels()]
    if "ns" not in missing:
        pytest.skip(f"the strongest level can be had here: {policed.levels()}")
    policed.rule('minimum_isolation = "ns"\n')
    policed.write_plan("permissions: {}")
    done = policed.run("--trust-plan")
    told = json.loads(done.stdout)
    assert (done.returncode, told["error"]["type"]) == (1, "IsolationUnavailableError")
    assert f"{_SYSTEM_FILE}:1: minimum_isolation = ns" in done.stderr and "--isolation" not in done.stderr


_TELLING = """
    import os

    from amplifier_core import ToolResult

    class Tell:
        name = "tell"
        description = "tells what it finds"

        def __init__(self, config):
            self.config = config

        async def execute(self, input):
            found = {}
            for name in ("work/file", "other/file"):
                try:
                    found[name] = open(f"{input['root']}/{name}").read()
                except OSError as error:
                    found[name] = type(error).__name__
            return ToolResult(output={"found": found, "probe": os.environ.get("PROBE"), "config": self.config})

    async def mount(coordinator, config):
        await coordinator.mount("tools", Tell(config))
"""


def test_a_configuration_grants_nothing_whatever_it_says(ground: Ground, write_module: WriteModule) -> None:
    source = write_module("tool-tell", _TELLING)
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
    done = ground.run()
    told = json.loads(done.stdout)
    assert (done.returncode, told["error"]["type"]) in [(4, "PolicyRefusedError"), (1, "PlanError")]
    assert ground.is_untouched()


# -- wherever a module comes from ----------------------------------------------------------


def _copy_of_a_tool(folder: Path) -> None:
    found = next(path for path in Path(__file__).parents[2].glob("modules/tool-filesystem"))
    shutil.copytree(found, folder)


@pytest.fixture
def spelled(ground: Ground) -> Callable[[str], str]:
    """Lay a module in the folder `modules/tool-x`, with links to it, and return a source as it is spelled."""
    folder = ground.root / "modules/tool-x"
    _copy_of_a_tool(folder)
    (ground.root / "by-link").symlink_to("modules/tool-x")
    (ground.root / "by-parent").symlink_to(ground.root / "modules")
    (ground.root / "twice").symlink_to("by-parent/tool-x")
    return lambda text: text.format(root=ground.root, encoded=str(folder).replace("tool-x", "%74ool%2Dx"))


_SPELLINGS = [
    "{root}/modules/tool-x",
    "./modules/tool-x",
    "./modules/../modules/./tool-x/",
    "/{root}/modules//tool-x",
    "{root}/by-link",
    "./by-link",
    "{root}/by-parent/tool-x",
    "./twice",
    "file://{root}/modules/tool-x",
    "file://localhost{root}/modules/tool-x/",
    "file://{encoded}",
    "file://{root}/by-link",
    "file://{root}/modules#subdirectory=tool-x",
    "file://{root}#subdirectory=by-link",
]


def _ways() -> Iterator[tuple[str, str]]:
    for index, spelling in enumerate(_SPELLINGS):
        yield ("plan", "variable", "call")[index % 3], spelling  # what is done with them is one function's work


@pytest.mark.parametrize(("way", "spelling"), [*_ways()])
def test_a_rule_about_a_folder_holds_for_it_however_it_is_spelled(
    ground: Ground, spelled: Callable[[str], str], spelling: str, way: str
) -> None:
    source, environ = spelled(spelling), {}
    # What is relative is so to the plan, or else to the folder that the command is given in.
    given = source.replace("./", "../", 1) if source.startswith("./") else source
    ground.write_plan(f"source: {source}\n    permissions: {{env: [A=b]}}")
    if way == "variable":
        ground.write_plan("permissions: {env: [A=b]}")
        environ = {"AMPLIFIER_MODULE_TOOL_FILESYSTEM": given}

    def ask() -> subprocess.CompletedProcess[str]:
        if way != "call":
            return ground.run("--trust-plan", environ=environ)
        return ground.paddock("call", given, *_READ[2:], "--allow-env=A=b", "--json")

    policy = ground.own_rule(f'[[module]]\nmatch = "{ground.root}/elsewhere/*"\ngrants.env = []\n')
    without = ask()
    assert without.returncode == 0, without.stderr
    ground.own_rule(f'[[module]]\nmatch = "{ground.root}/modules/*"\ngrants.env = []\n')
    place = "--allow-env" if way == "call" else "tools[0].permissions.env[0]"
    assert refusals(ask(), policy) == [(place, 3)]


@pytest.mark.parametrize(
    "match", ["{root}/modules/tool-x", "{root}/by-link", "file://{root}/by-parent/tool-x", "{root}/MODULES/*", "/*"]
)
def test_a_rule_about_a_folder_may_be_spelled_in_many_ways_as_well(
    ground: Ground, spelled: Callable[[str], str], match: str
) -> None:
    ground.write_plan("source: ./modules/tool-x\n    permissions: {env: [A=b]}")
    policy = ground.own_rule(f'[[module]]\nmatch = "{spelled(match)}"\ngrants.env = []\n')
    assert refusals(ground.run("--trust-plan"), policy) == [("tools[0].permissions.env[0]", 3)]


def test_a_rule_about_what_is_shipped_holds_for_it_under_another_name(ground: Ground) -> None:
    policy = ground.own_rule('[[module]]\nmatch = "builtin:tool-filesystem"\ngrants = "isolated"\n')
    plan = _PLAN.format(said="permissions: {read: [.]}").replace("tool-filesystem", "tool-mine")
    for said in ("source: builtin:tool-filesystem", "source: builtin:tool-filesystem\n    instance_id: other"):
        ground.plan.write_text(plan.replace("    permissions", f"    {said}\n    permissions"))
        assert [place for place, _ in refusals(ground.run(), policy)] == ["tools[0].permissions.read[0]"]


@pytest.mark.parametrize(
    "source",
    [
        "git+https://git.example.com/org/tool-x@main",
        "git+https://GIT.example.COM/Org/Tool-X.git",
        "git+https://git.example.com:443/org/tool-x",
        "git+https://user@git.example.com/org/tool-x.git",
        "git+https://git.example.com./org/tool-x",
        "git+https://git.example.com//org/%74ool-x",
        "git+ssh://git@git.example.com/org/tool-x",
        "git+http://git.example.com:8080/org/tool-x",
    ],
)
def test_a_repository_that_no_rule_lets_be_used_starts_nothing_however_it_is_spelled(
    ground: Ground, source: str
) -> None:
    ground.own_rule('git_hosts = ["git.example.org"]\nrequire_pinned = true\n')
    ground.write_plan(f"source: {source}")
    done = ground.run("--trust-plan")
    assert done.returncode in (1, 4)
    assert not json.loads(done.stdout)["modules"] and ground.is_untouched()


def test_what_may_be_a_password_in_a_source_is_not_shown(ground: Ground) -> None:
    ground.write_plan("source: git+https://user:password@git.example.com/org/tool-x.git")
    done = ground.run("--trust-plan")
    assert "git.example.com/org/tool-x" in done.stderr
    assert "user:password" not in done.stdout + done.stderr


# -- what cannot be relied on --------------------------------------------------------------


def _refused_file(done: subprocess.CompletedProcess[str], file: str | Path) -> Mapping[str, Any]:
    """Return the one thing that is wrong with a file of the operator's, which both outputs have to tell."""
    told = json.loads(done.stdout)
    assert (done.returncode, told["error"]["type"]) == (4, "PolicyFileError"), done.stderr
    (problem,) = told["error"]["problems"]
    assert problem["file"] == str(file) and problem["hint"]
    assert problem["message"] in done.stderr and f"hint: {problem['hint']}" in done.stderr
    found: Mapping[str, Any] = problem
    return found


def _be_writable_by_all(file: Path) -> None:
    file.chmod(0o666)


def _be_writable_by_the_group(file: Path) -> None:
    file.chmod(0o664)


def _lie_where_all_may_write(file: Path) -> None:
    file.parent.chmod(0o777)


def _be_a_link_to_what_all_may_write(file: Path) -> None:
    target = file.parent / "target.toml"
    file.rename(target)
    target.chmod(0o666)
    file.symlink_to(target.name)


def _be_a_link_to_nothing(file: Path) -> None:
    file.unlink()
    file.symlink_to("nothing.toml")


def _be_a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def _be_a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o600)


def _be_no_text(file: Path) -> None:
    file.write_bytes(b"\xff\xfe\x00")


@pytest.mark.parametrize(
    ("spoil", "said", "fix"),
    [
        (_be_writable_by_all, "can be written by others: by everybody (mode 0666)", "chmod go-w {file}"),
        (_be_writable_by_the_group, "can be written by others: by its group (mode 0664)", "chmod go-w {file}"),
        (_lie_where_all_may_write, "somebody else could put another `policy.toml`", "chmod go-w {folder}"),
        (_be_a_link_to_what_all_may_write, "can be written by others", "chmod go-w"),
        (_be_a_link_to_nothing, "which does not exist", "mend or remove the link"),
        (_be_a_folder, "is not a regular file", "put a file in its place"),
        (_be_a_pipe, "is not a regular file", "put a file in its place"),
        (_be_no_text, "is not UTF-8 text", "save it as UTF-8"),
    ],
    ids=lambda value: value.__name__.removeprefix("_") if callable(value) else "",
)
@pytest.mark.parametrize("whose", ["the user's", "the machine's"])
def test_a_policy_that_somebody_else_may_have_written_is_refused_with_the_fix(
    policed: Ground, whose: str, spoil: Callable[[Path], None], said: str, fix: str
) -> None:
    policed.write_plan("permissions: {}")
    level = policed.levels()[0]
    text = 'git_hosts = ["git.example.org"]\n'
    file = policed.own_rule(text)
    if whose == "the machine's":
        file.unlink()
        policed.rule(text)
        file = policed.system / "policy.toml"
    relied_on = policed.run("--isolation", level)
    assert relied_on.returncode == 0, relied_on.stderr
    shutil.rmtree(policed.state / "paddock")

    spoil(file)
    shown = Path(_SYSTEM_FILE) if whose == "the machine's" else file
    for done in (policed.run("--isolation", level), policed.paddock(*_READ, "--isolation", level, "--json")):
        problem = _refused_file(done, shown)
        assert said in problem["message"]
        assert fix.format(file=shown, folder=shown.parent) in problem["hint"]
    assert policed.is_untouched()


@pytest.mark.parametrize("name", ["policy.toml", "grants.toml", "secrets.toml"])
def test_each_file_of_the_operators_is_the_operators_alone(ground: Ground, name: str) -> None:
    ground.write_plan("permissions: {}")
    (ground.config / name).write_text("")
    (ground.config / name).chmod(0o646)
    problem = _refused_file(ground.run(), ground.config / name)
    assert "by everybody" in problem["message"] and f"chmod go-w {ground.config / name}" in problem["hint"]


@pytest.mark.parametrize(
    ("text", "line", "said", "fix"),
    [
        ('minimum_isolaton = "ns"', 1, "minimum_isolaton", "did you mean `minimum_isolation`?"),
        ('minimum_isolation = "none"', 1, "`none`", "leave it out"),
        ('\n[[module]]\nmatch = "*"\ngrant = "isolated"', 4, "grant", "did you mean `grants`?"),
        ('\n[[module]]\nmatch = "*"\ngrants = {net = ["*"]}', 4, "`*`", ""),
        ('[max_limits]\nmemory_max = "lots"', 2, "lots", ""),
        ("minimum_isolation = ", 1, "not TOML", ""),
        (
            '[[module]]\nmatch = "*"\ngrants = "isolated"\n[[module]]\nmatch = "*"\ngrants = "shell"',
            5,
            "`*` has rules on line 2 already",
            "put them together",
        ),
        (
            'minimum_isolation = "ns"\n[[module]]\nmatch = "*"\nlevel = "landlock"',
            4,
            "`landlock` is weaker than minimum_isolation = `ns` on line 1",
            "leave it out",
        ),
        (
            '[max_limits]\ntasks_max = 8\n[[module]]\nmatch = "*"\nlimits = {tasks_max = 9}',
            5,
            "is more than max_limits.tasks_max = 8 on line 2",
            "leave it out, or raise that one",
        ),
    ],
)
def test_rules_that_are_not_understood_or_contradict_each_other_are_told_with_their_lines(
    ground: Ground, text: str, line: int, said: str, fix: str
) -> None:
    file = ground.own_rule(text + "\n")
    ground.write_plan("permissions: {}")
    for done in (ground.run("--trust-plan"), ground.paddock(*_READ, "--json")):
        told = json.loads(done.stdout)
        assert (done.returncode, told["error"]["type"]) == (4, "PolicyFileError"), done.stderr
        (problem,) = told["error"]["problems"]
        assert (problem["file"], problem["line"]) == (str(file), line)
        assert said in f"{problem['path']}: {problem['message']}" and fix in problem["hint"]
        assert f"{file}:{line}: " in done.stderr and fix in done.stderr
    assert ground.is_untouched()


# -- what a plan cannot have ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "place", "message", "fix"),
    [
        ("permissions: {net: ['*']}", "permissions.net", "`*`", "host"),
        ("permissions: {net: ['https://example.com/']}", "permissions.net", "https://example.com/", ""),
        ("config: {key: '${PROBE}'}", "config.key", "is a secret that this entry is not granted", "secrets: [PROBE]"),
        (
            "{permissions: {secrets: [UNSET]}, config: {a: ['${UNSET}']}}",
            "config.a[0]",
            "environment variable `UNSET` is not set",
            "export UNSET=…",
        ),
        (
            "permissions: {net: [example.com], secrets: [{name: UNSET, inject: host}]}",
            "permissions.secrets[0]",
            "secret `UNSET` has no value",
            "export UNSET=…",
        ),
        (
            "permissions: {net: [example.com, example.org], secrets: [{name: PROBE, inject: host}]}",
            "permissions.secrets[0]",
            "means the only host of `net`, and that has several",
            "name the host",
        ),
        (
            "permissions: {net: [example.com], secrets: [{name: PROBE, inject: example.org}]}",
            "permissions.secrets[0]",
            "where no `net` grant lets the module connect",
            'net: ["example.org:443"]',
        ),
        (
            "permissions: {net: [example.com], secrets: [PROBE, {name: PROBE, inject: host}]}",
            "permissions.secrets[1]",
            "is granted twice, and not alike",
            "keep one of the two",
        ),
        ("permissions: {env: [A=b, A=c]}", "permissions.env[1]", "is granted twice", "keep one of the two"),
        (
            "permissions: {net: [example.com], env: [PROBE], secrets: [{name: PROBE, inject: host}]}",
            "permissions.env[0]",
            "would show the module the secret `PROBE`",
            "PROBE=${PROBE}",
        ),
        ("permissions: {env: ['A=${PROBE}']}", "permissions.env[0]", "is a secret that this entry is not", "PROBE"),
    ],
    ids=lambda value: value if "{" in value else "",
)
def test_what_a_plan_cannot_have_is_told_with_line_and_fix_before_anything_starts(
    ground: Ground, said: str, place: str, message: str, fix: str
) -> None:
    if said.startswith("{"):
        said = "permissions: {secrets: [UNSET]}\n    config: {a: ['${UNSET}']}"
    ground.write_plan(said.replace("${", "${{").replace("${{", "${"))
    done = ground.run("--trust-plan")
    told = json.loads(done.stdout)
    assert done.returncode == 1, done.stderr
    (problem,) = [one for one in told["error"]["problems"] if one["path"] == f"tools[0].{place}"]
    assert problem["file"] == str(ground.plan)
    assert problem["line"] == _SAID_ON + said[: said.index(place.split(".")[0])].count("\n")
    assert message in problem["message"] and fix in problem["hint"] and problem["hint"]
    assert f"{ground.plan}:{problem['line']}: tools[0].{place}: {problem['message']}" in done.stderr
    assert problem["hint"] in done.stderr
    assert "a probe" not in done.stdout + done.stderr
    assert not told["modules"] and ground.is_untouched()


def test_a_grant_above_the_users_own_cap_is_told_with_rule_file_line_and_fix(ground: Ground) -> None:
    policy = ground.own_rule('[[module]]\nmatch = "builtin:*"\n\n[module.grants]\nnet = ["example.org"]\n')
    ground.write_plan("permissions: {net: [example.org, example.com]}")
    done = ground.run("--trust-plan")
    assert refusals(done, policy) == [("tools[0].permissions.net[1]", 5)]
    assert f"{ground.plan}:{_SAID_ON}: tools[0].permissions.net[1]: net `example.com` is more than" in done.stderr
    (problem,) = json.loads(done.stdout)["error"]["problems"]
    assert problem["hint"].endswith(str(policy)) and "net" in problem["rule"]["text"]
    assert ground.is_untouched()


def test_mistakes_of_a_plan_are_told_along_with_what_a_policy_refuses(ground: Ground) -> None:
    policy = ground.own_rule('[[module]]\nmatch = "*"\ngrants = {net = []}\n')
    ground.write_plan("permissions: {net: [example.com], env: [A=b, A=c]}")
    done = ground.run("--trust-plan")
    assert refusals(done, policy) == [("tools[0].permissions.net[0]", 3)]
    told = json.loads(done.stdout)["error"]["problems"]
    assert [one["path"] for one in told if "rule" not in one] == ["tools[0].permissions.env[1]"]


@pytest.mark.parametrize(
    ("written", "said", "fix"),
    [
        ('file = "{config}/missing"', "it does not exist", "make it"),
        ('command = ["false"]', "`false`", ""),
        ('env = "UNSET"', "it is not set", "export UNSET=…"),
    ],
)
def test_a_secret_that_cannot_be_had_is_told_with_its_place_where_it_was_looked_for_and_the_fix(
    ground: Ground, written: str, said: str, fix: str
) -> None:
    secrets = ground.config / "secrets.toml"
    secrets.write_text(f"\n[KEY]\n{written.format(config=ground.config)}\n")
    secrets.chmod(0o600)
    ground.write_plan("permissions: {secrets: [KEY]}\n    config: {key: '${KEY}'}")
    done = ground.run("--trust-plan")
    told = json.loads(done.stdout)
    assert done.returncode == 1 and ground.is_untouched()
    assert f"{secrets}:2" in done.stderr and said in done.stderr and fix in done.stderr
    (problem,) = told["error"]["problems"]
    assert f"{secrets}:2" in problem["message"] and said in problem["message"] and fix in problem["hint"]


def test_a_lookalike_host_is_marked_where_a_policy_refuses_it(ground: Ground) -> None:
    ground.own_rule('[[module]]\nmatch = "*"\ngrants = "workspace-read"\n')
    ground.write_plan("permissions: {net: [xn--pi-6kc.example.com]}")
    done = ground.run("--trust-plan")
    assert done.returncode == 4
    assert "tools[0].permissions.net[0]: [NOT AS IT LOOKS: `xn--pi-6kc` in a host name is `\u0430pi`" in done.stderr


@pytest.mark.parametrize(
    "kind",
    [
        partial(Session, {"session": {"orchestrator": "loop-basic", "context": "context-simple"}}),
        partial(ToolCall, "tool-x", "x", {}),
    ],
    ids=["session", "call"],
)
@pytest.mark.parametrize("policy", [{"minimum_isolation": "ns"}, "minimum_isolation = 'ns'", Path("policy.toml")])
def test_what_is_no_policy_is_refused_with_how_to_make_one(kind: Callable[..., object], policy: object) -> None:
    with pytest.raises(TypeError, match=r"has to be a paddock\.Policy, .* `paddock\.Policy\.parse\(text\)`"):
        kind(policy=policy)


def test_a_policy_is_made_of_text_as_readme_says() -> None:
    text = '[[module]]\nmatch = "*"\ngrants = "workspace-read"\n'
    (file,) = Policy.parse(text).files
    assert (file.name, len(file.modules)) == ("the application's policy", 1)
    with pytest.raises(PaddockError, match=r"app\.toml.*nonsense"):
        Policy.parse("nonsense = 1", "app.toml")
