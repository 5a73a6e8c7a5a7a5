"""The secrets of one session: their values, their placeholders, and how output is masked.

A placeholder is made for the session and contains the secret's name; it has a value only at the place where the host
inserts the secret. Masking is for output, never for messages between modules. No object of this file shows a value in
its own text form.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from paddock.encodings import encoded_forms
from paddock.plan.permissions import Permissions
from paddock.plan.secret_references import expanded

SHORTEST_MASKED: Final = 4
"""Characters of a value: anything shorter is part of so many texts that hiding it would hide the output."""

_TOKEN_BYTES: Final = 16


class SecretValues(Mapping[str, str]):
    """Secrets by name; masked texts contain these names."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)
        self._placeholders = {name: f"paddock-secret-{name}-{secrets.token_hex(_TOKEN_BYTES)}" for name in self._values}
        self._spellings: dict[str, str] = {}  # names of secrets; of two with the same spelling, the first
        for name, value in self._values.items():
            for spelling in encoded_forms(value) if len(value) >= SHORTEST_MASKED else ():
                self._spellings.setdefault(spelling, name)
        self._pattern = _pattern(self._spellings)
        self._bytes: re.Pattern[bytes] | None = None

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._values)})"

    @property
    def unmasked(self) -> tuple[str, ...]:
        """The names of the secrets that are too short to be masked, which the operator is warned of."""
        return tuple(name for name, value in self._values.items() if len(value) < SHORTEST_MASKED)

    def placeholder(self, name: str) -> str:
        """Return what a module gets in place of a secret that the host injects."""
        return self._placeholders[name]

    def expanded(self, config: Any, permissions: Permissions) -> Any:
        """Return a copy of a configuration, or any part of one, with the granted references filled in.

        Injected secrets are filled in as their placeholders. The configuration must have no problems.
        """
        return expanded(config, permissions, self._values, self._placeholders)

    def mask(self, text: str) -> str:
        """Return a text with `[secret NAME]` for each secret in it, also where it is encoded for a URL or in JSON."""
        return text if self._pattern is None else self._pattern.sub(self._masked, text)

    def overwrite(self, encoded: bytes) -> bytes:
        """Return encoded values with each secret in a text of theirs replaced by as many asterisks as it has bytes."""
        if self._pattern is None:
            return encoded
        if self._bytes is None:
            self._bytes = re.compile(self._pattern.pattern.encode())
        return self._bytes.sub(lambda found: b"*" * len(found[0]), encoded)

    def stream(self) -> SecretStream:
        """Return a masker for one text that arrives in pieces."""
        return SecretStream(self.mask, self._spellings, self._pattern)

    def _masked(self, match: re.Match[str]) -> str:
        return f"[secret {self._spellings[match[0]]}]"


def _pattern(texts: Iterable[str]) -> re.Pattern[str] | None:
    # The longest first: of two that begin at the same place, all of it has to be hidden.
    ordered = sorted(texts, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, ordered))) if ordered else None


NO_SECRETS: Final = SecretValues({})
"""No secrets."""


class SecretStream:
    """Masks a text that arrives in pieces, and keeps back an end for as long as it may begin a secret."""

    def __init__(self, mask: Callable[[str], str], spellings: Iterable[str], pattern: re.Pattern[str] | None) -> None:
        self._mask = mask
        self._pattern = pattern
        self._spellings = tuple(spellings)
        self._first = frozenset(spelling[0] for spelling in self._spellings)
        self._longest = max(map(len, self._spellings), default=1)
        self._kept = ""

    def feed(self, text: str) -> str:
        """Return the part of the kept text and of this one that can be shown."""
        whole = self._kept + text
        begin = max(0, len(whole) - self._longest + 1)
        cut = next((at for at in range(begin, len(whole)) if self._may_begin(whole, at)), len(whole))
        if self._pattern is not None and cut < len(whole):
            # Where a whole secret is present, no part of it is shown because another may begin within it.
            over = (found.start() for found in self._pattern.finditer(whole) if found.start() < cut < found.end())
            cut = next(over, cut)
        self._kept = whole[cut:]
        return self._mask(whole[:cut])

    def end(self) -> str:
        """Return the kept text: the input has ended."""
        rest, self._kept = self._kept, ""
        return self._mask(rest)

    def _may_begin(self, text: str, at: int) -> bool:
        return text[at] in self._first and any(spelling.startswith(text[at:]) for spelling in self._spellings)
