"""The error of a module that could not be imported or mounted, or did not get there, with hints for the user."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, Literal

from paddock.errors import ModuleLoadError
from paddock.plan.model import ModuleEntry
from paddock.plan.net_rule import SELF
from paddock.plan.permissions import grants_of
from paddock.workers.exit_report import ExitReport
from paddock.workers.limits.process_tree import ProcessTree, unless_gone
from paddock.workers.process import ModuleProcess
from paddock_sources import Resolution

_QUOTED: Final = re.compile(r"'([^']*)'")
_FUNCTION: Final = re.compile(r"function `(\w{1,60})`")
_SIGNATURE: Final = "a module's package defines `async def mount(coordinator, config)`"
_POINTS: Final = (
    'mount points are `tools`, `providers`, `orchestrator` and `context`: `coordinator.mount("tools", tool)`'
)
_OF_MOUNT: Final = (
    (re.compile(r"TypeError: mount\(\) (?:takes|missing) .*", re.DOTALL), _SIGNATURE),
    (re.compile(r"ValueError: Unknown mount point: .*", re.DOTALL), _POINTS),
)
_MOST_NAMED: Final = 5
_MOST_BYTES: Final = 1000  # of a command
_MOST_LETTERS: Final = 60  # of a word of it
_FETCHED: Final = "`{}` fetches what it starts, and the module has no network: grant `net: [{}]`, or install that first"
_NPX: Final = _FETCHED.format("npx", "registry.npmjs.org")
_UVX: Final = _FETCHED.format("uvx", "pypi.org, files.pythonhosted.org")
_DOCKER: Final = "`docker` asks a service outside of the sandbox, which no module reaches: start the program itself"
# Why programs do nothing without a network, also by the names that they call themselves by.
_HINDRANCES: Final[Mapping[str, str]] = {"npx": _NPX, "npm": _NPX, "uvx": _UVX, "uv": _UVX, "docker": _DOCKER}


def load_error(
    name: str, stage: Literal["import", "lookup", "mount"], error: BaseException, code: Resolution
) -> ModuleLoadError:
    """Return the error for what module `name`, whose code is `code`, raised at one stage of its start."""
    kind = getattr(error, "remote_type", type(error).__name__)
    trace = str(getattr(error, "remote_traceback", ""))
    if stage == "lookup":
        named = _FUNCTION.search(str(error))
        is_usual = named is None or named[1] == "mount"
        hint = f"its entry point in pyproject.toml names `{named[1] if named else ''}`; the usual function is `mount`"
        return ModuleLoadError(name, "mount", str(error), hints=[_SIGNATURE] if is_usual else [hint])
    if stage == "import":
        hint = _import_hint(error, code)
        return ModuleLoadError(name, "import", f"{kind}: {error}", traceback=trace, hints=[hint])
    hints = [hint for pattern, hint in _OF_MOUNT if pattern.fullmatch(f"{kind}: {error}")]
    return ModuleLoadError(name, "mount", f"{kind}: {error}", traceback=trace, hints=hints)


def programs_of(process: ModuleProcess) -> tuple[str, ...]:
    """Return which programs a living module runs, as untrusted text: of each the first two words of its command."""
    found: list[str] = []
    with suppress(OSError):
        own = _command_of(process.pid)  # also of the processes that it forked, Paddock's among them
        reading = ProcessTree(process.init_pid).read()
        for pid in () if reading is None else reading.pids:
            with unless_gone():
                command = _command_of(pid)
                words = command.decode("utf-8", "replace").replace("\0", " ").split()[:2]
                if command != own and words:  # no more of them: options may be secrets
                    found.append(" ".join(os.path.basename(one)[:_MOST_LETTERS] for one in words if one[:1] != "-"))
    return tuple(dict.fromkeys(found))


def _command_of(pid: int) -> bytes:
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read(_MOST_BYTES)


def hanging_error(
    entry: ModuleEntry,
    seconds: float,
    ran: Sequence[str],
    report: ExitReport | None,
) -> ModuleLoadError:
    """Return the error for a module that was not mounted in time, while it `ran` these programs."""
    named = ", ".join(f"`{one}`" for one in ran[:_MOST_NAMED])
    words = [] if set(grants_of(entry.permissions).net) - {SELF} else " ".join(ran).split()
    return ModuleLoadError(
        entry.instance_id or entry.module,
        "start",
        f"it was not mounted within {seconds:g} s" + (f"; it was running {named}" if ran else ""),
        traceback="\n".join(report.stderr_tail) if report is not None else "",
        report=report,
        hints=dict.fromkeys(_HINDRANCES[word] for word in words if word in _HINDRANCES),
    )


def _import_hint(error: BaseException, code: Resolution) -> str:
    if isinstance(error, ModuleNotFoundError):
        wanted = _QUOTED.search(str(error))  # its attributes stayed in the worker
        what = f"`{wanted[1]}`" if wanted else "what it imports"
        return (
            f"{what} is no part of the module; a module can import the standard library, its own code, "
            "amplifier_core, msgpack, pydantic and what its pyproject.toml names as `dependencies`"
        )
    return f"its code is in {code.source if os.path.isabs(code.source) else code.package_dir}"
