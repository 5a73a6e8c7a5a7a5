"""What holds of a conversation after every fault: nothing changed, lost or twice, and nothing said that is not so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from paddock.session.journals.resume import NOT_STARTED

_SHOWN: Final = 300  # characters of a message

Message = dict[str, Any]


def problems_of(before: Sequence[Message], now: Sequence[Message], marks: Sequence[str]) -> Iterator[str]:
    """Yield what is wrong; `before` was there earlier, and `marks` are what the tool did, in order."""
    for at, message in enumerate(before):
        if now[at : at + 1] != [message]:
            found = str(now[at : at + 1])[:_SHOWN]
            yield f"what was there before has changed: message {at} was {str(message)[:_SHOWN]}, and is {found}"
            break
    if len(marks) != len({*marks}):
        yield "a tool ran twice for one call"
    prompts = [str(message["content"]) for message in now if message["role"] == "user"]
    if len(prompts) != len({*prompts}):
        yield "a prompt is there twice"
    asked: dict[str, str] = {}  # what each call asks to mark
    left: set[str] = set()
    for at, message in enumerate(now):
        if message["role"] != "tool":
            if left:
                yield f"message {at} comes before the answers of {len(left)} calls"
            left = set()
            for call in _calls(message):
                asked[call["id"]] = call["what"]
                left.add(call["id"])
            continue
        id, said = message["tool_call_id"], str(message["content"])
        if id not in left:
            yield f"message {at} answers no open call"
        left.discard(id)
        what = asked.get(id, "")
        if said == f"marked {what}" and what not in marks:
            yield f"message {at} tells of a run that was none"
        if (said == NOT_STARTED or "did not run" in said) and what in marks:
            yield f"message {at} says that a call did not run, which ran"
    if left:
        yield f"{len(left)} calls have no answer"


def answers_of(messages: Sequence[Message]) -> list[str]:
    """Return what the tool answered, in the order of the conversation."""
    return [str(message["content"]) for message in messages if message["role"] == "tool"]


def _calls(message: Message) -> Iterator[dict[str, str]]:
    for call in message.get("tool_calls") or ():
        given = call.get("arguments") or call.get("input") or {}
        yield {"id": call["id"], "what": given.get("what", "")}
