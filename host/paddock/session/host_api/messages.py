"""Messages of modules to the user of a session: through its display, in the module's name, and limited in number."""

from __future__ import annotations

import logging
from typing import Literal

from paddock.errors import Denial
from paddock.session.host_api.handler import Decode, handles
from paddock.session.host_api.part import ServicePart
from paddock.session.module import HostedModule
from paddock_sdk.protocol.methods import HostMethod

_log = logging.getLogger(__name__)


def may_show(module: HostedModule, now: float) -> bool:
    """Whether a module may show one more message; a refusal is noted once."""
    budget = module.rate_limits.messages
    if budget.admits(now):
        return True
    if budget.begins_flood:
        module.deny(Denial("show", "messages", module.name, reason=f"more than {budget.describe()}"))
    return False


class MessageService(ServicePart):
    """Serves the messages of one session's workers."""

    @handles(HostMethod.SHOW_MESSAGE, "message", decode=Decode.DATA, is_notice=True)
    def show(
        self,
        module: HostedModule,
        message: str,
        level: Literal["info", "warning", "error"],
        source: str,
    ) -> None:
        """Show a message; where the session has no display, it is logged."""
        if not may_show(module, self._now()):
            return
        display = self._coordinator.display_system
        if display is None:
            _log.info("%s: %s", module.name, message)
        else:
            display.show_message(message, level, f"{module.name}:{source}")
