"""A session whose module tries to replace links, for tests to run as another user; and the acts themselves."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio

from paddock import Session

HELD = (".git", ".idea", ".envrc", ".config", "chained", ".vimrc", "app/.husky", "hooked")
"""Links in the folder, each on the way to something guarded."""

_ACTS = """
import os

def remove(path):
    os.unlink(path)

def move(path):
    os.rename(path, path + "-old")

def replace(path):
    new = os.path.join(os.path.dirname(path), "new")
    if not os.path.lexists(new):
        os.symlink("evil", new)
    os.replace(new, path)

def replace_by_a_file(path):
    new = os.path.join(os.path.dirname(path), "newer")
    open(new, "w").close()
    os.replace(new, path)

def append(path):
    with open(path, "a") as file:
        file.write("# by the module")

def move_around(path):
    around = os.path.dirname(path)
    if not around.endswith("app"):
        return os.unlink(path)
    os.rename(around, around + "-old")

ACTS = {act.__name__: act for act in (remove, move, replace, replace_by_a_file, move_around)}

def outcome(act, path):
    try:
        {**ACTS, "append": append}[act](str(path))
    except OSError as error:
        return error.strerror
    return "done"

"""

_WRITER = f"""
from amplifier_core.models import ToolResult
{_ACTS}
class Swap:
    name = "swap"
    description = "replaces what has a name"

    async def execute(self, input):
        return ToolResult(output=[outcome(act, path) for act, path in input["acts"]])

async def mount(coordinator, config):
    await coordinator.mount("tools", Swap())
"""

_swap: dict[str, Any] = {"__name__": "swap"}
exec(_ACTS, _swap)  # the same code outside as inside
ACTS: tuple[str, ...] = tuple(_swap["ACTS"])
outcome = _swap["outcome"]


def make(work: Path) -> None:
    """Make the folder with the links, and what they lead to."""
    for folder in ("real/fish", "git/objects", "git/refs", "idea", "evil", "app", "hooks-here/pre"):
        (work / folder).mkdir(parents=True)
    (work / "git/HEAD").write_text("ref: refs/heads/main\n")
    (work / "git/config").write_text("[core]\n\thooksPath = hooked/pre\n")
    (work / "envrc").write_text("one\n")
    (work / "vimrc").write_text("one\n")
    (work / "app/.git/hooks").mkdir(parents=True)
    (work / "app/check").touch()
    (work / "app/.git/hooks/pre-commit").symlink_to("../../check")
    targets = {
        ".git": "git",
        ".idea": "idea",
        ".envrc": "envrc",
        ".config": "real",
        "chained": "vimrc",
        ".vimrc": "chained",
        "app/.husky": "../idea",
        "hooked": "hooks-here",
    }
    for name in HELD:
        (work / name).symlink_to(targets[name])
    (work / "free").symlink_to("evil")


def main(home: str, level: str) -> None:
    """Print what came of each act, and what people were shown."""
    json.dump(anyio.run(run, Path(home), level), sys.stdout)


async def run(home: Path, level: str) -> dict[str, Any]:
    """Return the same for a session at a level, in the folder `home`."""
    work = home / "work"
    make(work)
    package = home / "amplifier-module-tool-swap" / "amplifier_module_tool_swap"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(_WRITER)
    permissions = {"write": ["."]}
    tool = {"module": "tool-swap", "source": str(package.parent), "permissions": permissions, "isolation": level}
    plan = {"session": {"orchestrator": "loop-basic", "context": "context-simple"}, "tools": [tool]}
    async with Session(plan, working_dir=work, trust_plan=True) as session:
        swap = session.coordinator.get("tools", "swap")

        async def acts(*wanted: tuple[str, Path]) -> list[str]:
            asked = [[act, str(path)] for act, path in wanted]
            return list((await swap.execute({"acts": asked})).output)

        attacks = [(act, work / name) for name in HELD for act in ACTS]
        came = await acts(*attacks)
        leads_to = ("git/config", "envrc", "vimrc", "real/fish/x", "hooks-here/pre/x", "idea/x", "app/check")
        through = await acts(*(("append", work / name) for name in leads_to))
        (free,) = await acts(("remove", work / "free"))
        before = list(session.changes)
        (work / "new-by-user").symlink_to("evil")
        os.replace(work / "new-by-user", work / ".idea")
        with anyio.fail_after(200):
            while not any("was replaced" in line for line in session.changes):
                await anyio.sleep(0.01)
        after = await acts(("remove", work / ".idea"))
        lives = sum(one.restarts for one in session.modules)
    return {
        "attacked": [[path.name, act, one] for (act, path), one in zip(attacks, came, strict=True)],
        "through": through,
        "free": free,
        "at the start": before,
        "after": after,
        "told": list(session.changes),
        "lives": lives,
    }
