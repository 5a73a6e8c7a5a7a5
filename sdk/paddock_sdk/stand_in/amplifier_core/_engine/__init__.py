"""The names that code reaches past the public modules for, under those they have there.

The classes are the same as everywhere. What runs WebAssembly modules is not here, and says so when it is imported.
"""

from paddock_sdk.contract.capabilities import *
from paddock_sdk.contract.events import *
from paddock_sdk.contract.llm_errors import LLMError as ProviderError
from paddock_sdk.in_process.module_package import resolve_module
from paddock_sdk.in_process.session import AmplifierSession as RustSession
from paddock_sdk.kernel.cancellation import CancellationToken as RustCancellationToken
from paddock_sdk.kernel.coordinator import ModuleCoordinator as RustCoordinator
from paddock_sdk.kernel.hooks import HookRegistry as RustHookRegistry
from paddock_sdk.kernel.retry import RetryConfig, compute_delay
from paddock_sdk.kernel.retry import error_category as classify_error_message

__all__ = [
    "RUST_AVAILABLE",
    "ProviderError",
    "RetryConfig",
    "RustCancellationToken",
    "RustCoordinator",
    "RustHookRegistry",
    "RustSession",
    "classify_error_message",
    "compute_delay",
    "resolve_module",
]

RUST_AVAILABLE = True

# Spelled out, as in the package itself. A type checker that knew of the function would accept any name.
TYPE_CHECKING = False
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if "wasm" in name.lower():
            raise AttributeError(
                f"`{name}` runs WebAssembly modules, which Paddock does not: it runs Python modules, each in a "
                "sandboxed process"
            )
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
