"""How the kernel shows a message to a person."""

# Written from the table in tests/sdk/stand_in/reexports.py.

from paddock_sdk.contract.display import DisplaySystem

__all__ = ["DisplaySystem"]
