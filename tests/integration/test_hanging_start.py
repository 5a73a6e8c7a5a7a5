"""A start that hangs says what the module was doing: which programs it ran, and what these printed last."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.command_line import paddock
from integration.conftest import WriteModule
from integration.tricky_tool import json_output
from paddock_sandbox.profile import IsolationLevel

pytestmark = pytest.mark.usefixtures("in_tmp_path")

_STARTING = """
    import subprocess

    async def mount(coordinator, config):
        subprocess.run([{program!r}, "--key=s3cret", "server"])
"""
_PROGRAM = "#!/bin/sh\necho 'the server is being fetched' >&2\nsleep 600\n"


@pytest.mark.parametrize(
    ("name", "options", "hint"),
    [
        ("npx", [], "grant `net: [registry.npmjs.org]`"),
        ("uvx", [], "grant `net: [pypi.org, files.pythonhosted.org]`"),
        ("docker", [], "asks a service outside of the sandbox"),
        ("npx", ["--allow-net=self"], "grant `net: [registry.npmjs.org]`"),
        ("npx", ["--allow-net=registry.npmjs.org"], ""),
        ("serve", [], ""),
    ],
)
def test_a_start_that_hangs_names_its_programs_and_their_last_words(
    write_module: WriteModule, folder: Path, a_level: IsolationLevel, name: str, options: list[str], hint: str
) -> None:
    program = folder / name
    program.write_text(_PROGRAM)
    program.chmod(0o755)
    source = write_module("tool-starting", _STARTING.format(program=str(program)))
    if "--allow-net=self" in options and a_level == "landlock":
        options = []  # the level has no such grant
    granted = [f"--allow-run={program},sh,sleep", f"--allow-read={folder}", *options]
    done = paddock("call", source, "x", *granted, f"--isolation={a_level}", "--limit=start_max=3s", "--json")
    error = json_output(done)["error"]
    assert done.returncode == 5 and error["report"]["reason"] == "timeout"
    assert f"not mounted within 3 s; it was running `sh {name}`, `sleep 600`" in error["message"]
    assert "s3cret" not in done.stdout + done.stderr
    assert "the server is being fetched" in done.stderr
    told = [one for one in error["hints"] if "fetches" in one or "asks a service" in one]
    assert [hint in one for one in told] == [True] * bool(hint), told
