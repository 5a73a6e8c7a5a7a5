"""The forms of secrets and personal data: one table, from the name of a category to its pattern.

Every search takes time in proportion to the text's length alone. Patterns begin at a place that a run of similar
characters has once, or with fixed words, and every repetition is bounded or cannot backtrack.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from .checks import iban_end, is_card, is_ip, is_phone

Span = tuple[int, int]
Search = Callable[[int], re.Match[str] | None]


@dataclass(frozen=True, slots=True)
class Pattern:
    """One way to find a category: where `expression` matches and `accepts` the group `found`, or all of the match.

    Texts with none of `hints` in them are not searched. After a rejected match, the search goes on within it; matches
    are therefore bounded, and an accepted one is extended by the match of `rest`.
    """

    expression: re.Pattern[str]
    hints: tuple[str, ...]
    accepts: Callable[[re.Match[str]], bool] = lambda match: True
    rest: re.Pattern[str] | None = None

    def spans(self, text: str) -> Iterator[Span]:
        """Yield where the category is found in a text."""
        if not any(hint in text for hint in self.hints):
            return
        search = self.search_in(text)
        position = 0
        while (match := search(position)) is not None:
            if self.accepts(match):
                start, end = _found(match)
                if self.rest is not None and end == match.end() and (rest := self.rest.match(text, end)):
                    end = rest.end()
                yield start, end
                position = max(end, match.end())
            else:
                position = match.start() + 1

    def search_in(self, text: str) -> Search:
        """Return the function that finds the first match from a position on."""
        return partial(self.expression.search, text)


def _found(match: re.Match[str]) -> Span:
    """Return the span of the group that matched, whose name ends in `found`, or of the whole match."""
    named = [name for name in match.re.groupindex if name.endswith("found") and match[name] is not None]
    return match.span(named[0]) if named else match.span()


_DIGIT = re.compile("[0-9]")
_LETTER = re.compile("[A-Za-z]")


def _has_digit(match: re.Match[str]) -> bool:
    return _holds(match.string[slice(*_found(match))], _DIGIT, str.isdigit)


def _holds(text: str, ascii_of_kind: re.Pattern[str], is_of_kind: Callable[[str], bool]) -> bool:
    """Return whether a character of a kind is in a text; in ASCII, which nearly all is, without looking at each."""
    return ascii_of_kind.search(text) is not None if text.isascii() else any(map(is_of_kind, text))


# --- generic secrets

_KEY = (
    r"(?:pass(?:word|wd|phrase)|(?<![A-Za-z])pwd|secret|(?:auth|access|refresh|id|api|bearer)[_-]?token|token"
    r"|(?:api|access|secret|private|signing|encryption|account|shared)[_-]?(?:access[_-]?)?key|credentials?)"
)
_ASSIGNMENT = re.compile(
    rf"(?i:{_KEY})" + r"""\\?["']?(?P<before>\s{0,3})(?P<sign>=>|:=|=|:)(?P<after>\s{0,3})"""
    r"""(?:\\"(?P<escaped_found>(?:[^"\\\n]|\\[^"\n])++)|"(?P<double_found>[^"\n]++)|'(?P<single_found>[^'\n]++)"""
    r"""|(?P<bare_found>[^\s"'`,;&|<>(){}\[\]\\]{4,128})(?P<call>[(\[]?))"""
)
_NAMED = re.compile(_KEY + r"""(?=\\?["']?\s{0,3}(?:=|:))""")
_REST_OF_VALUE = re.compile(r"""[^\s"'`,;&|<>(){}\[\]\\]*+""")
_REFERENCE = re.compile(r"[$%<{]|(?:[A-Za-z_]\w*\.)+[A-Za-z_]\w*\Z|(?:none|null|true|false|undefined)\Z", re.IGNORECASE)


def _is_literal(match: re.Match[str]) -> bool:
    """Return whether an assigned text is a value, and not a variable, a call, a path or a word of a sentence."""
    if match["bare_found"] is None:
        start, end = _found(match)
        return not match.string.startswith(("$", "<", "{", "%"), start, end)
    value = match["bare_found"]
    is_tight = match["sign"] == "=" and not match["before"] and not match["after"]
    if not is_tight and not (
        len(value) >= 8 and _holds(value, _DIGIT, str.isdigit) and _holds(value, _LETTER, str.isalpha)
    ):
        return False
    is_folder = match[0][:3].lower() == "pwd" and value[0] in "/~."
    return not match["call"] and not is_folder and not _REFERENCE.match(value)


class _Assignment(Pattern):
    """A value assigned to the name of a secret.

    Names are searched in the lower-case text, which takes a quarter of the time of ignoring capitals.
    """

    __slots__ = ()

    def search_in(self, text: str) -> Search:
        plain = text.casefold().replace("\N{LATIN SMALL LETTER DOTLESS I}", "i")
        if len(plain) != len(text):  # some letter has become two
            return super().search_in(text)

        def search(position: int) -> re.Match[str] | None:
            while (named := _NAMED.search(plain, position)) is not None:
                if (match := self.expression.match(text, named.start())) is not None:
                    return match
                position = named.start() + 1
            return None

        return search


_REST_OF_TOKEN = re.compile(r"[A-Za-z0-9_-]*+")

# --- personal data

_CARD = re.compile(
    r"(?<![\w.])(?:\d{13,19}|\d{4}(?P<four>[ -])\d{4}(?P=four)\d{4}(?P=four)\d{1,7}"
    r"|\d{4}(?P<six>[ -])\d{6}(?P=six)\d{4,5})(?![\w])"
)
_PHONE = re.compile(
    r"(?<![\w.+/-])(?:(?:\+|00(?=[1-9]\d{0,2}[ ./(-]))\d(?:[ ./()-]{0,2}\d){7,14}"
    r"|(?:\([2-9]\d{2}\) ?|[2-9]\d{2}[ .-])[2-9]\d{2}[ .-]\d{4})(?![\w])"
)
_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?= ?[A-Z0-9])", re.IGNORECASE)
_EMAIL = re.compile(
    r"(?<![\w.%+-])[A-Za-z0-9_%+-][\w.%+-]{0,63}@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61})\.){1,6}[A-Za-z]{2,24}(?![\w-])"
)
_IP = re.compile(r"(?<![\w.:])(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7})(?![\w:]|\.\d)")


class _Iban(Pattern):
    """Account numbers, whose length is their country's."""

    __slots__ = ()

    def spans(self, text: str) -> Iterator[Span]:
        for match in self.expression.finditer(text):
            end = iban_end(text, match.start())
            if end is not None:
                yield match.start(), end


def _known(expression: str, *hints: str) -> Pattern:
    return Pattern(re.compile(r"(?<![A-Za-z0-9])(?:" + expression + ")"), hints, rest=_REST_OF_TOKEN)


SECRETS: dict[str, Pattern] = {
    "private_key": Pattern(
        re.compile(
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
            r"(?:\s{0,4}(?:Proc-Type|DEK-Info|Version|Comment):[^\n]{0,200})*+[A-Za-z0-9+/=\s\\]*+"
            r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?"
        ),
        ("-----BEGIN ",),
    ),
    "aws": _known(r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])", "AKIA", "ASIA", "ABIA", "ACCA"),
    "github": _known(r"gh[pousr]_[A-Za-z0-9]{20,255}|github_pat_[A-Za-z0-9_]{20,255}", "gh", "github_pat_"),
    "gitlab": _known(r"glpat-[A-Za-z0-9_-]{20,255}", "glpat-"),
    "anthropic": _known(r"sk-ant-[A-Za-z0-9_-]{16,255}", "sk-ant-"),
    "openai": _known(r"sk-(?!ant-)(?=[A-Za-z_-]{0,127}+\d)[A-Za-z0-9_-]{20,128}", "sk-"),
    "slack": _known(
        r"xox[a-z]-[A-Za-z0-9-]{10,255}|xapp-[A-Za-z0-9-]{10,255}|hooks\.slack\.com/services/[A-Za-z0-9/]{20,100}",
        "xox", "xapp-", "hooks.slack.com",
    ),
    "google": _known(r"AIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])", "AIza"),
    "stripe": _known(r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,255}", "k_live_", "k_test_"),
    "huggingface": _known(r"hf_[A-Za-z0-9]{30,100}", "hf_"),
    "npm": _known(r"npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])", "npm_"),
    "jwt": _known(r"eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]*+)?", "eyJ"),
    "bearer": Pattern(
        re.compile(r"(?<![A-Za-z])(?:bearer|basic)\s{1,3}(?P<found>[A-Za-z0-9._~+/=-]{16,2048})", re.IGNORECASE),
        ("earer", "asic", "EARER", "ASIC"),
        _has_digit,
    ),
    "url_password": Pattern(re.compile(r"""://[^\s/:@"']{0,64}:(?P<found>[^\s/@"'${<]{1,256})@"""), ("://",)),
    "password": _Assignment(_ASSIGNMENT, ("=", ":"), _is_literal, _REST_OF_VALUE),
}  # fmt: skip

PII: dict[str, Pattern] = {
    "iban": _Iban(_IBAN, tuple("0123456789")),
    "card": Pattern(_CARD, tuple("23456"), lambda match: is_card(match[0])),
    "email": Pattern(_EMAIL, ("@",), lambda match: not match[0].startswith("git@")),  # a repository's address
    "phone": Pattern(_PHONE, ("+", "00", "-", ".", " "), lambda match: is_phone(match[0])),
}

OTHERS: dict[str, Pattern] = {"ip": Pattern(_IP, (".", ":"), lambda match: is_ip(match[0]))}
