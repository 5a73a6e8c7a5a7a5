"""The error of a module that could not be imported or mounted, with hints for the user."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Literal

from paddock.errors import ModuleLoadError

_QUOTED: Final = re.compile(r"'([^']*)'")


def load_error(
    name: str, stage: Literal["import", "lookup", "mount"], error: BaseException, package_dir: Path
) -> ModuleLoadError:
    """Return the error for what module `name`, whose code is in `package_dir`, raised at one stage of its start."""
    kind = getattr(error, "remote_type", type(error).__name__)
    trace = str(getattr(error, "remote_traceback", ""))
    if stage == "lookup":
        hint = "a module's package defines `async def mount(coordinator, config)`"
        return ModuleLoadError(name, "mount", str(error), hints=[hint])
    if stage == "import":
        hint = _import_hint(error, package_dir)
        return ModuleLoadError(name, "import", f"{kind}: {error}", traceback=trace, hints=[hint])
    return ModuleLoadError(name, "mount", f"{kind}: {error}", traceback=trace)


def _import_hint(error: BaseException, package_dir: Path) -> str:
    if isinstance(error, ModuleNotFoundError):
        wanted = _QUOTED.search(str(error))  # its attributes stayed in the worker
        what = f"`{wanted[1]}`" if wanted else "what it imports"
        return (
            f"{what} is no part of the module; a module can import the standard library, its own code, "
            "amplifier_core, msgpack, pydantic and what its pyproject.toml names as `dependencies`"
        )
    return f"its code is in {package_dir}"
