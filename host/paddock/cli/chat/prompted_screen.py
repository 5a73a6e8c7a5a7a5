"""A screen that shares the terminal with an open prompt, and draws above it.

While the prompt is open, drawings wait in a bounded backlog until it is set aside, and are drawn in order. A question
sets the prompt aside itself. Without a terminal, or while the prompt is closed, this is a plain screen.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TextIO

from paddock.cli.chat.prompt_input import PromptInput, echo
from paddock.cli.terminal.render import DrawingBacklog, Screen


class PromptedScreen(Screen):
    """Draws on `stream`, above the line of `prompt` while that is open."""

    def __init__(self, stream: TextIO, prompt: PromptInput, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(stream)
        self._prompt = prompt
        self._loop = loop
        self._waiting: DrawingBacklog | None = None
        self._is_aside = False

    @asynccontextmanager
    async def aside(self, keys: TextIO) -> AsyncIterator[None]:
        """Set the line aside, if it is open, and echo `keys`; what is drawn within is drawn at once."""
        async with self._prompt.set_aside():
            with self._lock:
                self._release()
            self._is_aside = True
            try:
                with echo(keys, wanted=True):
                    yield
            finally:
                self._is_aside = False

    def _draw(self, draw: Callable[[], None], size: int = 0, *, is_ours: bool = True) -> None:
        with self._lock:
            if self._is_aside or self._backlog is not None or not self._prompt.is_open:
                self._release()  # in order: earlier drawings first
                super()._draw(draw, size, is_ours=is_ours)
                return
            if self._waiting is None:
                self._waiting = DrawingBacklog()
                self._loop.call_soon_threadsafe(self._flush)
            self._waiting.add(draw, size, is_ours=is_ours)

    def _move(self, rows: Any) -> None:
        if self._is_aside or not self._prompt.is_open:
            super()._move(rows)

    def _flush(self) -> None:
        with self._lock:
            if self._waiting is None:
                return
            if self._prompt.is_open:
                self._prompt.draw_above(self._release)
            else:
                self._release()

    def _release(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            draw = super()._draw
            waiting.release(draw, lambda text: draw(partial(self._stream_write, f"{text}\n")))
