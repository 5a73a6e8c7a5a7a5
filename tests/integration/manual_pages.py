"""Read the pages that people read: what each fenced block holds, and how a test tries it.

The word behind a block's language says how it is tried:

| block | tried by |
|---|---|
| `console` | each command runs, all of a page in one folder; it shows the lines below it, `…` stands for any text |
| `console exit=N` | likewise; the last command of the block ends with N |
| `console shown` | commands and options exist; for what takes a network, a person or minutes |
| `yaml plan`, `yaml entry` | it is a plan; it is entries of one |
| `ini unit` | its command and options exist, and it is read as systemd does |
| `yaml ci` | the commands of its steps and their options exist |
| `json client` | it is a client's file with servers that Paddock can start, or starts |
| `text order` | it is the order that import-linter holds |
| `text way` | each file has the class and function that is named |
| `toml policy`, `secrets`, `sources`, `manifest` | Paddock reads it |
| `python run` | the program ends with 0 |
| `python module=PATH` | it is written to that path, for the blocks below it |
| `python signature=NAME` | the object has these parameters |
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MANUALS = sorted([ROOT / "README.md", *ROOT.glob("*/docs/*.md")])
_FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block; `word` is what stands behind its language."""

    line: int
    language: str
    word: str
    text: str

    @property
    def kind(self) -> str:
        return f"{self.language} {self.word.partition('=')[0]}".strip()

    @property
    def value(self) -> str:
        return self.word.partition("=")[2]


@dataclass(frozen=True, slots=True)
class Command:
    """One command of a console block, and the lines that are shown below it."""

    words: tuple[str, ...]
    stdin: str
    shown: tuple[str, ...]


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page that have a language; pictures have none."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        language, _, word = match["info"].partition(" ")
        if language:
            found.append(Block(text.count("\n", 0, match.start()) + 1, language, word, match["text"]))
    return found


def links(page: Path) -> list[str]:
    """Return where the page's links to other files of the repository lead, relative to the page."""
    return [link for link in _LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]


def commands(block: Block) -> list[Command]:
    """Return the commands of a console block; `echo TEXT | paddock …` is a command with TEXT on stdin."""
    found: list[Command] = []
    for line in block.text.splitlines():
        if not line.startswith("$ "):
            found[-1] = Command(found[-1].words, found[-1].stdin, (*found[-1].shown, line))
            continue
        words = shlex.split(line[2:], comments=True)
        stdin = ""
        if words[0] == "echo" and "|" in words:
            stdin = " ".join(words[1 : words.index("|")]) + "\n"
            words = words[words.index("|") + 1 :]
        found.append(Command(tuple(words), stdin, ()))
    return found


def is_shown(line: str, text: str) -> bool:
    """Return whether a line of `text` is `line`, in which `…` stands for anything."""
    pattern = re.compile(".*".join(re.escape(part) for part in line.split("…")))
    return any(pattern.fullmatch(one) for one in text.splitlines())
