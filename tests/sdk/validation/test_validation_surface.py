"""What the contract's test files offer, and the entry points of its distribution."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import amplifier_core

from support.rows import each_row

_STAND_IN = Path(amplifier_core.__file__).parents[1]

# Where no plugin has told pytest of their markers, the bases are not imported into a pytest that minds.
_FILES = """
from importlib import import_module
for flavour, ending in {"behavioral": "BehaviorTests", "structural": "StructuralTests"}.items():
    package = import_module("amplifier_core.validation." + flavour)
    for kind in ("Context", "Hook", "Orchestrator", "Provider", "Tool"):
        file = import_module(f"amplifier_core.validation.{flavour}.test_{kind.lower()}")
        base = getattr(package, kind + ending)
        assert getattr(file, kind + ending) is getattr(file, "Test" + kind) is base
"""


def test_each_test_file_runs_the_base_of_its_kind() -> None:
    program = [sys.executable, "-c", _FILES]
    subprocess.run(program, env={"PYTHONPATH": f"{_STAND_IN}:{_STAND_IN.parents[1]}"}, check=True, timeout=60)


@each_row(("group", "name"), [("console_scripts", "amplifier-core"), ("pytest11", "amplifier_module")])
def test_an_entry_point_of_the_distribution_can_be_loaded(group: str, name: str) -> None:
    [distribution] = metadata.distributions(name="amplifier-core", path=[str(_STAND_IN)])
    [entry_point] = distribution.entry_points.select(group=group, name=name)
    assert entry_point.load() is not None
