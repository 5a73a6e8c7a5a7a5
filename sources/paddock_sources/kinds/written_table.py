"""A source that is written as a table, read key by key: `{type: git, url: …, ref: …}`.

There is one grammar, that of the text: each kind turns its table into text, which is then parsed like any other.
"""

from __future__ import annotations

from collections.abc import Mapping

from paddock_sources.errors import SourceUriError

_MAX_SHOWN = 200


class WrittenTable:
    """A user's table; `accepted` is the hint of each refusal."""

    def __init__(self, written: Mapping[object, object], accepted: str) -> None:
        self._written = written
        self._accepted = accepted

    def check_keys(self, known: tuple[str, ...]) -> None:
        """Refuse a key other than `type` and those known."""
        for key in self._written:
            if key != "type" and key not in known:
                hint = "a branch, tag or commit is named by `ref`" if key in ("rev", "branch", "tag", "commit") else ""
                kind = self._written.get("type")
                raise self.refused(f"a table of type `{kind}` has no `{key}`", *filter(None, [hint]))

    def needed(self, key: str) -> str:
        """Return the text of a key.

        Raises:
            SourceUriError: it has none.
        """
        value = self.value(key)
        if not value:
            raise self.refused(f"it has no `{key}`")
        return value

    def value(self, key: str) -> str:
        """Return the text of a key; empty where the table has no such key.

        Raises:
            SourceUriError: it is no printable text.
        """
        value = self._written.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.refused(f"its `{key}` is {type(value).__name__}, not text")
        if value != value.strip() or not value.isprintable():
            raise self.refused(f"its `{key}` has surrounding space or an unprintable character")
        return value

    def refused(self, problem: str, *hints: str) -> SourceUriError:
        """Return the error for a problem of the table."""
        pairs = ", ".join(f"{key}: {value}" for key, value in self._written.items())
        shown = pairs if len(pairs) <= _MAX_SHOWN else pairs[:_MAX_SHOWN] + "…"
        return SourceUriError(f"{{{shown}}}", problem, hints=[*hints, self._accepted])
