"""The registry of handlers of events, and the answers of a handler.

The answers are looked up when they are first asked for: a module that only registers handlers pays for no pydantic.
"""

from paddock_sdk.kernel.hooks import HookRegistry

# Spelled out, as in the package itself.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from paddock_sdk.contract.models import ContextInjection, HookResult

__all__ = ["ContextInjection", "HookRegistry", "HookResult"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from paddock_sdk.contract import models

        return getattr(models, name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
