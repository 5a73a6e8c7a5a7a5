"""The default limits of modules, as a person reads them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Final, get_args

from paddock.plan.limits import Limits
from paddock.plan.model import EntryPlace, Kind, ModuleEntry
from paddock.plan.units import size_text
from paddock.policy.limits import OUTPUT_PER_SECOND, ResourceLimits

_KINDS: Final[tuple[Kind, ...]] = get_args(Kind)[::-1]  # tools and hooks first: there are most of them
_SIZES: Final = frozenset({"memory_max", "file_size_max", "tmp_max", "output_max", "frame_max"})
_DURATIONS: Final = frozenset({"runtime_max", "start_max"})


def default_texts() -> dict[str, str]:
    """Return the default of each limit, by the kind of module where it differs."""
    by_kind = {kind: _limits(kind) for kind in _KINDS}
    with_programs = _limits("tool", {"run": ["*"]})
    return {name: _text(name, by_kind, with_programs) for name in Limits.model_fields}


def _limits(kind: Kind, permissions: object = None) -> ResourceLimits:
    entry = {"module": f"{kind}-x", "permissions": permissions}
    return ResourceLimits.of(ModuleEntry.read(entry, EntryPlace(kind, "", Path("/"))))


def _text(name: str, by_kind: dict[Kind, ResourceLimits], with_programs: ResourceLimits) -> str:
    kinds_by_text: dict[str, list[Kind]] = {}
    for kind, limits in by_kind.items():
        kinds_by_text.setdefault(_quantity(name, getattr(limits, name)), []).append(kind)
    if len(kinds_by_text) == 1:
        text = next(iter(kinds_by_text))
    else:
        text = ", ".join(f"{text} ({', '.join(kinds)})" for text, kinds in kinds_by_text.items())
    more = _quantity(name, getattr(with_programs, name))
    return text if more == _quantity(name, getattr(by_kind["tool"], name)) else f"{text}, {more} with `run`"


def _quantity(name: str, value: float | None) -> str:
    if name == "output_max" and value is None:
        return f"{size_text(OUTPUT_PER_SECOND)} a second, the rest left out"
    if value is None or value == math.inf:
        return "none"
    if name in _SIZES:
        return size_text(int(value))
    if name in _DURATIONS:
        return f"{value:g} s"
    return f"{value:.0%} of a CPU" if name == "cpu_quota" else str(value)
