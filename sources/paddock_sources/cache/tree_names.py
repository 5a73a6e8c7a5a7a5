"""Which names a tree of files may have, so that it means the same on every machine and stays in its folder.

A name is judged by itself and against the names before it. Two that differ only in case or in how accents are written
would be one file on some machines: the code that was checked would not be the code that runs. Compiled Python code
belongs into no tree: it may run in place of the source beside it, and nobody can read it.
"""

from __future__ import annotations

import unicodedata
from typing import Final

from paddock_sources.cache.errors import UnsafeTreeError

_MAX_COMPONENT_BYTES: Final = 255  # NAME_MAX
_MAX_PATH_BYTES: Final = 1024
_MAX_DEPTH: Final = 64
_FIRST_PRINTABLE: Final = 0x20
_DELETE: Final = 0x7F
_LAST_CONTROL: Final = 0x9F
_COMPILED: Final = (".pyc", "__pycache__")


def is_compiled(path: str) -> bool:
    """Return whether a path is one of compiled Python code, or lies in a folder for such code."""
    return any(name.endswith(_COMPILED[0]) or name == _COMPILED[1] for name in path.split("/"))


def source_of(path: str) -> str:
    """Return the path of the source of compiled code."""
    *folders, name = path.split("/")
    return "/".join([*(one for one in folders if one != _COMPILED[1]), f"{name.partition('.')[0]}.py"])


class TreeNames:
    """The names of one tree."""

    def __init__(self) -> None:
        self._folders: set[str] = {""}
        self._leaves: set[str] = set()
        self._spellings: dict[str, str] = {}

    def admit(self, path: str) -> list[str]:
        """Take the path of one more file or link, and return the folders that it makes, outermost first.

        Raises:
            UnsafeTreeError: it is no path that a tree may have, or not beside those before it.
        """
        if path.startswith("/"):
            raise UnsafeTreeError(path, "its path is absolute")
        folder, _, name = path.rpartition("/")
        made = self._enter(folder, path) if folder not in self._folders else []
        _check_component(name, path)
        self._check_whole(path)
        if path in self._folders:
            raise UnsafeTreeError(path, "it is a folder as well")
        if path in self._leaves:
            raise UnsafeTreeError(path, "it is there twice")
        self._take_spelling(path)
        self._leaves.add(path)
        self._folders.update(made)  # not before: of a path that is refused no folder is made
        return made

    def _enter(self, folder: str, path: str) -> list[str]:
        made: list[str] = []
        at = ""
        for name in folder.split("/"):
            _check_component(name, path)
            at = f"{at}/{name}" if at else name
            self._check_whole(at)
            if at in self._folders:
                continue
            if at in self._leaves:
                raise UnsafeTreeError(path, f"`{at}` is no folder")
            self._take_spelling(at)
            made.append(at)
        return made

    def _take_spelling(self, path: str) -> None:
        other = self._spellings.setdefault(_folded(path), path)
        if other != path:
            raise UnsafeTreeError(path, f"on some machines it is the same as `{other}`")

    @staticmethod
    def _check_whole(path: str) -> None:
        if len(path.encode("utf-8", "surrogatepass")) > _MAX_PATH_BYTES:
            raise UnsafeTreeError(path[:100] + "…", f"its path is longer than {_MAX_PATH_BYTES} bytes")
        if path.count("/") >= _MAX_DEPTH:
            raise UnsafeTreeError(path, f"it lies more than {_MAX_DEPTH} folders deep")


def _check_component(name: str, path: str) -> None:
    if not name:
        raise UnsafeTreeError(path, "a part of its path is empty")
    if name in (".", ".."):
        raise UnsafeTreeError(path, "its path leads elsewhere")
    if name.isascii():
        if any(ord(char) < _FIRST_PRINTABLE or ord(char) == _DELETE for char in name):
            raise UnsafeTreeError(path, "there is a control character in its name")
    else:
        if any(ord(char) < _FIRST_PRINTABLE or _DELETE <= ord(char) <= _LAST_CONTROL for char in name):
            raise UnsafeTreeError(path, "there is a control character in its name")
        if any(0xD800 <= ord(char) <= 0xDFFF for char in name):
            raise UnsafeTreeError(path, "its name is not UTF-8")
    if len(name.encode()) > _MAX_COMPONENT_BYTES:
        raise UnsafeTreeError(path[:100] + "…", f"a part of its path is longer than {_MAX_COMPONENT_BYTES} bytes")
    if _is_dot_git(name):
        raise UnsafeTreeError(path, "what is called `.git` is taken for a repository, with programs that git runs")


def _is_dot_git(name: str) -> bool:
    """Return whether some file system takes a name for `.git`: case, ignored characters, short names, trailing dots."""
    if len(name) < len(".git"):
        return False
    visible = "".join(char for char in name if unicodedata.category(char) != "Cf") if not name.isascii() else name
    return _folded(visible.rstrip(". ")) in (".git", "git~1")


def _folded(text: str) -> str:
    """Return a text that is the same for all spellings which some file system takes for one."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold())
