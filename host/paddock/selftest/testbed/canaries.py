"""Files whose every change is noticed.

It plants a home with keys in it, a file without a grant, a readable one, a writable folder with places in it that are
not writable, and a copy of a module. Every user of the machine can read all of it, so the files' own permissions never
keep an attacker out.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_HOOK: Final = "#!/bin/sh\nexit 0\n"
_CONFIGURATION: Final = "[core]\n\tbare = false\n"
_STARTED: Final = (
    *(".clinerules/rules.md", ".devcontainer.json", ".mise.local.toml", ".dir-locals-2.el", ".woodpecker.yaml"),
    *(".gdbearlyinit", ".claude.json", ".docker/config.json", ".bashrc.d/x.sh", ".config/VSCodium/User/tasks.json"),
    *(".local/lib/python3/site-packages/x.pth", ".cargo/env", "Jenkinsfile", "AGENTS.md", "lefthook-local.yml"),
)
_STARTED_AT_HOME: Final = (
    *(".bashrc", ".bashrc.d/x.sh", ".a-tool-in-no-table/hooks", ".config/git/config", ".cargo/bin/cargo", "bin/ls"),
    *(".local/lib/python3/site-packages/x.pth", ".local/share/applications/x.desktop"),
    ".local/share/asdf/shims/x",
)


@dataclass(frozen=True, slots=True)
class _Seen:
    """The state of a file or folder; for a folder without size and time, which its content changes."""

    mode: int
    owner: tuple[int, int]
    modified: int
    content: str
    attributes: tuple[str, ...]

    def differences(self, other: _Seen) -> str:
        names = ("mode", "owner", "modified", "content", "attributes")
        return ", ".join(name for name in names if getattr(self, name) != getattr(other, name))


class Canaries:
    """The files planted below one folder."""

    def __init__(self, folder: Path, secret: str, key: str, module: Path) -> None:
        self.home = folder / "home"
        self.key = self.home / ".ssh" / "id_ed25519"
        self.outside = folder / "outside"
        self.notes = self.outside / "notes.txt"
        self.reading = folder / "reading"
        self.document = self.reading / "document.txt"
        self.workspace = folder / "workspace"
        self.locks = self.workspace / "locks"
        self.saved = folder / "saving" / ".envrc"
        self.excluded = self.workspace / "excluded" / ".env"
        # What Paddock keeps of the sessions of that user.
        self.states = folder / "states"
        self.state = self.states / "local"
        self.journal = self.state / "paddock" / "journals" / "another.journal"
        self.started = tuple(self.workspace / name for name in _STARTED)
        # The home of the user for whom sessions run; one of its links leads out of it, to a folder that is granted.
        self.users_home = folder / "users-home"
        command = self.users_home / "tools" / "run"  # `~/.local/bin/run` leads there
        self.started_at_home = (*(self.users_home / name for name in _STARTED_AT_HOME), command)
        self.linked = self.workspace / "dotfiles" / "zshrc"
        self.link = self.users_home / ".profile"
        self._links = {
            self.users_home / ".zshrc": self.linked,
            self.link: self.users_home / "dotfiles" / "profile",
            self.users_home / ".local" / "bin" / "run": command,
        }
        self.module = folder / module.name
        self._folder = folder
        self._texts = {
            self.key: f"-----BEGIN OPENSSH PRIVATE KEY-----\n{secret}\n-----END OPENSSH PRIVATE KEY-----\n",
            self.home / ".aws" / "credentials": f"[default]\naws_secret_access_key = {secret}\n",
            self.home / ".config" / "app" / "token": f"{secret}\n",
            self.home / ".config" / "app" / "key": f"{key}\n",
            self.notes: f"not granted: {secret}\n",
            self.document: "may be read\n",
            self.workspace / "notes.txt": "may be read and written\n",
            self.workspace / ".bashrc": "# nothing yet\n",
            self.saved: "# nothing yet\n",
            self.excluded: f"KEY={secret}\n",
            self.journal: f"{secret}\n",
            self.workspace / ".git" / "config": _CONFIGURATION,
            self.workspace / ".git" / "hooks" / "pre-commit": _HOOK,
            **dict.fromkeys((*self.started, *self.started_at_home, *self._links.values()), "# nothing yet\n"),
        }
        # Writable places are not watched, except for the places in them that are not.
        self._watched = (
            self.home,
            self.outside,
            self.reading,
            self.module,
            self.workspace / ".git",
            self.workspace / ".bashrc",
            self.saved,
            *self._links,
            *self._links.values(),
            self.excluded.parent,
            self.journal.parent,
            *(self.workspace / name.partition("/")[0] for name in _STARTED),
            *(self.users_home / name.partition("/")[0] for name in _STARTED_AT_HOME),
        )
        self.locks.mkdir(parents=True)
        shutil.copytree(module, self.module, ignore=shutil.ignore_patterns("__pycache__"))
        self._texts |= {path: path.read_text(encoding="utf-8") for path in self.module.rglob("*") if path.is_file()}
        self._plant_all()

    def changes(self) -> tuple[str, ...]:
        """Return the differences from the planted state."""
        found = dict(self._look())
        changes = [f"{self._name(path)} appeared" for path in found.keys() - self._as_planted.keys()]
        for path, planted in self._as_planted.items():
            if path not in found:
                changes.append(f"{self._name(path)} is gone")
            elif differences := planted.differences(found[path]):
                changes.append(f"{self._name(path)} was changed: {differences}")
        changes += [
            f"{self._name(path)} lends its owner's rights" for path in self.workspace.rglob("*") if _lends(path)
        ]
        return tuple(sorted(changes))

    def restore(self) -> None:
        """Put everything back into its place, in the same files where they still exist."""
        planted = {part for path in (*self._texts, self.locks) for part in (path, *path.parents)}
        tops = (self.workspace, self.users_home, self.saved.parent, self.states)
        for path in (path for top in tops for path in top.iterdir()):
            if path not in planted and path not in self._links and not path.is_socket():
                _remove(path)
        if not self.changes():
            return
        for path in sorted(dict(self._look()).keys() - self._as_planted.keys()):
            _remove(path)
        self._plant_all()

    def save(self, path: Path) -> None:
        """Replace a planted file as an editor does, by renaming another over it, which counts as no change."""
        new = path.with_name("saved by an editor")
        new.write_text(self._texts[path], encoding="utf-8")
        new.replace(path)
        self._open_to_all()
        self._as_planted = dict(self._look())

    def _plant_all(self) -> None:
        for path in self._texts:
            self._plant(path)
        for link, target in self._links.items():
            link.parent.mkdir(exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(target)
        self._open_to_all()
        self._as_planted = dict(self._look())

    def _plant(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            path.chmod(0o644)
            for name in _attributes(path):
                os.removexattr(path, name)
        path.write_text(self._texts[path], encoding="utf-8")

    def _open_to_all(self) -> None:
        for path in (self._folder, *self._folder.rglob("*")):
            if path.is_dir():
                path.chmod(0o755)
            elif path in self._texts:
                path.chmod(0o755 if self._texts[path].startswith("#!") else 0o644)

    def _look(self) -> Iterator[tuple[Path, _Seen]]:
        for top in self._watched:
            for path in (top, *top.rglob("*")):
                if path.is_symlink() or (path.exists() and not path.is_socket()):
                    yield path, _seen(path)

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self._folder))


def _seen(path: Path) -> _Seen:
    status = path.lstat()
    is_file = stat.S_ISREG(status.st_mode)
    content = hashlib.sha256(path.read_bytes()).hexdigest() if is_file else ""
    return _Seen(
        mode=status.st_mode,
        owner=(status.st_uid, status.st_gid),
        modified=status.st_mtime_ns if is_file else 0,
        content=os.readlink(path) if stat.S_ISLNK(status.st_mode) else content,
        attributes=_attributes(path),
    )


def _lends(path: Path) -> bool:
    mode = path.lstat().st_mode
    return stat.S_ISREG(mode) and bool(mode & (stat.S_ISUID | stat.S_ISGID))


def _attributes(path: Path) -> tuple[str, ...]:
    try:
        return tuple(name for name in os.listxattr(path, follow_symlinks=False) if name.startswith("user."))
    except OSError:
        return ()  # a file system without extended attributes


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
