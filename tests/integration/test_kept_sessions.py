"""What a session keeps in its journal while it runs, and what it does where the journal cannot be written."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shlex
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from integration.conftest import OpenSession, WriteModule
from integration.probe import entry_of, probed, tool_code
from integration.session_internals import runtime_of
from paddock import PaddockError, Policy
from paddock.cli.sessions_command import sessions
from paddock.session.journals import journal_file
from paddock.session.journals.journal_file import Kind, read_journal
from paddock.session.journals.journal_folder import Journals, UnknownSessionError
from paddock.session.journals.resume import UNKNOWN, Resume
from paddock.workers.restart import RestartPolicy

_MARKING = tool_code(
    "mark",
    """
    open(input["file"], "w").close()
    return ToolResult(output="marked")
    """,
)


def _ground(tmp_path: Path, answers: list[Any]) -> dict[str, Any]:
    """Return a plan whose loop is a real one, and whose model gives these answers."""
    return {
        "orchestrator": {"module": "loop-basic", "permissions": {}},
        "providers": [{"module": "provider-mock", "config": {"responses": answers}, "permissions": {}}],
        "tools": [entry_of("tool-mark", _MARKING)],
        "journal": Journals(tmp_path / "journals"),
    }


def _mark(folder: Path) -> dict[str, object]:
    return {"tool_calls": [{"name": "mark", "arguments": {"file": str(folder / "marked")}}]}


@pytest.mark.parametrize("required", [False, True])
async def test_a_journal_without_room_is_told_or_ends_the_turn(
    required: bool,
    tmp_path: Path,
    open_session: OpenSession,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    policy = Policy.parse(f"[journal]\nrequired = {str(required).lower()}")
    ground = _ground(tmp_path, ["one", _mark(tmp_path), "three", "four"])
    async with open_session(**ground, policy=policy) as session:
        await session.execute("first")
        assert session.journal is not None
        monkeypatch.setattr(journal_file, "FILE_MAX", session.journal.stat().st_size + 100)  # room for the prompt
        with caplog.at_level(logging.WARNING):
            if required:
                with pytest.raises(RuntimeError, match="which a policy requires, cannot be written"):
                    await session.execute("second")
                with pytest.raises(PaddockError, match="the journal would take more") as refused:
                    await session.execute("third")
                assert "a policy requires it" in str(refused.value.hints)
            else:
                assert await session.execute("second") == "three"
                assert await session.execute("third") == "four"
        assert [one.message for one in caplog.records if "misses what happens from here on" in one.message] != []
    assert (tmp_path / "marked").exists() is not required
    kept, _ = Journals(tmp_path / "journals").read(session.session_id)
    assert [turn.prompt for turn in kept.turns] == ["first", "second"]
    assert kept.is_cut


@pytest.mark.parametrize("durability", ["host", "power"])
async def test_a_tool_hears_of_a_call_that_is_on_the_disk(
    durability: str,
    tmp_path: Path,
    open_session: OpenSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy = Policy.parse(f"[journal]\ndurability = '{durability}'\nrequired = true")
    synced: list[tuple[Kind, bool]] = []
    fails = False

    def fdatasync(descriptor: int) -> None:
        assert threading.current_thread() is not threading.main_thread()
        if fails:
            raise OSError("the disk is gone")
        records, _, _ = read_journal(journal)
        synced.append((Kind(records[-1].kind), (tmp_path / "marked").exists()))

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    ground = _ground(tmp_path, [_mark(tmp_path), "done"])
    async with open_session(**ground, policy=policy) as session:
        assert session.journal is not None
        journal = session.journal
        assert await session.execute("first") == "done"
        (tmp_path / "marked").unlink()
        mark = session.coordinator.get("tools", "mark")  # as the application calls it
        assert (await mark.execute({"file": str(tmp_path / "marked")})).success
        once = [(Kind.TURN, False), (Kind.CALL, False), (Kind.END, True), (Kind.CALL, False)]
        assert synced == (once if durability == "power" else [])
        (tmp_path / "marked").unlink()
        fails = True
        called = mark.execute({"file": str(tmp_path / "marked")})
        if durability == "host":
            assert (await called).success
            return
        with pytest.raises(RuntimeError, match="the disk is gone"):
            await called
        with pytest.raises(PaddockError, match="the disk is gone"):
            await session.execute("second")
    assert not (tmp_path / "marked").exists()


async def test_a_journal_that_cannot_be_made_is_told_or_required(
    tmp_path: Path, open_session: OpenSession, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a file").touch()
    ground = {**_ground(tmp_path, ["one"]), "journal": Journals(tmp_path / "a file/journals")}
    async with open_session(**ground) as session:
        assert await session.execute("first") == "one"
        assert session.journal is None
    assert "this session is not kept" in caplog.text
    with pytest.raises(PaddockError, match="a file/journals"):
        async with open_session(**ground, policy=Policy.parse("journal = {required = true}")):
            pass


async def test_a_policy_may_have_no_session_kept(tmp_path: Path, open_session: OpenSession) -> None:
    ground = _ground(tmp_path, ["one"])
    async with open_session(**ground) as session:
        pass
    off = Policy.parse("[journal]\nkeep = 'off'")
    with pytest.raises(UnknownSessionError) as refused:
        async with open_session(**ground, policy=off, resume=session.session_id):
            pass
    assert 'keep = "off"' in str(refused.value.hints)
    async with open_session(**ground, policy=off) as unkept:
        assert unkept.journal is None
    assert ground["journal"].ids() == [session.session_id]


async def test_a_session_that_does_not_start_is_not_kept(tmp_path: Path, open_session: OpenSession) -> None:
    ground = _ground(tmp_path, [])
    with pytest.raises(PaddockError):
        async with open_session(**ground, policy=Policy.parse("[[module]]\nmatch = '*'\ndeny = 'not here'")):
            pass
    assert list((tmp_path / "journals").iterdir()) == []


_KEEPING = """
    from amplifier_core.models import ToolResult

    class Keep:
        description = "writes into the session's state, and tells what is there"

        def __init__(self, name, state):
            self.name, self.state = name, state

        async def execute(self, input):
            self.state.update(input.get("set", {}))
            for key in input.get("live", ()):
                self.state[key] = self
            return ToolResult(output={key: value for key, value in self.state.items() if key != "object"})

    async def mount(coordinator, config):
        coordinator.session_state.update(config.get("at_start", {}))
        await coordinator.mount("tools", Keep(config["name"], coordinator.session_state))
"""


_HEARING = """
    from amplifier_core.models import HookResult

    async def mount(coordinator, config):
        async def hear(event, data):
            coordinator.register_capability("heard", {key: data[key] for key in ("interrupted", "calls")})
            return HookResult(action="continue")

        coordinator.hooks.register("session:resumed", hear)
"""


async def test_what_modules_left_in_session_state_comes_back_as_theirs(
    tmp_path: Path, open_session: OpenSession, write_module: WriteModule
) -> None:
    source = write_module("tool-keep", _KEEPING)

    def tools(other_source: str = source, **config: Any) -> list[dict[str, Any]]:
        entries = [("one", source, config), ("two", other_source, {})]
        return [
            {"module": "tool-keep", "instance_id": id, "source": code, "config": {"name": id, **more}}
            for id, code, more in entries
        ]

    journals = Journals(tmp_path / "journals")
    async with open_session(tools=tools(), journal=journals) as session:
        session.coordinator.session_state["application"] = "its own"
        await probed(session, "one", set={"notes": {"deep": [1, 2.5, None]}, "anew": "before", "gone": 1})
        del session.coordinator.session_state["gone"]
        await probed(session, "two", set={"of-two": "x"}, live=["object"])

    again = Resume(session.session_id, accept_changes=True)
    hooks = [entry_of("hooks-hear", _HEARING)]
    resumed = {"tools": tools(at_start={"anew": "now"}), "hooks": hooks, "resume": again}
    async with open_session(**resumed, journal=journals) as second:
        assert second.coordinator.get_capability("heard") == {"interrupted": False, "calls": []}
        found = await probed(second, "two", set={"notes": {"by": "two"}})  # a tool may not change an application's
        assert found == {"notes": {"by": "two"}, "anew": "now", "of-two": "x"}
        assert second.coordinator.session_state["notes"] == {"by": "two"}
        lines = [line for line in second.resumed if line.startswith("not resumed")]
        assert [line.partition("]")[0] for line in lines] == [
            'not resumed: session_state["anew"',
            'not resumed: session_state["object"',
        ]
        assert lines[1].endswith("an object of two")

    elsewhere = shutil.copytree(source, tmp_path / "elsewhere")
    async with open_session(tools=tools(str(elsewhere)), journal=journals, resume=again) as third:
        assert await probed(third, "one") == {"anew": "now"}
        assert 'not resumed: session_state["of-two"]: two, which left it, is gone or of another source' in third.resumed


async def test_a_sub_session_is_gone_on_with_after_its_host(tmp_path: Path, open_family: Callable[..., Any]) -> None:
    journals = Journals(tmp_path / "journals")
    agents = {"leaf": {"description": "helps"}}
    async with open_family(agents, journal=journals) as family:
        made = await family.spawn("leaf", "one", tool_inheritance={"inherit_tools": []}, sub_session_id="mine")
        nested = {"agent_name": "leaf", "instruction": "one", "sub_session_id": "below", "own_parent": False}
        await family.spawn("helper", json.dumps({"tool": "task", "input": nested}), sub_session_id="above")
    again = Resume(family.session.session_id, accept_changes=True)
    async with open_family(agents, journal=journals, resume=again) as family:
        assert "there is a session `mine` already" in await family.refused(sub_session_id="mine")
        for _ in range(2):
            answer = await family.resume(made["session_id"], "see")
            assert answer["success"], answer
        seen = json.loads(answer["output"]["output"])
        assert (seen["messages"], seen["tools"]) == (["one", "see", "see"], [])  # what was wished for holds
        assert "to go on with" in (await family.resume("below", "see"))["error"]["message"]
        below = {"capability": "session.resume", "sub_session_id": "below", "instruction": "see"}
        answer = await family.resume("above", json.dumps({"tool": "task", "input": below}))
        seen = json.loads(json.loads(answer["output"]["output"])["output"]["output"])
        assert (seen["id"], seen["messages"]) == ("below", ["one", "see"])
    async with open_family({}, journal=journals, resume=again) as family:
        assert "no agent `leaf`" in (await family.resume("mine", "see"))["error"]["message"]


_HOLDING = tool_code(
    "mark",
    """
    while os.path.exists(input["file"]):
        await asyncio.sleep(0.01)
    return ToolResult(output=f"marked {input['file']}")
    """,
)


async def test_open_calls_of_a_sub_session_are_answered_by_what_is_known(
    tmp_path: Path, open_session: OpenSession
) -> None:
    def ground(journals: Path, answers: list[Any]) -> dict[str, Any]:
        plan = _ground(tmp_path, answers)
        tool = entry_of("tool-mark", _HOLDING, permissions={"read": ["."]})
        return {**plan, "tools": [tool], "journal": Journals(journals), "agents": {"leaf": {"description": "helps"}}}

    def calls(*files: str) -> dict[str, object]:
        return {"tool_calls": [{"name": "mark", "arguments": {"file": file}} for file in files]}

    async with open_session(**ground(tmp_path / "journals", [calls("a"), calls("b", "held"), "done"])) as session:
        (tmp_path / "work" / "held").touch()
        spawn = session.coordinator.get_capability("session.spawn")
        turn = asyncio.create_task(spawn(agent_name="leaf", instruction="go", sub_session_id="mine"))
        assert session.journal is not None
        place = Journals.below(session.journal).path_of("mine")
        while not place.exists() or [one.kind for one in read_journal(place)[0]].count(Kind.RESULT) < 2:
            await asyncio.sleep(0.01)
        shutil.copytree(tmp_path / "journals", tmp_path / "killed")  # what a host that is killed now leaves
        (tmp_path / "work" / "held").unlink()
        assert (await turn)["output"] == "done"

    again = Resume(session.session_id, accept_changes=True)
    async with open_session(**ground(tmp_path / "killed", ["resumed"]), resume=again) as second:
        resume = second.coordinator.get_capability("session.resume")
        assert (await resume(sub_session_id="mine", instruction="go on"))["output"] == "resumed"
        assert second.journal is not None
        below = Journals.below(second.journal)
    said = below.read("mine")[0].messages()
    assert [one["content"] for one in said if one["role"] == "user"] == ["go", "go on"]
    assert [one["content"] for one in said if one["role"] == "tool"] == ["marked a", "marked b", UNKNOWN]
    Journals(tmp_path / "killed").delete(second.session_id)
    assert list((tmp_path / "killed").iterdir()) == []


_MORTAL = tool_code(
    "mortal",
    """
    if input.get("end"):
        os._exit(1)
    return ToolResult(output={})
    """,
)


async def test_a_quarantine_outlives_its_host_until_a_person_lifts_it(
    open_session: OpenSession, capsys: pytest.CaptureFixture[str]
) -> None:
    ground = {"tools": [entry_of("tool-mortal", _MORTAL)], "journal": Journals()}
    async with open_session(**ground) as session:
        (module,) = (one for one in runtime_of(session).modules.all if one.kind == "tool")
        module.supervisor._policy = RestartPolicy(max_deaths=1)
        told = [json.loads(await session.execute(f'{{"tool": "mortal", "input": {{"end": {end}}}}}')) for end in (1, 0)]
        assert [one["error"]["type"] for one in told] == ["ModuleDiedError", "QuarantinedError"]
        assert session.journal is not None
        file = session.journal.with_suffix(".quarantined")
        kept = file.read_bytes()  # there at once, so that the host may be killed from here on

    again = Resume(session.session_id)
    async with open_session(**ground, resume=again) as second:
        (status,) = (one for one in second.modules if one.kind == "tool")
        assert not status.is_mounted and status.restarts == 0 and status.problem is not None
        command = shlex.split(status.problem.hints[0].rpartition(": ")[2].strip("`"))[2:]
        assert sessions.main(command, standalone_mode=False) == 1 and "is in use by pid" in capsys.readouterr().err
        second.lift_quarantine("tool-mortal")
        assert not file.exists()
    file.write_bytes(kept)
    assert [sessions.main(command, standalone_mode=False) for _ in range(2)] == [0, 1]
    assert "no module `tool-mortal` is quarantined" in capsys.readouterr().err
    async with open_session(**ground, resume=again) as third:
        await probed(third, "mortal")

    file.write_bytes(kept)
    Journals().delete(session.session_id)
    assert list(file.parent.glob(f"{session.session_id}.*")) == []
