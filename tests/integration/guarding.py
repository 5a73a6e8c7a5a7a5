"""Sessions of their own, for other tests to run as another user, who replaces files or whose module closes folders."""

from __future__ import annotations

import json
import os
import textwrap
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio

from paddock import Session

_WRITER = """
    import os
    from amplifier_core.models import ToolResult

    class Write:
        name = "write"
        description = "appends to a file, in a folder that it opens if asked; or closes one and ends its process"

        async def execute(self, input):
            try:
                if "close" in input:
                    os.chmod(input["close"], input["mode"])
                    os._exit(3)
                if "open" in input:
                    os.chmod(input["open"], 0o755)
                with open(input["append"], "a") as file:
                    file.write("# by the module")
            except OSError as error:
                return ToolResult(output=error.strerror)
            return ToolResult(output="written")

    async def mount(coordinator, config):
        await coordinator.mount("tools", Write())
"""


def main(folder: str) -> None:
    """Print what a module got at before and after its user saved, and in folders that it closed and opened again."""
    for name, run in (("saving", _run), ("closing", _close)):
        place = Path(folder, name)
        place.mkdir()
        anyio.run(run, place)


def _plan(folder: Path) -> dict[str, Any]:
    package = folder / "amplifier-module-tool-write" / "amplifier_module_tool_write"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(textwrap.dedent(_WRITER))
    tool = {"module": "tool-write", "source": str(package.parent), "permissions": {"write": ["."]}}
    return {"session": {"orchestrator": "loop-basic", "context": "context-simple"}, "tools": [tool]}


async def _close(home: Path) -> None:
    work, plan = home / "work", _plan(home)
    hooks = [work / name / ".husky" for name in ("unlisted", "shut", "listed")]
    modes = [0o311, 0, 0o600]
    for hook in hooks:
        hook.mkdir(parents=True)
        (hook.parent / ".git").mkdir()
    (work / ".envrc").write_text("one\n")
    seen: dict[str, list[str]] = {"next life": [], "next session": []}
    async with Session(plan, working_dir=work, trust_plan=True) as session:
        write = session.coordinator.get("tools", "write")
        for place in (hooks[1] / "pre-commit", work / ".envrc"):
            folder = str(hooks[1].parent if place.parent in hooks else work)
            with suppress(Exception):  # it ends its process
                await write.execute({"close": folder, "mode": 0})
            seen["next life"].append((await write.execute({"open": folder, "append": str(place)})).output)
        work.chmod(0o755)
        told = [line for line in session.changes if "was replaced" in line]
    for hook, mode in zip(hooks, modes, strict=True):
        hook.parent.chmod(mode)
    async with Session(plan, working_dir=work, trust_plan=True) as session:
        write = session.coordinator.get("tools", "write")
        for hook in hooks:
            asked = {"open": str(hook.parent), "append": str(hook / "pre-commit")}
            seen["next session"].append((await write.execute(asked)).output)
    for hook in hooks:
        hook.parent.chmod(0o755)
    print(json.dumps({**seen, "told": told}))


async def _run(folder: Path) -> None:
    work, plan = folder / "work", _plan(folder)
    (work / ".vscode").mkdir(parents=True)
    envrc, tasks = work / ".envrc", work / ".vscode/tasks.json"
    for path in (envrc, tasks):
        path.write_text("one\n")
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
