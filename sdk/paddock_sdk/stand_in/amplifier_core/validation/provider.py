"""What a provider has to have."""

from __future__ import annotations

from paddock_sdk.validation.provider import ProviderValidator

__all__ = ["ProviderValidator"]
