"""Commands in surroundings that nobody intends: each says what the system refused, and none calls it a defect."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from integration.command_line import paddock
from integration.conftest import WriteModule
from support.examples import IN_FULL

_SECONDS = 200
_COMMAND = [sys.executable, "-c", "from paddock.cli import main; main()"]
_PLAN = """
session: {orchestrator: loop-basic, context: context-simple}
providers: [{module: provider-mock, config: {responses: [hello]}}]
tools: [{module: tool-x, source: ./amplifier-module-tool-x}]
"""
_MODULE = "async def mount(coordinator, config): pass"
# Each reads or writes files of the user's, and starts no module where these are not as they should be.
_COMMANDS = (
    ["list"],
    ["list", "--json"],
    ["lock"],
    ["verify"],
    ["why", "tool-x", "read", "notes.txt", "--plan", "plan.yaml"],
    ["add", "./amplifier-module-tool-x", "--to", "plan.yaml"],
    ["remove", "tool-x", "--from", "plan.yaml"],
    ["call", "tool-x", "x"],
    ["cache", "list"],
    ["cache", "prune"],
    ["module", "new", "tool", "y"],
    ["run", "plan.yaml", "hello", "--json"],
)
_PLACES = (
    "work/plan.yaml",
    "work/paddock.lock",
    "work/amplifier-module-tool-x",
    "home/.config/paddock",
    "home/.config/paddock/policy.toml",
    "home/.config/paddock/grants.toml",
    "home/.config/paddock/secrets.toml",
    "home/.config/paddock/sources.toml",
    "home/.cache/paddock",
    "home/.local/state/paddock",
    "home/.local/state/paddock/audit.jsonl",
    "home/.local/state/paddock/sessions",
)
_KINDS: dict[str, Callable[[Path], object]] = {
    "fifo": os.mkfifo,
    "folder": os.mkdir,
    "garbage": lambda path: path.write_bytes(b"\0\xff no text"),
    "loop": lambda path: path.symlink_to(path.name),
    "dangling": lambda path: path.symlink_to("/nowhere/at/all"),
}


def cold(args: list[str], redirections: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command with the redirections of a shell."""
    return subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {redirections}', "sh", *_COMMAND, *args],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )


@pytest.mark.exhaustive
def test_output_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    refused = {">&-": "Bad file descriptor", ">/dev/full": "No space left on device"}
    for args, redirection in (
        (["--version"], ">&-"),
        (["help", "plans"], ">/dev/full"),
        (["list", "--json"], ">&-"),
    ):
        done = cold(args, redirection, tmp_path)
        assert done.returncode == 1, done.stderr
        assert done.stderr == f"error: the output cannot be written to stdout: {refused[redirection]}\n"
    for redirection in ("<&- 2>&-", "2>/dev/full"):
        done = cold(["list", "--json"], redirection, tmp_path)
        assert done.returncode == 0 and not done.stderr


def test_a_turn_survives_without_any_standard_stream(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(_PLAN.rpartition("tools:")[0])
    done = cold(["run", "plan.yaml", "hello"], "<&- 2>&-", tmp_path)
    assert (done.returncode, done.stdout) == (0, "hello\n")
    if IN_FULL:
        done = cold(["run", "plan.yaml", "hello"], ">&-", tmp_path)
        assert done.returncode == 1 and "cannot be written to stdout" in done.stderr
        assert cold(["run", "plan.yaml", "hello"], "<&- >&- 2>&-", tmp_path).returncode == 1
    done = cold(["run", "plan.yaml"], "<&-", tmp_path)
    assert done.returncode == 2 and "the prompt is empty" in done.stderr


@pytest.mark.exhaustive
def test_a_prompt_that_no_message_holds_is_refused_with_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(_PLAN.rpartition("tools:")[0])
    (tmp_path / "prompt.txt").write_text("a" * (17 << 20))
    done = cold(["run", "plan.yaml", "--json"], "<prompt.txt", tmp_path)
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["type"]) == (1, "PromptTooLargeError")
    assert "put it in a file" in error["hints"][0] and "defect" not in done.stderr


@pytest.mark.exhaustive("-n 24", "-v 400000")
@pytest.mark.parametrize("limit", ["-f 0", "-n 24", "-v 400000"])
def test_a_limit_of_the_shell_is_no_defect(limit: str, tmp_path: Path) -> None:
    for args in (["list"], ["module", "new", "tool", "y"]) if limit == "-f 0" else (["list"],):
        done = subprocess.run(
            ["/bin/sh", "-c", f'ulimit {limit}; exec "$@"', "sh", *_COMMAND, *args],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        assert done.returncode in (0, 1) and "defect" not in done.stderr, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3 if IN_FULL else 1))
def test_files_of_odd_kinds_are_no_defect(seed: int, write_module: WriteModule, tmp_path: Path) -> None:
    chosen = random.Random(seed)
    for number in range(12):
        home, work = tmp_path / f"{number}/home", tmp_path / f"{number}/work"
        for folder in (home / ".config/paddock", home / ".cache/paddock", home / ".local/state/paddock", work):
            folder.mkdir(parents=True)
        shutil.copytree(write_module("tool-x", _MODULE), work / "amplifier-module-tool-x")
        (work / "plan.yaml").write_text(_PLAN)
        place, kind, args = chosen.choice(_PLACES), chosen.choice(list(_KINDS)), chosen.choice(_COMMANDS)
        odd = tmp_path / str(number) / place
        if odd.is_dir():
            shutil.rmtree(odd)
        odd.unlink(missing_ok=True)
        _KINDS[kind](odd)
        done = paddock(*args, cwd=work, environ={"HOME": str(home), "XDG_CACHE_HOME": ""})
        told = f"{args} where {place} is a {kind} (seed {seed}): {done.stderr}"
        assert done.returncode in (0, 1, 2, 4, 5), told
        assert "defect" not in done.stderr and "Traceback" not in done.stderr, told
