"""A link by way of which other programs come to something guarded stays where it is; its user may replace it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import anyio
import pytest

from escape.ordinary_user import as_ordinary_user, home_of_its_own, require_root
from integration import guarding_links
from integration.guarding_links import HELD
from support.examples import repeating

_SECONDS = 200  # hit only by a hang


def _session(level: str, user: str, folder: Path) -> dict[str, Any]:
    """Return what a module of this user did to links in a session, and what its user did later."""
    if user == "mine":
        return anyio.run(guarding_links.run, folder, level)
    require_root()
    if level == "bwrap" and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    tests = Path(__file__).resolve().parents[1]
    code = f"sys.path.insert(0, {str(tests)!r})\nfrom integration.guarding_links import main\nmain(*sys.argv[1:])"
    with home_of_its_own() as home:
        done = as_ordinary_user(code, str(home), level, home=home, seconds=_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def test_outside_each_of_these_acts_replaces_a_link(tmp_path: Path) -> None:
    for act in guarding_links.ACTS:
        for name in HELD:
            guarding_links.make(tmp_path / "work")
            assert guarding_links.outcome(act, tmp_path / "work" / name) == "done"
            shutil.rmtree(tmp_path / "work")


@pytest.mark.exhaustive("bwrap-ordinary")
@pytest.mark.parametrize(("level", "user"), [("ns", "mine"), ("bwrap", "ordinary"), *repeating(("ns", "ordinary"))])
def test_a_module_replaces_no_link_and_its_user_does(level: str, user: str, tmp_path: Path) -> None:
    seen = _session(level, user, tmp_path)
    assert not {(name, act): came for name, act, came in seen["attacked"] if came == "done"}
    assert {came for *_, came in seen["attacked"]} <= {"Device or resource busy", "Read-only file system"}
    assert seen["through"] == ["Read-only file system"] * len(seen["through"])
    assert seen["free"] == "done"
    assert seen["at the start"] == []
    assert seen["after"] == ["Device or resource busy"]
    end, line = sorted(seen["told"], key=lambda one: "was replaced" in one)
    assert "/evil appeared during the run" in end  # what the user's new link leads to
    assert "was replaced during the run, and leads elsewhere; it is not guarded since: it is another link" in line
    assert seen["lives"] == 0
