"""Flags of one server: what makes another plan of them, what is left out of them, and the line that accepts them."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paddock.cli.mcp.accept_command import accept
from paddock.plan.server_flags import ServerFlags

_FLAGS = ServerFlags(
    "mcp-time==1.0",
    Path("/work/project"),
    ("--zone", "UTC; rm -rf /"),
    {"read": ["/etc/hostname", "a,b"], "env": ["TOKEN=the value"], "net": ["example.org"]},
    {"memory_max": "64M"},
    {"env": {"KEY": "the key"}, "prefix": "time"},
)


@pytest.mark.parametrize(
    "change",
    [
        {"source": "mcp-time==1.1"},
        {"folder": Path("/work/project2")},
        {"arguments": ("--zone",)},
        {"permissions": {**_FLAGS.permissions, "read": ["/etc"]}},
        {"permissions": {**_FLAGS.permissions, "env": ["TOKEN=another"]}},
        {"limits": {}},
        {"config": {"env": {"KEY": "another"}, "prefix": "time"}},
    ],
    ids=str,
)
def test_each_part_of_a_servers_flags_makes_another_plan(change: dict[str, Any]) -> None:
    assert replace(_FLAGS, **change).plan().digest != _FLAGS.plan().digest == replace(_FLAGS).plan().digest
    is_of_the_place = not {"source", "folder", "arguments"}.isdisjoint(change)
    assert (replace(_FLAGS, **change).key != _FLAGS.key) is is_of_the_place


def test_a_folder_by_a_link_is_the_folder_itself(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    assert replace(_FLAGS, folder=tmp_path / "link") == replace(_FLAGS, folder=tmp_path)


def test_the_words_of_a_command_are_read_back_and_its_line_has_no_values(tmp_path: Path) -> None:
    flags = replace(_FLAGS, folder=tmp_path)
    line = flags.line("accept", "--allow-run=git")
    assert "--allow-run=git" in shlex.split(line) and "the value" not in line and "the key" not in line
    options = accept.make_context("accept", flags.words("accept")[3:]).params
    assert (options["source"], options["arguments"]) == (flags.source, flags.arguments)
    assert options["allow_read"] == ("/etc/hostname", "a,,b") and options["allow_env"] == ("TOKEN=the value",)


def test_the_name_of_a_servers_plan_gives_no_folder_for_its_source() -> None:
    plan = replace(_FLAGS, source="../elsewhere/tool-time").plan()
    assert (plan.folder, str(plan.origin)) == (Path("/work/project"), "/work/elsewhere/tool-time")
    (entry,) = plan.entries()
    assert (entry.module, entry.source) == ("tool-time", "/work/elsewhere/tool-time")
