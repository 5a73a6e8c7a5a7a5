"""Run many tasks with one plan, a session each, to exactly one result a task."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paddock.batch.local import SessionSettings, run
    from paddock.batch.result import TaskResult
    from paddock.batch.task_file import Shard

__all__ = ["SessionSettings", "Shard", "TaskResult", "run"]

_PLACES = {
    "SessionSettings": "local",
    "Shard": "task_file",
    "TaskResult": "result",
    "run": "local",
}


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> object:
    # On first use: a task can be read without all that a session is made of.
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
