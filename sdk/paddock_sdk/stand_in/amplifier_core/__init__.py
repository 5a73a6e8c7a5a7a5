"""The Amplifier module contracts under the name modules import them by.

Importing the package imports nothing else: every name is looked up when it is first asked for, so that a module
pays for pydantic, the kernel or the test tools only if it uses them. Nothing is defined here or below; each name
is the same object as its original in `paddock_sdk`.
"""

from __future__ import annotations

from importlib import import_module

# Spelled out, which type checkers know too: importing `typing` would be most of what this file costs.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from paddock_sdk.contract.content_models import *
    from paddock_sdk.contract.interfaces import *
    from paddock_sdk.contract.llm_errors import *
    from paddock_sdk.contract.message_models import *
    from paddock_sdk.contract.models import *
    from paddock_sdk.contract.module_sources import ModuleLoadError as ModuleLoadError
    from paddock_sdk.in_process.module_loader import ModuleLoader as ModuleLoader
    from paddock_sdk.in_process.session import AmplifierSession as AmplifierSession
    from paddock_sdk.kernel.cancellation import *
    from paddock_sdk.kernel.cancellation import CancellationToken
    from paddock_sdk.kernel.coordinator import ModuleCoordinator as ModuleCoordinator
    from paddock_sdk.kernel.hooks import HookRegistry as HookRegistry
    from paddock_sdk.kernel.loading import ModuleValidationError as ModuleValidationError
    from paddock_sdk.kernel.retry import *
    from paddock_sdk.testing import EventRecorder as EventRecorder
    from paddock_sdk.testing import MockContextManager as MockContextManager
    from paddock_sdk.testing import MockCoordinator as MockCoordinator
    from paddock_sdk.testing import MockTool as MockTool
    from paddock_sdk.testing import ScriptedOrchestrator as ScriptedOrchestrator
    from paddock_sdk.testing import create_test_coordinator as create_test_coordinator
    from paddock_sdk.testing import wait_for as wait_for

    from . import capabilities as capabilities

    AmplifierModuleLoader = ModuleLoader
    RustSession = AmplifierSession
    RustCoordinator = ModuleCoordinator
    RustHookRegistry = HookRegistry
    RustCancellationToken = CancellationToken

# The version of the contracts, which modules compare against; not the version of this distribution.
__version__ = "2.0.2"

# Code reads it to choose between two spellings of the same classes; the names it then uses all exist here.
RUST_AVAILABLE = True

_NAMES_OF_MODULE = {
    "paddock_sdk.contract.content_models": (
        "ContentBlock ContentBlockType TextContent ThinkingContent ToolCallContent ToolResultContent"
    ),
    "paddock_sdk.contract.interfaces": (
        "ApprovalProvider ApprovalRequest ApprovalResponse ContextManager HookHandler Orchestrator Provider Tool"
    ),
    "paddock_sdk.contract.llm_errors": (
        "AbortError AccessDeniedError AuthenticationError ConfigurationError ContentFilterError ContextLengthError "
        "InvalidRequestError InvalidToolCallError LLMError LLMTimeoutError NetworkError NotFoundError "
        "ProviderUnavailableError QuotaExceededError RateLimitError StreamError"
    ),
    "paddock_sdk.contract.message_models": (
        "ChatRequest ChatResponse Degradation ImageBlock Message ReasoningBlock RedactedThinkingBlock ResponseFormat "
        "ResponseFormatJson ResponseFormatJsonSchema ResponseFormatText TextBlock ThinkingBlock ToolCall "
        "ToolCallBlock ToolResultBlock ToolSpec Usage"
    ),
    "paddock_sdk.contract.models": (
        "ConfigField ContextInjection HookResult ModelInfo ModuleInfo Pricing ProviderInfo SessionStatus ToolResult"
    ),
    "paddock_sdk.contract.module_sources": "ModuleLoadError",
    "paddock_sdk.kernel.cancellation": "CancellationState CancellationToken",
    "paddock_sdk.kernel.coordinator": "ModuleCoordinator",
    "paddock_sdk.kernel.hooks": "HookRegistry",
    "paddock_sdk.in_process.module_loader": "ModuleLoader",
    "paddock_sdk.in_process.session": "AmplifierSession",
    "paddock_sdk.kernel.loading": "ModuleValidationError",
    "paddock_sdk.kernel.retry": "RetryConfig classify_error_message retry_with_backoff",
    "paddock_sdk.testing": (
        "EventRecorder MockContextManager MockCoordinator MockTool ScriptedOrchestrator create_test_coordinator "
        "wait_for"
    ),
}

_ORIGIN = {name: (module, name) for module, names in _NAMES_OF_MODULE.items() for name in names.split()}
_ORIGIN |= {
    "RustSession": _ORIGIN["AmplifierSession"],
    "RustCoordinator": _ORIGIN["ModuleCoordinator"],
    "RustHookRegistry": _ORIGIN["HookRegistry"],
    "RustCancellationToken": _ORIGIN["CancellationToken"],
    "AmplifierModuleLoader": _ORIGIN["ModuleLoader"],
}

# Reached as attributes without having been imported; `events` is not among them and never was.
_SUBMODULES = frozenset(
    "approval cancellation capabilities content_models coordinator correlation display hooks interfaces llm_errors "
    "loader message_models models module_sources retry session testing truncate utils validation".split()
)

# Hidden from type checkers, which would otherwise accept any name.
if not TYPE_CHECKING:
    __all__ = ["RUST_AVAILABLE", "capabilities", *_ORIGIN]

    def __getattr__(name: str) -> object:
        if name in _SUBMODULES:
            return import_module(f".{name}", __name__)
        if name not in _ORIGIN:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module, original = _ORIGIN[name]
        value = globals()[name] = getattr(import_module(module), original)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__, *_SUBMODULES})
