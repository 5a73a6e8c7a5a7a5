"""Folders of the user's home may be links: modules start, and none can put another folder in the place of one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from integration.command_line import require_level
from integration.conftest import WriteModule
from integration.probe import tool_code
from paddock import Session
from paddock.errors import PlanError
from paddock_sandbox.profile import IsolationLevel

_SECONDS = 60
_LINKS = (".cache", ".config", ".local")
_EXCHANGE = tool_code(
    "exchange",
    """
    def exchange(link):
        told = []
        for act in (
            lambda: os.unlink(link),
            lambda: os.rename(link, link + ".old"),
            lambda: os.replace(os.path.dirname(link) + "/mine", link),
            lambda: os.rename(os.path.dirname(link), os.path.dirname(link) + ".old"),
        ):
            try:
                act()
                told.append("done")
            except OSError as error:
                told.append(error.strerror)
        return told

    note = Path.home() / "note"
    note.write_text(f"{note.read_text() if note.exists() else ''}x")
    told = {}
    for link in input.get("links", []):
        os.symlink("/nowhere", os.path.dirname(link) + "/mine")
        told[link] = exchange(link)
        os.unlink(os.path.dirname(link) + "/mine")
    return ToolResult(output={"note": note.read_text(), **told})
    """,
)


@pytest.fixture
def source(write_module: WriteModule) -> str:
    return write_module("tool-exchange", _EXCHANGE)


@pytest.fixture
def linked(home: Path) -> Path:
    """A home whose folders for programs lie elsewhere, as people with a small disk or many machines have it."""
    for name in _LINKS:
        (home / "elsewhere" / name).mkdir(parents=True)
        (home / name).symlink_to(f"elsewhere/{name}")
    return home


def _session(source: str, home: Path, level: IsolationLevel, **entry: Any) -> Session:
    tool = {"module": "tool-exchange", "source": source, "state": "keep", **entry}
    return Session(
        {"session": {"orchestrator": "loop-basic", "context": "context-simple"}, "tools": [tool]},
        working_dir=home / "work",
        environ={"HOME": str(home)},
        isolation=level,
        trust_plan=True,
    )


@pytest.mark.exhaustive("landlock")
@pytest.mark.parametrize("level", ["ns", "bwrap", "landlock"])
async def test_modules_start_and_keep_their_homes(level: IsolationLevel, source: str, linked: Path) -> None:
    """Their code and their kept homes lie behind the links, under the one real path of each."""
    for note in ("x", "xx"):
        with anyio.fail_after(_SECONDS):
            async with _session(source, linked, require_level(level)) as session:
                told = await session.coordinator.get("tools", "exchange").execute({})
        assert told.output == {"note": note}
    assert (linked / "elsewhere/.cache/paddock").is_dir() and (linked / "elsewhere/.local/state/paddock/homes").is_dir()


@pytest.mark.parametrize("level", ["ns", "bwrap"])
async def test_no_module_exchanges_a_link_to_what_the_next_run_trusts(
    level: IsolationLevel, source: str, linked: Path
) -> None:
    links = [str(linked / name) for name in _LINKS]
    with anyio.fail_after(_SECONDS):
        async with _session(source, linked, require_level(level), permissions={"write": [str(linked)]}) as session:
            told = (await session.coordinator.get("tools", "exchange").execute({"links": links})).output
    del told["note"]
    assert {act for acts in told.values() for act in acts[:-1]} == {"Device or resource busy"}, told
    assert {acts[-1] for acts in told.values()} == {"Read-only file system"}, told  # as around any granted folder
    assert [os.readlink(link) for link in links] == [f"elsewhere/{name}" for name in _LINKS]
    os.rename(links[0], links[0] + ".old")  # which anybody else of the user's may


async def test_a_level_without_mounts_refuses_to_open_a_folder_around_one(source: str, linked: Path) -> None:
    (linked / "beside").mkdir()
    (linked / "beside/cache").symlink_to("../elsewhere/.cache")
    (linked / ".cache").unlink()
    (linked / ".cache").symlink_to("beside/cache")
    with pytest.raises(PlanError, match=r"beside/cache`, and without mounts nothing keeps that from being changed"):
        async with _session(source, linked, require_level("landlock"), permissions={"write": [str(linked / "beside")]}):
            pass
