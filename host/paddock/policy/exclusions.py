"""Find what a module may not read in the folders that it may: what its entry excludes, and a person's secret files.

An exclusion is a word of `read` that begins with `!`: a path, or a name without a slash, perhaps with `*` or `?` in it,
in any folder that is granted. `!@secrets` stands for the files of the table `SECRETS`. The presets have it. It leaves
out what git has in this very content: that is nobody's secret any more. A path that is granted by itself is not
excluded by a name. What is found is closed as it is then: it covers no copy, no hard link and no file that is made
later.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase, translate
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Final

from paddock.plan.families import EXCLUDED_SECRETS, EXCLUSION, is_exclusion
from paddock.plan.problems import NotAcceptedError
from paddock.policy.executable import open_plain_file
from paddock.policy.guarded_paths import text_in, when_made
from paddock.policy.guarded_places import GIT
from paddock.policy.owner import Owner
from paddock.policy.path_walk import GrantedPath

_MAX_ENTRIES: Final = 20_000  # names read while looking; about forty milliseconds
MAX_EXCLUDED: Final = 100  # mounts
_MAX_FILE: Final = 1 << 20  # of a file that is looked into; a longer one counts as secret
_MAX_INDEX: Final = 64 << 20  # of git's list of what it tracks; Linux has nine
_NOT_SEARCHED: Final = frozenset({GIT, "node_modules", ".venv", "venv", "__pycache__", ".tox"})  # packages of others


_HAS_PRIVATE_KEY: Final = re.compile(rb"-----BEGIN [A-Z ]{0,40}PRIVATE KEY").search
# Of a setting that npm sends to a server, a value that is no reference to a variable.
_HAS_TOKEN: Final = re.compile(rb"(?m)^[^#;\n=]*_(?:authToken|auth|password)[ \t]*=[ \t]*[\"']?(?!\$\{)[^\s\"']").search


@dataclass(frozen=True, slots=True)
class SecretFile:
    """Names of files that are secrets if `holds` says so of their content, and `reason`: what they give away.

    Names may have wildcards. `but` are names that they match and that are none.
    """

    names: tuple[str, ...]
    reason: str
    but: tuple[str, ...] = ()
    holds: Callable[[bytes], object] = lambda content: True

    def is_named(self, name: str) -> bool:
        """Whether a file of this name may be one."""
        matches = any(fnmatchcase(name, pattern) for pattern in self.names)
        return matches and not any(fnmatchcase(name, pattern) for pattern in self.but)


_EXAMPLES: Final = (".env.example*", ".env.sample*", ".env.template*", ".env.dist*", ".env.*.example", ".env.*.sample")
SECRETS: Final = (
    SecretFile((".env", ".env.*"), "passwords and keys of a program's services", (*_EXAMPLES, ".env.*.template")),
    SecretFile((".netrc",), "passwords that curl, git and others send"),
    SecretFile((".pypirc",), "the right to publish packages"),
    SecretFile((".npmrc",), "the right to publish or fetch packages", holds=_HAS_TOKEN),
    SecretFile(("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*"), "logins by ssh", ("*.pub",)),
    SecretFile(("*.pem",), "a server's or a person's identity", holds=_HAS_PRIVATE_KEY),
)
"""The files that presets exclude where git does not have them."""

_MAY_BE_SECRET: Final = re.compile("|".join(translate(name) for one in SECRETS for name in one.names)).match


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A file or folder without a link in its path that may not be read, and the word that excludes it."""

    place: Path
    written: str


@dataclass(frozen=True, slots=True)
class Exclusions:
    """What was found: `left_open` are secret files beyond the bound, `incomplete` the folders that hold too much."""

    found: tuple[Exclusion, ...] = ()
    left_open: tuple[Path, ...] = ()
    incomplete: tuple[Path, ...] = ()

    def of(self, path: Path) -> Exclusion | None:
        """Return what excludes a path without links, if anything does."""
        return next((one for one in self.found if path.is_relative_to(one.place)), None)


class ExclusionSearch:
    """Looks for what words exclude in the folders that are `granted`, but for what is one of them."""

    def __init__(self, granted: Iterable[GrantedPath], working_dir: Path, owner: Owner) -> None:
        self._granted = frozenset(one.path for one in granted)
        self._working_dir, self._owner = working_dir, owner
        self._found: list[Exclusion] = []
        self._left_open: tuple[Path, ...] = ()
        self._incomplete: list[Path] = []

    @property
    def result(self) -> Exclusions:
        """What was found for all the words."""
        return Exclusions(tuple(self._found), self._left_open, tuple(dict.fromkeys(self._incomplete)))

    def exclude(self, word: str) -> None:
        """Look for what a word of `read` excludes.

        Raises:
            NotAcceptedError: it is nothing, or a link, or too much, or more than is granted.
        """
        if word == EXCLUDED_SECRETS:
            # The oldest first: if there are too many, a module may have added some.
            places = dict.fromkeys(path for name, path in self._everything if _is_secret(name, path))
            found = sorted((path for path in places if path not in self._granted), key=when_made)
            self._left_open = tuple(found[MAX_EXCLUDED:])
            self._found += [Exclusion(path, word) for path in found[:MAX_EXCLUDED]]
        elif is_exclusion(word):
            self._found += [Exclusion(path, word) for path in self._places(word)]

    def _places(self, word: str) -> list[Path]:
        name = word.removeprefix(EXCLUSION)
        found = self._at(word, name) if "/" in name else self._named(word, name)
        if not found:
            hint = "name what is there, or leave it out" if self._granted else "grant a folder to read as well"
            raise NotAcceptedError(f"`{word}` excludes nothing that is granted", hint)
        if "/" not in name:
            every = frozenset(found)
            found = [path for path in found if path not in self._granted and every.isdisjoint(path.parents)]
        around = [(place, one) for place in found for one in self._granted if one.is_relative_to(place)]
        if around:
            place, granted = around[0]
            raise NotAcceptedError(
                f"`{word}` excludes `{place}`, and with it `{granted}`, which is granted", "leave out one of the two"
            )
        if len(found) > MAX_EXCLUDED:
            raise NotAcceptedError(
                f"`{word}` excludes {len(found)} files and folders, and at most {MAX_EXCLUDED} can be",
                "exclude the folder that they are in",
            )
        return found

    def _at(self, word: str, written: str) -> list[Path]:
        try:
            place = GrantedPath.resolve(written, self._working_dir, self._owner)
        except NotAcceptedError as error:
            raise NotAcceptedError(f"`{word}` excludes nothing: {error.problem}", "name what is there") from None
        if place.links:
            raise NotAcceptedError(f"`{word}` is a link: {place.describe()}", f"exclude its target: !{place.path}")
        is_inside = any(place.path.is_relative_to(one) or one.is_relative_to(place.path) for one in self._granted)
        return [place.path] if is_inside else []

    def _named(self, word: str, name: str) -> list[Path]:
        found = dict.fromkeys(path for one, path in self._everything if fnmatchcase(one, name))
        if self._incomplete:
            raise NotAcceptedError(
                f"`{word}` cannot be looked for in all of `{self._incomplete[0]}`: it holds more than {_MAX_ENTRIES} "
                "names, or a folder that cannot be read",
                "exclude a path, with a slash in it, or grant smaller folders",
            )
        return list(found)

    @cached_property
    def _everything(self) -> list[tuple[str, Path]]:
        """All names in the granted folders, as far as they are searched, with their places; a link with its target."""
        outermost = sorted(one for one in self._granted if self._granted.isdisjoint(one.parents))
        return [found for folder in outermost if folder.is_dir() for found in self._in(folder)]

    def _in(self, top: Path) -> Iterator[tuple[str, Path]]:
        pending, left = deque([str(top)]), _MAX_ENTRIES
        while pending and left > 0:
            try:
                with os.scandir(pending.popleft()) as entries:
                    for entry in islice(entries, left):
                        left -= 1
                        if entry.is_symlink():
                            real = Path(os.path.realpath(entry.path))
                            if any(real.is_relative_to(one) for one in self._granted):
                                yield entry.name, real
                            continue
                        if entry.is_dir() and entry.name not in _NOT_SEARCHED:
                            pending.append(entry.path)
                        yield entry.name, Path(entry.path)
            except OSError:
                self._incomplete.append(top)
        if pending or left <= 0:
            self._incomplete.append(top)


def _is_secret(name: str, path: Path) -> bool:
    """Whether the file at a path is one of the table `SECRETS`, and git does not have it as it is."""
    rows = [one for one in SECRETS if one.is_named(name)] if _MAY_BE_SECRET(name) else []
    if not rows or not path.is_file():
        return False
    try:
        content = _content(path, _MAX_FILE)
    except OSError:
        return True  # its owner could change that, and a module's files are its owner's
    return content is None or (any(one.holds(content) for one in rows) and not _is_tracked(path, content))


def _is_tracked(path: Path, content: bytes) -> bool:
    """Whether git's index has a file with this content, so that git has it too; a module could only claim it.

    In an index of version 4, which shortens names, none is found.
    """
    top = next((one for one in path.parents if os.path.lexists(one / GIT)), None)
    if top is None or not content:
        return False
    git = top / GIT
    git = git if git.is_dir() else top / text_in(git, "gitdir:")
    with suppress(OSError):
        index = _content(git / "index", _MAX_INDEX) or b""
        name = re.escape(os.fsencode(path.relative_to(top)))
        blob = b"blob %d\0%b" % (len(content), content)
        for digest in (hashlib.sha1(blob).digest(), hashlib.sha256(blob).digest()):  # noqa: S324 - git's
            if re.search(re.escape(digest) + b"(?s:.{2}|.{4})" + name + b"\0", index):  # with its flags between
                return True
    return False


def _content(path: Path, most: int) -> bytes | None:
    """Return the content of a plain file; None if it is longer.

    Raises:
        OSError: it cannot be read, or is no such file.
    """
    with open_plain_file(path) as file:
        content = file.read(most + 1)
    return None if len(content) > most else content
