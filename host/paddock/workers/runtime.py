"""The runtime of a worker process: an interpreter, and the packages that it can import.

The host finds it once. It decides what a worker can import (these packages and the standard library), never what a
module needs.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from paddock_sandbox.profile import Mount

_BOOTSTRAP = "import sys; sys.path.insert(0, sys.argv[1]); from paddock_sdk.worker.boot import main; main()"

_PACKAGES = (
    "paddock_sdk",
    "paddock_sandbox",
    "msgpack",
    "pydantic",
    "pydantic_core",
    "typing_extensions",
    "annotated_types",
    "typing_inspection",
)
# Everything here is in memory before the first module starts and shared by all of them. Nothing that starts a thread
# may be added.
_PRELOAD = (
    "asyncio",
    "pydantic",
    "paddock_sandbox.lockdown",
    "paddock_sdk.protocol.*",
    "paddock_sdk.contract.*",
    "paddock_sdk.kernel.*",
    "paddock_sdk.kernel.startup.*",
    "paddock_sdk.worker.*",
    "paddock_sdk.worker.attempts.*",
    "paddock_sdk.worker.calls.*",
    "paddock_sdk.worker.session.*",
    "amplifier_core",
)

# The contract and its models would take two thirds of the start.
_PRELOAD_OF_COMMANDS = ("paddock_sandbox.lockdown", "paddock_sandbox.self_check", "paddock_sdk.worker.commands")

# Large messages are dominated by the page faults of memory given back and fetched again, which these two prevent. Read
# by the C library when the process starts, so they cannot be set later.
_ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(256 << 20)}


@dataclass(frozen=True, slots=True)
class WorkerRuntime:
    """The interpreter, the importable packages with the directory each is found in, and what is imported ahead.

    `mounts` are the paths of all that which a worker with a root of its own has to see.
    """

    interpreter: Path
    packages: tuple[tuple[str, Path], ...]
    mounts: tuple[Mount, ...] = ()
    preload: tuple[str, ...] = _PRELOAD

    @classmethod
    def locate(cls, *, for_commands: bool = False) -> WorkerRuntime:
        """Find the runtime this host was installed with; `for_commands`, the contract is not imported ahead.

        Raises:
            ModuleNotFoundError: a package of the runtime is not installed beside the host.
        """
        found = [(name, _directory_of(name)) for name in _PACKAGES]
        # Only workers may see the stand-ins; the host's own environment can hold the real packages of those names.
        stand_in = dict(found)["paddock_sdk"] / "paddock_sdk" / "stand_in"
        found += [("amplifier_core", stand_in), ("amplifier_foundation", stand_in)]
        preload = _PRELOAD_OF_COMMANDS if for_commands else _PRELOAD
        return cls(base_interpreter(), tuple(found), preload=preload)

    def without(self, packages: Collection[str]) -> WorkerRuntime:
        """Return the same runtime without some packages, which its workers have to find elsewhere."""
        return replace(self, packages=tuple(one for one in self.packages if one[0] not in packages))

    def spawn(
        self, settings: Mapping[str, object], fds: Sequence[int], stderr: int, *, through: Sequence[str] = ()
    ) -> subprocess.Popen[bytes]:
        """Start an interpreter with this runtime, in a session of its own, that has only these descriptors of the host.

        `through` is a command that starts the interpreter; it gets the interpreter's own command as further arguments.

        Returns when the program is running, after about a millisecond. Call it from a thread that will outlive the
        process: the kernel may end the process with that thread.

        Raises:
            OSError: the interpreter could not be started.
        """
        packages = {name: os.fspath(directory) for name, directory in self.packages}
        environ = {"LANG": "C.UTF-8", "PATH": os.defpath, **_ALLOCATOR}
        command = [os.fspath(self.interpreter), "-I", "-S", "-c", _BOOTSTRAP, packages["paddock_sdk"]]
        return subprocess.Popen(  # noqa: S603 - our own interpreter and command
            [*through, *command, json.dumps({"packages": packages, **settings})],
            env=environ,
            pass_fds=fds,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            cwd="/",
            start_new_session=True,
        )


def base_interpreter() -> Path:
    """Return the real interpreter behind a virtual environment: it starts without that environment's packages."""
    return Path(getattr(sys, "_base_executable", sys.executable)).resolve()


def _directory_of(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(
            f"cannot start module processes: the package `{name}` is not installed in {sys.prefix}; "
            "reinstall paddock-host",
            name=name,
        )
    origin = Path(spec.origin).resolve()
    return origin.parent.parent if spec.submodule_search_locations else origin.parent
