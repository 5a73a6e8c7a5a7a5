"""The Python that runs modules: it decides which requirements apply, and which wheels fit."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

_SYSTEM_PREFIXES = tuple(map(Path, ("/", "/usr", "/usr/local", "/usr/bin", "/bin", "/usr/local/bin")))


@dataclass(frozen=True, slots=True)
class Interpreter:
    """`path` starts it without any environment's packages; `prefixes` are the folders it lives in besides the system's.

    `tag` (`cpython-311`) and `platform` determine which compiled code fits. Environment markers have the values of this
    process, except for `marker_values`.
    """

    path: Path
    version: str
    tag: str
    platform: str
    prefixes: tuple[Path, ...]
    marker_values: Mapping[str, str] = field(repr=False, default_factory=dict)

    @staticmethod
    def this() -> Interpreter:
        """Return the one behind this process, without the environment around it: workers are started by it."""
        path = Path(getattr(sys, "_base_executable", None) or sys.executable).resolve()
        prefixes = (Path(sys.base_prefix).resolve(), Path(sys.base_exec_prefix).resolve(), path.parent)
        return Interpreter(
            path=path,
            version=".".join(map(str, sys.version_info[:3])),
            tag=sys.implementation.cache_tag or f"{sys.implementation.name}-{sys.version_info[0]}{sys.version_info[1]}",
            platform="-".join(
                (sys.platform, os.uname().machine, "64" if sys.maxsize > 1 << 32 else "32", _c_library())
            ),
            prefixes=tuple(dict.fromkeys(prefix for prefix in prefixes if prefix not in _SYSTEM_PREFIXES)),
        )

    @property
    def markers(self) -> Mapping[str, str]:
        """The values that environment markers are judged by."""
        from packaging.markers import default_environment

        return {**{name: str(value) for name, value in default_environment().items()}, **self.marker_values}


def _c_library() -> str:
    """Return which C library compiled code is linked with, and in which version where that matters."""
    with suppress(ValueError, OSError):
        if libc := os.confstr("CS_GNU_LIBC_VERSION"):
            return libc.replace(" ", "-")
    return "musl" if sys.platform == "linux" else "system"
