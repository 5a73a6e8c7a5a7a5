"""Packages that take seconds to load, loaded where a test first uses one and not in each process that collects it."""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any


class _LoadedLate(ModuleType):
    """A module that is loaded when something asks for a name of it; its attributes of the import system are there."""

    def __getattr__(self, name: str) -> Any:
        spec = self.__spec__
        if spec is None or spec.loader is None or name.startswith("_"):
            raise AttributeError(name)  # as those ask that look through all modules
        self.__class__ = ModuleType
        spec.loader.exec_module(self)
        return getattr(self, name)


def load_late(*names: str) -> None:
    """Have the first use of each package load it; one that is loaded or not installed is left alone."""
    for name in names:
        spec = None if name in sys.modules else find_spec(name)
        if spec is not None:
            module = module_from_spec(spec)
            module.__class__ = _LoadedLate
            sys.modules[name] = module
