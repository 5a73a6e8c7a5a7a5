"""Real repositories for tests to fetch from: the real git commits files, and objects may be such as it would refuse."""

from __future__ import annotations

import hashlib
import os
import subprocess
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

# Nothing is tidied up after a commit, which is a program of its own.
_SETTINGS = {"protocol.file.allow": "always", "gc.auto": "0", "maintenance.auto": "false"}
_ENVIRON = {
    "PATH": os.environ["PATH"],
    "HOME": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "Ann",
    "GIT_AUTHOR_EMAIL": "ann@example.org",
    "GIT_COMMITTER_NAME": "Ann",
    "GIT_COMMITTER_EMAIL": "ann@example.org",
    "GIT_AUTHOR_DATE": "2024-01-02T03:04:05+0100",
    "GIT_COMMITTER_DATE": "2024-01-02T03:04:05+0100",
}
# As `git init` has it.
_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n"
_CONFIG_OF_FORMAT = _CONFIG.replace("= 0", "= 1") + "[extensions]\n\tobjectformat = {}\n"
_BY = b"Ann <ann@example.org> 1704161045 +0100"

Entries = Mapping[str, tuple[str, bytes]]


class OriginRepository:
    """A repository in `folder`, with a work tree; each method returns what it made."""

    def __init__(self, folder: Path, *, object_format: str = "sha1") -> None:
        self.folder = folder
        self._format = object_format
        self._git = folder / ".git"
        for inner in ("objects/info", "objects/pack", "refs/heads", "refs/tags"):
            (self._git / inner).mkdir(parents=True)
        (self._git / "HEAD").write_text("ref: refs/heads/main\n")
        (self._git / "config").write_text(
            _CONFIG if object_format == "sha1" else _CONFIG_OF_FORMAT.format(object_format)
        )

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
        at = (self._git / "HEAD").read_text().strip()
        return (self._git / at.removeprefix("ref: ")).read_text().strip() if at[:4] == "ref:" else at

    def point(self, ref: str, name: str) -> None:
        """Have a ref be at an object."""
        file = self._git / ref
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{name}\n")

    # -- objects as they are, which needs no git ------------------------------------------------

    def commit_entries(self, entries: Entries, ref: str = "refs/heads/odd") -> str:
        """Commit a tree of paths with modes and contents that no work tree could have, and return its name.

        Paths are taken as they are; for a mode of 160000 the content is the name of a commit.
        """
        return self.commit_tree(self.tree(self.lines(entries)), ref)

    def commit_tree(self, tree: str, ref: str) -> str:
        """Commit a tree, have `ref` be at it, and return its name."""
        commit = self.put("commit", b"tree %s\nauthor %s\ncommitter %s\n\nmade by hand\n" % (tree.encode(), _BY, _BY))
        self.point(ref, commit)
        return commit

    def lines(self, entries: Entries) -> list[bytes]:
        """Write files and folders, and return the lines of the tree that they are in."""
        inner: dict[str, dict[str, tuple[str, bytes]]] = {}
        lines: list[bytes] = []
        for path, (mode, content) in entries.items():
            first, slash, rest = path.partition("/")
            if slash and first and rest:
                inner.setdefault(first, {})[rest] = (mode, content)
            else:
                lines.append(self.line(mode, content.decode() if mode == "160000" else self.put("blob", content), path))
        return lines + [self.line("40000", self.tree(self.lines(below)), name) for name, below in inner.items()]

    @staticmethod
    def line(mode: str, name: str, path: str) -> bytes:
        """Return the line of a tree that has an object at a path."""
        return mode.encode() + b" " + os.fsencode(path) + b"\0" + bytes.fromhex(name)

    def tree(self, lines: Sequence[bytes]) -> str:
        """Write a tree in git's order, and return its name."""

        def key(line: bytes) -> bytes:  # a folder's name is as if it ended with a slash
            mode, _, rest = line.partition(b" ")
            return rest.partition(b"\0")[0] + (b"/" if mode == b"40000" else b"")

        return self.put("tree", b"".join(sorted(lines, key=key)))

    def put(self, kind: str, content: bytes) -> str:
        """Write an object, even one that git would refuse, and return its name."""
        whole = b"%s %d\0" % (kind.encode(), len(content)) + content
        name = hashlib.new(self._format, whole).hexdigest()
        file = self._git / "objects" / name[:2] / name[2:]
        if not file.exists():
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(zlib.compress(whole, 1))
        return name
