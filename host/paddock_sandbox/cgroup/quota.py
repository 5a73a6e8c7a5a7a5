"""A share of processor time as the kernel's scheduler takes it: so many microseconds in each period."""

from __future__ import annotations

_PERIOD_US = 100_000  # the kernel's default
_LONGEST_PERIOD_US = 1_000_000  # and its bounds
_LEAST_QUOTA_US = 1_000


def period_and_quota(share: float) -> tuple[int, int]:
    """Return the period and the part of it that make a share of one processor, both in microseconds.

    The least that can be had is a thousandth.
    """
    period = _PERIOD_US if share * _PERIOD_US >= _LEAST_QUOTA_US else _LONGEST_PERIOD_US
    return period, max(_LEAST_QUOTA_US, round(share * period))
