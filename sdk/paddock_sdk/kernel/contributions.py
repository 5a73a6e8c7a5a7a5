"""Ask all registered contributors of a channel for a contribution.

They are asked in the order they registered. A contributor that fails is logged and left out. One that raises
`CancelledError` ends the asking, and the contributions so far are returned. A cancellation of the asking task itself
propagates.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from paddock_sdk.kernel.cancel_watch import CancelWatch
from paddock_sdk.kernel.settle import settled

__all__ = ["collect_contributions"]

_log = logging.getLogger(__name__)


async def collect_contributions(channels: Mapping[str, Sequence[Mapping[str, Any]]], channel: str) -> list[Any]:
    """Return the contributions to a channel that are not None; an unknown channel has none."""
    watch = CancelWatch()
    contributions: list[Any] = []
    for contributor in list(channels.get(channel, ())):
        try:
            contribution = await settled(contributor["callback"]())
        except asyncio.CancelledError:
            if watch.cancelled:
                raise
            _log.warning("Contributor %r cancelled the collection of %r", contributor["name"], channel)
            break
        except Exception as error:  # module code; one contributor must not cost the others
            _log.warning("Contributor %r to %r failed and was left out", contributor["name"], channel, exc_info=error)
            continue
        if contribution is not None:
            contributions.append(contribution)
    return contributions
