"""What cannot leave a process is named where it is, and what is only too much stays an error of its own."""

from __future__ import annotations

import asyncio
import functools
import tempfile
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from paddock_sdk.contract.boundary_errors import CannotCrossError
from paddock_sdk.contract.message_models import ChatResponse
from paddock_sdk.contract.vocabulary import ContractVocabulary
from paddock_sdk.protocol.body import Codec, EncodeError
from paddock_sdk.protocol.methods import HostMethod
from paddock_sdk.worker.unsendable import explained, unsendable
from support.rows import each_row

from .conftest import Rig

LOCK = threading.Lock()


class Own(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    held: Any


@dataclass
class Held:
    held: Any


def refused(value: object, root: str = "value") -> CannotCrossError | EncodeError:
    """Return the error for a value that has to be data."""
    encode = functools.partial(Codec(ContractVocabulary()).encode, live_objects=False)
    with pytest.raises(EncodeError) as caught:
        encode(value)
    return explained(caught.value, value, root, encode)


@each_row(
    ("value", "path"),
    [
        (LOCK, "value"),
        ({"a": [1, LOCK]}, 'value["a"][1]'),
        ({"fine": 1, 7: (2, {"b": LOCK})}, 'value[7][1]["b"]'),
        ({LOCK: 1}, "value.keys()"),
        ([{1, LOCK}], "value[0]{…}"),
        ([Own(held=[LOCK])], "value[0].held[0]"),
        (Held(held={"x": LOCK}), 'value.held["x"]'),
        (ChatResponse(content=[], metadata={"client": LOCK}), 'value.metadata["client"]'),
    ],
    ids=lambda item: item if isinstance(item, str) else type(item).__name__,
)
def test_the_path_leads_to_what_is_refused(value: object, path: str) -> None:
    error = refused(value)
    assert isinstance(error, CannotCrossError)
    assert (error.path, error.kind) == (path, "a lock")
    assert str(error) == f"{path} is a lock, which cannot leave the process it was made in; {error.hint}"


@each_row(
    ("value", "path"),
    [
        ([[LOCK], {}], "arguments[0]"),
        ([[], {"file": {"deep": LOCK}}], 'arguments["file"]["deep"]'),
    ],
)
def test_arguments_are_counted_or_named_as_they_were_given(value: object, path: str) -> None:
    error = refused(value, "")
    assert isinstance(error, CannotCrossError) and error.path == path


@each_row(
    "value",
    [{"deep": {"number": 10**2000}}, functools.reduce(lambda inner, _: [inner], range(80), 1), range(10**9)],
    ids=["a number without end", "nested without end", "a range without end"],
)
def test_what_is_too_much_is_not_said_to_belong_here(value: object) -> None:
    error = refused(value)
    assert type(error) is EncodeError


def test_an_object_where_data_has_to_stand_is_named_by_its_class() -> None:
    error = refused({"worker": threading.local()})
    assert isinstance(error, CannotCrossError)
    assert (error.path, error.kind) == ('value["worker"]', "an object of class _local")


async def generate() -> AsyncIterator[int]:
    yield 1


class Ordinary:
    def work(self) -> None: ...


@each_row("value", [len, generate, generate(), Ordinary(), Ordinary().work, functools.partial(len)])
def test_functions_generators_and_ordinary_objects_may_go_live(value: object) -> None:
    assert unsendable(value) is None


def test_what_wraps_a_file_and_what_can_be_read_once_may_not() -> None:
    with tempfile.NamedTemporaryFile() as file:
        kinds = [
            unsendable(file),
            unsendable(iter([1])),
            unsendable(zip([1], [2], strict=True)),
            unsendable(enumerate([])),
        ]
    assert [kind.name for kind in kinds if kind is not None] == ["an open file", *["an iterator"] * 3]


async def test_a_refused_call_leaves_connection_and_objects_unchanged(rig: Rig) -> None:
    fine = Ordinary()
    with pytest.raises(CannotCrossError, match=r'capability "both"\["lock"\] is a lock'):
        rig.coordinator.register_capability("both", {"fine": fine, "lock": LOCK})
    assert rig.coordinator.get_capability("both") is None
    assert (await rig.export(fine)).description, "it was not handed out before"


async def test_an_attribute_that_is_refused_is_as_it_was(rig: Rig) -> None:
    coordinator: Any = rig.coordinator
    coordinator.shared = "before"
    with pytest.raises(CannotCrossError, match=r'attribute "shared" is a lock'):
        coordinator.shared = LOCK
    with pytest.raises(CannotCrossError, match=r'attribute "fresh"\[0\] is a task'):
        coordinator.fresh = [asyncio.current_task()]
    coordinator._own = {asyncio.current_task(): LOCK}
    assert coordinator.shared == "before" and not hasattr(coordinator, "fresh")
    assert list(coordinator._own.values()) == [LOCK]
    assert await rig.play(lambda host: host.next().method) == HostMethod.SET_ATTRIBUTE
    assert await rig.play(lambda host: host.is_silent())
