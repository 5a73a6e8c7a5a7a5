"""The text of an exception of an unknown class, which may fail to give any."""

from __future__ import annotations

__all__ = ["safe_exception_str"]


def safe_exception_str(exc: BaseException) -> str:
    """Return the exception's text, or its class if the text cannot be had."""
    try:
        return str(exc)
    except Exception:  # `__str__` of a class we do not know
        return f"<{type(exc).__name__} without a readable message>"
