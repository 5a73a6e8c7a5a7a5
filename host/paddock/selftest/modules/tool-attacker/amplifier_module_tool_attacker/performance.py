"""Perform an attack by its name, and tell as plain data what came of each way it knows.

A way has worked, was refused, or is broken: it failed for a reason that has nothing to do with being refused, and so
shows nothing. An attack as a whole has succeeded when any of its ways has.
"""

from __future__ import annotations

import errno
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from . import endings, files, kernel_calls, memory, messages, network, processes, programs, resources
from .way import RefusedError, Way

__all__ = ["BODIES", "perform"]

_MAX_CHARACTERS = 300  # of what was obtained; enough to recognise it

BODIES: Mapping[str, Callable[..., Iterator[Way]]] = {
    name: getattr(family, name)
    for family in (files, processes, memory, kernel_calls, programs, network, resources, endings, messages)
    for name in family.__all__
}


def perform(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Try every way of the attack `name` and return what came of it."""
    ways = []
    try:
        for way, act in BODIES[name](**arguments):
            ways.append({"way": way, **_tried(act)})
    except Exception as error:
        ways.append({"way": "preparation", **_broken(error)})
    worked = [way for way in ways if way["outcome"] == "worked"]
    return {
        "succeeded": bool(worked),
        "how": "; ".join(f"{way['way']}: {way['how']}" for way in worked or ways)[:_MAX_CHARACTERS],
        "ways": ways,
    }


def _tried(act: Callable[[], object]) -> dict[str, str]:
    try:
        obtained = act()
    except RefusedError as refusal:
        return {"outcome": "refused", "word": refusal.word, "how": str(refusal)}
    except TimeoutError as error:
        return {"outcome": "refused", "word": "ETIMEDOUT", "how": f"TimeoutError {error}"}
    except MemoryError:
        return {"outcome": "refused", "word": "ENOMEM", "how": "MemoryError"}
    except OSError as error:
        if error.errno is None:
            return _broken(error)
        word = errno.errorcode.get(error.errno, str(error.errno))
        return {"outcome": "refused", "word": word, "how": f"{type(error).__name__} {word}"}
    except Exception as error:
        return _broken(error)
    return {"outcome": "worked", "word": "", "how": " ".join(str(obtained).split())[:_MAX_CHARACTERS]}


def _broken(error: Exception) -> dict[str, str]:
    where = traceback.extract_tb(error.__traceback__)[-1]
    how = f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})"
    return {"outcome": "broken", "word": "", "how": how[:_MAX_CHARACTERS]}
