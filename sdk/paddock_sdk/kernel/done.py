"""What a function returns that has done its work already but may be awaited all the same.

Unlike a native coroutine it says nothing when nobody awaits it, and it can be awaited any number of times. It is
a coroutine as far as asyncio is concerned, so `create_task` and `gather` take it, too.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final, NoReturn

__all__ = ["DONE", "CompletedAwaitable"]


class CompletedAwaitable(Coroutine[Any, Any, tuple[()]]):
    """Comes to an empty tuple, at once."""

    __slots__ = ()

    def __await__(self) -> CompletedAwaitable:
        return self

    def __iter__(self) -> CompletedAwaitable:
        return self

    def __next__(self) -> NoReturn:
        raise StopIteration(())

    def send(self, value: Any, /) -> NoReturn:
        raise StopIteration(())

    def throw(self, typ: Any, val: Any = None, tb: Any = None, /) -> NoReturn:
        raise typ if val is None else val

    def close(self) -> None:
        return


DONE: Final = CompletedAwaitable()
