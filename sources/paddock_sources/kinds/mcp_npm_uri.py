"""The kind `mcp+npm`: an MCP server in a package of npm's registry."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from paddock_sources.kinds.mcp_uri import McpPackageUri
from paddock_sources.kinds.npm_name import NPM_NAME, NPM_VERSION
from paddock_sources.kinds.source_uri import LockFields


@dataclass(frozen=True, slots=True)
class McpNpmUri(McpPackageUri):
    """A server in a package of npm's registry."""

    kind: ClassVar[str] = "mcp+npm"
    form: ClassVar[str] = "`mcp+npm:[@SCOPE/]NAME@VERSION`"
    lock_fields: ClassVar[LockFields] = LockFields(
        {"commit": bool, "tree": bool, "dependencies": lambda rows: rows and all(one.path for one in rows)},
        "a server's package is pinned by version, `tree`, and packages of npm, each with a `path`",
    )
    between: ClassVar[str] = "@"
    accepted: ClassVar[re.Pattern[str]] = re.compile(
        rf"(?P<name>{NPM_NAME.pattern})(?:@(?P<version>{NPM_VERSION.pattern}))?"
    )
