"""Describe a tool call to a person: its most telling argument, and the change that it would make to a file.

Models and modules choose the arguments: texts are returned unescaped, and the work is bounded. They are masked before
they are cut or compared, since no mask knows a part of a secret. A change that is too large to compare is described by
its size. Files are read by the caller's `ReadText` alone.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final, Literal

ReadText = Callable[[str], str | None]
"""Returns the text of a file that a tool names, or None if it cannot be shown."""

Mask = Callable[[str], str]
"""Returns a text with its secrets hidden."""

Outcome = Literal["ok", "failed", "refused"]

_TELLING: Final = ("command", "file_path", "path", "pattern", "query", "url", "task", "instruction", "prompt", "name")
_PATHS: Final = ("file_path", "path")
_MAX_ARGUMENT: Final = 200  # characters of the short argument
MAX_MASKED: Final = 1 << 20  # characters of a text that is cut to far fewer afterwards
_MAX_COMPARED_LINES: Final = 1000  # of either text, where they differ
_MAX_COMPARED: Final = 256 * 1024  # characters of either text
_MAX_SHOWN: Final = 30  # lines of a change
_NO_MATCH: Final = "the text to replace was not found in the file: the edit may fail, or match otherwise"
_SAME: Final = "the text and its replacement are the same: nothing should change"
_AMBIGUOUS: Final = "the text to replace is there {times} times, and this is the first: the edit may fail"
_UNSEEN: Final = "the file cannot be shown here: it is not known whether the text to replace is in it"
_CONTEXT: Final = 2  # unchanged lines around a change
_MARKS: Final = ("+", "-", " ")  # at the start of a patch's lines


@dataclass(frozen=True, slots=True)
class Change:
    """The change of one file: `lines` begin with `+`, `-`, `@` or a space; `left_out` counts the lines cut off.

    `doubt` is the reason why the change may fail, or differ from what is shown.
    """

    path: str
    lines: tuple[str, ...]
    left_out: int = 0
    summary: str = ""
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class CallEnd:
    """A tool call that ended."""

    name: str
    argument: str
    outcome: Outcome
    seconds: float | None
    reason: str = ""
    change: Change | None = None
    is_nested: bool = False
    said: tuple[str, ...] = ()  # the first lines of what a failed command wrote
    left_out: int = 0  # lines of it


def short_argument(arguments: Mapping[str, Any], folder: str = "", mask: Mask = str) -> str:
    """Return the most telling argument, on one line; a path in `folder` is relative to it."""
    if not arguments:
        return ""
    key = next((key for key in _TELLING if (_text(arguments, key) or "").strip()), None)
    if key is None:
        return one_line(json.dumps(dict(arguments), ensure_ascii=False, default=str), _MAX_ARGUMENT, mask)
    return one_line(arguments[key], _MAX_ARGUMENT, mask, folder if key in _PATHS else "")


def one_line(text: str, most: int, mask: Mask, folder: str = "") -> str:
    """Return a text on one line of `most` characters, masked before it is cut; a path is relative to `folder`."""
    shown = relative(mask(text[:MAX_MASKED]), folder)
    line = " ".join(shown[: 4 * most].split())
    return line if len(line) <= most else f"{line[:most]}…"


def change_of(
    arguments: Mapping[str, Any],
    read: ReadText,
    folder: str = "",
    mask: Mask = str,
) -> Change | None:
    """Return the change that a call would make to a file; None if it edits or writes none.

    Such a call has a patch, or a path with a text and its replacement, or a path with the whole content.
    """
    path = _text(arguments, *_PATHS)
    patch = _text(arguments, "patch", "diff")
    shown = relative(mask((path or "")[:MAX_MASKED]), folder)
    if patch is not None and "\n" in patch:
        return _patch(shown, patch, mask)
    if path is None:
        return None
    old = _text(arguments, "old_string")
    new = _text(arguments, "new_string")
    content = _text(arguments, "content")
    if old is not None and new is not None:
        return _replaced(shown, read(path), old, new, mask, is_everywhere=arguments.get("replace_all") is True)
    if content is not None:
        before = read(path)
        return _compared(shown, before or "", content, mask, with_places=bool(before))
    return None


def _text(arguments: Mapping[str, Any], *keys: str) -> str | None:
    """Return the first argument with one of these names that is a text."""
    for key in keys:
        value = arguments.get(key)
        if isinstance(value, str):
            return value
    return None


def _replaced(
    path: str,
    before: str | None,
    old: str,
    new: str,
    mask: Mask,
    *,
    is_everywhere: bool,
) -> Change:
    given = old, new
    if before is None:
        return replace(_compared(path, old, new, mask, with_places=False), doubt=_UNSEEN)
    if old not in before and "\r" not in old:  # in a file with Windows line ends, which models are not shown
        old = old.replace("\n", "\r\n")
        new = new.replace("\r\n", "\n").replace("\n", "\r\n")
    times = before.count(old) if old else 0
    if times == 0:
        return replace(_compared(path, given[0], given[1], mask, with_places=False), doubt=_NO_MATCH)
    if old == new:
        return Change(path, (), doubt=_SAME)
    after = before.replace(old, new, -1 if is_everywhere else 1)
    change = _compared(path, before, after, mask, with_places=True)
    if times == 1 or is_everywhere:
        return change
    return replace(change, doubt=_AMBIGUOUS.format(times=times))


def relative(path: str, folder: str) -> str:
    """Return a path as it is written from within `folder`."""
    return path.removeprefix(f"{folder}/") if folder else path


def _patch(path: str, patch: str, mask: Mask) -> Change:
    if len(patch) > _MAX_COMPARED:
        return Change(path, (), summary=f"a patch of {len(patch)} characters")
    lines = [*_masked_runs(patch.splitlines(), mask)]
    for mark in ("+", "-"):
        side = "\n".join(line[1:] for line in lines if line.startswith((mark, " ")))
        if mask(side) != side:  # a secret of several lines, some of which the patch changes
            return Change(path, (), summary="a patch with a secret in it")
    return _cut(path, mask("\n".join(lines)).split("\n"))


def _masked_runs(lines: list[str], mask: Mask) -> Iterator[str]:
    """Yield a patch's lines with the text after their marks masked: marks would split a secret of several lines."""
    for mark, run in groupby(lines, lambda line: line[:1] if line.startswith(_MARKS) else ""):
        for line in mask("\n".join(line[len(mark) :] for line in run)).split("\n"):
            yield mark + line


def _compared(path: str, before: str, after: str, mask: Mask, *, with_places: bool) -> Change:
    if len(before) > _MAX_COMPARED or len(after) > _MAX_COMPARED:
        return Change(path, (), summary=f"{len(before)} characters become {len(after)}")
    old, new = mask(before).splitlines(), mask(after).splitlines()
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    if max(len(old), len(new)) - start - end > _MAX_COMPARED_LINES:
        return Change(path, (), summary=f"{len(old) - start - end} lines become {len(new) - start - end}")
    # Only the part that differs, so that the cost does not grow with the file.
    first = max(0, start - _CONTEXT)
    last = max(0, end - _CONTEXT)
    sides = old[first : len(old) - last], new[first : len(new) - last]
    found = list(difflib.unified_diff(*sides, n=_CONTEXT, lineterm=""))[2:]
    if not with_places:
        found = [line for line in found if not line.startswith("@@")]
    elif found:
        found = [_moved(line, first) if line.startswith("@@") else line for line in found]
    return _cut(path, found)


def _cut(path: str, lines: list[str]) -> Change:
    added = sum(line.startswith("+") for line in lines)
    removed = sum(line.startswith("-") for line in lines)
    return Change(path, tuple(lines[:_MAX_SHOWN]), max(0, len(lines) - _MAX_SHOWN), f"+{added} -{removed}")


def _moved(line: str, by: int) -> str:
    """Return a hunk's header with its line number in the file, instead of in the part that was compared."""
    start = line.split("+", 1)[1].split(" ")[0].split(",")[0]
    return f"@ line {max(1, int(start) + by)}"


def _common(first: list[str], second: list[str]) -> int:
    return next(
        (at for at, pair in enumerate(zip(first, second, strict=False)) if pair[0] != pair[1]),
        min(len(first), len(second)),
    )
