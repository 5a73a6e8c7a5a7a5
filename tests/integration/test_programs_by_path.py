"""Programs that are granted by their paths run with what they need, and nothing beside them does: in real processes."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from integration.command_line import require_level
from integration.conftest import WriteModule
from integration.probe import call_once, tool_code
from paddock.plan.permissions import preset_grants
from paddock.policy.programs import Program
from paddock_sandbox.profile import IsolationLevel

_RUNNER = """
    import subprocess
    def run(command):
        try:
            return subprocess.run(command, capture_output=True, text=True, check=True, timeout=50).stdout.strip()
        except (OSError, subprocess.CalledProcessError) as error:
            return f"refused: {error} {getattr(error, 'stderr', '')}"

    for path, copied in input["copied"].items():
        with open(path, "rb") as source, open(copied, "wb") as target:
            target.write(source.read())
    said = [run(command) for command in input["commands"]]
    return ToolResult(success=not any("refused" in one for one in said), output=said, error={"said": said})
"""


class Runner:
    """Calls of a tool that runs commands, each with the permissions that a test gives it."""

    def __init__(self, source: str, home: Path, level: IsolationLevel) -> None:
        self.work = home / "work"
        self.level = level
        self.denied: list[str] = []
        self._source = source
        self._home = home

    @property
    def shell(self) -> dict[str, list[str]]:
        """What the preset stands for; without mounts the lock file in the folder would be written to as well."""
        granted = preset_grants()["shell"].model_dump(include={"read", "write", "run"}, mode="json")
        return granted if self.level == "ns" else {**granted, "write": ["out"]}

    async def __call__(self, *commands: str, copied: dict[str, str] | None = None, **permissions: Any) -> list[str]:
        """Return what each command printed, or why it did not run; `denied` are the lines that would allow more."""
        input = {"commands": [shlex.split(command) for command in commands], "copied": copied or {}}
        options: dict[str, Any] = {"permissions": permissions, "isolation": self.level, "home": self._home}
        outcome = await call_once(self._source, "runner", input, **options)
        assert outcome.error is None, outcome.error
        error = outcome.result.error or {}
        self.denied = [one["grant"] for one in error.get("denials", []) if one["operation"] == "run"]
        return list(outcome.result.output)


@pytest.fixture
def runner(write_module: WriteModule, home: Path) -> Runner:
    (home / "work/out").mkdir()
    return Runner(write_module("tool-runner", tool_code("runner", _RUNNER)), home, require_level("ns"))


@pytest.fixture
def runner_at_each_level(runner: Runner, level: IsolationLevel) -> Runner:
    runner.level = level
    return runner


def script(path: Path, line: str, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([f"#!{line}", *lines, ""]))
    path.chmod(0o755)
    return path


@pytest.mark.exhaustive("landlock")
async def test_a_script_runs_with_its_interpreter_and_none_beside_it(runner_at_each_level: Runner) -> None:
    runner = runner_at_each_level
    script(runner.work / "build", "/bin/sh", "echo built")
    script(runner.work / "other", "/bin/sh", "echo other")
    assert subprocess.run([runner.work / "other"], capture_output=True, check=True).stdout == b"other\n"
    built, other = await runner("./build", "./other", run=["./build"])
    assert built == "built" and other.startswith("refused")
    assert runner.denied == ['permissions: {run: ["./build", "./other"]}']
    assert await runner("./build", "./other", run=["./build", "./other"]) == ["built", "other"]
    # A folder stands for the programs in it, and not for their interpreters.
    (other,) = await runner("./other", run=["./"])
    assert other.startswith("refused")
    assert await runner("./other", run=["./", "sh"]) == ["other"]
    beside = script(runner.work.parent / "kit/tool", "/bin/sh", "echo beside")
    assert await runner(str(beside), run=["../kit/tool"]) == ["beside"]


async def test_a_binary_that_a_module_wrote_beside_a_granted_one_does_not_run(runner_at_each_level: Runner) -> None:
    runner = runner_at_each_level
    echo = str(Program.find("echo").path)
    for name in ("mine", "granted"):
        shutil.copy(echo, runner.work / "out" / name)
    assert subprocess.run([runner.work / "out/mine", "hello"], capture_output=True, check=True).stdout == b"hello\n"
    acts: dict[str, Any] = {"copied": {echo: str(runner.work / "out/mine")}, "write": ["out"]}
    granted, mine = await runner("out/granted hello", "out/mine hello", **acts, run=["./out/granted"])
    assert granted == "hello" and "Permission denied" in mine
    assert await runner("out/mine hello", **acts, run=["./out/"]) == ["hello"]


async def test_a_virtual_environment_runs_with_the_python_it_was_made_from(
    runner: Runner, a_level: IsolationLevel
) -> None:
    runner.level = a_level
    venv.create(runner.work / ".venv", symlinks=True)
    site = next((runner.work / ".venv").glob("lib/python*/site-packages"))
    (site / "project_helper.py").write_text("said = 'helped'\n")
    python = runner.work / ".venv/bin/python"
    lines = ("import json, ssl, sys, project_helper", "print(project_helper.said, sys.prefix)")
    check = script(runner.work / ".venv/bin/check", str(python), *lines)
    expected = f"helped {runner.work}/.venv"
    assert subprocess.run([check], capture_output=True, text=True, check=True).stdout.strip() == expected
    (refused,) = await runner(".venv/bin/check", read=["."])
    assert refused.startswith("refused")
    # The second is found in `PATH`.
    assert await runner(".venv/bin/check", "check", run=[".venv/bin/check"]) == [expected, expected]
    assert await runner(".venv/bin/check", run=[".venv/bin/"]) == [expected]
    assert await runner(".venv/bin/check", **runner.shell) == [expected]


async def test_the_preset_shell_runs_what_it_says(runner: Runner) -> None:
    script(runner.work / "gradlew", "/bin/sh", "echo built by $(basename $0)")
    commands = ("./gradlew", "sh -c 'cp gradlew out/made && out/made'", f"cat {runner.work.parent}/.ssh/id_x")
    built, made, key = await runner(*commands, **runner.shell)
    assert (built, made) == ("built by gradlew", "built by made")
    assert "No such file" in key
    (built,) = await runner("./gradlew", **{**runner.shell, "run": []})
    assert built.startswith("refused")


async def test_a_shim_runs_what_it_chooses_from_and_shows_no_keys(runner: Runner, home: Path) -> None:
    cargo, pyenv = home / ".cargo/bin", home / ".pyenv"
    script(home / ".rustup/toolchains/stable/bin/cargo", "/bin/sh", 'echo "cargo, $1"')
    script(cargo / "rustup", "/bin/sh", 'exec "$HOME/.rustup/toolchains/stable/bin/${0##*/}" "$@"')
    (cargo / "cargo").symlink_to("rustup")
    (home / ".cargo/credentials.toml").write_text("token")
    script(pyenv / "versions/3/bin/tool", "/bin/sh", "echo version 3")
    script(pyenv / "shims/tool", "/bin/sh", f"exec {pyenv}/versions/3/bin/tool")
    granted = ["~/.cargo/bin/cargo", "~/.pyenv/shims/tool", "ls"]
    *ran, seen = await runner("cargo test", "tool", f"ls -A {home}/.cargo", f"ls -A {home}", run=granted)
    assert ran == ["cargo, test", "version 3", "bin"]
    assert {".cargo", ".pyenv", ".rustup"} <= set(seen.split()) and ".ssh" not in seen


@pytest.mark.exhaustive
async def test_a_binary_runs_with_the_libraries_it_names(runner: Runner, home: Path) -> None:
    compiler = shutil.which("cc") or pytest.skip(f"there is no cc in {os.get_exec_path()}")
    kit = home / "kit"
    (kit / "parts").mkdir(parents=True)
    (kit / "part.c").write_text("int answer(void) { return 42; }")
    (kit / "main.c").write_text("int answer(void); int main(void) { return answer() != 42; }")
    library = [compiler, "-shared", "-fPIC", "-o", "parts/libpart.so", "part.c"]
    program = [compiler, "-o", "tool", "main.c", "-Lparts", "-lpart", "-Wl,-rpath,$ORIGIN/parts"]
    for command in (library, program):
        subprocess.run(command, cwd=kit, check=True, capture_output=True)
    (home / "work/tool").symlink_to("../kit/tool")
    assert await runner("./tool", f"{kit}/tool", run=["./tool", "~/kit/tool"]) == ["", ""]


def _leads_to_keys(python: Path, keys: Path) -> None:
    python.symlink_to(keys)


def _is_a_script_for_a_key(python: Path, keys: Path) -> None:
    script(python, f"{keys}/id_x")


def _was_made_from_keys(python: Path, keys: Path) -> None:
    python.symlink_to("/usr/bin/python3")
    (python.parent.parent / "pyvenv.cfg").write_text(f"home = {keys}/bin\n")


def _has_keys_for_libraries(python: Path, keys: Path) -> None:
    python.symlink_to("/usr/bin/python3")
    (python.parent.parent / "lib").symlink_to(keys)


def _leads_to_a_tool_beside_keys(python: Path, keys: Path) -> None:
    python.symlink_to(script(keys / "bin/tool", "/bin/sh"))


@pytest.mark.parametrize(
    "lie",
    [
        _leads_to_keys,
        _is_a_script_for_a_key,
        _was_made_from_keys,
        _has_keys_for_libraries,
        _leads_to_a_tool_beside_keys,
    ],
)
@pytest.mark.parametrize("level", ["ns", pytest.param("landlock", marks=pytest.mark.exhaustive)])
async def test_an_environment_in_a_folder_shows_no_keys(
    runner: Runner, home: Path, lie: Callable[[Path, Path], None], level: IsolationLevel
) -> None:
    runner.level = require_level(level)
    keys = [home / ".ssh/id_x", home / ".ssh/conf/id_y"]
    keys[1].parent.mkdir()
    keys[1].write_text("the other key")
    (runner.work / ".venv/bin").mkdir(parents=True)
    (runner.work / ".venv/pyvenv.cfg").write_text("home = /usr/bin\n")
    lie(runner.work / ".venv/bin/python", home / ".ssh")
    read = [f"cat {key}" for key in keys]
    assert all(subprocess.run(shlex.split(one), capture_output=True, check=True).stdout for one in read)
    said = await runner(*read, "echo as ever", **runner.shell)
    assert said[-1] == "as ever" and all(one.startswith("refused") for one in said[:-1]), said
