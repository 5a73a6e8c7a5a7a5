"""What a session keeps in its journal while it runs, and what it does where the journal cannot be written."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from integration.conftest import OpenSession, WriteModule
from paddock import PaddockError, Policy
from paddock.session.journals import journal_file
from paddock.session.journals.journal_folder import Journals, UnknownSessionError

_MARKING = """
    from amplifier_core.models import ToolResult

    class Mark:
        name = "mark"
        description = "leaves a file"

        async def execute(self, input):
            open(input["file"], "w").close()
            return ToolResult(output="marked")

    async def mount(coordinator, config):
        await coordinator.mount("tools", Mark())
"""


def _ground(tmp_path: Path, write_module: WriteModule, answers: list[Any]) -> dict[str, Any]:
    """Return a plan whose loop is a real one, and whose model gives these answers."""
    return {
        "orchestrator": {"module": "loop-basic", "permissions": {}},
        "providers": [{"module": "provider-mock", "config": {"responses": answers}, "permissions": {}}],
        "tools": [{"module": "tool-mark", "source": write_module("tool-mark", _MARKING)}],
        "journal": Journals(tmp_path / "journals"),
    }


def _mark(folder: Path) -> dict[str, object]:
    return {"tool_calls": [{"name": "mark", "arguments": {"file": str(folder / "marked")}}]}


@pytest.mark.parametrize("required", [False, True])
async def test_a_journal_without_room_is_told_or_ends_the_turn(
    required: bool,
    tmp_path: Path,
    write_module: WriteModule,
    open_session: OpenSession,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    policy = Policy.parse(f"[journal]\nrequired = {str(required).lower()}")
    ground = _ground(tmp_path, write_module, ["one", _mark(tmp_path), "three", "four"])
    async with open_session(**ground, policy=policy) as session:
        await session.execute("first")
        assert session.journal is not None
        monkeypatch.setattr(journal_file, "FILE_MAX", session.journal.stat().st_size + 100)  # room for the prompt
        with caplog.at_level(logging.WARNING):
            if required:
                with pytest.raises(RuntimeError, match="which a policy requires, cannot be written"):
                    await session.execute("second")
                with pytest.raises(RuntimeError, match="which a policy requires"):
                    await session.execute("third")
            else:
                assert await session.execute("second") == "three"
                assert await session.execute("third") == "four"
        assert [one.message for one in caplog.records if "misses what happens from here on" in one.message] != []
    assert (tmp_path / "marked").exists() is not required
    kept, _ = Journals(tmp_path / "journals").read(session.session_id)
    assert [turn.prompt for turn in kept.turns] == ["first", "second"]


async def test_a_policy_may_have_no_session_kept(
    tmp_path: Path, write_module: WriteModule, open_session: OpenSession
) -> None:
    ground = _ground(tmp_path, write_module, ["one"])
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


async def test_a_session_that_does_not_start_is_not_kept(
    tmp_path: Path, write_module: WriteModule, open_session: OpenSession
) -> None:
    ground = _ground(tmp_path, write_module, [])
    with pytest.raises(PaddockError):
        async with open_session(**ground, policy=Policy.parse("[[module]]\nmatch = '*'\ndeny = 'not here'")):
            pass
    assert list((tmp_path / "journals").iterdir()) == []
