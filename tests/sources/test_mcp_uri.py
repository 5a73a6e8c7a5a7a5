"""The sources of MCP servers: how they are written, named, judged and pinned."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock_sources import SourceUriError, parse_source
from paddock_sources.kinds.mcp_uri import McpPypiUri
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
    assert isinstance(uri, McpPypiUri)
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
