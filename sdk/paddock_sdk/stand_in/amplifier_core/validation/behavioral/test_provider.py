"""What every provider does, as tests to inherit from and to run with `--module-path`."""

from paddock_sdk.contract.models import ProviderInfo as ProviderInfo
from paddock_sdk.validation.behavioral import ProviderBehaviorTests as ProviderBehaviorTests

TestProvider = ProviderBehaviorTests
