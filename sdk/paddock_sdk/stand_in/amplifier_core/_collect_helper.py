"""How contributions to a channel are gathered."""

from paddock_sdk.kernel.coordinator import collect_contributions as collect_contributions
