"""`glob`: which files it finds, in which order, and what it leaves out."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from amplifier_core.models import ToolResult
from amplifier_core.testing import MockCoordinator
from amplifier_module_tool_search import mount

pytestmark = pytest.mark.anyio


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for name in ("b.md", "a.py", "src/c.py", "src/deep/d.ts", "src/x.log", ".hid/e.py", ".git/config", "node/f.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    (folder / ".gitignore").write_text("*.log\nnode/\n")
    (folder / "door").symlink_to(tmp_path)
    (folder / "link.py").symlink_to("a.py")
    return folder


@pytest.fixture
def deep(home: Path) -> Iterator[Path]:
    """A file behind more folders than a call of Python nests."""
    at = os.open(home, os.O_RDONLY)
    for _ in range(1000):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(os.open("far.txt", os.O_CREAT, dir_fd=at))
    os.close(at)
    yield home
    subprocess.run(["rm", "-rf", str(home / "d")], check=True)


async def run(home: Path, config: dict[str, Any] | None = None, **arguments: Any) -> ToolResult:
    coordinator = MockCoordinator()
    coordinator.register_capability("session.working_dir", str(home))
    await mount(coordinator, config)
    assert sorted(coordinator.get("tools")) == ["glob", "grep"]
    result = await coordinator.get("tools")["glob"].execute(arguments)
    assert isinstance(result, ToolResult)
    return result


@pytest.mark.parametrize(
    ("arguments", "files"),
    [
        ({"pattern": "*.py"}, ["a.py"]),
        ({"pattern": "**/*.py"}, ["a.py", "src/c.py"]),
        ({"pattern": "**/*.{py,ts}"}, ["a.py", "src/c.py", "src/deep/d.ts"]),
        ({"pattern": "src/**"}, ["src/c.py", "src/deep/d.ts"]),
        ({"pattern": "*", "path": "src"}, ["src/c.py"]),
        ({"pattern": "**", "include_ignored": True, "path": "src"}, ["src/c.py", "src/deep/d.ts", "src/x.log"]),
        ({"pattern": "**/*.py", "include_hidden": True}, [".hid/e.py", "a.py", "src/c.py"]),
        ({"pattern": "**/config", "include_hidden": True}, []),
        ({"pattern": "*", "path": "node"}, ["node/f.py"]),
        ({"pattern": "[ab].*"}, ["a.py", "b.md"]),
    ],
)
async def test_files_are_found_by_name(home: Path, arguments: dict[str, Any], files: list[str]) -> None:
    result = await run(home, **arguments)
    assert result.success and result.output == {"files": files}


@pytest.mark.parametrize(
    ("pattern", "files"),
    [
        ("[id]/*.tsx", ["[id]/page.tsx"]),
        ("[id]/[sl].*", ["[id]/l.ts", "[id]/s.ts"]),
        ("{[id],d}/page.tsx", ["[id]/page.tsx", "d/page.tsx"]),
        ("**/[...slug]/*", ["[id]/[...slug]/page.tsx"]),
        ("[di]/*", ["d/page.tsx", "i/page.tsx"]),
    ],
)
async def test_a_part_that_is_there_as_written_is_no_pattern(home: Path, pattern: str, files: list[str]) -> None:
    for name in ("[id]/page.tsx", "[id]/s.ts", "[id]/l.ts", "[id]/[...slug]/page.tsx", "d/page.tsx", "i/page.tsx"):
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).touch()
    assert (await run(home, pattern=pattern)).output == {"files": files}


async def test_more_files_than_the_limit_are_cut_and_said(home: Path) -> None:
    output = (await run(home, pattern="**", limit=2)).output
    assert output["files"] == ["a.py", "b.md"] and "more than 2" in output["truncated"]


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({"pattern": "*", "path": "door"}, "not_allowed"),
        ({"pattern": "*", "path": "a.py"}, "not_a_folder"),
        ({"pattern": "*", "path": "none"}, "not_found"),
        ({"pattern": "../*"}, "invalid_input"),
        ({"pattern": "{a,b}" * 9}, "invalid_input"),
        ({"pattern": "*", "limit": 5_001}, "invalid_input"),
    ],
)
async def test_what_cannot_be_looked_for_is_explained(home: Path, arguments: dict[str, Any], kind: str) -> None:
    result = await run(home, **arguments)
    assert not result.success and result.error is not None and result.error["type"] == kind


async def test_a_pattern_of_many_stars_comes_to_an_end(home: Path) -> None:
    (home / ("a" * 200)).touch()
    (home / ".gitignore").write_text("*a" * 60 + "b\n")
    pattern = "/".join(["**", "*a*a*a*a*a*a*a*a*b"] * 8)
    assert (await run(home, pattern=pattern)).success  # trying every way would take longer than the world is old


async def test_folders_may_be_nested_deeper_than_calls(deep: Path) -> None:
    # The kernel walks a thousand folders for each of them: seconds, and many on a busy machine.
    (far,) = (await run(deep, {"timeout": 600}, pattern="d/**/*.txt")).output["files"]
    assert far == "d/" * 1000 + "far.txt"


@pytest.mark.parametrize(
    "made", ["a pipe", "\n".join(f"*a{number}b*c" for number in range(60_000)), "*a" * 400_000, "**/" * 300_000]
)
async def test_an_ignore_file_of_any_kind_holds_up_no_search(home: Path, made: str) -> None:
    (home / ".gitignore").unlink()
    if made == "a pipe":
        os.mkfifo(home / ".gitignore")
    else:
        (home / ".gitignore").write_text(f"*.md\n{made}")
    (home / "node").rename(home / "other")
    result = await run(home, pattern="*")
    assert result.success
    assert result.output == {"files": ["a.py", "b.md"] if made == "a pipe" else ["a.py"]}
