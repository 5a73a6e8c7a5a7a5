"""Values that only have a meaning in the process they were made in: how to recognise them, and alternatives.

Only values of otherwise unknown types are checked, so that plain data never pays for it.
"""

from __future__ import annotations

import _thread
import asyncio
import functools
import io
import socket
import threading
import types
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class LiveKind:
    """The kind of such a value, and an alternative."""

    name: str
    hint: str


class FunctionName(str):
    """The name of a function that is elsewhere, in its place in data: text for people, and to event data a function."""

    __slots__ = ()


_KEEP: Final = "keep it in the module and hand over plain data about it"

_FUNCTION: Final = LiveKind(
    "a function", "offer it under a name with `coordinator.register_capability` and hand over the name"
)
_CLASS: Final = LiveKind("a class", "hand over its name, `cls.__name__`")
_LOCK: Final = LiveKind("a lock", _KEEP)

_KINDS: Final[tuple[tuple[tuple[type, ...], LiveKind], ...]] = (
    (
        (
            types.FunctionType,
            types.MethodType,
            types.BuiltinFunctionType,
            types.MethodWrapperType,
            types.WrapperDescriptorType,
            types.MethodDescriptorType,
            functools.partial,
            FunctionName,
        ),
        _FUNCTION,
    ),
    ((type,), _CLASS),
    ((types.ModuleType,), LiveKind("a module", "hand over its name, `module.__name__`")),
    ((types.CoroutineType,), LiveKind("a coroutine", "await it, and hand over what it returns")),
    ((types.GeneratorType, types.AsyncGeneratorType), LiveKind("a generator", "hand over a list of what it yields")),
    ((io.IOBase,), LiveKind("an open file", "hand over its path, or what it holds")),
    ((socket.socket,), LiveKind("a socket", "hand over its address, or what was read from it")),
    ((asyncio.Future,), LiveKind("a task", "await it, and hand over what it comes to")),
    ((threading.Thread,), LiveKind("a thread", _KEEP)),
    (
        (
            _thread.LockType,
            _thread.RLock,
            threading.Condition,
            threading.Event,
            threading.Semaphore,
            threading.Barrier,
            asyncio.Lock,
            asyncio.Condition,
            asyncio.Event,
            asyncio.Semaphore,
            asyncio.Barrier,
        ),
        _LOCK,
    ),
)
_ALL: Final = tuple(cls for classes, _ in _KINDS for cls in classes)


def live_kind(value: object) -> LiveKind | None:
    """Return the kind of a live value, None for a value that can be described as text."""
    if not isinstance(value, _ALL):
        return None
    return next(kind for classes, kind in _KINDS if isinstance(value, classes))
