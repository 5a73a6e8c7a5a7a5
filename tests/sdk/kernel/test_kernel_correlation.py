"""Which events carry the id of a language model call."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest

from paddock_sdk.kernel import correlation
from paddock_sdk.kernel.correlation import current_request_id, reset_request_id, resolve_request_id
from paddock_sdk.kernel.hooks import HookRegistry

EVENTS = ["llm:request", "llm:response", "provider:error", "provider:retry", "provider:throttle", "llm:request:raw"]


@pytest.fixture(autouse=True)
def _no_open_call() -> None:
    reset_request_id()


def recording() -> tuple[HookRegistry, list[tuple[str, Any]]]:
    registry, seen = HookRegistry(), []
    for event in EVENTS:
        registry.register(event, lambda event, data: seen.append((event, data.get("request_id"))))
    return registry, seen


async def test_a_request_opens_a_call_and_a_response_closes_it() -> None:
    registry, seen = recording()
    for event in ["llm:request", "provider:retry", "provider:throttle", "llm:request:raw", "llm:response"]:
        await registry.emit(event, {})
    ids = dict(seen)
    request_id = ids["llm:request"]
    assert str(uuid.UUID(request_id)) == request_id
    assert ids == {
        "llm:request": request_id,
        "provider:retry": request_id,
        "provider:throttle": request_id,
        "llm:request:raw": None,
        "llm:response": request_id,
    }
    assert current_request_id() is None


@pytest.mark.parametrize("event", ["llm:response", "provider:error", "provider:retry", "provider:throttle"])
async def test_without_an_open_call_an_event_gets_nothing(event: str) -> None:
    registry, seen = recording()
    result = await registry.emit(event, {"a": 1})
    assert seen == [(event, None)]
    assert "request_id" not in (result.data or {})


async def test_a_provider_error_closes_the_call() -> None:
    registry, seen = recording()
    for event in ["llm:request", "provider:error", "llm:response"]:
        await registry.emit(event, {})
    assert seen[1][1] == seen[0][1]
    assert seen[2][1] is None


@pytest.mark.parametrize("nothing", [None, "", 3])
async def test_an_id_that_is_no_text_is_replaced(nothing: Any) -> None:
    registry, seen = recording()
    await registry.emit("llm:request", {"request_id": nothing})
    assert uuid.UUID(seen[0][1])


async def test_concurrent_tasks_have_calls_of_their_own() -> None:
    registry, seen = recording()
    both_open = asyncio.Barrier(2)

    async def call() -> None:
        await registry.emit("llm:request", {})
        async with both_open:
            pass
        await registry.emit("llm:response", {})

    async with asyncio.timeout(60):
        await asyncio.gather(call(), call())
    ids = [request_id for _, request_id in seen]
    assert len(set(ids[:2])) == 2
    assert sorted(ids[:2]) == sorted(ids[2:])


async def test_data_that_is_no_mapping_opens_no_call() -> None:
    registry, _ = HookRegistry(), None
    registry.register("llm:request", lambda event, data: None)
    await registry.emit("llm:request", None)
    assert current_request_id() is None


def test_an_uncorrelated_event_resolves_to_what_was_given() -> None:
    resolve_request_id("llm:request")
    assert resolve_request_id("tool:pre") is None
    assert resolve_request_id("tool:pre", "given") == "given"
    assert current_request_id() is not None


def test_the_groups_of_events() -> None:
    assert correlation.REQUEST_ID_FIELD == "request_id"
    assert correlation.REQUEST_EVENTS == {"llm:request"}
    assert correlation.TERMINAL_EVENTS == {"llm:response", "provider:error"}
    assert correlation.INTERIM_EVENTS == {"provider:retry", "provider:throttle"}
    assert correlation.new_request_id() != correlation.new_request_id()
