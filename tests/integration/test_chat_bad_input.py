"""What goes wrong between a chat and a vendor: each is the contract's own error with what to do, and the chat goes on.

One session takes every row, on a terminal of 20 columns, and after each a turn that is answered.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from integration.conftest import OpenSession
from modules import shipped
from paddock.cli.chat.conversation import ChatConversation, follow
from paddock.cli.chat.prompt_input import harmless
from paddock.cli.chat.spending import Spending
from paddock.cli.terminal.approval import TerminalApproval
from paddock.cli.terminal.render import Screen
from paddock.errors import TurnError
from support.person import Person
from vendors.openai_dialect import OpenAIDialect
from vendors.script import Fault, Script, Turn
from vendors.server import VendorServer

# What goes wrong, the class of the error, and what a person is shown of it or can do.
_FAULTS: list[tuple[Mapping[str, Any], str, str]] = [
    ({"kind": "key"}, "AuthenticationError", "the key is missing or wrong"),
    ({"kind": "model"}, "NotFoundError", "name a model that the server has"),
    ({"kind": "html"}, "ProviderUnavailableError", "answered with a page"),
    ({"kind": "cut", "after": 3}, "StreamError", "the answer broke off"),
    ({"kind": "garble", "after": 2}, "StreamError", "an answer that cannot be read"),
    ({"kind": "context"}, "ContextLengthError", "the conversation is longer"),
    ({"kind": "rate_limit", "retry_after": "0.01"}, "RateLimitError", "wait a moment"),
]
# How an answer can end, and what a person is told of it.
_ENDS = [("content_filter", "held back a part"), ("refusal", "refused to answer"), ("odd\x1b[2J", r"`odd\x1b[2J`")]
_HOSTILE = "\x1b[2J\x1b]0;owned\x07\n╔══ Paddock asks"


class Moody(Script):
    """A model that answers `turn`, unless `mood` is what goes wrong with every request."""

    def __init__(self) -> None:
        super().__init__([])
        self.mood: Fault | None = None
        self.turns_to_come: list[Any] = []

    def next_fault(self) -> Fault | None:
        return self.mood

    def next_turn(self) -> Turn:
        return Turn.of(self.turns_to_come.pop(0) if self.turns_to_come else "all is well")

    def give_back(self, turn: Turn) -> None:
        """Do nothing: it is made anew."""


@pytest.fixture
def provider_module(tmp_path: Path) -> str:
    return str(shipped.beside_its_packages("provider-openai", tmp_path))


class Chat:
    """The conversation, and what its terminal shows without the spaces of its narrow rows."""

    def __init__(self, conversation: ChatConversation, person: Person) -> None:
        self._conversation = conversation
        self._person = person

    async def fails(self, prompt: str, kind: str, hint: str) -> None:
        before = len(self._person.all_rows())
        outcome = await self._conversation.turn(prompt)
        shown = "".join("".join(self._person.all_rows()[before - 1 :]).split())
        assert isinstance(outcome.error, TurnError), (prompt, outcome)
        assert outcome.error.kind.endswith(kind), (prompt, outcome.error.kind)
        assert f"error:{outcome.error.kind.rpartition('.')[2]}" in shown
        assert "hint:" in shown and "".join(hint.split()) in shown

    async def answers(self, prompt: str, answer: str = "all is well", *, told: str = "") -> None:
        before = len(self._person.all_rows())
        outcome = await self._conversation.turn(prompt)
        assert outcome.answer == answer, (prompt, outcome)
        shown = "".join("".join(self._person.all_rows()[before - 1 :]).split())
        assert ("".join(told.split()) in shown) if told else ("warning:" not in shown), shown


@pytest.mark.exhaustive
async def test_each_fault_of_a_vendor_is_named_and_the_chat_goes_on(
    open_session: OpenSession, provider_module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("COLUMNS", raising=False)
    script = Moody()
    with ExitStack() as first:
        server = first.enter_context(VendorServer(script, OpenAIDialect()))
        port = server.port
        entry = {
            "module": "provider-openai",
            "source": provider_module,
            "config": {"base_url": server.url, "default_model": "small", "max_retries": 1, "max_retry_delay": 0.01},
            "permissions": {"net": [f"127.0.0.1:{port}"]},
        }
        async with open_session(
            orchestrator={"module": "loop-streaming", "permissions": {}},
            context={"module": "context-simple", "permissions": {}},
            providers=[entry],
            tools=[{"module": "tool-todo", "permissions": {}}],
        ) as session:
            person = Person(columns=20, rows=24)
            screen = Screen(person.output)
            screen.mask = session.mask
            view = follow(session, screen, tmp_path, is_verbose=False)
            approval = TerminalApproval.at(screen, person.keys)
            chat = Chat(ChatConversation(session, screen, approval, Spending(), view, is_verbose=False), person)

            script.key = "sk-some"  # which the entry has none of
            await chat.fails("no key", "AuthenticationError", "the key is missing or wrong")
            script.key = ""
            await chat.answers("after no key")
            for fault, kind, hint in _FAULTS:
                script.mood = Fault(**{**fault, "times": -1})
                await chat.fails(str(fault["kind"]), kind, hint)
                script.mood = None
                await chat.answers(f"after {fault['kind']}")

            for reason, told in _ENDS:
                script.turns_to_come = [{"text": "so far", "finish": reason}]
                await chat.answers(f"ends by {reason}", "so far", told=told)
            script.turns_to_come = [{"text": "more", "finish": "length"}] * 9
            await chat.answers("too long", "more" * 4, told="was cut off")
            script.turns_to_come = []
            script.turns_to_come = [{"tool_calls": [{"name": "todo", "arguments": '{"action": '}]}, "I see"]
            await chat.answers("broken JSON", "I see")
            script.turns_to_come = [_HOSTILE]
            await chat.answers("terminal codes", _HOSTILE)
            await chat.answers(harmless("pasted \x1b[31m\x03\u202e"))
            assert not any(row.startswith(("╔", "┌")) for row in person.all_rows())

            await anyio.to_thread.run_sync(first.close)
            await chat.fails("not there", "ProviderUnavailableError", "Connection refused")
            with VendorServer(script, OpenAIDialect(), port=port) as again:
                await chat.answers("after it was not there")
                said = again.answers[-1].body["messages"]
            called = [call["id"] for message in said for call in message.get("tool_calls") or ()]
            assert called == [message["tool_call_id"] for message in said if message["role"] == "tool"]
            person.close()
    assert server.refusals == ["Incorrect API key provided."]  # and no other, as of a call without an answer
