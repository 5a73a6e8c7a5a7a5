"""Use an application's own resolver as one of the layers.

The layer calls an object that implements the contract's `ModuleSourceResolver`, passing the plan's source hint. It uses
the folder of the source that the object returns. The object is the application's code and is trusted: it may fetch what
it likes. Except for "module not found", its exceptions are reported as errors of this layer. The object is called for
one module at a time, as a loader would: it need not be thread-safe.
"""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, Final

from paddock_sources.errors import SourceError
from paddock_sources.resolution import NoAnswer
from paddock_sources.uri import FolderUri

AwaitCall = Callable[[Callable[[], Coroutine[Any, Any, object]]], object]
"""Calls a function in the application's event loop and waits for its result."""

_HINTS: Final = ("source_hint", "profile_hint")
_MAX_SHOWN: Final = 400  # characters of an exception's text


class ApplicationResolverError(SourceError):
    """Raised when an application's resolver failed, or returned something that is not a folder."""

    def __init__(self, module_id: str, problem: str) -> None:
        self.module_id = module_id
        self.problem = problem
        super().__init__(problem, hints=["this is the application's own code; it is asked before the plan is"])


class ApplicationResolver:
    """Asks `resolver`; `not_found` are the exceptions that it raises for an unknown module.

    `await_call`, such as `anyio.from_thread.run`, calls the resolver's asynchronous methods. Without it they are not
    called.
    """

    def __init__(
        self, resolver: object, *, not_found: tuple[type[Exception], ...], await_call: AwaitCall | None = None
    ) -> None:
        self._resolver = resolver
        self._not_found = not_found
        self._await_call = await_call
        self._lock = threading.Lock()

    def find(self, module_id: str, hint: object | None) -> FolderUri | NoAnswer:
        """Return the folder that the resolver names for a module, or that it knows none; `hint` is the plan's source.

        Raises:
            ApplicationResolverError: the resolver failed, or named something that is not a folder.
        """
        try:
            with self._lock:
                source = self._source(module_id, hint)
                folder = Path(os.path.realpath(os.fspath(self._settled(source.resolve()))))
        except self._not_found as error:
            return NoAnswer(_text_of(error) or "it knows no such module")
        except ApplicationResolverError:
            raise
        except Exception as error:  # foreign code: any exception is its failure, and is reported as that
            text = _text_of(error)
            problem = f"it failed with {type(error).__name__}{f': {text}' if text else ''}"
            raise ApplicationResolverError(module_id, problem) from error
        return FolderUri(str(folder), folder)  # the reader of the folder reports if it is missing

    def _source(self, module_id: str, hint: object | None) -> Any:
        asynchronous = getattr(self._resolver, "async_resolve", None)
        plain = getattr(self._resolver, "resolve", None)
        if callable(asynchronous) and self._await_call is not None:
            # Called there, not only awaited: it may want to know its loop before it returns anything.
            source = self._await_call(partial(_awaited, partial(asynchronous, module_id, **_hints(asynchronous, hint))))
        elif callable(plain):
            source = self._settled(plain(module_id, **_hints(plain, hint)))
        else:
            name = type(self._resolver).__name__
            raise ApplicationResolverError(module_id, f"`{name}` has no method `resolve` that can be called here")
        if not callable(getattr(source, "resolve", None)):
            raise ApplicationResolverError(module_id, f"it answered with {type(source).__name__}, which is no source")
        return source

    def _settled(self, answer: Any) -> Any:
        """Return an answer of a plain method, which may turn out to be one that has to be waited for."""
        if not inspect.isawaitable(answer):
            return answer
        if self._await_call is None:
            if inspect.iscoroutine(answer):
                answer.close()
            raise TypeError("its answer has to be awaited, and there is no event loop for that here")
        return self._await_call(partial(_awaited, lambda: answer))


async def _awaited(call: Callable[[], Any]) -> object:
    answer = call()
    return await answer if inspect.isawaitable(answer) else answer


def _hints(find: Callable[..., object], hint: object | None) -> dict[str, object]:
    """Return the hints that a method takes: in older versions of the contract there was only one of them."""
    try:
        parameters = inspect.signature(find).parameters
    except (TypeError, ValueError):  # of something that is not written in Python
        return dict.fromkeys(_HINTS, hint)
    takes_all = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    return {name: hint for name in _HINTS if takes_all or name in parameters}


def _text_of(error: Exception) -> str:
    try:
        text = str(error)
    except Exception:  # its own as well
        return ""
    line = " ".join(text.split())
    return line if len(line) <= _MAX_SHOWN else line[:_MAX_SHOWN] + "…"
