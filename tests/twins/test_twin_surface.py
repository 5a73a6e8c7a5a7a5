"""Every public name of the published package is here, but for those of its files' inner working.

`observed/surface.json` says what was observed of version 2.0.2: the names in each module, and the members of classes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from twins.published import Python

_OBSERVED: dict[str, dict[str, list[str]]] = json.loads((Path(__file__).parent / "observed/surface.json").read_text())

_ABSENT_MODULES = {
    "amplifier_core.loader_grpc",  # runs modules that are servers
    "amplifier_core.validation.proto_schema",  # checks those
}
_ABSENT_NAMES = {
    "TYPE_CHECKING",
    "ModuleType",  # of Python's own
    "T",
    "AmplifierModulePlugin",  # what the pytest plugin keeps its findings in
    "pytest_collection_modifyitems",
}
# What pydantic is told to read and write fields by.
_ABSENT_MEMBERS = {
    "reject_float_cost",
    "reject_float_cost_usd",
    "serialize_cost_usd",
    "normalize_content",
    "serialize_content",
    "serialize_model",
}


@pytest.fixture(scope="module")
def surface(kernel: Python) -> Any:
    return kernel.outcomes("surface.py")


@pytest.mark.exhaustive("published")
@pytest.mark.difference("names of the published package's inner workings are absent")
def test_only_names_of_inner_working_are_absent(surface: dict[str, dict[str, list[str]]]) -> None:
    missing = {module for module in _OBSERVED if module not in surface} - _ABSENT_MODULES
    names = {
        f"{module}.{name}"
        for module in _OBSERVED.keys() & surface.keys()
        for name in _OBSERVED[module].keys() - surface[module].keys() - _ABSENT_NAMES
    }
    members = {
        f"{module}.{name}.{member}"
        for module in _OBSERVED.keys() & surface.keys()
        for name in _OBSERVED[module].keys() & surface[module].keys()
        for member in set(_OBSERVED[module][name]).difference(surface[module][name], _ABSENT_MEMBERS)
    }
    assert not (missing | names | members)
