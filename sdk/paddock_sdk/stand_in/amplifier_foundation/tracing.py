"""Ids of sub-sessions."""

from __future__ import annotations

from paddock_sdk.contract.tracing import generate_sub_session_id

__all__ = ["generate_sub_session_id"]
