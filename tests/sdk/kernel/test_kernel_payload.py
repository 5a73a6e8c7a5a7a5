"""What event data becomes on its way to handlers."""

from __future__ import annotations

import datetime
import enum
import json
import math
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from paddock_sdk.contract.boundary_errors import CannotCrossError
from paddock_sdk.kernel.payload import Payload
from support.rows import each_row


class Model(BaseModel):
    number: int = 1
    when: datetime.date = datetime.date(2024, 1, 2)


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Plain(enum.Enum):
    A = 1


class Described:
    def __str__(self) -> str:
        return "described"


class LoudText(str):
    def __str__(self) -> str:
        return "LOUD"


class LoudNumber(int):
    def __int__(self) -> int:
        return 99

    __str__ = __repr__ = lambda self: "ninety-nine"


@each_row(
    ("value", "seen"),
    [
        pytest.param((1, 2), [1, 2], id="a tuple becomes a list"),
        pytest.param({None: 0, False: 1, True: 2}, {"null": 0, "false": 1, "true": 2}, id="None and booleans as keys"),
        pytest.param({Colour.RED: 1, Level.HIGH: 2}, {"red": 1, "3": 2}, id="enums as keys"),
        pytest.param(LoudText("quiet"), "quiet", id="a text subclass keeps its text, whatever it says"),
        pytest.param(LoudNumber(4), 4, id="a number subclass keeps its number, whatever it says"),
        pytest.param(2**64, float(2**64), id="a wider integer becomes a float"),
    ],
)
def test_a_value_becomes_json_types(value: Any, seen: Any) -> None:
    data = Payload.of({"v": value}).data()["v"]
    assert data == seen
    assert type(data) is type(seen)


def test_a_model_at_the_top_is_dumped_in_json_mode() -> None:
    assert Payload.of(Model()).data() == {"number": 1, "when": "2024-01-02"}


@each_row("bad", [math.nan, math.inf, -math.inf, 10**400])
def test_a_number_without_json_form_is_an_error(bad: float) -> None:
    with pytest.raises(RuntimeError, match="Invalid JSON"):
        Payload.of({"deep": [{"v": bad}]})


def counted() -> Iterator[int]:
    yield 1


class Machine:
    def __call__(self) -> None: ...

    def __str__(self) -> str:
        return "a machine"


@each_row(
    ("make", "kind", "hint"),
    [
        pytest.param(lambda: lambda: None, "a function", "register_capability", id="a lambda"),
        pytest.param(lambda: Machine, "a class", "__name__", id="a class"),
        pytest.param(counted, "a generator", "list of what it yields", id="a generator"),
        pytest.param(threading.Lock, "a lock", "keep it in the module", id="a lock"),
    ],
)
def test_a_value_that_stays_in_its_process_is_an_error_naming_its_place(
    make: Callable[[], object], kind: str, hint: str
) -> None:
    with pytest.raises(CannotCrossError) as caught:
        Payload.of({"plain": 1, "deep": [{"first": "x"}, {"callbacks": [make()]}]})
    assert isinstance(caught.value, TypeError)
    assert (caught.value.path, caught.value.kind) == ('data["deep"][1]["callbacks"][0]', kind)
    assert hint in caught.value.hint
    assert str(caught.value).startswith('data["deep"][1]["callbacks"][0] is ' + kind)


def test_a_live_value_may_be_all_there_is() -> None:
    with pytest.raises(CannotCrossError, match=r"^data is a function"):
        Payload.of(print)


def test_an_object_that_can_be_called_is_an_object_like_any() -> None:
    assert Payload.of({"machine": Machine()}).data() == {"machine": "a machine"}


def test_data_that_holds_itself_is_an_error() -> None:
    loop: list[Any] = []
    loop += [loop, loop]
    with pytest.raises(RuntimeError, match="Invalid JSON"):
        Payload.of(loop)


def test_nesting_is_taken_to_128_and_no_deeper() -> None:
    nested: Any = None
    for _ in range(128):
        nested = [nested]
    assert Payload.of(nested).data() == nested
    with pytest.raises(RuntimeError, match="128"):
        Payload.of([nested])


def test_a_key_json_cannot_write_is_an_error() -> None:
    with pytest.raises(TypeError, match="tuple"):
        Payload.of({(1, 2): 3})


def test_keys_come_back_sorted_at_every_level() -> None:
    data = Payload.of({"b": [{"z": 1, "a": 2}], "a": {10: 1, 9: 2, "x": 3}}).data()
    assert json.dumps(data) == '{"a": {"10": 1, "9": 2, "x": 3}, "b": [{"a": 2, "z": 1}]}'


def test_stamping_overlays_defaults_and_always_writes_the_timestamp() -> None:
    payload = Payload.of({"b": 1, "timestamp": "old", "shared": "caller"})
    stamped = payload.stamped({"shared": "default", "a": None}, "now")
    assert list(stamped.data().items()) == [("a", None), ("b", 1), ("shared", "caller"), ("timestamp", "now")]
    assert payload.data() == {"b": 1, "timestamp": "old", "shared": "caller"}


@each_row("data", [None, [1, 2], "text", 3])
def test_data_that_is_no_mapping_is_not_stamped(data: Any) -> None:
    payload = Payload.of(data)
    assert not payload.is_mapping
    assert payload.stamped({"a": 1}, "now") is payload


def test_each_payload_has_a_cache_of_its_own() -> None:
    first, second = Payload.of({}), Payload.of({})
    first.cache["wire"] = b"x"
    assert second.cache == {}


def nested_data() -> st.SearchStrategy[Any]:
    scalars = (
        st.none()
        | st.booleans()
        | st.integers(min_value=-(2**63), max_value=2**64 - 1)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text()
        | st.binary(max_size=5)
        | st.dates()
        | st.decimals(allow_nan=False)
        | st.frozensets(st.integers(), max_size=1)
        | st.sampled_from([Colour.RED, Level.HIGH, Plain.A, LoudText("x"), Described()])
    )
    keys = (
        st.text() | st.integers() | st.booleans() | st.none() | st.floats() | st.sampled_from([Colour.RED, Level.HIGH])
    )
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(keys, inner),
        max_leaves=20,
    )


@given(nested_data())
def test_conversion_is_what_json_does(value: Any) -> None:
    expected = json.loads(json.dumps(value, default=str))
    assert json.dumps(Payload.of(value).data()) == json.dumps(expected, sort_keys=True)


def spoil(value: Any) -> None:
    if isinstance(value, dict):
        for inner in value.values():
            spoil(inner)
        value["spoilt"] = True
    elif isinstance(value, list):
        for inner in value:
            spoil(inner)
        value.append("spoilt")


@given(nested_data())
def test_no_copy_shares_anything_with_another(value: Any) -> None:
    payload = Payload.of(value)
    before = json.dumps(payload.data())
    spoil(payload.data())
    spoil(payload.stamped({}, "now").data())
    assert json.dumps(payload.data()) == before


def test_the_original_may_change_after_the_conversion() -> None:
    original = {"list": [1]}
    payload = Payload.of(original)
    original["list"].append(2)
    assert payload.data() == {"list": [1]}
