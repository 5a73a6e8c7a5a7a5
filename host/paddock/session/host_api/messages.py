"""Messages of modules to the user of a session: through its display, in the module's name, and limited in number."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Literal, NamedTuple

from paddock.errors import Denial
from paddock.session.host_api.handler import Decode, handles
from paddock.session.module import HostedModule
from paddock.session.state.coordinator import HostedCoordinator
from paddock_sdk.protocol.methods import HostMethod

_log = logging.getLogger(__name__)


class _Show(NamedTuple):
    message: str
    level: Literal["info", "warning", "error"]
    source: str


class MessageService:
    """Serves the messages of one session's workers; `now` is the loop's time."""

    def __init__(self, coordinator: HostedCoordinator, now: Callable[[], float]) -> None:
        self._coordinator = coordinator
        self._now = now

    def may_show(self, module: HostedModule) -> bool:
        """Whether a module may show one more message; a refusal is noted once."""
        budget = module.rate_limits.messages
        if budget.admits(self._now()):
            return True
        if budget.begins_flood:
            module.deny(Denial("show", "messages", module.name, reason=f"more than {budget.describe()}"))
        return False

    @handles(HostMethod.SHOW_MESSAGE, _Show, "message", decode=Decode.DATA, is_notice=True)
    def show(self, module: HostedModule, args: _Show) -> None:
        """Show a message; where the session has no display, it is logged."""
        if not self.may_show(module):
            return
        display = self._coordinator.display_system
        if display is None:
            _log.info("%s: %s", module.name, args.message)
        else:
            display.show_message(args.message, args.level, f"{module.name}:{args.source}")
