"""The reference modules as the tests go through them: their ids, what they need, copies laid out as repositories."""

from __future__ import annotations

import ast
import shutil
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from paddock.authoring.module_folder import ModuleFolder
from paddock_sources.bounded_toml import read_toml
from paddock_sources.builtin import BuiltinSource
from support.vendored import lay_beside

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "modules"
PROJECTS = sorted(path.parent.name for path in FOLDER.glob("*/pyproject.toml"))
IDS = list(BuiltinSource().list())
#: It mounts what a server offers, so it needs one in its configuration; and Paddock's SDK, so it runs nowhere else.
OF_A_SERVER = "tool-mcp"
PORTABLE = [one for one in IDS if one != OF_A_SERVER]


def home(module_id: str) -> Path:
    """Return the project folder that a module is in, alone or beside others."""
    return BuiltinSource().resolve(module_id).root


def package(module_id: str) -> str:
    """Return the name of a module's package."""
    return BuiltinSource().resolve(module_id).package


def project(module_id: str) -> dict[str, Any]:
    """Return the `[project]` table of a module's project."""
    table: Any = read_toml((home(module_id) / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return dict(table)


def requirements(module_id: str) -> list[str]:
    """Return what a module and its tests depend on."""
    table = project(module_id)
    return [*table.get("dependencies", ()), *table.get("optional-dependencies", {}).get("dev", ())]


def kind(module_id: str) -> str:
    """Return the kind a module declares itself to be."""
    return ModuleFolder.at(home(module_id), module_id).kind()


def copy_as_repositories(target: Path, *left_out: str) -> None:
    """Copy each project into a folder with the name of a repository of its own, but for files of some names."""
    for name in PROJECTS:
        shutil.copytree(
            FOLDER / name,
            target / f"amplifier-module-{name}",
            ignore=shutil.ignore_patterns("__pycache__", ".*", *left_out),
        )


def beside_its_packages(module_id: str, folder: Path) -> Path:
    """Lay a module out in a folder with what it depends on beside it, instead of installing that; return its folder."""
    root = folder / f"amplifier-module-{module_id}"
    shutil.copytree(home(module_id), root, ignore=shutil.ignore_patterns("tests", "__pycache__"))
    path = root / "pyproject.toml"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not line.startswith("dependencies = ")), encoding="utf-8")
    lay_beside(root, *(Requirement(one).name for one in project(module_id)["dependencies"]))
    return root


def imported(folder: Path) -> set[str]:
    """Return the names of the top-level packages that the code in a folder imports."""
    statements = [node for path in folder.glob("**/*.py") for node in ast.walk(ast.parse(path.read_bytes()))]
    plain = {alias.name for node in statements if isinstance(node, ast.Import) for alias in node.names}
    parts = {node.module or "" for node in statements if isinstance(node, ast.ImportFrom) and node.level == 0}
    return {name.partition(".")[0] for name in plain | parts}


def installed_for(names: list[str]) -> Iterator[str]:
    """Yield the names of the distributions installed here that these requirements lead to, each once."""
    seen: set[str] = set()
    waiting = [Requirement(one) for one in names]
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        if name in seen or not _applies(wanted, {""}):
            continue
        seen.add(name)
        yield name
        needs = [Requirement(one) for one in metadata.distribution(wanted.name).requires or ()]
        waiting += [one for one in needs if _applies(one, wanted.extras or {""})]


def _applies(requirement: Requirement, extras: set[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in extras)
