"""What a provider has to have, as a test to inherit from and to run with `--module-path`."""

# Written from the table in tests/sdk/stand_in/reexports.py.

from paddock_sdk.validation.structural import ProviderStructuralTests
from paddock_sdk.validation.structural import ProviderStructuralTests as TestProvider

__all__ = ["ProviderStructuralTests", "TestProvider"]
