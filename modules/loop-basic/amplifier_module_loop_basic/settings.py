"""What the configuration of the loop says, checked once at mount."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

logger = logging.getLogger(__name__)

UNLIMITED = -1


@dataclass(frozen=True, slots=True)
class Settings:
    """How long one prompt may keep the loop going.

    `max_iterations` counts requests to the model that offer tools. Fifty is far above what ordinary tasks take and
    stops a model that calls tools in circles before it has spent a fortune; -1 removes the limit.
    """

    max_iterations: int = 50

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Settings:
        """Return the settings a mount plan's `config` describes.

        Raises:
            ValueError: `max_iterations` is neither -1 nor a whole number above zero.
        """
        unknown = sorted(str(key) for key in config if key != "max_iterations")
        if unknown:
            logger.warning("loop-basic: ignoring unknown settings: %s", ", ".join(unknown))
        limit = config.get("max_iterations", cls().max_iterations)
        if isinstance(limit, bool) or not isinstance(limit, int) or (limit < 1 and limit != UNLIMITED):
            raise ValueError(
                f"loop-basic: `max_iterations` must be a whole number above 0, or -1 for no limit, not {limit!r}"
            )
        return cls(max_iterations=limit)

    def allows(self, iteration: int) -> bool:
        """Return whether the given iteration, counted from 1, may still offer tools."""
        return self.max_iterations == UNLIMITED or iteration <= self.max_iterations
