"""The preferred provider and model for a piece of work.

Modules that pass work to other sessions pass a list of these, best first. The name comes from the application library
beside the contracts, not from the contracts themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

__all__ = ["ProviderPreference"]


@dataclass
class ProviderPreference:
    """One preference; `config` is further configuration for the provider."""

    provider: str
    model: str
    config: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain data."""
        return {"provider": self.provider, "model": self.model, "config": dict(self.config)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild the object from the result of `to_dict`.

        Raises:
            ValueError: the data names no provider or no model.
        """
        missing = [name for name in ("provider", "model") if not data.get(name)]
        if missing:
            raise ValueError(f"a provider preference needs `provider` and `model`; missing: {', '.join(missing)}")
        return cls(data["provider"], data["model"], dict(data.get("config") or {}))
