"""`list_directory`: what it lists, in which order, how far, and where it does not go."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from amplifier_core.models import ToolResult
from amplifier_core.testing import MockCoordinator
from amplifier_module_tool_filesystem import ListDirectory, Settings, Workspace, listing
from amplifier_module_tool_filesystem import list as list_tool
from amplifier_module_tool_filesystem.pattern import PathPattern

pytestmark = pytest.mark.anyio


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for name in ("src/deep", ".hidden"):
        (folder / name).mkdir(parents=True)
    for name in ("b.md", "a.py", "src/c.py", "src/deep/d.py", ".env", ".hidden/e.py"):
        (folder / name).write_text("text")
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


async def run(home: Path, settings: Settings | None = None, **arguments: Any) -> ToolResult:
    coordinator = MockCoordinator()
    coordinator.register_capability("session.working_dir", str(home))
    return await ListDirectory(Workspace(settings or Settings(), coordinator)).execute(arguments)


def paths(result: ToolResult) -> list[str]:
    assert result.success, result.error
    return [entry["path"] for entry in result.output["entries"]]


def failed(result: ToolResult, kind: str) -> str:
    assert not result.success
    assert result.error is not None
    assert result.error["type"] == kind
    return str(result.error["message"])


async def test_a_folder_is_listed_by_name_with_kinds_and_sizes(home: Path) -> None:
    os.mkfifo(home / "pipe")
    (home / "link").symlink_to("src")
    result = await run(home)
    assert result.output == {
        "path": str(home),
        "entries": [
            {"path": "a.py", "type": "file", "bytes": 4},
            {"path": "b.md", "type": "file", "bytes": 4},
            {"path": "link", "type": "link"},
            {"path": "pipe", "type": "other"},
            {"path": "src", "type": "folder"},
        ],
    }


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.py", ["a.py"]),
        ("**/*.py", ["a.py", "src/c.py", "src/deep/d.py"]),
        ("src/*", ["src/c.py", "src/deep"]),
        ("src/**", ["src/c.py", "src/deep", "src/deep/d.py"]),
        ("**/deep/*", ["src/deep/d.py"]),
        ("**/**/d.py", ["src/deep/d.py"]),
        ("[ab].*", ["a.py", "b.md"]),
        ("?.md", ["b.md"]),
        ("./src/./c.py", ["src/c.py"]),
        ("nothing*", []),
    ],
)
async def test_a_pattern_chooses_what_is_listed(home: Path, pattern: str, expected: list[str]) -> None:
    assert paths(await run(home, pattern=pattern)) == expected


async def test_hidden_names_are_listed_when_asked_for(home: Path) -> None:
    assert ".env" in paths(await run(home, include_hidden=True))
    assert ".hidden/e.py" in paths(await run(home, include_hidden=True, pattern="**/*.py"))


async def test_more_entries_than_the_limit_are_cut_and_said(home: Path) -> None:
    result = await run(home, limit=2)
    assert paths(result) == ["a.py", "b.md"]
    assert "more than 2 entries" in result.output["truncated"]
    assert "truncated" not in (await run(home, limit=3)).output


async def test_a_tree_without_end_is_left_at_a_bound(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_tool, "MAX_VISITED", 3)
    result = await run(home, pattern="**/none")
    assert paths(result) == []
    assert "stopped after 3" in result.output["truncated"]


async def test_links_are_named_and_not_followed(home: Path) -> None:
    (home.parent / "outside").mkdir()
    (home.parent / "outside" / "secret").touch()
    (home / "door").symlink_to(home.parent / "outside")
    (home / "loop").symlink_to(".")
    listed = paths(await run(home, pattern="**"))
    assert {"door", "loop"} <= set(listed)
    assert not any("secret" in path or path.startswith("loop/") for path in listed)
    assert "may not" in failed(await run(home, path="door"), "not_allowed").lower()


async def test_a_folder_that_cannot_be_read_is_passed_over(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.scandir

    def refuse(path: Any) -> Any:
        if str(path).endswith("deep/"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(listing.os, "scandir", lambda path: refuse(f"{path}/" if str(path).endswith("deep") else path))
    assert paths(await run(home, pattern="**/*.py")) == ["a.py", "src/c.py"]


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({"path": "nowhere"}, "not_found"),
        ({"path": "a.py"}, "not_a_folder"),
        ({"path": ".."}, "not_allowed"),
        ({"path": "\ud800"}, "invalid_path"),
        ({"pattern": "/etc/*"}, "invalid_input"),
        ({"pattern": "../*"}, "invalid_input"),
        ({"pattern": "src//c.py"}, "invalid_input"),
        ({"pattern": "/".join("*" * 100)}, "invalid_input"),
        ({"limit": 0}, "invalid_input"),
        ({"limit": 10_001}, "invalid_input"),
    ],
)
async def test_what_cannot_be_listed_is_explained(home: Path, arguments: dict[str, Any], kind: str) -> None:
    failed(await run(home, **arguments), kind)


async def test_a_name_that_is_no_text_is_shown_with_its_bytes(home: Path) -> None:
    os.close(os.open(os.fsencode(home) + b"/caf\xe9", os.O_CREAT))
    assert "caf\\xe9" in paths(await run(home))


@pytest.mark.parametrize(
    ("pattern", "listed"),
    [
        ("[id]/*.tsx", ["[id]/page.tsx"]),
        ("[id]/[sl].*", ["[id]/l.ts", "[id]/s.ts"]),
        ("**/[...slug]/*", ["[id]/[...slug]/page.tsx"]),
        ("[di]/*", ["d/page.tsx", "i/page.tsx"]),
        ("[i]/*.tsx", ["i/page.tsx"]),
    ],
)
async def test_a_part_that_is_there_as_written_is_no_pattern(home: Path, pattern: str, listed: list[str]) -> None:
    for name in ("[id]/page.tsx", "[id]/s.ts", "[id]/l.ts", "[id]/[...slug]/page.tsx", "d/page.tsx", "i/page.tsx"):
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).touch()
    assert paths(await run(home, pattern=pattern)) == listed


def test_a_pattern_of_many_stars_comes_to_an_end(tmp_path: Path) -> None:
    pattern = PathPattern("/".join(["**", "*a*a*a*a*a*a*a*a*b"] * 8), tmp_path)
    assert not pattern.fits("/".join(["a" * 200] * 60))  # trying every way would take longer than the world is old


async def test_folders_may_be_nested_deeper_than_calls(deep: Path) -> None:
    assert paths(await run(deep, path=".", pattern="**/*.txt")) == ["d/" * 1000 + "far.txt"]
