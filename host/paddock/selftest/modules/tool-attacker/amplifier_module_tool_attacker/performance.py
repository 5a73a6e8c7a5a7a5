"""Perform an attack by its name, and tell as plain data what came of each way it knows.

A way has worked, was refused, or is broken: it failed for a reason that has nothing to do with being refused, and so
shows nothing. An attack as a whole has succeeded when any of its ways has.
"""

from __future__ import annotations

import errno
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from . import (
    endings,
    files,
    floods,
    identity,
    kernel_calls,
    keys,
    memory,
    messages,
    network,
    processes,
    programs,
    resources,
    smuggling,
    unmapped,
    ways_out,
)
from .way import RefusedError, Way

__all__ = ["BODIES", "IN_A_SESSION", "perform", "perform_in_session"]

_MAX_CHARACTERS = 300  # of what was obtained; enough to recognise it

_FAMILIES = (
    files,
    processes,
    memory,
    kernel_calls,
    programs,
    network,
    resources,
    unmapped,
    endings,
    messages,
    ways_out,
    smuggling,
    floods,
    keys,
)
BODIES: Mapping[str, Callable[..., Iterator[Way]]] = {
    name: getattr(family, name) for family in _FAMILIES for name in family.__all__
}
IN_A_SESSION: Mapping[str, Callable[..., Iterator[Way]]] = {name: getattr(identity, name) for name in identity.__all__}
"""Those on the session; what their acts return is awaited."""


def perform(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Try every way of the attack `name` and return what came of it."""
    ways = []
    try:
        for way, act in BODIES[name](**arguments):
            ways.append({"way": way, **_tried(act)})
    except RefusedError as refusal:
        ways.append({"way": "preparation", **_failed(refusal)})
    except Exception as error:
        ways.append({"way": "preparation", **_broken(error)})
    return _told(ways)


async def perform_in_session(name: str, session: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Try every way of the attack `name` on the session of the coordinator `session`."""
    ways = []
    for way, act in IN_A_SESSION[name](session, **arguments):
        try:
            told = _obtained(await act())
        except Exception as error:
            told = _failed(error)
        ways.append({"way": way, **told})
    return _told(ways)


def _told(ways: list[dict[str, str]]) -> dict[str, Any]:
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
    """Return what an exception means: a refusal, by some word, or a defect."""
    match error:
        case RefusedError():
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
