"""What every provider does, as tests to inherit from and to run with `--module-path`."""

from __future__ import annotations

from paddock_sdk.contract.models import ProviderInfo
from paddock_sdk.validation.behavioral import ProviderBehaviorTests

__all__ = ["ProviderInfo", "ProviderBehaviorTests", "TestProvider"]

# What pytest collects here: it goes by names.
TestProvider = ProviderBehaviorTests
