"""The Python that modules are run by: what decides which requirements apply, and which wheels fit."""

from __future__ import annotations

import platform
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_SYSTEM_PREFIXES = (Path("/"), Path("/usr"), Path("/usr/local"))  # every command has the system's programs


@dataclass(frozen=True, slots=True)
class Interpreter:
    """`path` starts it without any environment's packages; `prefixes` are the folders it lives in.

    `markers` are the values that environment markers are judged by; `tag` (`cpython-311`) and `platform` say which
    compiled code it takes.
    """

    path: Path
    version: str
    tag: str
    platform: str
    prefixes: tuple[Path, ...]
    markers: Mapping[str, str] = field(repr=False)

    @staticmethod
    def this() -> Interpreter:
        """Return the one behind this process, without the environment around it: workers are started by it."""
        from packaging.markers import default_environment

        path = Path(getattr(sys, "_base_executable", None) or sys.executable).resolve()
        prefixes = (Path(sys.base_prefix).resolve(), Path(sys.base_exec_prefix).resolve(), path.parent)
        environment = {name: str(value) for name, value in default_environment().items()}
        return Interpreter(
            path=path,
            version=platform.python_version(),
            tag=sys.implementation.cache_tag or f"{sys.implementation.name}-{sys.version_info[0]}{sys.version_info[1]}",
            platform="-".join((sysconfig.get_platform(), *filter(None, platform.libc_ver()))),
            prefixes=tuple(dict.fromkeys(prefix for prefix in prefixes if _is_special(prefix))),
            markers=environment,
        )


def _is_special(prefix: Path) -> bool:
    return prefix not in _SYSTEM_PREFIXES and prefix not in (Path("/usr/bin"), Path("/bin"), Path("/usr/local/bin"))
