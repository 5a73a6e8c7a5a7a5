"""Attach the mounts that bubblewrap staged for one worker, and end.

The process is started beside bubblewrap, which writes the number of its child to `info`. What became of it goes to
`outcome` as JSON: `{"attached": true}`; `{"attached": false}` where bubblewrap ended by itself; else `{"step", "errno",
"reason"}`.
"""

from __future__ import annotations

import json
import os
from typing import Any, NoReturn

from paddock_sandbox import staged_mounts
from paddock_sandbox.profile import Mount

_INFO_BYTES = 4096


def attach(settings: dict[str, Any]) -> NoReturn:
    """Attach the mounts of `settings`, `{"info", "outcome", "capabilities", "mounts"}`, report it and end."""
    told: dict[str, object]
    try:
        told = {"attached": _attach(settings)}
    except Exception as error:
        reason = getattr(error, "strerror", None) or str(error)
        told = {"step": getattr(error, "step", "staged mounts"), "errno": getattr(error, "errno", 0), "reason": reason}
    os.write(settings["outcome"], json.dumps(told).encode())
    os._exit(0)


def _attach(settings: dict[str, Any]) -> bool:
    info = b""
    while part := os.read(settings["info"], _INFO_BYTES):
        info += part
    if not info:
        return False
    child = json.loads(info)["child-pid"]
    if not staged_mounts.wait_until_staged(child, settings["capabilities"]):
        return False
    staged_mounts.attach(child, [Mount(*mount) for mount in settings["mounts"]])
    return True
