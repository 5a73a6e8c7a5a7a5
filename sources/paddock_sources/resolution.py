"""What a source is at a moment, and where a module's code is, with all that a worker needs to import it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

RefKind = Literal["branch", "tag", "commit", "default"]
PinKind = Literal[RefKind, "folder", "version", "installed", "builtin"]


@dataclass(frozen=True, slots=True)
class PinnedSource:
    """The state of a source at one moment. `committed_at` is the date in the commit; a pusher can write any date.

    `is_outside` means that an unconfined program looked it up, with the user's own keys. `is_reachable` is False for a
    commit that no branch or tag leads to, and that was allowed.
    """

    requested_ref: str
    kind: PinKind
    commit: str
    committed_at: datetime | None = None
    is_outside: bool = False
    is_reachable: bool = True


@dataclass(frozen=True, slots=True)
class ServerProgram:
    """The MCP server of a source, which the module `tool-mcp` starts as its child.

    `command` starts it: an absolute path and what follows it. It runs the `programs`, absolute paths as well, and reads
    the folders and files `trees`, which are its code, and the folders `beside`, which modules may change where they
    may; all of them are granted with the source. `definitions` are the digests of its tools' definitions as they were
    locked, by name; None where they were not. `instructions` is the digest of what the server said of itself, empty
    where it said nothing.
    """

    command: tuple[str, ...]
    programs: tuple[Path, ...] = ()
    trees: tuple[Path, ...] = ()
    beside: tuple[Path, ...] = ()
    definitions: Mapping[str, str] | None = None
    instructions: str = ""


@dataclass(frozen=True, slots=True)
class Resolution:
    """A module's code on this machine. Every path is absolute and was there; only `import_root` may lie above `root`.

    `source` is the source it came from, as text that policies can match; `layer` names the rule that chose it.
    `import_root` is the folder for the worker's `sys.path`, `attribute` the function to call in `package`, which may
    also be a module inside of it.
    `kind` is the kind that the module declares or, failing that, the kind that its id suggests; `declared_kind` only
    the former. `libraries` are further folders for `sys.path`, with all that the module needs from elsewhere;
    `own_versions` names their packages that a worker's runtime has in another version. `commit` and `tree` identify the
    exact code, if they are known; a live folder is the user's own, which may change at any time. `repository` is the
    whole tree that the code is a part of, for code from git: modules find further files of theirs there. `server` is
    the MCP server of a source that is one; the module's own code is then `tool-mcp`.
    """

    module_id: str
    source: str
    root: Path
    package: str
    package_dir: Path
    import_root: Path
    kind: str
    declared_kind: str | None = None
    version: str | None = None
    attribute: str = "mount"
    layer: str = ""
    libraries: tuple[Path, ...] = ()
    own_versions: tuple[str, ...] = ()
    commit: str = ""
    tree: str = ""
    is_live: bool = False
    repository: Path | None = None
    server: ServerProgram | None = None

    @property
    def further_code(self) -> tuple[Path, ...]:
        """Return where further code is that it runs: its libraries, and the files of its MCP server."""
        return self.libraries if self.server is None else (*self.libraries, *self.server.trees)

    @property
    def siblings(self) -> tuple[Path, ...]:
        """Return the libraries that are packages of the module's own repository."""
        top = self.repository
        return () if top is None else tuple(one for one in self.libraries if one.is_relative_to(top))


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """Why a layer has no source for a module; `is_silent` where it says nothing about this one or any like it."""

    reason: str
    is_silent: bool = False
