"""The names modules and tools import validation by."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module, metadata
from pathlib import Path

import amplifier_core

from support.rows import each_row

_KINDS = ["context", "hook", "orchestrator", "provider", "tool"]
_STAND_IN = Path(amplifier_core.__file__).parents[1]

_SHARED = ["ValidationCheck", "ValidationResult"]
_STEPS = ["check_on_session_ready", "import_module_from_path"]
_NAMES = {
    "base": _SHARED,
    "mount_plan": ["MountPlanValidationResult", "MountPlanValidator"],
    **{kind: [f"{kind.capitalize()}Validator"] for kind in _KINDS},
}


@each_row(("module", "names"), _NAMES.items())
def test_a_submodule_has_its_names(module: str, names: list[str]) -> None:
    found = import_module(f"amplifier_core.validation.{module}")
    assert set(names) <= set(found.__all__) <= {*names, *_SHARED, *_STEPS, "ProviderInfo"}
    assert all(getattr(found, name).__module__.startswith("paddock_sdk.validation") for name in names)


def test_the_package_has_the_names_of_the_validators() -> None:
    validation = import_module("amplifier_core.validation")
    assert sorted(validation.__all__) == sorted(name for names in _NAMES.values() for name in names)


# Where no plugin has told pytest of their markers, the bases are not imported into a pytest that minds.
_LISTING = """
import json
from importlib import import_module
found = {}
for flavour, ending in {"behavioral": "BehaviorTests", "structural": "StructuralTests"}.items():
    package = import_module("amplifier_core.validation." + flavour)
    for name in filter(lambda name: name.endswith(ending), package.__all__):
        base = getattr(package, name)
        kind = name.removesuffix(ending).lower()
        file = import_module(f"amplifier_core.validation.{flavour}.test_{kind}")
        assert getattr(file, name) is getattr(file, "Test" + kind.capitalize()) is base
        found[name] = len([test for test in dir(base) if test.startswith("test_")])
print(json.dumps(found))
"""


def test_the_test_bases_have_the_contracts_number_of_tests() -> None:
    answer = subprocess.run(
        [sys.executable, "-c", _LISTING],
        env={"PYTHONPATH": f"{_STAND_IN}:{_STAND_IN.parents[1]}"},
        check=True,
        capture_output=True,
        timeout=60,
    )
    assert json.loads(answer.stdout) == {
        "ToolBehaviorTests": 7,
        "ProviderBehaviorTests": 5,
        "HookBehaviorTests": 7,
        "OrchestratorBehaviorTests": 6,
        "ContextBehaviorTests": 10,
        **{f"{kind.capitalize()}StructuralTests": 1 for kind in _KINDS},
    }


@each_row(("group", "name"), [("console_scripts", "amplifier-core"), ("pytest11", "amplifier_module")])
def test_an_entry_point_of_the_distribution_can_be_loaded(group: str, name: str) -> None:
    [distribution] = metadata.distributions(name="amplifier-core", path=[str(_STAND_IN)])
    [entry_point] = distribution.entry_points.select(group=group, name=name)
    assert entry_point.load() is not None
