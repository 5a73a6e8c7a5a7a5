"""Every model has the fields, the defaults and the manners its row in the table says."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, ValidationError

from paddock_sdk.contract import interfaces, message_models, models
from support.rows import each_row

from .model_table import REQUIRED, TABLE, Row, expected_value

each_model = pytest.mark.parametrize("row", TABLE, ids=lambda row: row.model.__name__)
each_required_field = pytest.mark.parametrize(
    ("row", "field"),
    [(row, field) for row in TABLE for field, default in row.fields.items() if default is REQUIRED],
    ids=lambda value: value.model.__name__ if isinstance(value, Row) else value,
)


def test_the_table_has_a_row_for_every_model() -> None:
    declared = {
        value
        for module in (models, message_models, interfaces)
        for name in module.__all__
        if isinstance(value := getattr(module, name), type) and issubclass(value, BaseModel)
    }
    assert declared == {row.model for row in TABLE}


@each_model
def test_a_model_has_its_fields_in_order(row: Row) -> None:
    assert list(row.model.model_fields) == list(row.fields)


@each_model
def test_a_model_fills_what_is_not_given(row: Row) -> None:
    instance = row.model(**row.smallest)
    held = {field: getattr(instance, field) for field in row.fields}
    assert held == {field: expected_value(row, field, held[field]) for field in row.fields}


@each_required_field
def test_a_required_field_cannot_be_left_out(row: Row, field: str) -> None:
    with pytest.raises(ValidationError):
        row.model(**{name: value for name, value in row.smallest.items() if name != field})


@each_model
def test_an_unknown_key_is_kept_or_ignored_but_never_refused(row: Row) -> None:
    instance = row.model(**row.smallest, vendor_extra={"a": 1})
    if row.extras == "kept":
        assert instance.vendor_extra == {"a": 1}  # type: ignore[attr-defined]
        assert instance.model_dump()["vendor_extra"] == {"a": 1}
    else:
        assert not hasattr(instance, "vendor_extra")
        assert "vendor_extra" not in instance.model_dump()


@each_model
def test_a_dump_validates_to_an_equal_model(row: Row) -> None:
    instance = row.model(**row.smallest)
    assert row.model.model_validate(instance.model_dump()) == instance
    assert row.model.model_validate_json(instance.model_dump_json()) == instance


@each_row("row", [r for r in TABLE if r.model is not models.ToolResult], ids=lambda r: r.model.__name__)
def test_assigning_to_a_field_is_not_validated(row: Row) -> None:
    instance = row.model(**row.smallest)
    field = next(iter(row.fields))
    nonsense = object()
    setattr(instance, field, nonsense)
    assert getattr(instance, field) is nonsense


_ROLES = "system user assistant"


@each_row(
    ("model", "field", "choices"),
    [
        (models.ContextInjection, "role", _ROLES),
        (models.HookResult, "action", "continue deny modify inject_context ask_user"),
        (models.HookResult, "context_injection_role", _ROLES),
        (models.HookResult, "approval_default", "allow deny"),
        (models.HookResult, "user_message_level", "info warning error"),
        (models.ConfigField, "field_type", "text secret choice boolean"),
        (models.ModuleInfo, "type", "orchestrator provider tool context hook resolver"),
        (models.SessionStatus, "status", "running completed failed cancelled"),
        (message_models.Message, "role", "system developer user assistant function tool"),
        (message_models.TextBlock, "visibility", "internal developer user"),
    ],
)
def test_a_field_of_choices_takes_these_and_no_others(model: type[BaseModel], field: str, choices: str) -> None:
    [row] = [row for row in TABLE if row.model is model]
    for choice in choices.split():
        assert getattr(model(**{**row.smallest, field: choice}), field) == choice
    with pytest.raises(ValidationError, match=field):
        model(**{**row.smallest, field: "another"})
