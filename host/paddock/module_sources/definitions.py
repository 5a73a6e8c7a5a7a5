"""The pins of MCP servers in a lock file, and the pinned texts, so that a person sees what changed.

The lock file has digests. The texts behind them are in the user's state folder, each under its digest, and the oldest
go when there are many; a text that is not there, or is another one, is as good as none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from paddock.module_sources.lock import update_lock
from paddock.state_folder import open_own, state_folder
from paddock_sources import SourceUri
from paddock_sources.lock.lock_file import LockFile
from paddock_sources.lock.locked_module import LockedModule, LockedServer

_FOLDER: Final = "definitions"  # in the state folder
_MAX_TEXTS: Final = 1000
_MAX_BYTES: Final = 1 << 20  # of one text


@dataclass(frozen=True, slots=True)
class DefinitionLock:
    """The lock file at `path`, for the servers at the places of `uris`; what is new may be written if it `takes_new`.

    `remedy` returns what a person does about a module whose definitions are not pinned.
    """

    path: Path
    uris: Mapping[str, SourceUri]
    environ: Mapping[str, str]
    remedy: Callable[[str], str]
    takes_new: bool = True

    def pin(self, servers: Sequence[tuple[str, LockedServer]], *, instead: bool = False) -> None:
        """Pin servers at their places, beside what is pinned there or `instead` of it; blocks.

        Entries of one source have one row, with the tools of all.

        Raises:
            SourceError: the file cannot be trusted or understood, or written.
        """

        def change(lock: LockFile) -> LockFile:
            if instead:
                lock = lock.with_modules([replace(self._row(lock, place), mcp=None) for place, _ in servers])
            for place, server in servers:
                row = self._row(lock, place)
                if row.mcp is not None:
                    server = replace(row.mcp, definitions={**server.definitions, **row.mcp.definitions})
                lock = lock.with_modules([replace(row, mcp=server)])
            return lock

        update_lock(self.path, change, self.environ)

    def _row(self, lock: LockFile, place: str) -> LockedModule:
        """Return the row of an entry's source; that of a command, of which nothing else is locked, may be missing."""
        uri, folder = self.uris[place], self.path.parent
        return lock.of(uri, folder) or LockedModule(uri.key(folder))


def digest_of(text: str) -> str:
    """Return the digest of a text, such as a definition's canonical JSON."""
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def keep_texts(environ: Mapping[str, str], texts: Iterable[str]) -> None:
    """Keep what the user with `environ` pinned, as far as that is possible; blocks."""
    with suppress(OSError):
        folder = state_folder(environ, _FOLDER)
        for text in filter(None, texts):
            with open(folder / _name(digest_of(text)), "wb", opener=open_own) as file:
                file.write(text.encode())
        kept = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in kept[_MAX_TEXTS:]:
            path.unlink()


def kept_text(environ: Mapping[str, str], digest: str) -> str | None:
    """Return the text with this digest, None where it is not kept; blocks."""
    with suppress(OSError, ValueError):
        with open(state_folder(environ, _FOLDER) / _name(digest), "rb", opener=open_own) as file:
            text = file.read(_MAX_BYTES).decode()
        if digest_of(text) == digest:
            return text
    return None


def _name(digest: str) -> str:
    return digest.partition(":")[2]
