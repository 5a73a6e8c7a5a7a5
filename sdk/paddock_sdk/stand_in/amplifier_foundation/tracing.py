"""Ids of sub-sessions."""

# Written from the table in tests/sdk/stand_in/reexports.py.

from paddock_sdk.contract.tracing import generate_sub_session_id

__all__ = ["generate_sub_session_id"]
