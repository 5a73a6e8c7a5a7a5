"""What a provider has to have, as a test to inherit from and to run with `--module-path`."""

from __future__ import annotations

from paddock_sdk.validation.structural import ProviderStructuralTests

__all__ = ["ProviderStructuralTests", "TestProvider"]

# What pytest collects here: it goes by names.
TestProvider = ProviderStructuralTests
