"""A session of its own, for another test to run as another user: a file is saved by renaming while a module waits."""

from __future__ import annotations

import json
import os
import textwrap
from pathlib import Path

import anyio

from paddock import Session

_WRITER = """
    from amplifier_core.models import ToolResult

    class Write:
        name = "write"
        description = "appends to a file"

        async def execute(self, input):
            try:
                with open(input["append"], "a") as file:
                    file.write("# by the module")
            except OSError as error:
                return ToolResult(output=error.strerror)
            return ToolResult(output="written")

    async def mount(coordinator, config):
        await coordinator.mount("tools", Write())
"""


def main(folder: str) -> None:
    """Print what the module got at before and after, and what was told."""
    anyio.run(_run, Path(folder))


async def _run(folder: Path) -> None:
    package = folder / "amplifier-module-tool-write" / "amplifier_module_tool_write"
    work = folder / "work"
    for made in (package, work / ".vscode"):
        made.mkdir(parents=True)
    (package / "__init__.py").write_text(textwrap.dedent(_WRITER))
    envrc, tasks = work / ".envrc", work / ".vscode/tasks.json"
    for path in (envrc, tasks):
        path.write_text("one\n")
    tool = {"module": "tool-write", "source": str(package.parent), "permissions": {"write": ["."]}}
    plan = {"session": {"orchestrator": "loop-basic", "context": "context-simple"}, "tools": [tool]}
    seen: dict[str, list[str]] = {"before": [], "after": []}
    async with Session(plan, working_dir=work, trust_plan=True) as session:
        write = session.coordinator.get("tools", "write")
        for when in seen:
            for path in (envrc, tasks):
                seen[when].append((await write.execute({"append": str(path)})).output)
            if when == "before":
                (work / "new").write_text("two\n")
                os.replace(work / "new", envrc)
                (work / ".vscode").rename(work / ".vscode-old")
                (work / ".vscode").mkdir()
                tasks.write_text("two\n")
                with anyio.fail_after(60):
                    while len(session.changes) < 2:
                        await anyio.sleep(0.01)
    print(json.dumps({**seen, "told": [line.rpartition("; ")[2] for line in session.changes]}))
