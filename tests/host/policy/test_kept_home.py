"""Whose a home that is kept is, and what becomes of those that several modules shared."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from paddock.audit import state_folder
from paddock.policy.kept_home import KeptHome

WHOSE = KeptHome("tool-a", "git+https://example.org/modules", Path("/work"))


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}


def test_each_module_source_project_and_instance_has_a_home_of_its_own(environ: dict[str, str]) -> None:
    others = [
        replace(WHOSE, module="tool-b"),
        replace(WHOSE, source="git+https://example.org/others"),
        replace(WHOSE, project=Path("/elsewhere")),
        replace(WHOSE, instance="second"),
    ]
    homes = {one.make(environ) for one in (WHOSE, *others)}
    assert len(homes) == 5
    assert WHOSE.make(environ) in homes
    assert all(home.stat().st_mode & 0o777 == 0o700 for home in homes)


_SHARED = "be27c11402358c34f05ec1961fb23860"  # where the modules of that source had one home in that project


def test_what_modules_of_a_source_shared_is_the_first_ones_and_nobody_loses_it_in_silence(
    environ: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    before = state_folder(environ) / "homes" / _SHARED / "home"
    before.mkdir(parents=True)
    (before / "diary").write_text("of earlier")
    (before.parent / "about.json").write_text("{}\n")
    with caplog.at_level(logging.WARNING):
        first = WHOSE.make(environ)
    assert (first / "diary").read_text() == "of earlier"
    assert not before.parent.exists()
    assert json.loads((first.parent / "about.json").read_text())["module"] == "tool-a"
    (said,) = caplog.messages
    assert "`tool-a`" in said and str(first) in said
    second = replace(WHOSE, module="tool-b").make(environ)
    assert list(second.iterdir()) == []
    assert WHOSE.make(environ) == first and len(caplog.messages) == 1
