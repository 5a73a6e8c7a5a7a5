"""`paddock why` on real sessions: what it says a module may is what the module finds when it tries."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from integration.command_line import paddock, reachable_level, require_level
from integration.conftest import DIRECT, OpenSession, WriteModule
from integration.probe import entry_of, tool_code
from paddock import Session
from paddock.isolation.denials.explain import Family, explain
from paddock.isolation.record import SessionRecords
from paddock.plan.load import load_plan
from paddock.plan.permissions import Permissions
from paddock.policy.files.accepted_plans import AcceptedGrant
from paddock.policy.files.grants import GrantsFile
from paddock.policy.trust import PlanAcceptance
from paddock.session.preview import located_paths
from paddock_sandbox.profile import IsolationLevel

_TRY = tool_code(
    "try",
    """
    import socket, subprocess
    def read(target):
        if os.path.isdir(target):
            os.listdir(target)
        else:
            open(target, "rb").close()

    def write(target):
        open(target, "ab").close()

    def run(target):
        subprocess.run([target, "-c", "exit"], check=True, capture_output=True)

    def env(target):
        os.environ[target]

    try:
        {"read": read, "write": write, "run": run, "env": env}[input["kind"]](input["target"])
    except Exception as error:
        return ToolResult(output=repr(error), success=False)
    return ToolResult(output="done")
    """,
)

# Each is tried for real and asked about; what the two say has to be the same.
_ACTS: list[tuple[Family, str]] = [
    ("read", "open/a.txt"),
    ("read", "open"),
    ("read", "secret.txt"),
    ("read", "{root}/outside.txt"),
    ("read", "link-out/outside.txt"),
    ("read", "open/link"),
    ("read", "{code}/amplifier_module_tool_try/__init__.py"),
    ("read", "/etc/shadow"),
    ("read", "/dev/null"),
    ("read", "{home}/key"),
    ("write", "open/a.txt"),
    ("write", "open/new.txt"),
    ("write", "open/.git/hooks/pre-commit"),
    ("write", "half/a.txt"),
    ("write", "secret.txt"),
    ("write", "{code}/new.py"),
    ("write", "/usr/lib/new"),
    ("run", "sh"),
    ("run", "/bin/sh"),
    ("run", "bash"),
    ("run", "./half/tool"),
    ("run", "./half/other"),
    ("run", "{root}/outside.txt"),
    ("env", "EDITOR"),
    ("env", "PAGER"),
    ("env", "HOME"),
]


class Scene:
    def __init__(self, tmp_path: Path) -> None:
        self.root = tmp_path
        self.work = tmp_path / "work"
        for folder in ("open/.git/hooks", "open/.git/objects", "open/.git/refs", "half"):
            (self.work / folder).mkdir(parents=True)
        for file in ("open/a.txt", "half/a.txt", "secret.txt", "open/.git/HEAD", "open/.git/hooks/pre-commit"):
            (self.work / file).touch()
        for name in ("tool", "other"):
            (self.work / "half" / name).write_text("#!/bin/sh\n")
            (self.work / "half" / name).chmod(0o755)
        (tmp_path / "outside.txt").touch()
        (Path.home() / "key").touch()
        (self.work / "link-out").symlink_to(tmp_path)
        (self.work / "open/link").symlink_to("a.txt")


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@asynccontextmanager
async def trying(
    level: str, open_session: OpenSession
) -> AsyncIterator[tuple[Session, Callable[[str, str], Awaitable[bool]]]]:
    """Open a session at a level, with a tool that tries acts and tells whether it could."""
    tool = entry_of(
        "tool-try",
        _TRY,
        permissions={"read": ["half"], "write": ["open"], "run": ["sh", "half/tool"], "env": ["EDITOR"]},
    )
    loop = entry_of("loop-direct", DIRECT, permissions={})
    context = {"module": "context-simple", "permissions": {}}
    async with open_session(tools=[tool], isolation=level, orchestrator=loop, context=context) as session:

        async def tries(kind: str, target: str) -> bool:
            prompt = {"tool": "try", "input": {"kind": kind, "target": target}}
            return bool(json.loads(await session.execute(json.dumps(prompt)))["success"])

        yield session, tries


@pytest.mark.exhaustive("landlock")
@pytest.mark.parametrize("level", ["ns", "bwrap", "landlock"])
async def test_what_is_explained_is_what_a_module_finds(
    level: IsolationLevel,
    scene: Scene,
    open_session: OpenSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    require_level(level)
    if shutil.which("bash", path="/usr/bin:/bin") is None:
        pytest.skip("there is no bash in /usr/bin or /bin")
    monkeypatch.setenv("EDITOR", "vi")
    monkeypatch.setenv("PAGER", "less")
    differing = []
    async with trying(level, open_session) as (session, tries):
        record = SessionRecords().find(session.session_id, Path("/"))
        module = record.module("tool-try")
        assert module is not None
        with located_paths() as runtime:
            subject = record.subject(module, runtime.installation)
        places = {"root": scene.root, "home": Path.home(), "code": module.code.root}
        for family, written in _ACTS:
            target = written.format(**places)
            told = explain(subject, family, target)
            could = await tries(family, target)
            if told.allowed != could:
                differing.append(f"{family} {target}: {told}, and the module {'could' if could else 'could not'}")
        assert not differing, "\n".join(differing)


async def test_a_session_is_explained_while_it_runs_and_once_it_has_ended(
    scene: Scene, open_session: OpenSession
) -> None:
    async with trying(reachable_level(), open_session) as (session, _):
        done = await anyio.to_thread.run_sync(lambda: paddock("why", "tool-try", "read", "half/a.txt", cwd=scene.work))
        assert done.returncode == 0 and "has not ended" in done.stdout, done.stderr
    done = paddock("why", "tool-try", "read", "secret.txt", "--session", session.session_id, "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 4 and told["session"]["ended"] is not None
    line = 'permissions: {read: ["half", "./secret.txt"], write: ["open"], env: ["EDITOR"], run: ["sh", "half/tool"]}'
    assert told["grant"] == line
    elsewhere = paddock("why", "tool-try", "read", "secret.txt", "-C", str(scene.root))
    assert elsewhere.returncode == 1 and f"`-C {scene.work}`" in elsewhere.stderr


# -- plans ---------------------------------------------------------------------------------


@pytest.fixture
def plan(scene: Scene, write_module: WriteModule) -> Path:
    write_module("tool-try", _TRY)
    path = scene.root / "plan.yaml"
    path.write_text(
        "session: {orchestrator: loop-basic, context: context-simple}\n"
        "providers:\n"
        "  - module: provider-mock\n"
        "tools:\n"
        "  - module: tool-try\n"
        "    source: ./amplifier-module-tool-try\n"
        "    permissions: {read: [half]}\n"
    )
    return path


def test_a_plan_is_explained_without_being_run(scene: Scene, plan: Path) -> None:
    allowed = paddock("why", "tool-try", "read", "half/a.txt", "--plan", str(plan), cwd=scene.work)
    assert allowed.returncode == 0, allowed.stderr
    assert "which was read and not run" in " ".join(allowed.stdout.split())  # in lines as long as the path leaves them
    refused = paddock("why", "tool-try", "write", "half/a.txt", "--plan", str(plan), cwd=scene.work)
    assert refused.returncode == 4
    assert f"tools[0] at {plan}:7" in refused.stdout
    assert refused.stdout.splitlines()[-1] == '  permissions: {read: ["half"], write: ["./half/a.txt"]}'
    assert not (Path.home() / ".local/state/paddock/sessions").exists() or not SessionRecords().all()


def test_the_line_that_is_told_does_allow_it(scene: Scene, plan: Path) -> None:
    asked = ("why", "tool-try", "read", "secret.txt", "--plan", str(plan), "--json")
    told = json.loads(paddock(*asked, cwd=scene.work).stdout)
    assert told["allowed"] is False and told["line"] == 7
    plan.write_text(plan.read_text().replace("{read: [half]}", told["grant"].removeprefix("permissions: ")))
    assert json.loads(paddock(*asked, cwd=scene.work).stdout)["allowed"] is True


def test_what_was_given_when_a_plan_was_accepted_counts(scene: Scene, plan: Path) -> None:
    asked = ("why", "tool-try", "read", "secret.txt", "--plan", str(plan), "--json")
    before = json.loads(paddock(*asked, cwd=scene.work).stdout)
    assert before["allowed"] is False and before["rules"][-1]["text"].startswith("you have not accepted the plan")
    loaded = load_plan(plan)
    source = str(scene.root / "amplifier-module-tool-try")
    given = AcceptedGrant("tools[0]", source, Permissions(read=("secret.txt",)))
    PlanAcceptance.accepting(loaded, GrantsFile.of_user(os.environ), [given])
    after = json.loads(paddock(*asked, cwd=scene.work).stdout)
    assert after["allowed"] is True
    assert any(rule["file"].endswith("grants.toml") and rule["line"] for rule in after["rules"])


def test_no_line_is_told_that_a_policy_would_not_let_be_granted(scene: Scene, plan: Path) -> None:
    policy = Path.home() / ".config/paddock/policy.toml"
    policy.parent.mkdir(parents=True, mode=0o700)
    policy.write_text('[[module]]\nmatch = "/*"\ngrants = {read = ["."], net = ["api.example.org"]}\n')
    policy.chmod(0o600)
    asked = ("--plan", str(plan), "--json")
    within = json.loads(paddock("why", "tool-try", "net", "api.example.org", *asked, cwd=scene.work).stdout)
    assert within["allowed"] is False and within["grant"] and within["policy"] == []
    assert f"{policy}" in [rule["file"] for rule in within["rules"]]
    for family, target in (("net", "example.org"), ("read", str(scene.root / "outside.txt"))):
        beyond = json.loads(paddock("why", "tool-try", family, target, *asked, cwd=scene.work).stdout)
        assert beyond["grant"] is None, family
        assert beyond["policy"][0]["rule"]["file"] == str(policy) and beyond["policy"][0]["rule"]["line"] == 3
    shown = paddock("why", "tool-try", "net", "example.org", "--plan", str(plan), cwd=scene.work)
    assert shown.returncode == 4 and "since a policy is against it" in shown.stdout
    assert "to allow it" not in shown.stdout


def test_a_plan_that_a_policy_refuses_is_refused_with_the_rule(scene: Scene, plan: Path) -> None:
    policy = Path.home() / ".config/paddock/policy.toml"
    policy.parent.mkdir(parents=True, mode=0o700)
    policy.write_text('[[module]]\nmatch = "/*"\ngrants = "isolated"\n')
    policy.chmod(0o600)
    done = paddock("why", "tool-try", "read", "half/a.txt", "--plan", str(plan), cwd=scene.work)
    assert done.returncode == 4 and f"{policy}:3" in done.stderr


def test_what_is_wrong_with_the_question_is_told(scene: Scene, plan: Path) -> None:
    for args, code, problem in (
        (("tool-tri", "read", "x"), 1, "did you mean `tool-try`?"),
        (("tool-try", "reed", "x"), 2, "'reed' is not one of"),
        (("tool-try", "net", "https://x"), 2, "TARGET for `net`"),
        (("tool-try", "read"), 2, "Missing argument 'TARGET'"),
    ):
        done = paddock("why", *args, "--plan", str(plan), cwd=scene.work)
        assert done.returncode == code and problem in done.stderr, (args, done.stderr)


def test_a_plan_that_grants_what_is_not_there_is_told_as_one(scene: Scene, plan: Path) -> None:
    plan.write_text(plan.read_text().replace("[half]", "[nowhere]"))
    done = paddock("why", "tool-try", "read", "x", "--plan", str(plan), "--json", cwd=scene.work)
    told = json.loads(done.stdout)
    assert done.returncode == 1 and told["error"]["problems"][0]["path"] == "tools[0].permissions.read[0]"
