"""tool-filesystem and tool-search in one plan, each in a process of its own at the level `ns`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from host.authoring.installed_wheels import index_of
from integration.command_line import require_level
from integration.community import listen
from modules import shipped
from paddock import Session

_SECONDS = 90  # for a whole session on a busy machine; hit only by a hang
# Names one file of two, which shows that it was asked.
_RIPGREP = "#!/bin/sh\nprintf './notes/a.txt\\0'\n"


@pytest.fixture(autouse=True)
def _index(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with index_of(monkeypatch, *shipped.installed_for(shipped.project("tool-search")["dependencies"])):
        yield


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/rg").write_text(_RIPGREP)
    (tmp_path / "bin/rg").chmod(0o755)
    (tmp_path / "outside.txt").write_text("needle outside")
    (tmp_path / "granted").mkdir()
    (tmp_path / "granted/c.txt").write_text("needle beside")
    (folder / "link.txt").symlink_to(tmp_path / "outside.txt")
    return folder


@pytest.mark.exhaustive("run0")
@pytest.mark.parametrize(("run", "found"), [([], ["notes/a.txt", "notes/b.txt"]), (["../bin/rg"], ["notes/a.txt"])])
async def test_files_are_written_found_changed_and_kept_inside(run: list[str], found: list[str], work: Path) -> None:
    search = {"module": "tool-search", "source": str(shipped.FOLDER / "tool-search")}
    beside = os.fspath(work.parent / "granted")
    plan: dict[str, Any] = {
        "session": {"orchestrator": "loop-basic", "context": "context-simple"},
        "providers": [{"module": "provider-mock"}],
        "tools": [
            {"module": "tool-filesystem", "permissions": {"read": [beside], "write": ["."]}},
            {**search, "permissions": {"read": [".", beside], "run": run}},
        ],
    }
    with anyio.fail_after(_SECONDS):
        async with Session(plan, working_dir=work, isolation=require_level("ns"), trust_plan=True) as session:
            events = listen(session, "artifact:write")

            async def use(tool: str, **arguments: Any) -> Any:
                result = await session.coordinator.get("tools", tool).execute(arguments)
                return result.output if result.success else result.error["type"]

            for name in ("a", "b"):
                await use("write_file", file_path=f"notes/{name}.txt", content="hay\r\na needle\r\n")
            assert (await use("grep", pattern=r"\bneedle$"))["files"] == found
            edit = {"file_path": "notes/a.txt", "old_string": "a needle", "new_string": "two\nneedles"}
            assert (await use("edit_file", **edit))["replacements"] == 1
            lines = await use("grep", pattern="needle", path="notes/a.txt", output_mode="content")
            assert lines["content"] == "notes/a.txt:3:needles"
            assert (await use("glob", pattern="**/*.txt"))["files"] == ["notes/a.txt", "notes/b.txt"]
            page = "notes/[id]/page.tsx"
            (work / page).parent.mkdir()
            (work / page).touch()
            assert (await use("glob", pattern="notes/[id]/*.tsx"))["files"] == [page]
            assert [one["path"] for one in (await use("list_directory", pattern="*/[id]/*"))["entries"]] == [page]
            assert "needle beside" in (await use("read_file", file_path=f"{beside}/c.txt"))["content"]
            assert (await use("glob", pattern="*", path=beside))["files"] == [f"{beside}/c.txt"]
            listed = await use("list_directory")
            assert [entry["type"] for entry in listed["entries"]] == ["link", "folder"]
            for tool, given in (
                ("read_file", {"file_path": "link.txt"}),
                ("write_file", {"file_path": "link.txt", "content": "x"}),
                ("write_file", {"file_path": f"{beside}/c.txt", "content": "x"}),
                ("list_directory", {"path": ".."}),
                ("grep", {"pattern": "needle", "path": "link.txt"}),
                ("glob", {"pattern": "*", "path": os.fspath(work.parent)}),
            ):
                assert await use(tool, **given) == "not_allowed"
            assert await use("grep", pattern="(?=x)") == "invalid_pattern"
            assert {module.level for module in session.modules} == {"ns"}
            assert [module.restarts for module in session.modules] == [0] * len(session.modules)
    assert (work / "notes/a.txt").read_bytes() == b"hay\r\ntwo\r\nneedles\r\n"
    assert [event.data["path"] for event in events] == [str(work / f"notes/{name}.txt") for name in ("a", "b", "a")]
    assert (work.parent / "outside.txt").read_text() == "needle outside"
