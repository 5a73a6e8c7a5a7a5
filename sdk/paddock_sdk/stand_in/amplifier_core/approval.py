"""How the kernel asks a person for permission."""

# Written from the table in tests/sdk/stand_in/reexports.py.

from paddock_sdk.contract.approval import ApprovalSystem, ApprovalTimeoutError

__all__ = ["ApprovalSystem", "ApprovalTimeoutError"]
