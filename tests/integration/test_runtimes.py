"""Common runtimes start at every level with nothing but their grant: what they read at their start is readable."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from integration.command_line import require_level
from integration.probe import call_once
from paddock.policy.programs import SEARCH_PATH
from support.examples import repeating

_STARTS = {
    "node": 'node -e \'require("https"); console.log("up")\'',
    "python3": "python3 -c 'import ssl; ssl.create_default_context(); print(\"up\")'",
    "git": "echo up > file; git grep --no-index -h up file",
    "curl": "echo up > file; curl -sS file://$PWD/file",
    "perl": "perl -MPOSIX -e 'print \"up\\n\"'",
    "ruby": "ruby -ropenssl -e 'puts \"up\"'",
    "java": "echo 'class A { public static void main(String[] a) { System.out.println(\"up\"); } }' > A.java && "
    "java A.java",
}


@pytest.mark.exhaustive("java", "ruby", "perl", "node-landlock", "curl-landlock", "git-ns")
@pytest.mark.parametrize(
    ("level", "grant"),
    [
        ("ns", "by its name"),
        ("landlock", "with all programs"),
        *repeating(
            ("ns", "with all programs"),
            ("landlock", "by its name"),
            ("bwrap", "by its name"),
            ("bwrap", "with all programs"),
        ),
    ],
)
@pytest.mark.parametrize("program", _STARTS)
async def test_a_runtime_starts(program: str, grant: str, level: str, home: Path) -> None:
    if shutil.which(program, path=os.pathsep.join(SEARCH_PATH)) is None:
        pytest.skip(f"{program} is not installed")
    (home / "work/made").mkdir()
    command = {"command": f"cd {home}/work/made && {_STARTS[program]}"}
    granted = {"write": ["./made"], "run": ["*"] if grant == "with all programs" else ["bash", program]}
    options: dict[str, Any] = {"permissions": granted, "isolation": require_level(level), "home": home}
    result = (await call_once("builtin:tool-bash", "bash", command, **options)).result
    assert (result.output or result.error) == {"stdout": "up\n", "stderr": "", "returncode": 0}
