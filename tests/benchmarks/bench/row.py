"""One line of the result: a figure beside its reference and its target, or the reason why there is none."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

Verdict = Literal["met", "MISSED", ""]


class NotMeasured(Exception):
    """Raised by a part that lacks something which the machine does not have; the message says what."""


@dataclass(frozen=True, slots=True)
class Target:
    """A bound on a figure; `at_least` turns it from an upper into a lower one."""

    bound: float
    at_least: bool = False

    def is_met_by(self, figure: float) -> bool:
        return figure >= self.bound if self.at_least else figure <= self.bound

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.bound:g}"


@dataclass(frozen=True, slots=True)
class Row:
    """A figure `ours` and a figure `reference`, both in `unit`.

    `ratio` is what a target is about; it is None where a figure is compared with nothing, and the target is then about
    `ours` itself. A row without a target is for information.
    """

    what: str
    unit: str
    ours: float
    reference: float | None = None
    ratio: float | None = None
    target: Target | None = None

    @property
    def verdict(self) -> Verdict:
        if self.target is None:
            return ""
        return "met" if self.target.is_met_by(self.ours if self.ratio is None else self.ratio) else "MISSED"

    def as_dict(self) -> dict[str, object]:
        """Return it as data for JSON."""
        return {
            **{key: value for key, value in asdict(self).items() if key != "target"},
            "target": str(self.target) if self.target is not None else None,
            "verdict": self.verdict or None,
        }


@dataclass(frozen=True, slots=True)
class Gap:
    """What has no figure: it failed, or the machine lacks what it needs."""

    what: str
    reason: str
    is_error: bool

    def __str__(self) -> str:
        return f"{'ERROR' if self.is_error else 'not measured'}: {self.reason}"

    def as_dict(self) -> dict[str, object]:
        """Return it as data for JSON."""
        return {"what": self.what, "error" if self.is_error else "not measured": self.reason}
