"""Modules' changes of `session_state`: each is checked, charged to the responsible module, then made.

A change that does not fit, that the module may not make, or that exceeds its quota, is not made: it is noted, and the
module gets the present value where the change has a key.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

from paddock.errors import Denial
from paddock.rpc.marshal import data_of
from paddock.rpc.peer import Encoded, Peer
from paddock.session.host_api.handler import Decode, handles, malformed
from paddock.session.host_api.part import ServicePart
from paddock.session.module import HostedModule
from paddock.session.quota import SharedStateQuota
from paddock.session.state.ownership import SharedItem
from paddock_sdk.contract.boundary_errors import OverLimitError
from paddock_sdk.protocol.caps import weight_of
from paddock_sdk.protocol.errors import UnfitValueError
from paddock_sdk.protocol.methods import HostMethod
from paddock_sdk.protocol.shared_state import Change, is_change

_MAX_CHANGES: Final = 4096  # in one frame


class StateService(ServicePart):
    """Serves the changes of `session_state` by one session's workers."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._keys = SharedStateQuota("state")

    @handles(HostMethod.PATCH_STATE, decode=Decode.NOT, is_notice=True)
    def patch(self, module: HostedModule, message: Encoded) -> None:
        """Take a module's changes.

        Raises:
            UnfitValueError: they are malformed; they count as taken in all the same.
        """
        try:
            changes = self._read(message)
        except UnfitValueError:
            self._coordinator.keep_state(module.peer, ())
            raise
        keys = {path[0]: None for path, _ in changes}
        try:  # before it is sent on: a value over the bound is not kept
            _check(module, changes, weight_of(message.body))
        except OverLimitError as exc:
            module.peer.charge_weight(sum(map(self._coordinator.state_weight, keys)))
            self._coordinator.keep_state(module.peer, keys)
            for key in keys:
                module.deny(Denial("leave", str(SharedItem("state", key)), module.name, reason=str(exc)))
            return
        module.peer.charge_weight(sum(self._weight(module, key) for key in keys))
        for refusal in self._coordinator.patch_state_from(module.peer, module.authority, changes):
            module.deny(refusal)

    def _read(self, message: Encoded) -> list[Change]:
        match data_of(message, self._marshaller.codec):
            case [*changes] if len(changes) <= _MAX_CHANGES and all(is_change(change) for change in changes):
                return changes
        raise malformed("change of state")

    def _weight(self, module: HostedModule, key: Hashable) -> int:
        """Return the memory under a key that is charged to a module.

        If it may not change the key, that is all of it: the value is sent to it again.
        """
        refused = self._coordinator.ownership.refusal(SharedItem("state", key), module.authority)
        return self._coordinator.state_weight(key) if refused else module.quota.spent(("state", key))

    def on_written(self, origin: Peer | None, key: Hashable, before: int, after: int) -> None:
        """Charge the value under a key, which took `before` and takes `after`, to the module that wrote it."""
        self._keys.written(None if origin is None else self._module_of(origin).quota, key, before, after)


def _check(module: HostedModule, changes: list[Change], weight: int) -> None:
    left = [("state", path[0]) for path, value in changes if value]
    replaced = [("state", path[0]) for path, _ in changes if len(path) == 1]
    module.quota.check(weight, left, replaced)
