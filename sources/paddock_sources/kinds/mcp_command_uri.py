"""The kind `mcp+command`: an MCP server that is a program or a script of this machine, and runs as it is."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from operator import not_
from pathlib import Path
from typing import ClassVar, Self

from paddock_sources.errors import SourceUriError
from paddock_sources.kinds.folder_uri import FolderUri
from paddock_sources.kinds.mcp_uri import McpUri
from paddock_sources.kinds.source_uri import Form, LockFields, SourceUri


@dataclass(frozen=True, slots=True)
class McpCommandUri(McpUri):
    """A program, or a script, at a path; what is pinned of it is what it says of itself."""

    kind: ClassVar[str] = "mcp+command"
    form: ClassVar[str] = "`mcp+command:./server.py`"
    lock_fields: ClassVar[LockFields] = LockFields(
        {"commit": not_, "tree": not_, "hashes": not_, "dependencies": not_},
        "a command runs as it is, and is not pinned",
    )
    no_lock: ClassVar[str] = "it runs as it is"

    path: Path

    @classmethod
    def of_text(cls, text: str) -> Self | None:
        kind, colon, path = text.partition(":")
        if not colon or kind != cls.kind:
            return None
        if not path.startswith(("/", "./", "../")) or path.endswith(("/", "/.", "/..")):
            hints = [f"write `{cls.form.strip('`')}`, or the whole path, from `/`"]
            raise SourceUriError(text, f"what follows `{kind}:` is no path of a program", hints=hints)
        return cls(text, Path(path))

    @property
    def server_name(self) -> str:
        return self.path.stem

    def anchored(self, base: Path) -> SourceUri:
        return self if self.path.is_absolute() else self._in(base)

    def held(self) -> SourceUri:
        return self._in(Path("/"))

    def key(self, folder: Path) -> str:
        meant, base = self._in(folder).path, Path(os.path.realpath(folder))
        return f"{self.kind}:{f'./{meant.relative_to(base)}' if meant.is_relative_to(base) else meant}"

    def lock_spelling(self) -> tuple[str, str]:
        spelling, hint = FolderUri(str(self.path), self.path).lock_spelling()
        return f"{self.kind}:{spelling}", hint

    @property
    def ruled_by(self) -> tuple[Form, str]:
        return "folder", os.path.realpath(self.path)

    def looseness(self, commit: str) -> tuple[str, str] | None:
        return None

    def pin_word(self, requested_kind: str) -> str:
        return "command"

    def written(self, key: str, module_id: str) -> str | None:
        return key

    def _in(self, base: Path) -> Self:
        """Return it with an absolute path, whose folders are no links.

        The program may be one: what is the Python of an environment by its name is not by what it leads to.
        """
        path = Path(os.path.realpath(base / self.path.parent), self.path.name)
        return replace(self, text=f"{self.kind}:{path}", path=path)
