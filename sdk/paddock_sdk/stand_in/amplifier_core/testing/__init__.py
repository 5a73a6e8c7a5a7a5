"""What an author needs to test a module without a host."""

from paddock_sdk.contract.models import HookResult as HookResult
from paddock_sdk.contract.models import ToolResult as ToolResult
from paddock_sdk.kernel.coordinator import ModuleCoordinator as ModuleCoordinator
from paddock_sdk.testing import *
