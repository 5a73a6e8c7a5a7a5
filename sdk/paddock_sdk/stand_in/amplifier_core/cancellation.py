"""How a running session is asked to stop."""

# Written from the table in tests/sdk/stand_in/reexports.py.

from paddock_sdk.kernel.cancellation import CancellationState, CancellationToken

__all__ = ["CancellationState", "CancellationToken"]
