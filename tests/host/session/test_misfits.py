"""Bytes break the protocol; meaning fails the call: every method of the host, and every answer that the host reads.

A misfit is a request whose bytes are in order: its method is not there, its arguments do not fit, or no class accepts a
value in it. It costs its module that call and nothing else.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgpack
import pytest

from paddock.errors import ModuleDiedError
from paddock_sdk.contract.models import ToolResult
from paddock_sdk.protocol import Kind
from paddock_sdk.protocol.body import Codec
from paddock_sdk.protocol.caps import Ext
from paddock_sdk.protocol.errors import UnfitValueError
from paddock_sdk.protocol.methods import HostMethod, MirrorSection
from support.scripted_end import ASYNC

from ..rpc.scripted_worker import ScriptedWorker
from .conftest import Hosted, tool

_UNKNOWN = 999
_NO_TIMES = (float("nan"), float("inf"), -1.0, 1e12, "1")
_NO_ATTEMPTS = ["text", [["read"]], [["look", "/x"]], [["read", 5]], [["read", "x" * 5000]], [["read", "/x"]] * 65]
_REQUESTS: dict[int, list[Any]] = {
    HostMethod.REGISTER: [None, [1, 2, 3], ["tool:pre", "first", None, 1], ["tool:pre", 0, None, "no function"]],
    HostMethod.UNREGISTER: [["x"], []],
    HostMethod.UNREGISTER_NAME: [[1]],
    HostMethod.LIST_HANDLERS: [[1]],
    HostMethod.EMIT: [["x" * 201, {}], ["x"], ["x", {"n": float("nan")}], ["x", {b"bytes": 1}], ["x", 10**400]],
    HostMethod.EMIT_AND_COLLECT: [["x", {}], *(["x", {}, seconds] for seconds in _NO_TIMES)],
    HostMethod.SET_DEFAULT_FIELDS: [[1], [{1: 1}]],
    HostMethod.MOUNT: [[1, 2], ["tools", 5, None], ["nowhere", "x", None], ["tools", "x", "no object"]],
    HostMethod.UNMOUNT: [[None, None]],
    HostMethod.REGISTER_CAPABILITY: [5, "x" * 201, {"a": 1}],
    HostMethod.REGISTER_CONTRIBUTOR: [["x", 1, 2], ["x" * 201, "y", None]],
    HostMethod.COLLECT_CONTRIBUTIONS: [[1]],
    HostMethod.REGISTER_CLEANUP: [["x"]],
    HostMethod.PROCESS_HOOK_RESULT: [[{"action": "deny"}, "x", "y"]],
    HostMethod.REQUEST_CANCEL: [["now"]],
    HostMethod.ON_CANCEL: [[None]],
    HostMethod.REQUEST_APPROVAL: [
        ["?", [], 1.0, "maybe"],
        ["?", ["x"] * 65, 1, "deny"],
        *(["?", ["Allow"], seconds, "deny"] for seconds in _NO_TIMES),
    ],
    HostMethod.EXPLAIN: [
        *([attempts, 1.0] for attempts in _NO_ATTEMPTS),
        *([[], seconds] for seconds in (*_NO_TIMES[:3], -1, 10**400, "1", None)),
    ],
    HostMethod.SHOW_MESSAGE: [["a notification", "info", "as a request"]],
    _UNKNOWN: [None],
}
_NOTICES: dict[int, list[Any]] = {
    HostMethod.SET_ATTRIBUTE: [5, ["x"], "__class__"],
    HostMethod.DELETE_ATTRIBUTE: [[1], 1],
    HostMethod.PATCH_STATE: [1, [1], [[["x"], [1]]] * 4097],
    HostMethod.TOOL_STARTED: [["x"]],
    HostMethod.TOOL_COMPLETED: [[1]],
    HostMethod.SHOW_MESSAGE: [[1, 2], ["x", "shout", "y"]],
    HostMethod.DESCRIBE: [["x", b""], [5, "text"]],
    HostMethod.ATTEMPTED: _NO_ATTEMPTS,
    HostMethod.EMIT: [["a request", {}]],
    _UNKNOWN: [None],
}
_TAKE_NOTHING = {HostMethod.TRIGGER_CANCEL_CALLBACKS, HostMethod.RESET_TURN, HostMethod.EMITTER}
_UNREAD = {HostMethod.EMITTER}  # its body means nothing, as that of a method that is not there

_NO_VALUE = b"\xc1"
_NO_CLASS = [
    msgpack.packb(msgpack.ExtType(Ext.MODEL, msgpack.packb(content)))
    for content in (["ToolResult", {"success": False, "error": "text"}], ["NoSuchModel", {}], "model", [1, 2])
]


def _ask(worker: ScriptedWorker, method: int, body: bytes, *, is_notice: bool) -> int:
    """Send bytes to a method of the host; return the number of the request, 0 for a notification."""
    if is_notice:
        worker.write(worker.connection.send_notify(0, method, body))
        return 0
    id, frame = worker.connection.send_request(0, method, body)
    worker.write(frame)
    return id


def test_the_tables_have_every_method() -> None:
    assert {*_REQUESTS, *_NOTICES, *_TAKE_NOTHING} == {*HostMethod, _UNKNOWN}


async def test_a_request_that_does_not_fit_fails_and_nothing_else(hosted: Hosted) -> None:
    module, worker = await hosted.start("orchestrator", "loop-x")
    worker.frames.clear()
    for method, misfits in _REQUESTS.items():
        for value in [*(Codec().encode(misfit)[0] for misfit in misfits), *_NO_CLASS]:
            with pytest.raises((ValueError, TypeError)) as caught:
                await worker.answer(_ask(worker, method, value, is_notice=False))
            assert len(str(caught.value)) < 300, method
    assert not module.reports and module.peer.incoming == {}
    assert worker.heard(Kind.MIRROR) == []
    assert await worker.ask(0, HostMethod.LIST_HANDLERS, [None]) == {}


async def test_a_notification_that_does_not_fit_is_noted_once_and_has_no_effect(hosted: Hosted) -> None:
    module, worker = await hosted.start("orchestrator", "loop-x", tool("echo"))
    sent = 0
    for method, misfits in _NOTICES.items():
        for value in [*(Codec().encode(misfit)[0] for misfit in misfits), *_NO_CLASS]:
            sent += 1
            _ask(worker, method, value, is_notice=True)
    await worker.round_trip()
    assert not module.reports and hosted.coordinator.session_state == {}
    known = {method.name for method in HostMethod if method in _NOTICES}
    assert {denial.target for denial in module.denials} == {f"a notification {one}" for one in (*known, "unknown")}
    assert sum(denial.times for denial in module.denials) == sent


@pytest.mark.parametrize("method", [*{*HostMethod} - _UNREAD])
async def test_bytes_that_are_no_value_end_their_worker(method: int, hosted: Hosted) -> None:
    is_notice = (method in _NOTICES and method != HostMethod.EMIT) or method == HostMethod.RESET_TURN
    module, worker = await hosted.start("orchestrator", "loop-x")
    _ask(worker, method, _NO_VALUE, is_notice=is_notice)
    await worker.cut_off()
    assert [report.reason.value for report in module.reports] == ["protocol"]


async def test_an_object_where_only_data_may_stand_does_not_fit(hosted: Hosted) -> None:
    module, worker = await hosted.start("tool", "tool-x")
    for method, value in (
        (HostMethod.EMIT, ["x", {"o": worker.own(5, {"work": ASYNC})}]),
        (HostMethod.UNREGISTER, [worker.own(6)]),
    ):
        with pytest.raises(ValueError, match=r"object where only data|does not fit"):
            await worker.ask(0, method, value)
    await worker.tell(HostMethod.DELETE_ATTRIBUTE, [worker.again(5)])
    await worker.tell(HostMethod.PATCH_STATE, [[["key"], [worker.again(5)]]])
    assert hosted.coordinator.session_state == {}
    assert not module.reports and len(module.denials) == 2


async def test_a_refused_value_over_an_object_says_nothing_of_it(hosted: Hosted) -> None:
    """What it says may quote the object, and with it where in the host's memory that is."""
    _, worker = await hosted.start("tool", "tool-x")
    inner = msgpack.packb(["ToolResult", {"success": msgpack.ExtType(Ext.HANDLE, bytes(4)), "error": 1}])
    body = msgpack.packb(["tools", "x", msgpack.ExtType(Ext.MODEL, inner)])
    id, frame = worker.connection.send_request(0, HostMethod.MOUNT, body, [worker.own(5).entry])
    worker.write(frame)
    with pytest.raises(ValueError, match="ValidationError, over what may be") as caught:
        await worker.answer(id)
    assert "0x" not in str(caught.value)


async def test_a_refused_value_does_not_count_in_place_of_the_one_that_is_kept(hosted: Hosted) -> None:
    """Else a module would leave more and more with the host, and have each thing forgotten by a small refused one."""
    module, worker = await hosted.start("tool", "tool-x")
    name, large, spent = Codec().encode("kept")[0], Codec().encode(b"x" * 1_000_000)[0], module.quota.spent
    await worker.answer(_ask(worker, HostMethod.REGISTER_CAPABILITY, name + large, is_notice=False))
    _ask(worker, HostMethod.SET_ATTRIBUTE, name + large, is_notice=True)
    await worker.round_trip()
    before = spent(("capability", "kept")), spent(("attribute", "kept"))
    with pytest.raises(ValueError, match="that no class accepts"):
        await worker.answer(_ask(worker, HostMethod.REGISTER_CAPABILITY, name + _NO_CLASS[0], is_notice=False))
    _ask(worker, HostMethod.SET_ATTRIBUTE, name + _NO_CLASS[0], is_notice=True)
    await worker.round_trip()
    assert (spent(("capability", "kept")), spent(("attribute", "kept"))) == before and min(before) >= 1_000_000


async def test_whole_numbers_stand_for_fractions(hosted: Hosted) -> None:
    _, worker = await hosted.start("orchestrator", "loop-x")
    assert await worker.ask(0, HostMethod.EMIT_AND_COLLECT, ["x", {}, 1]) == []
    assert await worker.ask(0, HostMethod.EXPLAIN, [[], 0]) == []


async def test_a_call_of_an_application_object_that_does_not_fit_fails(hosted: Hosted) -> None:
    _, worker = await hosted.start("orchestrator", "loop-x")

    async def add(a: int, b: int = 1) -> int:
        return a + b

    hosted.coordinator.register_capability("add", add)
    await worker.round_trip()
    (change,) = [frame for frame in worker.heard(Kind.MIRROR) if frame.method == MirrorSection.CAPABILITY]
    target = change.handles[0].id
    for method, value in [(9, [[], {}]), (0, 1), (0, [[1]]), (0, [{}, []]), (0, [[], {"c": 1}]), (0, [[], {}])]:
        with pytest.raises((ValueError, TypeError)):
            await worker.ask(target, method, value)
    assert await worker.ask(target, 0, [[1], {}]) == 2
    worker.write(worker.connection.send_request(target, 0, _NO_VALUE)[1])
    await worker.cut_off()


@pytest.mark.parametrize("answer", _NO_CLASS)
async def test_an_answer_that_no_class_accepts_fails_its_call(answer: bytes, hosted: Hosted) -> None:
    module, worker = await hosted.start("tool", "tool-x", tool("echo"))
    execute: Any = hosted.coordinator.get("tools", "echo").execute
    calling = asyncio.ensure_future(execute({}))
    worker.write(worker.connection.send_response((await worker.request_from_host()).id, answer))
    with pytest.raises(UnfitValueError, match="module `tool-x` answered with a value that no class accepts"):
        await calling
    calling = asyncio.ensure_future(execute({}))
    worker.respond((await worker.request_from_host()).id, ToolResult(output="as before"))
    assert (await calling).output == "as before" and not module.reports


async def test_an_answer_that_is_no_value_ends_its_worker(hosted: Hosted) -> None:
    module, worker = await hosted.start("tool", "tool-x", tool("echo"))
    calling = asyncio.ensure_future(hosted.coordinator.get("tools", "echo").execute({}))
    worker.write(worker.connection.send_response((await worker.request_from_host()).id, _NO_VALUE))
    result = await calling
    assert not result.success and [report.reason.value for report in module.reports] == ["protocol"]
    assert ModuleDiedError.__name__ in str(result.error) or "protocol" in str(result.error)
