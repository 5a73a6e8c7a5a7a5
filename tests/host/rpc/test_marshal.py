"""Host values and messages: objects keep their identity both ways, and nonsense is always the same error."""

from __future__ import annotations

import asyncio
import gc
import inspect
import io
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import paddock
from paddock.rpc.peer import Encoded, HostObject
from paddock_sdk.protocol import RemoteProtocolError
from paddock_sdk.protocol.body import EncodeError
from support.scripted_end import ASYNC, SYNC

from .conftest import Network, NeverShared


async def test_an_object_of_a_worker_has_one_stand_in_that_turns_back_into_it(network: Network) -> None:
    _, owner = await network.connect("owner")
    handle = await network.handle_of(owner, owner.own(5, {"work": ASYNC, "look": SYNC}, name="thing"))
    stand_in = network.marshaller.object_of(handle)
    assert network.marshaller.object_of(handle) is stand_in
    assert network.marshaller.encode([stand_in]).handles == (handle,)
    assert stand_in.name == "thing"  # type: ignore[attr-defined]
    assert inspect.iscoroutinefunction(stand_in.work)  # type: ignore[attr-defined]
    assert not hasattr(stand_in, "absent")
    del stand_in
    gc.collect()
    assert network.marshaller.object_of(handle) is not None


async def test_a_function_of_a_worker_is_a_function_here(network: Network) -> None:
    _, owner = await network.connect("owner")
    handle = await network.handle_of(owner, owner.function(5))
    stand_in = network.marshaller.object_of(handle)
    assert inspect.iscoroutinefunction(stand_in)
    assert network.marshaller.encode([stand_in]).handles == (handle,)


async def test_a_host_object_keeps_its_identity_on_every_way(network: Network) -> None:
    values = network.marshaller
    thing = type("Thing", (), {"work": lambda self: 1})()
    message = values.encode({"first": thing, "second": [thing]}, share=True)
    assert len(set(message.handles)) == 1
    decoded = values.decode(message)
    assert decoded["first"] is thing and decoded["second"][0] is thing


async def test_an_object_of_the_host_lives_no_longer_than_somebody_refers_to_it(network: Network) -> None:
    thing = type("Thing", (), {})()
    known = weakref.ref(thing)
    handle = network.marshaller.handle_of(thing)
    assert isinstance(handle, HostObject)
    del thing
    assert known() is handle.value and network.marshaller.handle_of(known()) is handle
    del handle
    assert known() is None


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\xd7\x01\0\0\0\0", b"\xd6\x01\0\0\0\x07", b"\x91" * 5000 + b"\xc0"])
async def test_a_body_that_is_no_value_is_a_protocol_error_and_nothing_else(body: bytes, network: Network) -> None:
    with pytest.raises(RemoteProtocolError):
        network.marshaller.decode(Encoded(body))
    assert isinstance(network.marshaller.decode_error(body), RemoteProtocolError)


async def test_a_failure_that_holds_no_exception_is_one_all_the_same(network: Network) -> None:
    error = network.marshaller.decode_error(network.marshaller.encode({"not": "an error"}).body)
    assert isinstance(error, RuntimeError)


async def test_an_error_that_cannot_be_encoded_is_told_in_words(network: Network) -> None:
    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise ValueError("no words")

        def __repr__(self) -> str:
            return "Unspeakable()"

    for error in (Unspeakable(object()), ValueError([0] * 300_000)):
        told = network.marshaller.decode_error(network.marshaller.encode_error(error))
        assert isinstance(told, Exception)
        assert len(str(told)) < 10_000


async def test_what_the_application_calls_fails_with_what_the_module_raised(network: Network) -> None:
    _, owner = await network.connect("owner")
    handle = await network.handle_of(owner, owner.own(5, {"work": ASYNC}))
    work = network.marshaller.object_of(handle).work()  # type: ignore[attr-defined]
    network.router.tasks.spawn(_failing(owner))
    with pytest.raises(KeyError, match="missing"):
        await work


async def _failing(owner) -> None:  # type: ignore[no-untyped-def]
    request = await owner.request_from_host()
    owner.fail(request.id, KeyError("missing"))


async def test_an_object_that_no_description_describes_ends_its_owner(network: Network) -> None:
    _, owner = await network.connect("owner")
    handle = await network.handle_of(owner, owner.own(5))
    handle.redescribe(b"\x93\xc0\xc0\xc0")
    with pytest.raises(RemoteProtocolError, match="description"):
        network.marshaller.object_of(handle)


@pytest.mark.parametrize(
    "means",
    [
        pytest.param(lambda: asyncio.get_running_loop(), id="the loop"),
        pytest.param(lambda: asyncio.get_running_loop().create_future(), id="a future"),
        pytest.param(lambda: asyncio, id="a module"),
        pytest.param(lambda: dict, id="a class"),
        pytest.param(io.StringIO, id="a file"),
        pytest.param(threading.Lock, id="a lock"),
        pytest.param(threading.Thread, id="a thread"),
    ],
)
async def test_objects_that_the_host_runs_on_are_never_shared(means: Callable[[], object], network: Network) -> None:
    with pytest.raises(EncodeError, match="not shared"):
        network.marshaller.encode([means()], share=True)


async def test_an_object_of_the_host_goes_along_only_when_it_is_meant_to(network: Network) -> None:
    class Thing:
        def work(self) -> int:
            return 1

    thing = Thing()
    with pytest.raises(EncodeError, match="not shared"):
        network.marshaller.encode([thing])
    shared = network.marshaller.encode([thing], share=True)
    assert network.marshaller.encode([thing]).handles == shared.handles


async def test_data_of_the_application_crosses_as_data_unless_it_was_shared(network: Network) -> None:
    @dataclass
    class Place:
        path: str

    place = Place("/docs")
    assert network.marshaller.decode(network.marshaller.encode([place, SimpleNamespace(line=3)])) == [
        {"path": "/docs"},
        {"line": 3},
    ]
    shared = network.marshaller.encode([place], share=True)
    assert network.marshaller.decode(network.marshaller.encode([place])) == [place]
    assert len(shared.handles) == 1


async def test_an_object_that_is_only_shown_carries_no_right(network: Network) -> None:
    class Session(NeverShared):
        secret = "hunter2"

        def cleanup(self) -> None: ...

    session = Session()
    with pytest.raises(EncodeError, match="not shared"):
        network.marshaller.encode(session, share=True)
    held = network.marshaller.show(session, "Session")
    message = network.marshaller.encode({"parent_session": session})
    assert message.handles == (held,)
    assert (held.description.type_name, held.description.members, held.description.attributes) == ("Session", (), {})
    assert network.marshaller.decode(message) == {"parent_session": session}


async def test_what_is_not_shared_is_called_what_people_call_it(network: Network, tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as file, pytest.raises(EncodeError) as refused:
        network.marshaller.encode([file], share=True)
    assert str(refused.value) == "an open file (TextIOWrapper) of the host is not shared"
    with pytest.raises(EncodeError, match=r"^an object \(Proactor\) of the host is not shared$"):
        network.marshaller.encode([type("Proactor", (), {})()])


async def test_no_module_is_told_where_in_the_host_it_failed(network: Network) -> None:
    try:
        network.marshaller.encode([threading.Lock()], share=True)
    except EncodeError as exc:
        error = exc
    told = network.marshaller.decode_error(network.marshaller.encode_error(error))
    trace = vars(told)["remote_traceback"]
    assert "in test_no_module_is_told_where_in_the_host_it_failed" in trace, "the application's own code is told"
    assert str(Path(paddock.__file__).parent) not in trace


async def test_a_plain_function_is_called_before_later_requests(network: Network) -> None:
    _, worker = await network.connect("owner")
    handle = await network.handle_of(worker, worker.own(5, {"tell": SYNC, "work": ASYNC}))
    stand_in: Any = network.marshaller.object_of(handle)
    told = stand_in.tell("first")
    later = asyncio.ensure_future(stand_in.work("second"))
    requests = [await worker.request_from_host() for _ in range(2)]
    assert [worker.value(request)[0] for request in requests] == [["first"], ["second"]]
    for request in requests:
        worker.respond(request.id, "answer")
    assert [await told, await later] == ["answer", "answer"]


async def test_a_thread_of_the_application_gets_the_answer_itself(network: Network) -> None:
    _, worker = await network.connect("owner")
    handle = await network.handle_of(worker, worker.own(5, {"tell": SYNC, "work": ASYNC}))
    stand_in: Any = network.marshaller.object_of(handle)

    def work() -> tuple[Any, Any]:
        return stand_in.tell("plainly"), asyncio.run(stand_in.work("on another loop"))

    working = asyncio.ensure_future(asyncio.to_thread(work))
    for said in ("plainly", "on another loop"):
        request = await worker.request_from_host()
        assert worker.value(request)[0] == [said]
        worker.respond(request.id, said.upper())
    assert await working == ("PLAINLY", "ON ANOTHER LOOP")
