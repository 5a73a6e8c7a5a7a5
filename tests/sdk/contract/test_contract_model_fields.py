"""Every model is written and read again, keeps or drops what it does not know, and takes what is assigned to it."""

from __future__ import annotations

from pydantic import BaseModel

from paddock_sdk.contract import interfaces, message_models, models
from support.rows import each_row

from .model_table import KEEPING, SMALLEST


def test_the_table_has_a_row_for_every_model() -> None:
    declared = {
        value
        for module in (models, message_models, interfaces)
        for name in module.__all__
        if isinstance(value := getattr(module, name), type) and issubclass(value, BaseModel)
    }
    assert declared == SMALLEST.keys()


@each_row("model", SMALLEST, ids=lambda model: model.__name__)
def test_a_model_has_what_it_needs_and_drops_or_keeps_the_unknown(model: type[BaseModel]) -> None:
    required = {name for name, field in model.model_fields.items() if field.is_required()}
    assert required == SMALLEST[model].keys()
    instance = model(**SMALLEST[model], vendor_extra={"a": 1})
    expected = {"a": 1} if model in KEEPING else None
    assert getattr(instance, "vendor_extra", None) == instance.model_dump().get("vendor_extra") == expected


@each_row("model", SMALLEST, ids=lambda model: model.__name__)
def test_a_dump_validates_to_an_equal_model(model: type[BaseModel]) -> None:
    instance = model(**SMALLEST[model])
    assert model.model_validate(instance.model_dump()) == instance
    assert model.model_validate_json(instance.model_dump_json()) == instance


@each_row("model", SMALLEST.keys() - {models.ToolResult}, ids=lambda model: model.__name__)
def test_assigning_to_a_field_is_not_validated(model: type[BaseModel]) -> None:
    instance, nonsense = model(**SMALLEST[model]), object()
    field = next(iter(model.model_fields))
    setattr(instance, field, nonsense)
    assert getattr(instance, field) is nonsense
