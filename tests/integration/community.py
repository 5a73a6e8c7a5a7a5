"""The modules of `fixtures/community` as entries of a plan, and what tests have of a session they run in."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import anyio

from paddock import Session

COMMUNITY = Path(__file__).parents[1] / "fixtures" / "community"
_SECONDS = 60  # for what a background task or another process does in its own time


class Heard(NamedTuple):
    """An event as a handler of the application heard it."""

    event: str
    data: dict[str, Any]


def community(module_id: str, **entry: Any) -> dict[str, Any]:
    """Return the entry of one of the community's modules, as it lies in the fixtures."""
    return {"module": module_id, "source": str(COMMUNITY / f"amplifier-module-{module_id}"), **entry}


def script(*steps: Any) -> list[dict[str, Any]]:
    """Return the providers of a plan whose model answers with these: a text, or a list of tool calls by name."""
    return [community("provider-terse", config={"steps": list(steps)})]


def listen(session: Session, *events: str, priority: int = 1000) -> list[Heard]:
    """Return the list to which events are added as they are heard."""
    heard: list[Heard] = []

    async def note(event: str, data: dict[str, Any]) -> None:
        heard.append(Heard(event, data))

    for event in events:
        session.coordinator.hooks.register(event, note, priority=priority, name="the test")
    return heard


async def messages(session: Session, role: str | None = None) -> list[dict[str, Any]]:
    """Return the conversation, or what one role said in it."""
    said: list[dict[str, Any]] = await session.coordinator.get("context").get_messages()
    return [message for message in said if role in (None, message["role"])]


async def contents(session: Session, role: str) -> list[Any]:
    """Return what one role said, without the rest of the messages."""
    return [message["content"] for message in await messages(session, role)]


async def settled(returned: Any) -> Any:
    """Return what a call of a module's plain function comes to; from the application it may have to be awaited."""
    return await returned if inspect.isawaitable(returned) else returned


async def until(things: Iterable[Any], count: int = 1) -> None:
    """Wait until there are so many things."""
    with anyio.fail_after(_SECONDS):
        while len(list(things)) < count:
            await anyio.sleep(0.01)
