"""A chat on a terminal whose session cannot start: it ends, whatever the person is typing or has sent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from paddock.cli.chat.chat_session import ChatSession
from paddock.cli.chat.prompt_input import PromptInput
from paddock.cli.options import SessionOptions

_SECONDS = 60.0


@pytest.fixture
def keys() -> Iterator[PipeInput]:
    with create_pipe_input() as keys:
        yield keys


class Typing:
    """The first line of a chat, which waits for the session once it was sent."""

    def __init__(self, prompt: PromptInput) -> None:
        self.sent = asyncio.Event()
        self.ready = asyncio.Event()
        self._prompt = prompt

    async def first(self) -> str | None:
        line = await self._prompt.line()
        if line is not None:
            self.sent.set()
            await self.ready.wait()
        return line


def _prompt(keys: PipeInput, folder: Path) -> PromptInput:
    return PromptInput(lambda before: (), folder, InMemoryHistory(), terminal=keys, output=DummyOutput())


def _chat(prompt: PromptInput, folder: Path) -> ChatSession:
    plan = folder / "plan.yaml"
    plan.write_text("no: plan\n", encoding="utf-8")
    return ChatSession(plan, SessionOptions(folder), prompt, folder, is_verbose=False)


async def _code_of(chat: ChatSession, first: asyncio.Task[str | None], typing: Typing) -> int:
    """Return the exit code of a chat that ends by itself; a cancellation would end `first` too."""
    converse = asyncio.create_task(chat.converse(first, typing.ready, lambda commands, mask: None))
    done, _ = await asyncio.wait([converse], timeout=_SECONDS)
    if not done:
        converse.cancel()
        await asyncio.wait([converse])
        pytest.fail("the chat did not end")
    return converse.result()


async def test_a_start_that_fails_ends_the_chat_after_a_line_was_sent(keys: PipeInput, tmp_path: Path) -> None:
    prompt = _prompt(keys, tmp_path)
    typing = Typing(prompt)
    first = asyncio.create_task(typing.first())
    keys.send_text("hello\r")
    await asyncio.wait_for(typing.sent.wait(), _SECONDS)
    assert await _code_of(_chat(prompt, tmp_path), first, typing) != 0
    assert first.cancelled()


async def test_a_start_that_fails_ends_the_chat_while_a_line_is_typed(keys: PipeInput, tmp_path: Path) -> None:
    prompt = _prompt(keys, tmp_path)
    typing = Typing(prompt)
    first = asyncio.create_task(typing.first())
    keys.send_text("hel")
    async with asyncio.timeout(_SECONDS):
        while not prompt.is_open:
            await asyncio.sleep(0.002)
    assert await _code_of(_chat(prompt, tmp_path), first, typing) != 0
    assert first.done() and first.result() is None
