"""One line of the result: a figure beside its reference and its target, or the reason why there is none."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

from bench.sampling import Samples

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
    """A figure `ours` and a figure `reference`, both in `unit`; `measures` says in one sentence what they are.

    `what` is the name of the row, by which runs are compared, so no two rows have the same. `ratio` is what a target is
    about; it is None where a figure is compared with nothing, and the target is then about `ours` itself. A row without
    a target is for information.
    """

    what: str
    measures: str
    unit: str
    ours: float
    reference: float | None = None
    ratio: float | None = None
    target: Target | None = None

    @classmethod
    def compared(
        cls, what: str, measures: str, unit: str, samples: Samples, cases: tuple[str, str], target: Target | None = None
    ) -> Row:
        """Return the row of two cases, ours and its reference, that were run in turns."""
        ours, reference = map(samples.p50, cases)
        return cls(what, measures, unit, ours, reference, samples.ratio(*cases), target)

    @property
    def compares_by(self) -> float:
        """The figure that a target is about, and by which one run is compared with another."""
        return self.ours if self.ratio is None else self.ratio

    @property
    def verdict(self) -> Verdict:
        if self.target is None:
            return ""
        return "met" if self.target.is_met_by(self.compares_by) else "MISSED"

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
