"""What the models do beyond holding fields, `ToolResult` apart."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from paddock_sdk.contract.interfaces import ApprovalRequest
from paddock_sdk.contract.message_models import Usage
from paddock_sdk.contract.models import HookResult, Pricing, SessionStatus
from support.rows import each_row


@each_row(("field", "value"), [("data", ["not", "a", "mapping"]), ("context_injections", [{"role": "system"}])])
def test_a_hook_result_refuses_what_it_does_not_know(field: str, value: object) -> None:
    with pytest.raises(ValidationError):
        HookResult.model_validate({field: value})


@each_row("currency", ["EUR", "CHF"])
def test_a_currency_is_three_capital_letters(currency: str) -> None:
    assert Pricing(input_per_million=1, output_per_million=2, currency=currency).currency == currency


@each_row("currency", ["eur", "EURO", "E1R", "", "EUR\n"])
def test_anything_else_is_no_currency(currency: str) -> None:
    with pytest.raises(ValidationError):
        Pricing(input_per_million=1, output_per_million=2, currency=currency)


@each_row("timeout", [0, -1.5])
def test_an_approval_cannot_time_out_before_it_is_asked(timeout: float) -> None:
    with pytest.raises(ValidationError):
        ApprovalRequest(tool_name="t", action="a", risk_level="high", timeout=timeout)


_MONEY = [
    (SessionStatus, {"session_id": "s"}),
    (Usage, {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}),
]


@each_row(("model", "fields"), _MONEY)
@each_row("given", [Decimal("0.10"), "0.10"])
def test_money_is_a_decimal_inside_and_a_string_in_every_dump(
    model: type[BaseModel], fields: dict[str, Any], given: object
) -> None:
    instance = model.model_validate({**fields, "cost_usd": given})
    assert instance.cost_usd == Decimal("0.10")  # type: ignore[attr-defined]
    assert instance.model_dump()["cost_usd"] == "0.10"
    assert instance.model_dump(mode="json")["cost_usd"] == "0.10"
    assert '"cost_usd":"0.10"' in instance.model_dump_json()


@each_row(("model", "fields"), _MONEY)
def test_money_given_as_a_float_is_refused(model: type[BaseModel], fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="money is exact: it must be Decimal"):
        model.model_validate({**fields, "cost_usd": 0.1})


@each_row(("model", "fields"), _MONEY)
def test_money_may_be_unknown(model: type[BaseModel], fields: dict[str, Any]) -> None:
    assert model.model_validate({**fields, "cost_usd": None}).model_dump()["cost_usd"] is None


def test_a_session_status_becomes_json_without_what_is_unknown() -> None:
    status = SessionStatus(
        session_id="s",
        started_at=datetime(2024, 5, 6, 7, 8, 9),
        cost_usd=Decimal("1.5"),
        last_error={"message": "no"},
    )
    assert status.to_dict() == {
        "session_id": "s",
        "started_at": "2024-05-06T07:08:09",
        "status": "running",
        "total_messages": 0,
        "tool_invocations": 0,
        "tool_successes": 0,
        "tool_failures": 0,
        "total_input_tokens": 0,
        "total_output_tokens": 0,
        "cost_usd": "1.5",
        "last_error": {"message": "no"},
    }
