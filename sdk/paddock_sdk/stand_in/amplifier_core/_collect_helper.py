"""How contributions to a channel are gathered."""

# Written from the table in tests/sdk/stand_in/reexports.py.

from paddock_sdk.kernel.coordinator import collect_contributions

__all__ = ["collect_contributions"]
