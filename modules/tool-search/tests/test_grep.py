"""`grep`: what it finds, what it passes over, what it refuses; and that ripgrep changes nothing but the time."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from amplifier_core.models import ToolResult
from amplifier_core.testing import MockCoordinator
from amplifier_module_tool_search import dialect, grep, mount, ripgrep

pytestmark = pytest.mark.anyio

_RG = shutil.which("rg", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture(params=["python", "ripgrep"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to find the files, of which ripgrep has to be installed beside the tests or on the path."""
    if request.param == "ripgrep" and _RG is None:
        pytest.skip("there is no `rg` beside the interpreter or on the path")
    monkeypatch.setattr(ripgrep.shutil, "which", lambda name: _RG if request.param == "ripgrep" else None)
    return str(request.param)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    files = {
        "a.py": "import os\n\ndef one():\n    return os.sep\n",
        "b.md": "# One\nsee a.py\r\nnothing else\r\n",
        "src/c.py": "from a import one\none()\n",
        "src/deep/d.ts": "const one = 1\n",
        ".hidden/e.py": "one\n",
        ".env": "one=1\n",
        "build/out.py": "one\n",
        ".gitignore": "build/\n*.log\n",
        "x.log": "one\n",
        ".git/config": "one\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())
    return folder


async def run(home: Path, tool: str = "grep", config: dict[str, Any] | None = None, **arguments: Any) -> ToolResult:
    coordinator = MockCoordinator()
    coordinator.register_capability("session.working_dir", str(home))
    await mount(coordinator, config)
    result = await coordinator.get("tools")[tool].execute(arguments)
    assert isinstance(result, ToolResult)
    return result


async def found(home: Path, **arguments: Any) -> dict[str, Any]:
    result = await run(home, **arguments)
    assert result.success, result.error
    return dict(result.output)


def failed(result: ToolResult, kind: str) -> str:
    assert not result.success
    assert result.error is not None
    assert result.error["type"] == kind, result.error
    return str(result.error["message"])


def stand_in_for_ripgrep(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Have a script of the shell run in place of ripgrep."""
    start = subprocess.Popen
    monkeypatch.setattr(ripgrep.shutil, "which", lambda name: "rg")
    monkeypatch.setattr(ripgrep.subprocess, "Popen", lambda command, **how: start(["/bin/sh", "-c", script], **how))


# --- what is found


async def test_files_with_a_match_are_named_in_order(home: Path, engine: str) -> None:
    output = await found(home, pattern="one")
    assert output == {"output_mode": "files_with_matches", "files": ["a.py", "src/c.py", "src/deep/d.ts"]}


async def test_lines_come_with_file_and_number(home: Path, engine: str) -> None:
    output = await found(home, pattern=r"\bone\(", output_mode="content")
    assert output["content"].split("\n") == ["a.py:3:def one():", "src/c.py:2:one()"]
    assert output["matching_lines"] == 2


async def test_lines_are_counted_for_each_file(home: Path, engine: str) -> None:
    output = await found(home, pattern="one", output_mode="count")
    assert output["counts"][1] == {"file": "src/c.py", "count": 2}


async def test_context_is_shown_once_and_parts_are_set_apart(home: Path, engine: str) -> None:
    (home / "n.txt").write_text("".join(f"line {number}\n" for number in range(1, 13)))
    output = await found(home, path="n.txt", pattern="line [359]$", output_mode="content", context=1)
    assert output["content"].split("\n") == [
        "n.txt-2-line 2", "n.txt:3:line 3", "n.txt-4-line 4", "n.txt:5:line 5", "n.txt-6-line 6",
        "--", "n.txt-8-line 8", "n.txt:9:line 9", "n.txt-10-line 10",
    ]  # fmt: skip
    far = await found(home, path="n.txt", pattern="line 1$", output_mode="content", context=20)
    assert far["content"].split("\n")[0] == "n.txt:1:line 1" and len(far["content"].split("\n")) == 12


async def test_windows_line_ends_are_no_part_of_a_line(home: Path, engine: str) -> None:
    assert (await found(home, pattern="else$|py$", output_mode="content", path="b.md"))["content"].split("\n") == [
        "b.md:2:see a.py",
        "b.md:3:nothing else",
    ]
    assert (await found(home, pattern="else$"))["files"] == ["b.md"]


@pytest.mark.parametrize(
    ("arguments", "files"),
    [
        ({"glob": "*.py"}, ["a.py", "src/c.py"]),
        ({"glob": "src/*.py"}, ["src/c.py"]),
        ({"glob": "src/**"}, ["src/c.py", "src/deep/d.ts"]),
        ({"glob": "*.{ts,md}"}, ["src/deep/d.ts"]),
        ({"type": "py"}, ["a.py", "src/c.py"]),
        ({"type": "py", "glob": "c*"}, ["src/c.py"]),
        ({"path": "src"}, ["src/c.py", "src/deep/d.ts"]),
        ({"path": "src/c.py"}, ["src/c.py"]),
        ({"path": "build"}, ["build/out.py"]),
        ({"include_hidden": True, "type": "py"}, [".hidden/e.py", "a.py", "src/c.py"]),
        ({"include_ignored": True}, ["a.py", "build/out.py", "src/c.py", "src/deep/d.ts", "x.log"]),
        ({"case_insensitive": True, "pattern": "ONE"}, ["a.py", "b.md", "src/c.py", "src/deep/d.ts"]),
        ({"literal": True, "pattern": "one()"}, ["a.py", "src/c.py"]),
        ({"literal": True, "pattern": "e = 1"}, ["src/deep/d.ts"]),
        ({"multiline": True, "pattern": r"os\n\ndef"}, ["a.py"]),
        ({"multiline": True, "pattern": "import.*return"}, ["a.py"]),
    ],
)
async def test_arguments_choose_what_is_searched(
    home: Path, engine: str, arguments: dict[str, Any], files: list[str]
) -> None:
    assert (await found(home, **{"pattern": "one", **arguments}))["files"] == files


async def test_a_folder_that_is_named_is_searched_though_it_is_ignored(home: Path, engine: str) -> None:
    (home / "build/out.log").write_text("one\n")
    assert (await found(home, pattern="one", path="build"))["files"] == ["build/out.log", "build/out.py"]


async def test_outside_of_a_repository_no_file_is_ignored(home: Path, engine: str) -> None:
    shutil.rmtree(home / ".git")
    assert "build/out.py" in (await found(home, pattern="one"))["files"]


async def test_a_match_across_lines_shows_each_of_them(home: Path, engine: str) -> None:
    output = await found(home, pattern=r"os\n.*\ndef", multiline=True, output_mode="content")
    assert output["content"].split("\n") == ["a.py:1:import os", "a.py:2:", "a.py:3:def one():"]


# --- what is passed over, and bounds


async def test_binary_files_are_passed_over_and_counted(home: Path, engine: str) -> None:
    (home / "late.bin").write_bytes(b"one\n" + b"x" * 300_000 + b"\0")
    (home / "early.bin").write_bytes(b"\0one\n")
    (home / "other.bin").write_bytes(b"\0two\n")
    output = await found(home, pattern="one", glob="*.{bin,ts}")
    assert (output["files"], output["binary_files_skipped"]) == (["src/deep/d.ts"], 2)


async def test_results_beyond_the_limit_are_cut_and_said(home: Path, engine: str) -> None:
    output = await found(home, pattern="one", head_limit=2)
    assert output["files"] == ["a.py", "src/c.py"] and "raise head_limit" in output["truncated"]
    assert "truncated" not in await found(home, pattern="one", head_limit=3)
    lines = await found(home, pattern="one", head_limit=2, output_mode="content")
    assert lines["matching_lines"] == 2 and "truncated" in lines


async def test_output_and_lines_are_bounded(home: Path, engine: str) -> None:
    (home / "wide.txt").write_text("one" * 100_000 + "\n")
    (home / "long.txt").write_text(("one " * 100 + "\n") * 5000)
    wide = await found(home, pattern="one", output_mode="content", path="wide.txt")
    assert len(wide["content"]) < 600 and "line of 300000 bytes" in wide["content"]
    long = await found(home, pattern="one", output_mode="content", path="long.txt", head_limit=5000)
    assert 100_000 < len(long["content"]) <= 200_000 and "truncated" in long


async def test_a_file_that_is_too_large_is_passed_over_and_counted(home: Path) -> None:
    (home / "large.txt").write_text("one\n" * 100)
    output = dict((await run(home, config={"max_file_bytes": 100, "ripgrep": False}, pattern="one")).output)
    assert output["unreadable_or_large_files_skipped"] == 1 and "large.txt" not in output["files"]


async def test_links_are_not_followed(home: Path, engine: str) -> None:
    outside = home.parent / "outside"
    outside.mkdir()
    (outside / "secret.py").write_text("one\n")
    (home / "door").symlink_to(outside)
    (home / "link.py").symlink_to(outside / "secret.py")
    (home / "loop").symlink_to(".")
    assert (await found(home, pattern="one"))["files"] == ["a.py", "src/c.py", "src/deep/d.ts"]
    for path in ("door", "link.py", "..", str(outside)):
        failed(await run(home, pattern="one", path=path), "not_allowed")


async def test_a_pipe_does_not_keep_a_search(home: Path, engine: str) -> None:
    os.mkfifo(home / "pipe")
    assert (await found(home, pattern="one", path="pipe"))["files"] == []
    assert len((await found(home, pattern="one"))["files"]) == 3


async def test_a_search_stops_when_its_time_is_up(home: Path) -> None:
    for number in range(200):
        (home / f"f{number}").write_text("one\n" * 1000)
    output = dict((await run(home, config={"timeout": 0.000001, "ripgrep": False}, pattern="one")).output)
    assert "stopped after" in output["truncated"]


async def test_a_cancelled_search_ends_ripgrep(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    stand_in_for_ripgrep(monkeypatch, f"exec 3> {pipe}; echo begun >&3; exec sleep 600")
    searching = asyncio.create_task(run(home, pattern="one"))
    printed = await asyncio.to_thread(pipe.open, "rb", 0)
    with printed:
        assert await asyncio.to_thread(printed.readline) == b"begun\n"
        searching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await searching
        assert await asyncio.to_thread(printed.read) == b""  # its end of the pipe is closed: it is gone


@pytest.mark.parametrize("script", ["echo broken >&2; exit 2", "exec /nowhere/at/all"])
async def test_a_ripgrep_that_fails_is_done_without(home: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    stand_in_for_ripgrep(monkeypatch, script)
    assert len((await found(home, pattern="one"))["files"]) == 3


async def test_a_hostile_pattern_takes_no_time_to_speak_of(home: Path, engine: str) -> None:
    (home / "a.txt").write_text("a" * 100_000 + "!\n")
    for pattern in ("(a+)+$", "(a|a)*b", "(a|aa)+c", ".*.*.*.*=.*x"):
        await found(home, pattern=pattern, glob="*.txt")  # each takes years where every way is tried


# --- what is refused


@pytest.mark.parametrize(
    ("arguments", "kind", "said"),
    [
        ({}, "invalid_input", "`pattern` is missing"),
        ({"pattern": ""}, "invalid_input", "must not be empty"),
        ({"pattern": "a\0"}, "invalid_input", "character"),
        ({"pattern": "x" * 1001}, "invalid_input", "at most 1000"),
        ({"pattern": "x", "head_limit": 0}, "invalid_input", "from 1 to"),
        ({"pattern": "x", "output_mode": "all"}, "invalid_input", "one of files_with_matches"),
        ({"pattern": "x", "type": "cobol"}, "invalid_input", "one of c, cpp"),
        ({"pattern": "x", "exclude": "y"}, "invalid_input", "There is no argument `exclude`"),
        ({"pattern": "x", "path": "nowhere"}, "not_found", "nowhere"),
        ({"pattern": "x", "path": "a" * 5000}, "not_found", "There is no"),
        ({"pattern": "x", "glob": "/etc/*"}, "invalid_input", "relative"),
        ({"pattern": "x", "glob": "../*"}, "invalid_input", "relative"),
        ({"pattern": "x", "glob": "{a,b}" * 9}, "invalid_input", "more than 64"),
        ({"pattern": "("}, "invalid_pattern", "missing )"),
        ({"pattern": "(?=a)"}, "invalid_pattern", "no look-around"),
        ({"pattern": r"(a)\1"}, "invalid_pattern", "no backreference"),
        ({"pattern": r"\Qa\E"}, "invalid_pattern", "set literal"),
        ({"pattern": r"a\z"}, "invalid_pattern", "use ^ and $"),
        ({"pattern": "[a--b]"}, "invalid_pattern", ""),
        ({"pattern": r"a\nb"}, "invalid_pattern", "set multiline"),
        ({"pattern": "a\nb"}, "invalid_pattern", "set multiline"),
        ({"pattern": "(a{1000}){1000}"}, "invalid_pattern", ""),
        ({"pattern": "(abcdefghi){500}"}, "invalid_pattern", "something simpler"),
    ],
)
async def test_what_cannot_be_searched_for_is_explained(
    home: Path, arguments: dict[str, Any], kind: str, said: str
) -> None:
    assert said in failed(await run(home, **arguments), kind)


async def test_without_its_engine_the_tool_says_what_is_missing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialect, "re2", None)
    assert "google-re2" in failed(await run(home, pattern="x"), "not_installed")


@pytest.mark.parametrize(
    "config",
    [{"allowed_paths": "."}, {"timeout": 0}, {"timeout": True}, {"max_file_bytes": 1.5}, {"ripgrep": 1}, {"path": "x"}],
)
async def test_a_wrong_configuration_is_refused_at_mount(config: dict[str, Any]) -> None:
    coordinator = MockCoordinator()
    with pytest.raises(ValueError, match=next(iter(config))):
        await mount(coordinator, config)
    assert coordinator.get("tools") == {}


# --- the same from both

_PATTERNS = (
    r"\d+", r"\w+ä", r"[^\d\s]x", r"\bfoo\b", r"\Bo", r"a{2,3}", r"a{,3}", r"x{", r"{}", r"[]a]", r"[a\]]", r"[&&~~]",
    r"[[:alpha:]]+9", r"\pL\pN", r"\p{Greek}", r"^$", r"^", r"foo$", r"(?i)FOO", r"(?s)a.b", r"a.b", r"\x41", r"\t",
    r"\<foo", r"[[a]", r"[\w-]+", r"[^a]$", r"\s$", r"é|É", r"(?:foo|bar)+", r"x*", r"\\", r"\.py", r"\$", r"\"",
    r"\S\s\S", r"\x{42}", r"[\p{Greek}\D]$", r"a|", r"(?i:fo)o", r"\.\*", r"[^\]\[]x", r"\/", r"(?m)^f.*r$",
)  # fmt: skip
_NAMES = ("a.py", "b.log", "ä.txt", "c d.md", ".h.py", "keep.log", "x[1].py", "build", "sub", "node", "Q.PY")
_LINES = (
    "foo bar", "FOO", "aaa", "aXb", "12 x9", "größe ä", "ΑΒΓ", "a\rb", "", "x{ {} ]", "&&", "A\t\\", "foo\r", "tail ",
    "<foo>", "a1b-c", "\u2028é É", "\"$.py\"", "bytes \xff".encode("latin-1").decode("latin-1"),
)  # fmt: skip
_IGNORES = (
    "*.log", "!keep.log", "/build", "build/", "sub/*.py", "**/node", "node/**", "x\\[1\\].py", "c d.md ", "#a.py",
    "[^a].py", "*", "!*/", "!.h.py", "/sub/../a", "a.py\r", "b.log\\ ", "**", "sub/**/a.py", "?.md", "!/build",
)  # fmt: skip


def _tree(folder: Path, chance: random.Random, depth: int = 0) -> Iterator[None]:
    for name in chance.sample(_NAMES, chance.randint(1, 5)):
        place = folder / name
        if depth < 3 and chance.random() < 0.4:
            place.mkdir()
            yield from _tree(place, chance, depth + 1)
        else:
            text = chance.choice(("\n", "\r\n")).join(chance.choices(_LINES, k=chance.randint(0, 6)))
            place.write_bytes(text.encode() + chance.choice((b"", b"\n", b"\xff\n", b"\0")))
    if chance.random() < 0.5:
        (folder / ".gitignore").write_text("\n".join(chance.choices(_IGNORES, k=3)))
    if depth and chance.random() < 0.1:
        (folder / ".git").mkdir(exist_ok=True)
    yield


@pytest.mark.skipif(_RG is None, reason="there is no `rg` beside the interpreter or on the path")
@pytest.mark.parametrize("seed", range(25))
async def test_both_engines_find_the_same_lines_in_any_tree(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    home = tmp_path / "tree"
    (home / ".git").mkdir(parents=True)
    if chance.random() < 0.2:
        (home / ".git").rmdir()
    list(_tree(home, chance))
    for pattern in chance.sample(_PATTERNS, 3):
        arguments: dict[str, Any] = {
            "pattern": pattern,
            "output_mode": "content",
            "head_limit": 5000,
            "case_insensitive": chance.random() < 0.3,
            "include_hidden": chance.random() < 0.3,
            "include_ignored": chance.random() < 0.2,
            "multiline": chance.random() < 0.2,
            **chance.choice([{}, {"glob": "*.py"}, {"type": "py"}, {"glob": "sub/**"}, {"literal": True}]),
        }
        monkeypatch.setattr(ripgrep.shutil, "which", lambda name: None)
        alone = await run(home, **arguments)
        asked: list[Any] = []
        real = ripgrep.Ripgrep.files

        def listen(*given: Any, real: Any = real, asked: list[Any] = asked) -> Any:
            asked.append(real(*given))
            return asked[-1]

        monkeypatch.setattr(ripgrep.shutil, "which", lambda name: _RG)
        with monkeypatch.context() as patched:
            patched.setattr(ripgrep.Ripgrep, "files", listen)
            helped = await run(home, **arguments)
        assert (alone.output, alone.error) == (helped.output, helped.error), arguments
        assert asked and asked[0] is not None, f"ripgrep did not take {arguments}"


@pytest.mark.skipif(_RG is None, reason="there is no `rg` beside the interpreter or on the path")
def test_ripgrep_itself_finds_as_many_lines(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _RG is not None
    said = subprocess.run(
        [_RG, "--no-config", "--sort=path", "-n", "one", "."], cwd=home, capture_output=True, text=True
    )
    output = asyncio.run(found(home, pattern="one", output_mode="content"))
    assert sorted(line.removeprefix("./") for line in said.stdout.splitlines()) == output["content"].split("\n")


def test_ripgrep_is_given_what_was_asked_for_as_no_option(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []
    real = subprocess.Popen

    def start(command: list[str], **how: Any) -> Any:
        commands.append(command)
        return real(command, **how)

    monkeypatch.setattr(ripgrep.shutil, "which", lambda name: "/bin/true")
    monkeypatch.setattr(ripgrep.subprocess, "Popen", start)
    asyncio.run(found(home, pattern="--pre=sh", literal=True, glob="--pre"))
    (command,) = commands
    assert "--regexp=\\-\\-pre=sh" in command and "--pre=sh" not in command and command[-2:] == ["--", "."]
    assert not any(one.startswith("--pre") for one in command)
    assert grep.Grep.name == "grep"
