"""What is refused of a model costs its reader a few errors, and not one for each value in it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

import msgpack
import pytest
from pydantic import BaseModel, ValidationError

from paddock_sdk import contract
from paddock_sdk.contract.vocabulary import ContractVocabulary
from paddock_sdk.protocol import RemoteProtocolError
from paddock_sdk.protocol.body import Codec
from paddock_sdk.protocol.caps import MAX_LOOSE_KEYS, Ext
from support.rows import each_row

_COUNT = 5000
_MOST_ERRORS = 60  # one for each field, and for each form that a value of it may have
_MOST_KEYS = MAX_LOOSE_KEYS + _MOST_ERRORS  # an unknown key that is no text is an error; the wire bounds them


def _models() -> Iterator[type[BaseModel]]:
    for found in pkgutil.iter_modules(contract.__path__, f"{contract.__name__}."):
        for made in vars(importlib.import_module(found.name)).values():
            if isinstance(made, type) and issubclass(made, BaseModel) and made.__module__ == found.name:
                yield made


def _errors(model: type[BaseModel], fields: dict[str, Any]) -> int:
    try:
        model.model_validate(fields)
    except ValidationError as error:
        return error.error_count()
    return 0


def test_no_field_of_a_model_has_more_than_a_few_errors() -> None:
    hostile: list[Any] = [
        [object()] * _COUNT,
        [{}] * _COUNT,
        [{"type": "text"}] * _COUNT,
        [{"role": "user", "content": [{}] * 10}] * (_COUNT // 10),
        dict.fromkeys(range(MAX_LOOSE_KEYS), 0),
        {f"{number}": object() for number in range(_COUNT)},
        {f"{number}".encode() + b"\xff": 0 for number in range(MAX_LOOSE_KEYS)},
    ]
    found = {}
    for model in _models():
        for field in model.model_fields:
            for number, value in enumerate(hostile):
                found[model.__name__, field, number] = _errors(model, {field: value})
    assert len(found) > 300 and sum(map(bool, found.values())) > 200
    most = {place: _MOST_KEYS if place[2] in (4, 6) else _MOST_ERRORS for place in found}
    assert {place: count for place, count in found.items() if count > most[place]} == {}


@each_row("inner", [b"\x01", b"\x80", b"\x90"])
def test_a_hostile_request_from_the_wire_is_refused_at_its_first_errors(inner: bytes) -> None:
    messages = b"\xdd" + (250_000).to_bytes(4, "big") + inner * 250_000
    fields = b"\x92" + msgpack.packb("ChatRequest") + b"\x81" + msgpack.packb("messages") + messages
    body = msgpack.packb(msgpack.ExtType(Ext.MODEL, fields))
    with pytest.raises(RemoteProtocolError) as caught:
        Codec(ContractVocabulary()).decode(body)
    assert isinstance(caught.value.__cause__, ValidationError)
    assert caught.value.__cause__.error_count() < _MOST_ERRORS
