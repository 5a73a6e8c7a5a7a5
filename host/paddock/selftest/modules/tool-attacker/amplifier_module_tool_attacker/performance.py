"""Perform an attack, and report the result of each of its ways as plain data.

A way has worked, was refused, or is broken: it failed for another reason than a refusal, and so proves nothing. An
attack as a whole has succeeded when any of its ways has.
"""

from __future__ import annotations

import errno
import importlib
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .way import RefusedActError, Way

_MAX_CHARACTERS = 300  # of the obtained text; enough to recognise it

_ON_THE_SESSION = "identity."


def is_on_the_session(body: str) -> bool:
    """Return whether this is an attack on the session; results of its acts are awaited."""
    return body.startswith(_ON_THE_SESSION)


def load(body: str) -> Callable[..., Iterator[Way]]:
    """Return the function `file.function`; only its file is loaded, since loading all takes longer than most acts."""
    file, _, name = body.partition(".")
    function: Callable[..., Iterator[Way]] = getattr(importlib.import_module(f".{file}", __package__), name)
    return function


def perform(body: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Try every way of the attack that `body` performs, and return the results."""
    ways = []
    try:
        for way, act in load(body)(**arguments):
            ways.append({"way": way, **_tried(act)})
    except RefusedActError as refusal:
        ways.append({"way": "preparation", **_failed(refusal)})
    except Exception as error:
        ways.append({"way": "preparation", **_broken(error)})
    return _report(ways)


async def perform_in_session(body: str, session: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Try every way of an attack on the session of the coordinator `session`."""
    ways = []
    for way, act in load(body)(session, **arguments):
        try:
            result = _obtained(await act())
        except Exception as error:
            result = _failed(error)
        ways.append({"way": way, **result})
    return _report(ways)


def _report(ways: list[dict[str, str]]) -> dict[str, Any]:
    worked = [way for way in ways if way["outcome"] == "worked"]
    return {
        "succeeded": bool(worked),
        "how": "; ".join(f"{way['way']}: {way['how']}" for way in worked or ways)[:_MAX_CHARACTERS],
        "ways": ways,
    }


def _tried(act: Callable[[], object]) -> dict[str, str]:
    try:
        return _obtained(act())
    except Exception as error:
        return _failed(error)


def _obtained(what: object) -> dict[str, str]:
    return {"outcome": "worked", "word": "", "how": " ".join(str(what).split())[:_MAX_CHARACTERS]}


def _failed(error: Exception) -> dict[str, str]:
    """Return the meaning of an exception: a refusal, by some word, or a defect."""
    match error:
        case RefusedActError():
            return _refused(error.word, str(error))
        case TimeoutError():
            return _refused("ETIMEDOUT", f"TimeoutError {error}")
        case MemoryError():
            return _refused("ENOMEM", "MemoryError")
        case OSError() if error.errno is not None:
            word = errno.errorcode.get(error.errno, str(error.errno))
            return _refused(word, f"{type(error).__name__} {word}")
    return _broken(error)


def _refused(word: str, how: str) -> dict[str, str]:
    return {"outcome": "refused", "word": word, "how": how[:_MAX_CHARACTERS]}


def _broken(error: Exception) -> dict[str, str]:
    where = traceback.extract_tb(error.__traceback__)[-1]
    how = f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})"
    return {"outcome": "broken", "word": "", "how": how[:_MAX_CHARACTERS]}
