"""The names that code reaches past the public modules for, under those they have there.

The classes are the same as everywhere. What runs WebAssembly modules is not here, and says so when it is imported.
"""

from __future__ import annotations

from importlib import import_module

# Spelled out, as in the package itself.
TYPE_CHECKING = False
if TYPE_CHECKING:
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

_ORIGIN = {
    "ProviderError": ("paddock_sdk.contract.llm_errors", "LLMError"),
    "RetryConfig": ("paddock_sdk.kernel.retry", "RetryConfig"),
    "RustCancellationToken": ("paddock_sdk.kernel.cancellation", "CancellationToken"),
    "RustCoordinator": ("paddock_sdk.kernel.coordinator", "ModuleCoordinator"),
    "RustHookRegistry": ("paddock_sdk.kernel.hooks", "HookRegistry"),
    "RustSession": ("paddock_sdk.in_process.session", "AmplifierSession"),
    "classify_error_message": ("paddock_sdk.kernel.retry", "error_category"),
    "compute_delay": ("paddock_sdk.kernel.retry", "compute_delay"),
    "resolve_module": ("paddock_sdk.in_process.module_package", "resolve_module"),
}
# All their names in capitals are here, too, including the lists `ALL_…`.
_CONSTANTS = ("paddock_sdk.contract.events", "paddock_sdk.contract.capabilities")

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name in _ORIGIN:
            module, original = _ORIGIN[name]
            value = globals()[name] = getattr(import_module(module), original)
            return value
        if name.isupper():
            for module in map(import_module, _CONSTANTS):
                if hasattr(module, name):
                    value = globals()[name] = getattr(module, name)
                    return value
        if "wasm" in name.lower():
            raise AttributeError(
                f"`{name}` runs WebAssembly modules, which Paddock does not: it runs Python modules, each in a "
                "sandboxed process"
            )
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        constants = (name for module in map(import_module, _CONSTANTS) for name in vars(module) if name.isupper())
        return sorted({*globals(), *__all__, *constants})
