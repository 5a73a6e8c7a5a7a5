"""What an MCP server said of itself, in a lock file."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paddock_sources.lock.lock_text import LockTextError, lock_text, parse_lock
from paddock_sources.lock.locked_module import LockedDependency, LockedModule, LockedServer
from support.rows import each_row

_DIGEST = f"sha256:{'0a' * 32}"
_SERVER = LockedModule(
    "mcp+pypi:mcp-server-time==2026.10.19",
    "2026.10.19",
    "2026.10.19",
    hashes=(_DIGEST,),
    dependencies=(LockedDependency("mcp-server-time", "2026.10.19", (_DIGEST,)),),
)
_SAID = LockedServer("2026-07-28", "mcp-time 2.3.0", {"get time": _DIGEST, "convert": _DIGEST}, _DIGEST)
_TEXT = f"""\
version = 2

[[module]]
source = "mcp+pypi:mcp-server-time==2026.10.19"
requested_ref = "2026.10.19"
commit = "2026.10.19"
hashes = [
    "{_DIGEST}",
]

[module.mcp]
protocol = "2026-07-28"
server = "mcp-time 2.3.0"
instructions = "{_DIGEST}"

[module.mcp.definitions]
"convert" = "{_DIGEST}"
"get time" = "{_DIGEST}"

[[module.dependency]]
name = "mcp-server-time"
version = "2026.10.19"
hashes = [
    "{_DIGEST}",
]
"""


def test_a_row_of_a_server_is_written_and_read_byte_for_byte() -> None:
    pinned = replace(_SERVER, mcp=_SAID)
    text = lock_text([pinned])
    assert text.endswith(_TEXT) and parse_lock(text).modules == (pinned,)
    assert lock_text([_SERVER]).splitlines()[2:4] == ["version = 1", ""]
    changed = replace(_SAID, definitions={**_SAID.definitions, "convert": _DIGEST.replace("0a", "0b")})
    assert len({one.digest for one in (_SERVER, pinned, replace(pinned, mcp=changed))}) == 3


@each_row(
    "old, new, line, said",
    [
        ("version = 2", "version = 1", 11, "unknown key `mcp`"),
        ("protocol =", "protocoll =", 12, "unknown key `protocoll`"),
        ('"2026-07-28"', '"latest"', 12, "`protocol` is not what"),
        ('server = "mcp-time 2.3.0"\n', "", 11, "a `protocol` and a `server`"),
        ('"mcp-time 2.3.0"', f'"{"x" * 201}"', 13, "`server` is not what"),
        ('"mcp-time 2.3.0"', '"a\\u202eb"', 13, "`server` is not what"),
        ('"get time" =', '"a\\u0007" =', 16, "something that is not `tool"),
        (f'"get time" = "{_DIGEST}"', '"get time" = "md5:0"', 16, "something that is not `tool"),
        ('"get time" =', "".join(f'a{n} = "{_DIGEST}"\n' for n in range(512)) + "b =", 16, "512 tools at most"),
        ('"mcp-server-time"', '"mcp_server_time"\nx = 1', 22, "unknown key `x`"),
        ('mcp+pypi:mcp-server-time==2026.10.19"', 'mcp-server-time==2026.10.19"', 11, "only the source of an MCP"),
    ],
)
def test_a_row_that_is_not_of_its_form_is_told_with_its_line(old: str, new: str, line: int, said: str) -> None:
    assert old in _TEXT and parse_lock(_TEXT)
    with pytest.raises(LockTextError) as caught:
        parse_lock(_TEXT.replace(old, new, 1))
    assert (caught.value.line, said in caught.value.problem) == (line, True), caught.value
