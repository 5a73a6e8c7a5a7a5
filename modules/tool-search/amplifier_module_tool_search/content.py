"""Find the lines of one file that a pattern matches."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

# Links were resolved before: one that appears here afterwards is refused. A pipe without a writer must not block.
_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_MAX_LINE_CHARS = 500  # of a line that is shown; minified files have lines without end


@dataclass(frozen=True, slots=True)
class Content:
    """A file's bytes, with plain newlines; `is_binary` if there is a NUL in it, which is in no text."""

    data: bytes
    is_binary: bool

    @classmethod
    def of(cls, path: str, max_bytes: int) -> Content | None:
        """Return the content of a file; None if it is too large, or cannot be read."""
        try:
            descriptor = os.open(path, _FLAGS)
            try:
                data = _read(descriptor, max_bytes)
            finally:
                os.close(descriptor)
        except OSError:
            return None
        if data is None or len(data) > max_bytes:
            return None
        return cls(data.replace(b"\r\n", b"\n"), b"\0" in data)

    def matching_lines(self, compiled: Any, *, multiline: bool) -> Iterator[tuple[int, int, int]]:
        """Yield the number, the start and the end of each line that is matched, or has a part of a match in it."""
        data, at, number, counted = self.data, 0, 1, 0
        while at < len(data) and (match := compiled.search(data, at)) is not None:
            start, end = match.span()
            if start == len(data):  # an empty match behind the last line
                return
            line = data.rfind(b"\n", 0, start) + 1
            number += data.count(b"\n", counted, line)
            counted = line
            stop = _end_of_line(data, line)
            if not multiline:
                # A match in the line alone is also one in the file; a longer match may begin with text that matches
                # nothing alone.
                if end <= stop or compiled.search(data[line:stop]) is not None:
                    yield number, line, stop
                at = stop + 1
                continue
            last = _end_of_line(data, max(start, end - 1))
            while True:
                yield number, line, stop
                at = stop + 1
                if stop >= last:
                    break
                line, number, counted, stop = at, number + 1, at, _end_of_line(data, at)


def _read(descriptor: int, max_bytes: int) -> bytes | None:
    """Return a regular file's content, over `max_bytes` of it if it is too large; None for any other file."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        return None
    # As much as there is, which one read gives: room for the most there may be would cost more than the reading.
    room = min(status.st_size, max_bytes) + 1
    data = os.read(descriptor, room)
    while len(data) >= room and len(data) <= max_bytes and (more := os.read(descriptor, max_bytes + 1 - len(data))):
        data += more  # it has grown meanwhile
        room = len(data)
    return data


def text_of(data: bytes) -> str:
    """Return a line as it is shown: bytes that are no UTF-8 as such, and not all of one without end."""
    text = data[: _MAX_LINE_CHARS * 4].decode("utf-8", "backslashreplace")
    if len(text) <= _MAX_LINE_CHARS and len(data) <= _MAX_LINE_CHARS * 4:
        return text
    return f"{text[:_MAX_LINE_CHARS]}… [line of {len(data)} bytes]"


def _end_of_line(data: bytes, at: int) -> int:
    end = data.find(b"\n", at)
    return len(data) if end < 0 else end
