"""Build the folder of a module the way authors lay them out."""

from __future__ import annotations

from pathlib import Path

MOUNT = "async def mount(coordinator, config=None):\n    return None\n"

# Executed only if reading a module ever runs it.
BOOBY_TRAP = "raise SystemExit('module code was executed')\n"


def make_module(
    root: Path,
    module_id: str = "tool-demo",
    *,
    package: str | None = None,
    init: str = MOUNT,
    group: str = "amplifier.modules",
    version: str = "1.2.3",
) -> Path:
    """Write a repository root at `root` and return it."""
    name = package or "amplifier_module_" + module_id.replace("-", "_")
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(init, encoding="utf-8")
    (root / "pyproject.toml").write_text(
        f'[project]\nname = "amplifier-module-{module_id}"\nversion = "{version}"\n'
        f'[project.entry-points."{group}"]\n{module_id} = "{name.rpartition("/")[2]}:mount"\n',
        encoding="utf-8",
    )
    return root
