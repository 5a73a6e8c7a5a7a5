"""The sources of MCP servers: how they are written, named, judged and pinned."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from paddock_sources import SourceUriError, parse_source
from support.rows import each_row


@each_row(
    "text, key, module_id",
    [
        ("mcp+pypi:mcp-server-time==2026.10.19", "mcp+pypi:mcp-server-time==2026.10.19", "tool-mcp-time"),
        ("mcp+pypi:MCP_Server.Time", "mcp+pypi:mcp-server-time", "tool-mcp-time"),
        ("mcp+pypi:server-x==1!2.0", "mcp+pypi:server-x==1!2.0", "tool-mcp-x"),
        ("mcp+pypi:mcp-x", "mcp+pypi:mcp-x", "tool-mcp-x"),
        ("mcp+pypi:weather-mcp", "mcp+pypi:weather-mcp", "tool-mcp-weather-mcp"),
    ],
)
def test_a_server_in_a_package_has_one_key_and_a_short_name(text: str, key: str, module_id: str) -> None:
    uri = parse_source(text)
    assert (uri.key(Path("/")), uri.short_name) == (key, module_id)
    assert parse_source(key).key(Path("/")) == key


@each_row("text", ["mcp+pypi:", "mcp+pypi:a>=1", "mcp+pypi:a==", "mcp+pypi:a/b==1", "mcp+pypi:-a", "mcp+pypi:a[b]==1"])
def test_what_names_no_package_at_an_exact_version_is_refused(text: str) -> None:
    with pytest.raises(SourceUriError, match=r"is no package, nor one at an exact version") as caught:
        parse_source(text)
    assert "`mcp+pypi:NAME==VERSION`" in caught.value.hints[0]


def test_a_server_without_a_version_is_loose_until_a_lock_has_one() -> None:
    loose, exact = parse_source("mcp+pypi:mcp-server-time"), parse_source("mcp+pypi:mcp-server-time==1")
    assert loose.looseness("") is not None and (loose.looseness("1"), exact.looseness("")) == (None, None)
    assert (loose.at_commit("1"), exact.at_commit("2"), loose.at_ref("1")) == (exact.text, exact.text, exact)
    assert exact.at_any_version() == loose


@each_row("path", ["", "server.py", "~/server.py", "/", "./", "./a/", "a/b", ".."])
def test_a_command_is_a_path_of_a_program(path: str) -> None:
    with pytest.raises(SourceUriError, match="is no path of a program") as caught:
        parse_source(f"mcp+command:{path}")
    assert caught.value.hints[0].startswith("write `mcp+command:./server.py`")


def test_a_command_starts_at_its_plan_and_is_judged_by_where_it_leads(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    (real / "python").symlink_to(sys.executable)
    written = parse_source("mcp+command:./link/python")
    uri = written.anchored(tmp_path).held()
    assert (uri.text, uri.short_name) == (f"mcp+command:{real}/python", "tool-mcp-python")
    assert uri.ruled_by == ("folder", os.path.realpath(sys.executable))
    (real / "server.py").touch()
    inside, outside = (
        parse_source(f"mcp+command:{real}/server.py").key(folder) for folder in (tmp_path, tmp_path / "x")
    )
    assert (inside, outside) == ("mcp+command:./real/server.py", f"mcp+command:{real}/server.py")
    assert parse_source(inside).lock_spelling()[0] == inside
    assert parse_source("mcp+command:./a/../b.py").lock_spelling()[0] == "mcp+command:./b.py"
