"""What a person said yes to is what a module gets, wherever its paths lead later: in real sessions."""

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
from paddock.authorization.consent import ConsentAnswer, PlanReview
from paddock.errors import PolicyRefusedError

_SECONDS = 60  # for one session; hit only by a hang
_READER = tool_code(
    "read",
    """
    try:
        with open(input["path"]) as file:
            return ToolResult(output=file.read())
    except OSError as error:
        return ToolResult(output=error.strerror)
    """,
)


class Yes:
    """Says yes, and counts how often it was asked."""

    def __init__(self) -> None:
        self.seen: list[PlanReview] = []

    async def ask(self, review: PlanReview) -> ConsentAnswer:
        self.seen.append(review)
        return ConsentAnswer.ACCEPT


async def test_a_given_path_that_leads_out_later_is_refused(write_module: WriteModule, home: Path) -> None:
    require_level("ns")
    source = Path(write_module("tool-oracle", _READER))
    with (source / "pyproject.toml").open("a") as manifest:
        manifest.write('[tool.paddock]\npermissions = {read = ["./data"]}\n')
    data = home / "work/data"
    data.mkdir()
    (data / "id_x").write_text("no key")
    plan = {
        "session": {"orchestrator": {"module": "loop-basic"}, "context": {"module": "context-simple"}},
        "tools": [{"module": "tool-oracle", "source": str(source)}],
    }
    yes = Yes()

    async def read() -> Any:
        with anyio.fail_after(_SECONDS):
            options: dict[str, Any] = {"working_dir": home / "work", "environ": {**os.environ, "HOME": str(home)}}
            async with Session(plan, **options, consent=yes) as session:
                return (await session.coordinator.get("tools", "read").execute({"path": str(data / "id_x")})).output

    assert await read() == "no key"
    assert await read() == "no key"
    assert len(yes.seen) == 1
    (data / "id_x").unlink()
    data.rmdir()
    data.symlink_to(home / ".ssh")  # as a pull may do
    assert (data / "id_x").read_text() == "the key"
    with pytest.raises(PolicyRefusedError, match="outside the working directory"):
        print("READ", await read())
