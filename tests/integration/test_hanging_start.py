"""A start that hangs says what the module was doing: which programs it ran, and what these printed last."""

from __future__ import annotations

from pathlib import Path

import pytest

from host.policy.entries import entry
from integration.command_line import paddock
from integration.conftest import WriteModule
from integration.tricky_tool import json_output
from paddock.session.load_error import hanging_error
from paddock_sandbox.profile import IsolationLevel
from support.rows import each_row

pytestmark = pytest.mark.usefixtures("in_tmp_path")

_STARTING = """
    import subprocess

    async def mount(coordinator, config):
        subprocess.run([{program!r}, "--key=s3cret", "server"])
"""
_PROGRAM = "#!/bin/sh\necho 'the server is being fetched' >&2\nsleep 600\n"


def test_a_start_that_hangs_names_its_programs_and_their_last_words(
    write_module: WriteModule, folder: Path, a_level: IsolationLevel
) -> None:
    program = folder / "npx"
    program.write_text(_PROGRAM)
    program.chmod(0o755)
    source = write_module("tool-starting", _STARTING.format(program=str(program)))
    granted = [f"--allow-run={program},sh,sleep", f"--allow-read={folder}"]
    done = paddock("call", source, "x", *granted, f"--isolation={a_level}", "--limit=start_max=3s", "--json")
    error = json_output(done)["error"]
    assert done.returncode == 5 and error["report"]["reason"] == "timeout"
    assert "not mounted within 3 s; it was running `sh npx`, `sleep 600`" in error["message"]
    assert "s3cret" not in done.stdout + done.stderr
    assert "the server is being fetched" in done.stderr
    assert [True for one in error["hints"] if "grant `net: [registry.npmjs.org]`" in one] == [True], error["hints"]


@each_row(
    ("name", "net", "hint"),
    [
        ("npx", [], "grant `net: [registry.npmjs.org]`"),
        ("uvx", [], "grant `net: [pypi.org, files.pythonhosted.org]`"),
        ("docker", [], "asks a service outside of the sandbox"),
        ("npx", ["self"], "grant `net: [registry.npmjs.org]`"),
        ("npx", ["registry.npmjs.org"], ""),
        ("serve", [], ""),
    ],
)
def test_what_a_program_lacks_is_a_hint(name: str, net: list[str], hint: str) -> None:
    error = hanging_error(entry(permissions={"net": net}), 3, (f"sh {name}", "sleep 600"), None)
    assert f"was running `sh {name}`, `sleep 600`" in str(error)
    assert [hint in one for one in error.hints] == [True] * bool(hint), error.hints
