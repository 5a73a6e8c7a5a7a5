"""How a session's modules are brought up, for code that calls it without a session."""

from paddock_sdk.in_process.session import initialize_session
from paddock_sdk.kernel.settle import safe_exception_str as _safe_exception_str

__all__ = ["_safe_exception_str", "initialize_session"]
