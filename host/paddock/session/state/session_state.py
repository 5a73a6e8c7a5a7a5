"""`session_state` as workers know it: the memory of each key, and the messages that bring a worker up to date.

Workers get it as changes, or key by key as a whole. A value too large for a message is logged and not sent.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable
from typing import NamedTuple

from paddock.rpc.marshal import Marshaller
from paddock.rpc.peer import Encoded
from paddock_sdk.protocol import LocalProtocolError, RemoteProtocolError
from paddock_sdk.protocol.caps import check_caps, weight_of
from paddock_sdk.protocol.shared_state import Change, SharedState

_log = logging.getLogger(__name__)


class WrittenState(NamedTuple):
    """A key of `session_state` and its last writer, "" for the application.

    `message` has the change that puts the value there, None if there is none; a live object may be there instead.
    """

    key: str
    writer: str
    message: bytes | None
    is_live: bool


class HostedState:
    """The contents of one session's `session_state`.

    `weights` has the memory of all that is under a key, as last sent to workers; other keys have nothing.
    """

    def __init__(self, marshaller: Marshaller) -> None:
        self.shared = SharedState(marshaller.codec)
        self._marshaller = marshaller
        self.weights: dict[Hashable, int] = {}

    def weigh(self, key: Hashable, change: Encoded) -> tuple[int, int]:
        """Weigh the value under a key after a change; return the weights before it and after."""
        before = self.weights.pop(key, 0)
        after = 0
        if key in self.shared.live:
            # What has become too large for a message still takes room, and this much more of it at most.
            after = self.weights[key] = self._whole_weight(key) or before + weight_of(change.body)
        return before, after

    def _whole_weight(self, key: Hashable) -> int:
        whole = self.shared.whole(key)
        try:
            return weight_of(whole) if whole is not None else 0
        except RemoteProtocolError:
            return 0

    def now(self, key: Hashable) -> Encoded | None:
        """Return the message with the value under a key, or its absence; None if it is too large."""
        if not self.shared.is_known(key):
            return self.written([[[key], []]])
        whole = self.shared.whole(key)
        try:
            if whole is None:
                raise RemoteProtocolError("it is too large for a message")
            check_caps(whole)
        except RemoteProtocolError as exc:
            _log.warning("session_state[%r] cannot be sent as a whole: %s", key, exc)
            return None
        return Encoded(whole)

    def written(self, changes: list[Change]) -> Encoded | None:
        """Return the message of some changes, None if it is too large."""
        try:
            return self._marshaller.encode(changes)
        except LocalProtocolError as exc:
            _log.warning("changes of session_state cannot be sent at once: %s", exc)
            return None
