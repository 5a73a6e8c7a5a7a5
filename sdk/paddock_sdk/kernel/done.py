"""The return value of a function that has done its work already but may still be awaited.

Unlike a native coroutine it gives no warning when it is not awaited, and it can be awaited any number of times. It is a
coroutine as far as asyncio is concerned, so `create_task` and `gather` accept it, too.
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
