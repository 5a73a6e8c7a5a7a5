"""Find the hook folders and further files that git's configuration files name, and that git runs or reads.

The files are read as text, without running git, and only up to a bound. An `includeIf` counts under any condition: it
may be true tomorrow. Other things that a configuration makes git run (filters, aliases, a file system monitor) are
commands and not places, and are not read here.
"""

from __future__ import annotations

import os
import pwd
import re
import stat
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final, NamedTuple

_MAX_FILES: Final = 1000  # per read of a file
_MAX_BYTES: Final = 256 * 1024  # of all files together; one has a few hundred
_MAX_NAMED: Final = 50_000  # characters of places, per mention: every folder on the way is examined
_MAX_INCLUDES: Final = 10  # of one file in another; git's own limit
_MAX_USERS: Final = 10  # whose homes are looked up, maybe over a network

# A header, which may share its line with a key; a key with its value, which continues after an escaped end of line. No
# group is possessive: before 3.11.5, Python goes on behind what the last, failed turn of such a group had read.
_ENTRY: Final = re.compile(
    r"""
    \s*+ (?:
        [#;][^\n]*+
        | \[ (?P<section> [^\]"\n]*+ (?: "(?:[^"\\\n]|\\[^\n])*" )? ) [ \t]*+ \]
        | (?P<key> [A-Za-z][A-Za-z0-9-]*+ ) [ \t]*+
          (?: = (?P<value> (?: [^"\\\n#;]++ | \\[\s\S] | "(?:[^"\\\n]++|\\[\s\S])*" )* ) )?
    )
    """,
    re.VERBOSE,
)
_ESCAPE: Final = re.compile(r'\\(\n|[\s\S])|"')
_ESCAPED: Final = {"n": "\n", "t": "\t", "b": "\b", "\n": ""}


class _Setting(NamedTuple):
    section: str
    key: str
    value: str


class GitSettings:
    """Reads configuration files, for a user with home `home`, and notes the places they name, with links, in `ways`.

    `is_complete` is false once a file could not be read, or exceeded the bound.
    """

    def __init__(self, home: Path, *, is_complete: bool = True) -> None:
        self.named: dict[Path, None] = {}
        self.ways: dict[Path, None] = {}
        self.is_complete = is_complete
        self._homes: dict[str, Path | None] = {"": home}
        self._known: dict[Path, tuple[_Setting, ...]] = {}
        self._files = _MAX_FILES
        self._bytes_left = _MAX_BYTES
        self._named_left = _MAX_NAMED

    def read(self, file: Path, trees: Collection[Path], *, inside: int = 0) -> None:
        """Note the places that `file` names, if the file exists; `trees` are the folders for relative hook paths."""
        for setting in self._settings_of(file):
            match setting:
                case ("core", "hookspath", value):
                    for tree in trees:
                        self._note(tree, value)
                case ("include", "path", value):
                    included = self._note(file.parent, value)
                    if included is not None and inside < _MAX_INCLUDES:
                        self.read(included, trees, inside=inside + 1)

    def worktree(self, file: Path, git: Path) -> Path | None:
        """Return the working tree that `file` names, which is in the folder `git`, if the file exists and names one.

        Git ignores included files here.
        """
        named = [value for section, key, value in self._settings_of(file) if (section, key) == ("core", "worktree")]
        if not named or not named[-1] or "\0" in named[-1]:
            return None
        return Path(os.path.realpath(git / named[-1]))

    def _note(self, base: Path, written: str) -> Path | None:
        if not written or "\0" in written:
            return None
        self._named_left -= len(written)
        if self._named_left < 0:
            self.is_complete = False
            return None
        expanded = self._expanded(written)
        if expanded is None:
            self.is_complete = False
            return None
        where = base / expanded
        # Links on the way are followed here; a final link is followed where all guarded paths are.
        place = Path(os.path.realpath(where.parent), where.name)
        if where.name == "..":
            place = Path(os.path.realpath(where))
        self.named[place] = None
        self.ways[where] = None
        return place

    def _expanded(self, written: str) -> Path | None:
        """Return a path with its home prefix expanded; None where the home is unknown, or for git's own folder."""
        if written.startswith("%(prefix)/"):
            return None
        if not written.startswith("~"):
            return Path(written)
        user, _, rest = written[1:].partition("/")
        if user not in self._homes and len(self._homes) <= _MAX_USERS:
            try:
                self._homes[user] = Path("/", pwd.getpwnam(user).pw_dir)
            except (KeyError, ValueError, OSError):
                self._homes[user] = None
        home = self._homes.get(user)
        return None if home is None else Path(f"{home}/{rest}")

    def _settings_of(self, file: Path) -> tuple[_Setting, ...]:
        self._files -= 1
        if self._files < 0:
            self.is_complete = False
            return ()
        if file not in self._known:
            self._known[file] = tuple(self._settings(self._text_of(file).replace("\r\n", "\n")))
        return self._known[file]

    def _text_of(self, file: Path) -> str:
        if self._bytes_left <= 0:
            self.is_complete = False
            return ""
        try:
            content = read_file_of_git(file, self._bytes_left + 1)
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except OSError:
            self.is_complete = False
            return ""
        self.is_complete &= len(content) <= self._bytes_left
        content = content[: self._bytes_left]
        self._bytes_left -= len(content)
        return os.fsdecode(content)

    def _settings(self, text: str) -> Iterator[_Setting]:
        section = ""
        at = 1 if text.startswith("\ufeff") else 0
        while (entry := _ENTRY.match(text, at)) is not None:
            at = entry.end()
            if entry["section"] is not None:
                name, _, rest = entry["section"].strip().partition('"')
                section = name.strip().lower()
                # The rest is a condition; a section of any other name with a rest is another section.
                section = "include" if section == "includeif" and rest else "" if rest else section
            elif entry["key"] is not None and entry["value"] is not None:
                value = entry["value"].strip()
                plain = _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]) if match[1] else "", value)
                yield _Setting(section, entry["key"].lower(), plain)
        if text[at:].strip():
            self.is_complete = False  # git refuses the file as well, until its owner fixes it


def read_file_of_git(file: Path, most: int) -> bytes:
    """Return at most so many bytes of a plain file, links followed; none of anything else.

    Raises:
        OSError: it is not there, or cannot be read.
    """
    real = os.path.realpath(file)
    if not stat.S_ISREG(os.stat(real).st_mode):  # before it is opened: opening a device may trigger it
        return b""
    descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(descriptor, "rb") as opened:
        return opened.read(most)
