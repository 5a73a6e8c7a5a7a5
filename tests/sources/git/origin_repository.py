"""Real repositories, made by the real git, for tests to fetch from."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

# Nothing is tidied up after a commit, which is a program of its own.
_SETTINGS = {"protocol.file.allow": "always", "gc.auto": "0", "maintenance.auto": "false"}
_ENVIRON = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "Ann",
    "GIT_AUTHOR_EMAIL": "ann@example.org",
    "GIT_COMMITTER_NAME": "Ann",
    "GIT_COMMITTER_EMAIL": "ann@example.org",
    "GIT_AUTHOR_DATE": "2024-01-02T03:04:05+0100",
    "GIT_COMMITTER_DATE": "2024-01-02T03:04:05+0100",
}


class OriginRepository:
    """A repository in `folder`, with a work tree; each method returns what it made."""

    def __init__(self, folder: Path, *, object_format: str = "sha1") -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.git("init", "-q", "-b", "main", "--template=", f"--object-format={object_format}")

    @property
    def address(self) -> str:
        return f"git+file://{self.folder}"

    def git(self, *arguments: str, stdin: bytes = b"", **environ: str) -> str:
        """Run git in the work tree and return what it printed."""
        return (
            subprocess.run(
                ["git", *(word for pair in _SETTINGS.items() for word in ("-c", "=".join(pair))), *arguments],
                cwd=self.folder,
                env={**_ENVIRON, **environ},
                input=stdin,
                check=True,
                capture_output=True,
                timeout=60,
            )
            .stdout.decode()
            .strip()
        )

    def commit(self, files: dict[str, str | bytes] | None = None, message: str = "change", **environ: str) -> str:
        """Commit files, and return the name of the commit."""
        for path, content in (files or {}).items():
            target = self.folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.encode() if isinstance(content, str) else content)
        self.git("add", "--all")
        self.git("commit", "-q", "--allow-empty", "-m", message, **environ)
        return self.head()

    def head(self) -> str:
        """Return the commit that the work tree is at, after one was made there."""
        at = (self.folder / ".git/HEAD").read_text().strip()
        return (self.folder / ".git" / at.removeprefix("ref: ")).read_text().strip() if at[:4] == "ref:" else at

    def commit_entries(self, entries: dict[str, tuple[str, bytes]]) -> str:
        """Commit a tree of paths with modes and contents that no work tree could have, and return its name.

        Paths are taken as they are; for a mode of 160000 the content is the name of a commit.
        """
        commit = self.git("commit-tree", self._tree(entries), "-m", "made by hand")
        self.git("update-ref", "refs/heads/odd", commit)
        return commit

    def _tree(self, entries: dict[str, tuple[str, bytes]]) -> str:
        inner: dict[str, dict[str, tuple[str, bytes]]] = {}
        lines: list[bytes] = []
        for path, (mode, content) in entries.items():
            first, slash, rest = path.partition("/")
            if slash and first and rest:
                inner.setdefault(first, {})[rest] = (mode, content)
            elif mode == "160000":
                lines.append(self._line(mode, content.decode(), path))
            else:
                lines.append(self._line(mode, self.git("hash-object", "-w", "--stdin", stdin=content), path))
        lines += [self._line("40000", self._tree(below), name) for name, below in inner.items()]
        return self._raw_tree(lines)

    @staticmethod
    def _line(mode: str, name: str, path: str) -> bytes:
        return mode.encode() + b" " + os.fsencode(path) + b"\0" + bytes.fromhex(name)

    def _raw_tree(self, lines: list[bytes]) -> str:
        def key(line: bytes) -> bytes:  # as git sorts: a folder's name as if it ended with a slash
            mode, _, rest = line.partition(b" ")
            return rest.partition(b"\0")[0] + (b"/" if mode == b"40000" else b"")

        raw = b"".join(sorted(lines, key=key))
        return self.git("hash-object", "-t", "tree", "-w", "--stdin", "--literally", stdin=raw)
