from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paddock.cli.unenforced import unenforced_settings
from paddock.plan import EntryPlace, ModuleEntry


@pytest.mark.parametrize(
    ("written", "settings"),
    [
        ({}, []),
        ({"limits": {"runtime_max": "1s", "start_max": "1s"}}, []),
        ({"limits": {"memory_max": "1M", "cpu_quota": "50%"}}, ["limits.memory_max", "limits.cpu_quota"]),
        ({"permissions": {"env": ["A=b"], "call": ["*"], "emit": ["x:*"], "hooks": ["*"], "secrets": ["A"]}}, []),
        ({"permissions": {"read": ["."], "run": ["git"]}}, ["permissions.read", "permissions.run"]),
        ({"permissions": {"secrets": [{"name": "KEY", "inject": "host"}]}}, ["permissions.secrets: KEY"]),
        ({"permissions": "workspace"}, ["permissions: workspace"]),
        ({"isolation": "none"}, []),
        ({"isolation": "ns"}, ["isolation: ns"]),
        ({"state": "keep"}, ["state: keep"]),
    ],
)
def test_what_is_asked_for_and_not_enforced_is_named(written: dict[str, Any], settings: list[str]) -> None:
    entry = ModuleEntry.read({"module": "tool-x", **written}, EntryPlace("tool", "tools[0]", Path("/")))
    assert unenforced_settings(entry) == settings
