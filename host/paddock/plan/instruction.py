"""What a plan has the model told first, and the files that a text mentions as `@path`.

Nothing is read here: each text comes with the reader of what it mentions, and a reader returns each file with the
reader for that file's own mentions. So who wrote a text decides what it can mention, and another kind of place is one
more reader. A mention stays in its text, and the file follows once, however often it is mentioned. A mention that
cannot be followed stays plain text, and is noted. In Markdown code, between backticks, nothing is a mention.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from paddock.plan.problems import NotAcceptedError

MAX_FILE: Final = 256 * 1024  # bytes
_MAX_MENTIONS: Final = 100
_MENTION: Final = re.compile(
    r"^```.*?^```|(`{1,3})[^`\n]*\1|(?<![\w@./-])@([\w~./][\w~./:+-]*)", re.DOTALL | re.MULTILINE
)
_LIKE_A_PATH: Final = re.compile(r"[./~]")  # else what is not there may well be a name or a decorator


class NoSuchFileError(NotAcceptedError):
    """Raised by a reader for a mention of nothing that is there."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction as a plan has it: its `text`, or the `file` with it; or as it was composed.

    Then `text` is all that the model is told, `files` names what it was read from, `texts` is what each of these says,
    `outside` those of them that lie outside of the working directory, and `notes` are about mentions that stay text.
    """

    text: str = ""
    file: str = ""
    files: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MentioningText:
    """A text, and what its mentions are read with; `name` is that of its file, which may be `is_outside`."""

    text: str
    read: Reader
    name: str = ""
    is_outside: bool = False


Reader = Callable[[str], MentioningText]
"""Returns the file for a mention, without its `@`; raises `NotAcceptedError` with the reason why there is none."""


def compose(first: MentioningText, also: Iterable[MentioningText] = ()) -> Instruction:
    """Return a text followed by `also`, by the files that these mention, and so on, each content once."""
    found = {one.text: one for one in (first, *also)}
    notes: dict[str, None] = {}
    waiting = deque((one, frozenset({one.text})) for one in found.values())
    left = _MAX_MENTIONS
    while waiting and left:
        text, around = waiting.popleft()
        where = f" in {text.name}" if text.name else ""
        for mention in islice(dict.fromkeys(mentions_in(text.text)), left):
            left -= 1
            try:
                file = text.read(mention)
                if file.text in around:
                    raise NotAcceptedError("the mentions go in a circle, and each file is in once")
            except NotAcceptedError as error:
                if not isinstance(error, NoSuchFileError) or _LIKE_A_PATH.search(mention):
                    notes[f"`@{mention}`{where} stays text: {error.problem}"] = None
                continue
            if file.text not in found:
                found[file.text] = file
                waiting.append((file, around | {file.text}))
    if not left:
        notes[f"no more than {_MAX_MENTIONS} mentions are followed"] = None
    parts = [f'<file path="{one.name}">\n{one.text.rstrip()}\n</file>' for one in (*found.values(),)[1:]]
    whole = "\n\n".join([first.text.rstrip("\n"), *parts]).lstrip("\n") if parts else first.text
    files = [one for one in found.values() if one.name]
    outside = tuple(one.name for one in files if one.is_outside)
    names, texts = tuple(one.name for one in files), tuple(one.text for one in files)
    return Instruction(whole, first.name, names, texts, outside, tuple(notes))


def mentions_in(text: str) -> Iterator[str]:
    """Yield each mention in a text, without its `@`."""
    for match in _MENTION.finditer(text):
        mention = (match[2] or "").rstrip(".:")  # which end a sentence
        if mention:
            yield mention
