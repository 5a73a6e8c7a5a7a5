from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.exhaustive
def test_the_files_that_each_act_enters_are_counted_and_named() -> None:
    command = [sys.executable, Path(__file__).with_name("trips.py"), "--files"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    counted = re.findall(r"^(\w+) +(\d+) files, expected at most \d+\n((?:    .+\n)+)", done.stdout, re.MULTILINE)
    assert [name for name, _, _ in counted] == ["call", "grant", "process", "module", "source"]
    files = {name: listed.split() for name, _, listed in counted}
    assert {name: int(number) for name, number, _ in counted} == {name: len(one) for name, one in files.items()}
    # One that each cannot do without.
    assert "paddock/rpc/router.py" in files["call"]
    assert "paddock/policy/evaluate.py" in files["grant"]
    assert "paddock/workers/supervisor.py" in files["process"]
    assert "paddock/session/module.py" in files["module"]
    assert "paddock/module_sources/resolve.py" in files["source"]
