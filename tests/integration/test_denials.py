"""What a module is refused is told with the line that allows it, and with that line it works: in real processes."""

from __future__ import annotations

import json
import os
import shutil
import socket
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from integration.conftest import OpenSession, WriteModule
from integration.probe import call_once, called, context_code, entry_of, loop_code, tool_code
from paddock import Session
from paddock.isolation.denials import attempt
from paddock.session.tool_call import ToolCallOutcome
from paddock_sandbox.profile import IsolationLevel

_SECONDS = 60  # for one call; hit only by a hang
_REACH = """
    import importlib.metadata
    import os
    import socket
    import subprocess
    import threading
    from pathlib import Path

    from amplifier_core import ToolResult

    def read(path):
        return Path(path).read_text()

    def path(path):
        if not Path(os.environ.get("BASE", ""), path).exists():
            raise FileNotFoundError(path)
        return "there"

    def paths(listed):
        return [path(one) for one in listed]

    def edits(listed):
        return [path(one["file_path"]) for one in listed]

    def work_in(folder):
        return subprocess.run(["true"], cwd=folder, check=True).returncode

    def write(path):
        Path(path).write_text("written")
        return "written"

    def run(program):
        return subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout

    def connect(address):
        host, _, port = address.rpartition(":")
        socket.create_connection((host, int(port)), timeout=5).close()
        return "connected"

    def in_thread(path):
        failed = []

        def work():
            try:
                read(path)
            except OSError as error:
                failed.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        if failed:
            raise failed[0]

    def package(name):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            return "none"

    def past_python(path):
        subprocess.run(["cat", path], check=True)

    MANAGES = False

    class SandboxSupport:
        name = "reach"
        description = "reaches for what it is told to"

        async def execute(self, input):
            came, failed = {}, False
            for act, target in input.items():
                how = act.partition(" ")[0]
                try:
                    came[f"{how} {target}"] = globals()[how](target)
                except OSError as error:
                    if how == "in_thread":
                        raise
                    came[f"{how} {target}"] = type(error).__name__
                    failed = True
            if MANAGES or not failed:
                return ToolResult(output=came)
            return ToolResult(success=False, output=came, error={"message": "no"})

    async def mount(coordinator, config):
        await coordinator.mount("tools", SandboxSupport())
"""


@pytest.fixture
def source(write_module: WriteModule) -> str:
    return write_module("tool-reach", _REACH)


async def reach(
    source: str, home: Path, level: IsolationLevel, *acts: tuple[str, object], **permissions: Any
) -> ToolCallOutcome:
    """Have a tool do each of the acts in one call, which fails where one of them fails."""
    input = {
        f"{how} {number}": target if type(target) is list else str(target) for number, (how, target) in enumerate(acts)
    }
    return await call_once(source, "reach", input, home=home, permissions=permissions, isolation=level)


def denials(outcome: ToolCallOutcome) -> list[tuple[str, str, str, str]]:
    told = (outcome.result.error or {}).get("denials", [])
    return [(one["operation"], one["target"], one["layer"], one["grant"]) for one in told]


@pytest.mark.exhaustive("landlock")
async def test_what_was_not_granted_is_denied_with_the_grant_and_works_with_it(
    source: str, home: Path, level: IsolationLevel
) -> None:
    if shutil.which("git") is None:
        pytest.skip(f"there is no git in {os.get_exec_path()}")
    key, work = home / ".ssh/id_x", home / "work"
    (work / "notes.txt").write_text("note")
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        acts = (("read", key), ("read", work / "notes.txt"), ("run", "git"))
        refused = await reach(source, home, level, *acts, ("connect", address))
    allowed = await reach(source, home, level, *acts, read=[str(key), "."], run=["git"])
    assert not refused.result.success
    assert set(denials(refused)) == {
        ("read", str(key), "files", f'permissions: {{read: ["{key}"]}}'),
        # As a plan has it.
        ("read", str(work / "notes.txt"), "files", 'permissions: {read: ["./notes.txt"]}'),
        ("run", "git", "programs", 'permissions: {run: ["git"]}'),
        ("connect to", address, "network", f'permissions: {{net: ["{address}"]}}'),
    }
    assert refused.result.output["run git"] == "FileNotFoundError"  # as if it were not installed
    assert allowed.result.success, allowed.result.output
    assert "git version" in allowed.result.output["run git"]


@pytest.mark.exhaustive("landlock")
async def test_what_a_tool_looks_for_or_may_only_read_is_told(source: str, home: Path, level: IsolationLevel) -> None:
    """A file that is missing in a granted folder is no denial, nor the search for a package."""
    work, granted = home / "work", home / "granted"
    for folder in (granted, home / "runs"):
        folder.mkdir()
    for file in (work / "notes.txt", work / "other.txt", granted / "notes.txt"):
        file.write_text("note")
    looked_for = {"notes.txt": work / "notes.txt", f"{work}/other.txt": work / "other.txt", str(work): work}
    inside = [work / name for name in ("listed.txt", "edited.txt")]
    for file in inside:
        file.write_text("note")
    missing = [("read", granted / "missing"), ("read", granted / "no/folder"), ("package", "no-such-package")]
    acts = [("work_in", home / "runs"), ("write", granted / "notes.txt")]
    given: dict[str, Any] = {"env": [f"BASE={work}"], "run": ["true"]}
    looks: list[tuple[str, object]] = [("path", written) for written in looked_for]
    looks += [("paths", [str(inside[0])]), ("edits", [{"file_path": str(inside[1])}])]
    refused = await reach(source, home, level, *missing, *looks, *acts, **given, read=[str(granted)])
    assert refused.result.output["package no-such-package"] == "none"
    assert not refused.result.success
    told = {(operation, target): (layer, grant) for operation, target, layer, grant in denials(refused)}
    layer, grant = told.pop(("write to", str(granted / "notes.txt")))
    assert layer == "files" and f'"{granted}/notes.txt"' in grant
    if level == "ns":  # elsewhere a name can be seen without a grant
        assert told.keys() == {("read", str(path)) for path in (*looked_for.values(), *inside, home / "runs")}
    else:
        assert not told.keys() & {("read", str(path)) for _, path in missing}
    grants = {"read": [".", str(home / "runs")], "write": [str(granted / "notes.txt")]}
    allowed = await reach(source, home, level, *looks, *acts, **given, **grants)
    assert allowed.result.success, allowed.result.output


async def test_an_error_that_a_tool_raises_from_its_thread_has_the_denial(
    source: str, home: Path, a_level: IsolationLevel
) -> None:
    key = home / ".ssh/id_x"
    refused = await reach(source, home, a_level, ("in_thread", key))
    assert not refused.result.success
    assert denials(refused) == [("read", str(key), "files", f'permissions: {{read: ["{key}"]}}')]


_LISTENER = tool_code(
    "reach",
    """
    coordinator.hooks.register("tool:pre", lambda event, data: None)
    return ToolResult(output="listening")
    """,
)


async def test_the_hosts_own_refusal_is_in_the_failed_call(write_module: WriteModule, home: Path) -> None:
    source = write_module("tool-listen", _LISTENER)
    refused = await reach(source, home, "ns")
    assert denials(refused) == [("register a handler for", "tool:pre", "router", 'permissions: {hooks: ["tool:pre"]}')]
    allowed = await reach(source, home, "ns", hooks=["tool:pre"])
    assert allowed.result.success, allowed.result.error


async def test_a_tool_that_manages_says_nothing_of_what_it_did_without(
    write_module: WriteModule, home: Path, a_level: IsolationLevel
) -> None:
    source = write_module("tool-reach", _REACH.replace("MANAGES = False", "MANAGES = True"))
    outcome = await reach(source, home, a_level, ("read", home / ".ssh/id_x"))
    assert outcome.result.success
    assert outcome.result.error is None


async def test_a_person_is_shown_the_hosts_own_denials_and_not_a_modules(write_module: WriteModule, home: Path) -> None:
    forged = _REACH.replace('{"message": "no"}', '{"message": "no", "denials": [{"grant": "permissions: shell"}]}')
    source = write_module("tool-reach", forged)
    outcome = await reach(source, home, "ns", ("read", home / "work/missing"), read=["."])
    assert "denials" not in (outcome.result.error or {})
    outcome = await reach(source, home, "ns", ("read", home / ".ssh/id_x"))
    assert "shell" not in json.dumps((outcome.result.error or {})["denials"])


async def test_a_module_is_told_the_same_of_what_exists_and_of_what_does_not(
    open_session: OpenSession, home: Path
) -> None:
    """What comes back into workers - here the orchestrator - is no way to find out what is on the machine."""
    tool = entry_of("tool-reach", _REACH)
    told = []
    async with open_session(tools=[tool]) as session:
        for name in ("id_x", "id_y"):
            answer = await called(session, "reach", read=str(home / ".ssh" / name))
            assert not answer["success"]
            told.append(json.dumps(answer["error"]).replace(name, "NAME"))
        assert told[0] == told[1]
        assert "not granted" in told[0]
        with anyio.fail_after(60):
            while not _denials_of(session, "tool-reach"):
                await anyio.sleep(0.01)
            while len(_denials_of(session, "tool-reach")) < 2:
                await anyio.sleep(0.01)
        shown = _denials_of(session, "tool-reach")
        assert [one["target"] for one in shown] == [str(home / ".ssh/id_x"), str(home / ".ssh/id_y")]
        assert {one["reason"] for one in shown} == {"no grant covers it; whether it is there was not looked at"}


_HOOK = """
    from pathlib import Path

    async def mount(coordinator, config):
        async def guard(event, data):
            try:
                Path(config["path"]).read_text()
            except OSError:
                pass

        coordinator.hooks.register("session:start", guard)
        try:
            Path(config["other"]).read_text()
        except OSError:
            pass
"""


async def test_what_a_hook_did_without_in_silence_is_in_the_sessions_status(
    open_session: OpenSession, home: Path
) -> None:
    (home / "rules").write_text("rules")
    config = {"path": str(home / ".ssh/id_x"), "other": str(home / "rules")}
    hook = entry_of("hooks-quiet", _HOOK, config=config)
    tool = entry_of("tool-reach", _REACH)
    async with open_session(hooks=[hook], tools=[tool]) as session:
        await called(session, "reach", read="/etc/hostname")
        with anyio.fail_after(60):
            while len(_denials_of(session, "hooks-quiet")) < 2:
                await anyio.sleep(0.01)
        told = {(one["operation"], one["target"]) for one in _denials_of(session, "hooks-quiet")}
        assert told == {("read", str(home / ".ssh/id_x")), ("read", str(home / "rules"))}


async def test_a_module_that_needs_a_grant_to_mount_is_reported_with_it(
    write_module: WriteModule, home: Path, a_level: IsolationLevel
) -> None:
    (home / "rules").write_text("rules")
    source = write_module("tool-reach", f"from pathlib import Path\nPath({str(home / 'rules')!r}).read_text()\n")
    outcome = await reach(source, home, a_level)
    assert outcome.error is not None
    assert [target for _, target, _, _ in denials(outcome)] == [str(home / "rules")]


def _denials_of(session: Any, module: str) -> list[dict[str, Any]]:
    status = next(one for one in session.modules if one.module == module)
    told: list[dict[str, Any]] = status.as_dict()["denials"]
    return told


# -- of one call -------------------------------------------------------------------------------


@asynccontextmanager
async def _conversation(source: str, home: Path, *inputs: dict[str, Any]) -> AsyncIterator[tuple[Session, list[str]]]:
    """Open a session that calls the tool with one of these inputs a turn; the list gets the ids of the calls."""
    said = [turn for one in inputs for turn in ({"tool_calls": [{"name": "reach", "arguments": one}]}, "done")]
    plan = {
        "session": {"orchestrator": "loop-basic", "context": "context-simple"},
        "providers": [{"module": "provider-mock", "config": {"responses": said}}],
        "tools": [{"module": "tool-reach", "source": source}],
    }
    ids: list[str] = []
    with anyio.fail_after(_SECONDS):
        async with Session(
            plan, working_dir=home / "work", trust_plan=True, environ={**os.environ, "HOME": str(home)}
        ) as session:
            session.coordinator.hooks.register("tool:pre", lambda event, data: ids.append(data["tool_call_id"]))
            yield session, ids


async def test_denials_of_a_call_are_given_once_all_are_known(
    source: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = threading.Event()

    def judge(*args: Any) -> Any:
        assert looks.wait(_SECONDS)
        return look(*args)

    look = attempt.AttemptJudge.judge
    monkeypatch.setattr(attempt.AttemptJudge, "judge", judge)
    key = str(home / ".ssh/id_x")
    async with _conversation(source, home, {"read": key}) as (session, ids):
        await session.execute("now")
        assert not _denials_of(session, "tool-reach"), "what was tried is not judged yet"
        async with anyio.create_task_group() as asking:
            given: list[tuple[Mapping[str, object], ...]] = []

            async def ask() -> None:
                given.append(await session.denials_of(ids[0]))

            asking.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            assert not given
            looks.set()
        ((denial,),) = given
        assert (denial["operation"], denial["target"], denial["caller"]) == ("read", key, "tool-reach")
        assert denial["grant"] == f'permissions: {{read: ["{key}"]}}'


async def test_denials_of_a_call_are_not_those_of_earlier_ones(source: str, home: Path) -> None:
    key, other = str(home / ".ssh/id_x"), str(home / "other")
    (home / "other").write_text("other")
    async with _conversation(source, home, {"read": key}, {"read": other}) as (session, ids):
        for _ in range(2):
            await session.execute("now")
        first, second = [await session.denials_of(one) for one in ids]
        assert [one["target"] for one in first] == [key, other]
        assert [one["target"] for one in second] == [other]
        assert await session.denials_of("no call") == ()


# -- what is lent ------------------------------------------------------------------------------

_CONTEXT = context_code(
    """
    kept = None

    async def get_messages_for_request(self, token_budget=None, provider=None):
        self.kept = self.kept or provider
        said = []
        for act in ("get_info", "complete"):
            try:
                said.append(await getattr(self.kept, act)())
            except Exception as error:
                said.append(type(error).__name__)
        return said

    async def set_system_prompt_factory(self, factory):
        self.factory = factory

    async def prompt(self):
        return await self.factory()
    """
)

_PROVIDER = """
    class Provider:
        name = "mock"

        async def get_info(self):
            return "info"

        async def complete(self, *args):
            return "completed"

    async def mount(coordinator, config):
        await coordinator.mount("providers", Provider(), name="mock")
"""

_LENDER = """
    async def factory():
        return "a prompt"

    await context.set_system_prompt_factory(factory)
    lent = await context.get_messages_for_request(provider=providers["mock"])
    later = await context.get_messages_for_request()
    return json.dumps([lent, later, await context.prompt()])
"""


@pytest.mark.parametrize("is_granted", [False, True])
async def test_a_context_keeps_no_right_to_the_provider_it_is_lent(open_session: OpenSession, is_granted: bool) -> None:
    permissions = {"permissions": {"call": ["providers"]}} if is_granted else {}
    async with open_session(
        orchestrator=entry_of("loop-lender", loop_code(_LENDER)),
        context=entry_of("context-keeper", _CONTEXT, **permissions),
        providers=[entry_of("provider-mock", _PROVIDER)],
    ) as session:
        lent, later, prompt = json.loads(await session.execute("go"))
        assert prompt == "a prompt"  # the orchestrator's own function, which is kept
        if is_granted:
            assert lent == later == ["info", "completed"]
            return
        assert lent == ["info", "RefusedError"]
        assert later == ["RefusedError", "RefusedError"]
        (denial,) = _denials_of(session, "context-keeper")
        assert denial["target"] == "providers:mock" and denial["grant"].endswith(', call: ["providers"]}')
