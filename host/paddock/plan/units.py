"""Quantities as people write them in plans and on command lines.

Strict: one number, one known unit, nothing around them; any other text raises a `NotAcceptedError` that shows what is
accepted. Sizes become bytes (units are powers of 1024), durations seconds, percentages fractions, counts integers.
"""

from __future__ import annotations

import re
from typing import TypeGuard, TypeVar

from paddock.plan.problems import NotAcceptedError

_Number = TypeVar("_Number", int, float)

_SIZE_FACTORS = {"K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}
_DURATION_FACTORS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}
_AGE_FACTORS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}

# The largest file offset, a year, as many CPUs as Linux knows, and more tasks or files than Linux has numbers for.
_MAX_SIZE_BYTES = 2**63 - 1
_MAX_DURATION_SECONDS = 366 * 24 * 3600.0
_MAX_FRACTION = 8192.0
_MAX_COUNT = 2**31 - 1

# At most 18 digits: below the length where converting them is refused, far above every maximum.
_SIZE = re.compile(r"([0-9]{1,18})(?:([KMGT])(?:iB)?)?")
_DURATION = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)(ms|s|min|h)")
_AGE = re.compile(r"([0-9]{1,6})\s*(s|min|m|h|d|w)")
_PERCENTAGE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)%")
_COUNT = re.compile(r"[0-9]{1,18}")


_SIZE_ACCEPTED = "a size is bytes, or a whole number with K, M, G or T (powers of 1024), as in 256M"
_DURATION_ACCEPTED = "a duration is a number with ms, s, min or h, as in 30s"
_AGE_ACCEPTED = "an age, as in 30min, 12h, 30d or 8w"
_PERCENTAGE_ACCEPTED = "a share of CPU time is a percentage of one CPU, as in 50% or 200%"
_COUNT_ACCEPTED = "a count is a whole number above zero, as in 32"


def parse_size(value: object) -> int:
    """Return bytes: `256M`, `1GiB`, `4096`, or the number 4096.

    Raises:
        NotAcceptedError: anything else, zero, or beyond 2**63 - 1.
    """
    if _is_integer(value):
        size = value
    else:
        match = _matched(_SIZE, value, _SIZE_ACCEPTED)
        size = int(match[1]) * (_SIZE_FACTORS[match[2]] if match[2] else 1)
    return _bounded(value, size, _MAX_SIZE_BYTES, _SIZE_ACCEPTED)


def parse_duration(value: object) -> float:
    """Return seconds: `30s`, `1.5h`, `250ms`. A bare number is refused, since it has no unit.

    Raises:
        NotAcceptedError: anything else, zero, or more than a year.
    """
    match = _matched(_DURATION, value, _DURATION_ACCEPTED)
    return _bounded(value, float(match[1]) * _DURATION_FACTORS[match[2]], _MAX_DURATION_SECONDS, _DURATION_ACCEPTED)


def parse_age(value: object) -> float:
    """Return the seconds of an age: `30d`, `12h`, `8w`; zero is one.

    Raises:
        NotAcceptedError: anything else. `m` is refused, which could be minutes or months.
    """
    match = _matched(_AGE, value.strip().lower() if isinstance(value, str) else value, _AGE_ACCEPTED)
    if match[2] == "m":
        raise NotAcceptedError("`m` may be minutes or months", f"write `{match[1]}min`, or days as in 30d")
    return float(match[1]) * _AGE_FACTORS[match[2]]


def parse_percentage(value: object) -> float:
    """Return the fraction of a percentage: `50%` gives 0.5, `200%` gives 2.0.

    Raises:
        NotAcceptedError: anything else, zero, or more than any machine has CPUs.
    """
    match = _matched(_PERCENTAGE, value, _PERCENTAGE_ACCEPTED)
    return _bounded(value, float(match[1]) / 100, _MAX_FRACTION, _PERCENTAGE_ACCEPTED)


def parse_count(value: object) -> int:
    """Return a count: 32, or the text `32` as a command line gives it.

    Raises:
        NotAcceptedError: anything else, zero, or beyond 2**31 - 1.
    """
    count = value if _is_integer(value) else int(_matched(_COUNT, value, _COUNT_ACCEPTED)[0])
    return _bounded(value, count, _MAX_COUNT, _COUNT_ACCEPTED)


def size_text(size: int) -> str:
    """Return a size for people: `512 bytes`, `64 KiB`, `1.5 MiB`."""
    for factor, unit in ((1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB")):
        if size >= factor:
            return f"{size / factor:.1f}".removesuffix(".0") + f" {unit}"
    return f"{size} bytes"


def _is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _matched(pattern: re.Pattern[str], value: object, accepted: str) -> re.Match[str]:
    if not isinstance(value, str):
        raise NotAcceptedError(f"`{_clipped(value)}` is not understood", accepted)
    match = pattern.fullmatch(value)
    if match is None:
        raise NotAcceptedError(f"`{_clipped(value)}` is not understood", accepted)
    return match


def _bounded(value: object, quantity: _Number, maximum: _Number, accepted: str) -> _Number:
    if quantity <= 0:
        raise NotAcceptedError(f"`{_clipped(value)}` is not above zero", accepted)
    if quantity > maximum:
        raise NotAcceptedError(f"`{_clipped(value)}` is too large", accepted)
    return quantity


def _clipped(value: object) -> str:
    try:
        text = str(value)
    except ValueError:  # an integer of more digits than Python prints
        return "the number"
    return text if len(text) <= 40 else text[:40] + "…"
