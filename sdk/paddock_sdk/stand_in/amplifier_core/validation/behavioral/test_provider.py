"""What every provider does, as tests to inherit from and to run with `--module-path`."""

# Written from the table in tests/sdk/stand_in/reexports.py.

from paddock_sdk.contract.models import ProviderInfo
from paddock_sdk.validation.behavioral import ProviderBehaviorTests
from paddock_sdk.validation.behavioral import ProviderBehaviorTests as TestProvider

__all__ = ["ProviderInfo", "ProviderBehaviorTests", "TestProvider"]
