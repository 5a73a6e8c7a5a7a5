"""Find in what a command printed what a person would paste: commands, options, variables and lines for a file.

No input and no output here: a text goes in, each `Fix` comes out, in the order in which they are printed. `_FRAMES` has
the sentences that Paddock prints them in. What looks as if it were to be pasted and stands in no such sentence is
unread, so that no new sentence is left untried.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

Act = Literal["look", "more", "run", "yes", "set", "options", "line", "rename", "make"]


@dataclass(frozen=True, slots=True)
class Fix:
    """One thing to paste, and the line that `said` so.

    `act` says what a person does with `text`:

    - `look`: run this command, which shows something, or does something else than the failed one; that fails again
    - `more`: add these options to the command, which then shows more
    - `run`: run this command, then the failed one again; `file` is to be removed first, if it is named
    - `yes`: run the command again on a terminal, and agree to what it asks
    - `set`: set this variable of the environment
    - `options`: add these options to the command
    - `line`: write this line in the entry of the plan at `place`: `tools[0]`, a module's name, or nothing for the plan
    - `rename`: put `text` for `old` in the plan at `place`; in `file`, if it is named, or else in the command
    - `make`: make this folder
    """

    act: Act
    text: str
    said: str
    place: str = ""
    old: str = ""
    file: str = ""


@dataclass(frozen=True, slots=True)
class Printed:
    """What a person could paste of a text, and the lines with something more of that kind in no known sentence."""

    fixes: tuple[Fix, ...]
    unread: tuple[str, ...]


_PLACE: Final = r"(?P<place>[a-z]\w*(?:\[\d+\])?(?:\.\w+(?:\[\d+\])?)*)"
_NAME: Final = r"`?(?P<place>[\w.-]+)`?"
_LINE: Final = r"(?P<text>(?:permissions|limits|replaces|session): (?:\{.*?\}(?=$|[;,])|\[[^]]*\]|[\w-]+))"

_FRAMES: Final[tuple[tuple[Act, re.Pattern[str]], ...]] = tuple(
    (act, re.compile(frame))
    for act, frame in (
        ("look", r"`(?P<text>(?:paddock|git) [^`]+)` (?:lists|shows|checks|explains|prints|runs its tests)"),
        ("look", r"`(?P<text>paddock init --from [^`]+)` writes a plan that has them"),
        ("look", r"or take a newer version of it: `(?P<text>paddock update [^`]+)`"),
        ("look", r"`(?P<text>git help [^`]+)`"),
        ("look", r"`(?P<text>paddock help [^`]+)`"),
        ("more", r"`(?P<text>-v|--[a-z-]+(?: [A-Z]+)?|run --print-grants)` (?:shows|explains|prints)"),
        ("more", r"`(?P<text>--json)` too"),
        ("run", r"(?P<file>)remove the file and (?:lock anew with|run) `(?P<text>paddock lock)`"),
        ("run", r"read it, then: (?P<text>chmod \S+ \S+)"),
        ("set", r"`read -rs (?P<text>\w+) && export (?P=text)`"),
        ("yes", r"say yes to `(?P<text>paddock run)` on a terminal"),
        ("run", r"`(?P<text>(?:paddock|pip|git|chmod) [^`]+)`"),
        ("options", r"`(?P<text>-(?:-[a-z]|[A-Z]\b)[^`]*)`"),
        ("options", r"\badd (?P<text>--[a-z][^;]*)"),
        ("line", rf"^hint: {_PLACE}: .*write in the entry of `[^`]+`: {_LINE}"),
        ("line", rf"\bin the entry of {_NAME}(?: in the plan)?: {_LINE}"),
        ("line", rf"\bin the entry of `[^`]+`, {_PLACE} at \S+:\d+ {_LINE}"),
        ("line", rf"\bmodule {_NAME} was .*write in its entry: {_LINE}"),
        ("line", rf"\bwrite in its entry: {_LINE}"),
        ("line", rf"\bwrite at {_PLACE}: {_LINE}"),
        ("line", rf"^hint: {_PLACE}: grant it where the module is listed as a table: {_LINE}"),
        ("line", rf"\bwrite {_LINE}"),
        ("line", r"name its source: `- module: (?P<place>[\w.-]+)` with `(?P<text>source: [^`]+)`"),
        ("rename", rf"^hint: {_PLACE}: did you mean `(?P<text>[^`]+)`\?"),
        ("rename", r"^hint: did you mean `(?P<text>[^`]+)`\?"),
        ("make", rf"^hint: (?:{_PLACE}|(?P<option>--[a-z-]+)): create it"),
    )
)
#: What a person could paste, in whichever sentence it stands.
_PASTEABLE: Final = re.compile(
    r"`(?:paddock|pip|git|chmod|read|run) [^`]+`|`-(?:-[a-z]|[A-Za-z]\b)[^`]*`|\badd --[a-z]\S+|"
    r"\b(?:permissions|limits|replaces|session|isolation|source): [{\[.]|did you mean|\bcreate it\b"
)
_SPLIT: Final = re.compile(r"(to allow it, write in the entry of .* at \S+:\d+)\n\s+")
_IN_TICKS: Final = re.compile(r"`([^`]+)`")
_FILE: Final = re.compile(r"^\s+(\S+/\S+):\d+: ")


def printed_fixes(text: str) -> Printed:
    """Return what a person could paste of a text that a command printed."""
    fixes: list[Fix] = []
    unread: list[str] = []
    before: list[str] = []
    for line in _SPLIT.sub(r"\1 ", text).splitlines():
        found: list[tuple[int, Fix]] = []
        rest = line
        for act, frame in _FRAMES:
            for match in frame.finditer(rest):
                rest = rest[: match.start()] + " " * len(match[0]) + rest[match.end() :]
                found.append((match.start(), _fix(act, match, line, before)))
        fixes += [fix for _, fix in sorted(found, key=lambda one: one[0])]
        if _PASTEABLE.search(rest):
            unread.append(rest)
        before.append(line)
    return Printed(tuple(fixes), tuple(unread))


def _fix(act: Act, match: re.Match[str], line: str, before: list[str]) -> Fix:
    """Return what a sentence says to do; what it is about, it has from the lines before it."""
    groups = match.groupdict()
    text, place, old, file = groups["text"] if "text" in groups else "", groups.get("place") or "", "", ""
    named = [(one, name) for one in before for name in _IN_TICKS.findall(one)]
    if act == "rename" and place:
        old = place.rpartition(".")[2]
    elif act == "rename":  # the last line that names something names what is wrong, behind its file and line
        about, old = named[-1]
        file = next(iter(_FILE.findall(about)), "")
    elif "file" in groups:
        file = named[-1][1].partition(":")[0]
    elif act == "make":
        about = f"{place or groups['option']}: "
        text = [name for one, name in named if about in one][-1]
    elif "listed as a table" in line:
        place = place.partition(".")[0]
    return Fix(act, text, line, place, old, file)
