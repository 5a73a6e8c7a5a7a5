"""The line of the audit log on a module that has ended: all its used grants, by their places."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from host.policy.entries import entry, owner
from paddock.plan.grant_use import GrantUse
from paddock.policy.grants import Grants
from paddock.session.resource_use import record_use
from paddock_sdk.worker.attempts.attempt_log import MOST_PATHS, SOMEWHERE


def _line(
    folder: Path,
    permissions: dict[str, Any],
    *,
    opened: Mapping[str, set[int]] | None = None,
    programs: tuple[str, ...] = (),
    gate: Any = None,
) -> dict[str, Any]:
    """Return the line on a module with these permissions."""
    granted = entry(permissions=permissions)
    lines: list[dict[str, Any]] = []
    module = SimpleNamespace(
        name="tool-x",
        calls=0,
        authority=SimpleNamespace(use=GrantUse(granted.permissions)),
        supervisor=SimpleNamespace(opened_paths=opened or {}, cpu_seconds=0.0, peak_memory_bytes=None, restarts=0),
        attempts=SimpleNamespace(programs=programs),
        audit=SimpleNamespace(record=lambda event, **facts: lines.append(facts)),
    )
    grants = Grants.of(granted, folder, owner(), lambda path, is_written: None)
    record_use(module, grants, gate)  # type: ignore[arg-type]
    (line,) = lines
    return line


def test_connections_keys_and_programs_are_told_by_places(tmp_path: Path) -> None:
    permissions = {
        "net": ["self", "a.example.org", "b.example.org"],
        "secrets": ["HANDED", {"name": "KEY", "inject": "b.example.org"}],
        "run": ["sh", "ls"],
    }
    gate = SimpleNamespace(used={"net": {"b.example.org"}, "secrets": {"KEY"}})
    line = _line(tmp_path, permissions, programs=("ls",), gate=gate)
    assert (line["grants"], line["unseen"]) == ({"net": [2], "secrets": [1], "run": [1]}, ["run"])
    assert _line(tmp_path, permissions)["unseen"] == []


@pytest.mark.parametrize(
    ("count", "opened", "unseen"),
    [
        (MOST_PATHS, {}, []),
        (MOST_PATHS + 1, {}, ["read", "write"]),
        (1, {"read": {SOMEWHERE}}, ["read", "write"]),
        (1, {"write": {SOMEWHERE}}, ["write"]),
    ],
)
def test_of_files_nothing_is_known_where_not_all_names_are_watched(
    count: int, opened: dict[str, set[int]], unseen: list[str], tmp_path: Path
) -> None:
    names = [f"n{number}" for number in range(count)]
    for name in names:
        (tmp_path / name).mkdir()
    assert _line(tmp_path, {"read": names}, opened=opened)["unseen"] == unseen


def test_a_path_of_two_names_takes_two_places(tmp_path: Path) -> None:
    names = [f"n{number}" for number in range(MOST_PATHS)]
    for name in names:
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "n0")
    assert "read" in _line(tmp_path, {"read": ["link", *names[1:]]})["unseen"]
