"""What every module of a kind does, as tests to inherit from."""

from paddock_sdk.validation.behavioral import ContextBehaviorTests as ContextBehaviorTests
from paddock_sdk.validation.behavioral import HookBehaviorTests as HookBehaviorTests
from paddock_sdk.validation.behavioral import OrchestratorBehaviorTests as OrchestratorBehaviorTests
from paddock_sdk.validation.behavioral import ProviderBehaviorTests as ProviderBehaviorTests
from paddock_sdk.validation.behavioral import ToolBehaviorTests as ToolBehaviorTests
