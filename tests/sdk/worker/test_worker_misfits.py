"""A request of the host that a worker cannot serve fails, in bytes or in meaning, and the worker serves the next.

The host passes other modules' bodies on unread, so that neither is the host's doing.
"""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from paddock_sdk.protocol.methods import WorkerMethod

from .conftest import Rig
from .scripted_host import ScriptedHost

_NO_VALUE = b"\xc1"
_NO_CLASS = msgpack.packb(msgpack.ExtType(2, msgpack.packb(["ToolResult", {"error": "a text"}])))


class _Counter:
    name = "counter"
    calls = 0

    async def count(self, by: int) -> int:
        self.calls += by
        return self.calls


def _fails(host: ScriptedHost, target: int, method: int, body: bytes) -> None:
    id, frame = host.connection.send_request(target, method, body)
    host.write(frame)
    with pytest.raises((ValueError, TypeError, RuntimeError)):
        host.answer(id)


async def test_what_a_worker_cannot_serve_fails_and_costs_it_nothing(rig: Rig) -> None:
    entry = await rig.export(_Counter())

    def script(host: ScriptedHost) -> Any:
        for method in (*WorkerMethod, 999):
            for body in (_NO_VALUE, _NO_CLASS, *map(msgpack.packb, (None, 1, ["x"], {"package": 5}))):
                if method != WorkerMethod.DESCRIBE_ANEW or body in (_NO_VALUE, _NO_CLASS):  # it takes anything
                    _fails(host, 0, method, body)
        for method, value in [
            (9, [[1], {}]),
            (0, 1),
            (0, [[1]]),
            (0, [1, {}]),
            (0, [1, 2, 3]),
            (0, [[], {}]),
            (0, [["x"], {}]),
        ]:
            _fails(host, entry.id, method, msgpack.packb(value))
        _fails(host, 4711, 0, msgpack.packb([[1], {}]))
        for body in (_NO_VALUE, b"", b"\x92\x90", b"\xd6\x01\0\0\0\x07"):
            _fails(host, entry.id, 0, body)
        return host.answer(host.request(entry.id, 0, 1))

    assert await rig.play(script) == 1
