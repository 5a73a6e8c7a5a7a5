"""Plan entries, modules and owners as the tests of the policy want them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.errors import PlanError
from paddock.isolation.runtime_paths import RuntimePaths
from paddock.plan.model import EntryPlace, Kind, ModuleEntry
from paddock.policy.owner import Owner
from paddock_sources import Resolution


def entry(kind: Kind = "tool", path: str = "tools[0]", **keys: object) -> ModuleEntry:
    """Return the entry of a plan with these keys."""
    return ModuleEntry.read({"module": f"{kind}-x", **keys}, EntryPlace(kind, path, Path("/plans")))


def owner(home: Path = Path("/home/nobody-in-particular")) -> Owner:
    """Return the user that the tests run as, alone in no group."""
    return Owner(os.geteuid(), home, lambda uid, gid: False)


def module_at(root: Path, package: str = "amplifier_module_tool_x", *, src: bool = False) -> Resolution:
    """Make the folder of a module, laid out flat or with `src`, and return where its code is."""
    import_root = root / "src" if src else root
    package_dir = import_root / package
    package_dir.mkdir(parents=True)
    (package_dir / "__init__.py").touch()
    return Resolution("tool-x", str(root), root, package, package_dir, import_root, "tool")


def runtime_of(python: Path, *standard_library: Path) -> RuntimePaths:
    """Return a runtime of an interpreter and a library, and nothing else."""
    return RuntimePaths(
        interpreter=python,
        code=(python,),
        data=(),
        links=(),
        standard_library=standard_library,
        entries=(),
        hidden=(),
        installation=standard_library,
    )


def problems_of(act: Callable[[], object]) -> dict[str, str]:
    """Return what is wrong, by its place, with the hint after a bar."""
    with pytest.raises(PlanError) as caught:
        act()
    return {problem.path: f"{problem.message} | {problem.hint}" for problem in caught.value.problems}
