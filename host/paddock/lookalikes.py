"""Mark characters that pass for others in the names that modules ask for, as from another alphabet.

`marked` puts a warning in front of a text that names its deceptive characters, so that people do not approve another
host, file or program than the one they read. It is advice for a person: it changes no name and refuses none, and it
cannot distinguish ASCII characters that a font draws alike. A word in one alphabet stays unmarked, unless a reader
could take it for a Latin one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

_MAX_CHARACTERS: Final = 4096  # of a text that are examined; a screen shows no more
_MARK: Final = "[NOT AS IT LOOKS: "
_MAX_MARKED: Final = 3  # characters that are named; one is enough to look twice

_COMBINING: Final = "\u0300-\u036f"
_WORD: Final = re.compile(f"(?:[^\\W_]|[{_COMBINING}])+")
_ENCODED: Final = re.compile(r"(?<![a-z0-9-])xn--([a-z0-9-]{1,59})", re.IGNORECASE)  # a part of a host name

# Letters that are drawn as Latin ones: Cyrillic, Greek, Armenian, Cherokee, Coptic, Tifinagh, Lisu, Deseret. A word of
# nothing else could be read as a Latin one.
_LATIN_SHAPES: Final = frozenset(
    "\u0430\u0432\u0435\u043a\u043c\u043d\u043e\u0440\u0441\u0442\u0443\u0445\u0455\u0456\u0458\u04bb\u04cf\u0501\u051b"
    "\u051d\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0405\u0406\u0408\u04c0\u050c\u051a"
    "\u051c\u03b1\u03b3\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c"
    "\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u0570\u0578\u057d\u0581\u0585\u0566\u0578\u0555\u054d"
    "\u13a0\u13a1\u13a2\u13a5\u13aa\u13ab\u13ac\u13b3\u13b7\u13bb\u13bd\u13c0\u13c2\u13c3\u13c6\u13cf\u13d2\u13d4"
    "\u13d5\u13d9\u13da\u13de\u13df\u13e2\u13e6\u13e7\u13f4\u2c80\u2c82\u2c88\u2c89\u2c8c\u2c8e\u2c92\u2c93\u2c94"
    "\u2c95\u2c98\u2c9a\u2c9b\u2c9e\u2c9f\u2ca2\u2ca3\u2ca4\u2ca5\u2ca6\u2ca8\u2cac\u2cad\u2d38\u2d39\u2d4f\u2d54"
    "\u2d55\u2d5d\ua4d0\ua4d1\ua4d3\ua4d4\ua4d6\ua4d7\ua4d9\ua4da\ua4dc\ua4dd\ua4df\ua4e0\ua4e1\ua4e2\ua4e3\ua4e6"
    "\ua4e7\ua4ea\ua4eb\ua4ec\ua4ee\ua4f0\ua4f2\ua4f3\ua4f4\U00010404\U00010415\U0001041b\U00010420\U0001042c"
    "\U0001043d\U00010448"
)
# Signs that are drawn as `/ . : - ~ * !` and that no normal form turns into them.
_SIGNS: Final = frozenset(
    "\u2044\u2215\u29f8\u2571\u30ce\u00b7\u2027\u3002\u2236\ua789\u02d0\u2010\u2011\u2012\u2212\u223c\u2217\u01c3"
)
# Latin ones that are drawn as others, of few languages: i and j without dots, kra, tone six, iota, yr, wynn, a click.
_LATIN_EXTRAS: Final = frozenset("\u0131\u0237\u0138\u0184\u0185\u0196\u01a6\u01bf\u01c0")
# Printable characters that show nothing: a name with one passes for the name without it. Fillers and blanks always do;
# selectors of a glyph's form belong behind emoji and letters that have several.
_UNSEEN: Final = re.compile(
    "[\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0]"
    "|(?:(?<![^\x00-\x7f])|(?<=[\u00c0-\u058f]))[\u180b-\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef](?!\u20e3)"
)
_LAST_WRITTEN_LATIN: Final = 0x24F  # of the letters of languages; beyond are those of phonetic writing
_ONE_WRITING: Final = frozenset({"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HANGUL", "BOPOMOFO"})


def marked(text: str, row: str = "") -> str:
    """Return a text with a warning about deceptive characters in front, where no cut removes it; most texts unchanged.

    A text that has the warning stays as it is. With a `row`, of which `text` is the end, the row is examined.
    """
    said = "" if _MARK in text else not_as_it_looks(row or text)
    return f"{_MARK}{said}] {text}" if said else text


def not_as_it_looks(text: str) -> str:
    """Name the characters of a text that pass for others; empty for most texts."""
    looked_at = text[:_MAX_CHARACTERS]
    decoded = [name for name in map(_decoded, _ENCODED.finditer(looked_at)) if name]
    if looked_at.isascii() and not decoded:
        return ""
    said = [f"`{name}` in a host name is `{other}`" for name, other in decoded[:_MAX_MARKED]]
    strange = list(dict.fromkeys(_strange(" ".join([looked_at, *(other for _, other in decoded)]))))
    said += map(_named, strange[:_MAX_MARKED])
    if len(strange) > _MAX_MARKED:
        said.append(f"and {len(strange) - _MAX_MARKED} more")
    return ", ".join(said)


def _strange(text: str) -> Iterator[str]:
    yield from (char for char in text if not char.isascii() and _is_form_of_ascii(char))
    yield from _UNSEEN.findall(text)
    for match in _WORD.finditer(text):
        word = match[0]
        if not word.isascii():
            yield from _strange_in_word(word)


def _strange_in_word(word: str) -> Iterator[str]:
    letters = [char for char in word if not (char.isascii() and char.isdigit()) and not _is_combining(char)]
    scripts = {char: "LATIN" if char.isascii() else unicodedata.name(char, "?").split()[0] for char in letters}
    kinds = set(scripts.values())
    if "LATIN" in kinds and len(kinds) > 1:
        yield from (char for char, script in scripts.items() if script != "LATIN")
    elif len(kinds) > 1 and not kinds <= _ONE_WRITING:
        yield from scripts
    elif scripts and "LATIN" not in kinds and all(char in _LATIN_SHAPES for char in scripts):
        yield from scripts
    yield from (char for char in scripts if _is_odd_latin(char, scripts[char]))
    if unicodedata.normalize("NFC", word) != word or any(map(_is_combining, unicodedata.normalize("NFC", word))):
        yield from (char for char in word if _is_combining(char))


def _named(char: str) -> str:
    return f"`{char}` is U+{ord(char):04X} {unicodedata.name(char, 'without a name')}"


def _is_form_of_ascii(char: str) -> bool:
    if char == "\u2026":  # Paddock itself writes this character where it cut a text
        return False
    return char in _SIGNS or unicodedata.normalize("NFKC", char).isascii()


def _is_odd_latin(char: str, script: str) -> bool:
    if char in _LATIN_EXTRAS:
        return True
    return script == "LATIN" and ord(char) > _LAST_WRITTEN_LATIN and not unicodedata.normalize("NFD", char)[0].isascii()


def _is_combining(char: str) -> bool:
    return "\u0300" <= char <= "\u036f"


def _decoded(match: re.Match[str]) -> tuple[str, str] | None:
    try:
        decoded = match[1].encode("ascii").decode("punycode")
    except (UnicodeError, OverflowError):
        return None
    return None if decoded.isascii() else (match[0], decoded)
