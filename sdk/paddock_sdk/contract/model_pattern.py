"""Preferred models, and the model that a pattern such as `small-*` stands for among those of a mounted provider.

Modules that pass work to other sessions write patterns, so that they need not follow every version. Looking one up
never fails: a pattern that no model fits, or whose provider cannot be asked, stays as it is, and a warning is logged.
The names come from the application library beside the contracts, not from the contracts themselves.
"""

from __future__ import annotations

import fnmatch
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

__all__ = ["ModelResolutionResult", "is_glob_pattern", "resolve_model_pattern", "ProviderPreference"]

_log = logging.getLogger(__name__)
_PREFIX = "provider-"


@dataclass
class ModelResolutionResult:
    """The model to use. `pattern` is None for a plain name; the lists are None where no provider was asked."""

    resolved_model: str
    pattern: str | None = None
    available_models: list[str] | None = None
    matched_models: list[str] | None = None


def is_glob_pattern(model_hint: str) -> bool:
    """Return whether a text has wildcards, so that it may stand for several models."""
    return not {"*", "?", "["}.isdisjoint(model_hint)


async def resolve_model_pattern(model_hint: str, provider_name: str | None, coordinator: Any) -> ModelResolutionResult:
    """Return the last model by name that fits the pattern, of the provider mounted as `provider_name` or so."""
    if not is_glob_pattern(model_hint):
        return ModelResolutionResult(model_hint)
    if not provider_name:
        _log.warning("Nothing says whose models %r is about; it stays as it is", model_hint)
        return ModelResolutionResult(model_hint, model_hint)
    available = await _models_of(provider_name, coordinator)
    matched = sorted(fnmatch.filter(available, model_hint), reverse=True)
    if not matched:
        known = ", ".join(available) or "none that can be listed"
        _log.warning("No model of %r fits %r; it stays as it is. There are: %s", provider_name, model_hint, known)
    return ModelResolutionResult(matched[0] if matched else model_hint, model_hint, available, matched)


async def _models_of(provider_name: str, coordinator: Any) -> list[str]:
    wanted = provider_name.removeprefix(_PREFIX)
    try:
        mounted = coordinator.get("providers") or {}
        provider = next((one for name, one in mounted.items() if name.removeprefix(_PREFIX) == wanted), None)
        models = [] if provider is None else await provider.list_models()
        return [model if isinstance(model, str) else model.id for model in models]
    except Exception as error:  # a provider of any kind, which may be another process or not be callable from here
        _log.warning("The models of %r cannot be listed: %s", provider_name, error)
        return []


@dataclass
class ProviderPreference:
    """A preferred provider and model for a piece of work; `config` is further configuration for the provider.

    Modules that pass work to other sessions pass a list of these, best first.
    """

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
