"""Have pydantic run no plugins in a process of ours."""

from __future__ import annotations

import sys
from types import ModuleType


def load_none() -> None:
    """Keep pydantic from searching every installed distribution for plugins at its first model.

    The search takes as long as all else that a short command does once it is loaded, and no other code belongs in this
    process. Call it before the first model is built. Pydantic's own switch is a variable of the environment, which
    every program that the process starts would get too. So its file that searches is replaced instead; a pydantic
    without that file would only take longer.
    """
    searching = ModuleType("pydantic.plugin._loader")
    vars(searching)["get_plugins"] = tuple  # no plugins
    sys.modules.setdefault(searching.__name__, searching)
