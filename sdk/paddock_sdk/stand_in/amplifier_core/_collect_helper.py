"""How contributions to a channel are gathered."""

from __future__ import annotations

from paddock_sdk.kernel.contributions import collect_contributions

__all__ = ["collect_contributions"]
