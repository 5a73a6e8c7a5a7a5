"""Put a key into the requests for one host, in the host process, and keep it from coming back.

A module has a placeholder, which is worth nothing. The host process replaces it by the value in the values of headers,
also inside `Authorization: Basic`, and in the query. It never does so in a path or a body, which a server may keep for
others to read. No object and no error of this file shows the value.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

from paddock.egress.stream_redactor import WINDOW_BYTES, StreamRedactor
from paddock.encodings import encoded_forms
from paddock.plan.host_name import Destination
from paddock.plan.net_rule import NetRule

Headers = list[tuple[bytes, bytes]]

SHORTEST_VALUE: Final = 8
"""Characters: anything shorter is in other texts too, and could not be searched for."""

_SENDABLE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_BASIC: Final = re.compile(rb"(basic[ ]+)([A-Za-z0-9+/]+={0,2})", re.IGNORECASE)


class InjectionError(ValueError):
    """Raised for a value that cannot be injected; gives the reason, not the value."""


@dataclass(frozen=True, slots=True)
class KeyInjection:
    """The secret `name`: `value` takes the place of `placeholder` where `rule` leads, and nowhere else.

    Raises:
        InjectionError: the value cannot be in a header, or could not be searched for.
    """

    name: str
    placeholder: str
    value: str = field(repr=False)
    rule: NetRule
    spelled: tuple[str, ...] = field(init=False, repr=False, compare=False)  # how the value may come back

    def __post_init__(self) -> None:
        if len(self.value) < SHORTEST_VALUE:
            raise InjectionError(f"the value of `{self.name}` is shorter than {SHORTEST_VALUE} characters")
        if _has_line_end(self.value):
            raise InjectionError(f"the value of `{self.name}` has a line end in it, and an injected key is one line")
        if not _SENDABLE.fullmatch(self.value):
            raise InjectionError(f"the value of `{self.name}` has spaces at its ends, or is not ASCII")
        if not self.placeholder:
            raise InjectionError(f"`{self.name}` has no placeholder")
        # What is searched for a key is passed on up to the last line end, and when so much has come after it.
        spelled = tuple(dict.fromkeys(encoded_forms(self.value)))
        if any(map(_has_line_end, spelled)):
            raise InjectionError(f"the value of `{self.name}` has a line end in one of its encoded forms")
        if any(len(one) > WINDOW_BYTES for one in spelled):
            raise InjectionError(
                f"the value of `{self.name}` comes to more than {WINDOW_BYTES} bytes when it is encoded"
            )
        object.__setattr__(self, "spelled", spelled)


class InjectedKeys:
    """The injections for one destination, one or more."""

    def __init__(self, injections: Iterable[KeyInjection]) -> None:
        self._injections = tuple(injections)
        spelled = (one for each in self._injections for one in each.spelled)
        self._spellings = tuple(dict.fromkeys(one.encode() for one in spelled))

    def __bool__(self) -> bool:
        return bool(self._injections)

    def fill(self, target: bytes, headers: Headers) -> tuple[bytes, Headers, set[str]]:
        """Return a request's target and headers with the values in place, and the names of those that were put in."""
        filled: set[str] = set()
        path, mark, query = target.partition(b"?")
        for each in self._injections:
            placeholder, value = each.placeholder.encode(), each.value.encode()
            if placeholder in query:
                query = query.replace(placeholder, quote(each.value, safe="").encode())
                filled.add(each.name)
            for index, (name, held) in enumerate(headers):
                replaced = _filled(held, placeholder, value)
                if replaced != held:
                    headers[index] = (name, replaced)
                    filled.add(each.name)
        return path + mark + query, headers, filled

    def redactor(self) -> StreamRedactor:
        """Return a filter that hides the values, in every encoding, in one text that comes in pieces."""
        return StreamRedactor(self._spellings)


def _has_line_end(text: str) -> bool:
    return "\n" in text or "\r" in text


def keys_for(destination: Destination, injections: Iterable[KeyInjection]) -> InjectedKeys:
    """Return the injections for a destination."""
    return InjectedKeys(each for each in injections if each.rule.matches(destination))


def _filled(held: bytes, placeholder: bytes, value: bytes) -> bytes:
    basic = _BASIC.fullmatch(held)
    if basic is not None:
        try:
            credentials = base64.b64decode(basic[2], validate=True)
        except binascii.Error:
            return held
        if placeholder in credentials:
            return basic[1] + base64.b64encode(credentials.replace(placeholder, value))
        return held
    return held.replace(placeholder, value)
