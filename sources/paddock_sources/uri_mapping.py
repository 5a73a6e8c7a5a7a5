"""Sources that are written as tables: `{type: git, url: …, ref: …}`, and the equivalent text.

There is one grammar, that of the text: a table is turned into text, which is then parsed like any other.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from urllib.parse import quote, urlsplit

from paddock_sources.errors import SourceUriError
from paddock_sources.ref_name import problem_of_ref

_KEYS = {
    "git": ("url", "ref", "subdirectory"),
    "file": ("path", "subdirectory"),
    "package": ("name", "version"),
}
_ACCEPTED = "a table is `{type: git, url, ref, subdirectory}`, `{type: file, path}` or `{type: package, name, version}`"
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_MAX_SHOWN = 200


def text_of_mapping(written: Mapping[object, object]) -> str:
    """Return the text form of a source that is written as a table.

    Raises:
        SourceUriError: a key or a value is not one such a table has.
    """
    return _Table(written).text()


class _Table:
    """A user's table, read key by key."""

    def __init__(self, written: Mapping[object, object]) -> None:
        self._written = written

    def text(self) -> str:
        kind = self._written.get("type")
        known = _KEYS.get(kind) if isinstance(kind, str) else None
        if known is None:
            raise self._refused("its `type` is none of `git`, `file` and `package`")
        for key in self._written:
            if key != "type" and key not in known:
                hint = "a branch, tag or commit is named by `ref`" if key in ("rev", "branch", "tag", "commit") else ""
                raise self._refused(f"a table of type `{kind}` has no `{key}`", *filter(None, [hint]))
        match kind:
            case "git":
                return self._git()
            case "file":
                return self._file()
            case _:
                return self._package()

    def _git(self) -> str:
        url = self._needed("url").removeprefix("git+")
        try:
            parts = urlsplit(url)
        except ValueError as error:
            raise self._refused(f"its `url` is malformed: {error}") from error
        if "://" not in url:
            raise self._refused(
                "its `url` has no scheme", "write `https://host/path`, `ssh://git@host/path` or `file:///abs`"
            )
        if "?" in url or "#" in url:
            raise self._refused("its `url` has a query or a fragment", "a folder inside is named by `subdirectory`")
        if "@" in parts.path.rpartition("/")[2]:
            raise self._refused("its `url` ends with an `@…`", "a branch, tag or commit is named by `ref`")
        address = url.removesuffix(parts.path) + parts.path.replace("@", "%40")
        ref, folder = self._value("ref"), self._value("subdirectory")
        if ref and (problem := problem_of_ref(ref)):
            raise self._refused(f"its `ref` is none that git would accept: {problem}")
        at = f"@{quote(ref)}" if ref else ""
        return f"git+{address}{at}" + (f"#subdirectory={quote(folder)}" if folder else "")

    def _file(self) -> str:
        path, folder = self._needed("path"), self._value("subdirectory")
        if folder and (folder.startswith("/") or ".." in folder.split("/")):
            raise self._refused("the subdirectory must lie inside the source")
        if path.startswith(("~", "file:")):
            raise self._refused("its `path` is not plain", "write the whole path, from `/`")
        if not path.startswith(("/", "./", "../")) and path not in (".", ".."):
            path = f"./{path}"
        return posixpath.join(path, folder) if folder else path

    def _package(self) -> str:
        name, version = self._needed("name"), self._value("version")
        if not _NAME.fullmatch(name):
            raise self._refused("its `name` names no package")
        return f"{name}=={version}" if version else name

    def _needed(self, key: str) -> str:
        value = self._value(key)
        if not value:
            raise self._refused(f"it has no `{key}`")
        return value

    def _value(self, key: str) -> str:
        value = self._written.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self._refused(f"its `{key}` is {type(value).__name__}, not text")
        if value != value.strip() or not value.isprintable():
            raise self._refused(f"its `{key}` has surrounding space or an unprintable character")
        return value

    def _refused(self, problem: str, *hints: str) -> SourceUriError:
        pairs = ", ".join(f"{key}: {value}" for key, value in self._written.items())
        shown = pairs if len(pairs) <= _MAX_SHOWN else pairs[:_MAX_SHOWN] + "…"
        return SourceUriError(f"{{{shown}}}", problem, hints=[*hints, _ACCEPTED])
