"""Pydantic's plugins, which no process of Paddock's runs."""

from __future__ import annotations

import sys
from types import ModuleType


def disable_plugins() -> None:
    """Keep pydantic from searching all installed distributions for plugins.

    It searches once, when the first validator is built, and that takes as long as all else that a short command does
    once it is loaded. Pydantic's own switch, `PYDANTIC_DISABLE_PLUGINS`, would reach every program that this process
    starts, so the module that searches is replaced; a pydantic without that module would only take longer. Processes
    forked from this one run no plugins either.
    """
    searching = ModuleType("pydantic.plugin._loader")
    vars(searching)["get_plugins"] = tuple  # no plugins
    sys.modules.setdefault(searching.__name__, searching)
