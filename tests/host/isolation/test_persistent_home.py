"""Whose a home that is kept is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from paddock.isolation.persistent_home import PersistentHome

WHOSE = PersistentHome("tool-a", "git+https://example.org/modules", Path("/work"))


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
