"""Files that reference modules have in common are the same in each, as modules are installed alone."""

from __future__ import annotations

from pathlib import Path

_MODULES = Path(__file__).parents[2] / "modules"
_SIMPLE = _MODULES / "context-simple/amplifier_module_context_simple"
_COPY = _MODULES / "context-persistent/amplifier_module_context_persistent/simple"


_PROVIDERS = [
    _MODULES / f"provider-{vendor}/amplifier_module_provider_{vendor}/backoff.py" for vendor in ("openai", "anthropic")
]


def test_the_providers_wait_by_the_same_rules() -> None:
    original, copy = (path.read_text() for path in _PROVIDERS)
    assert copy == original, f"copy from {_PROVIDERS[0]} to {_PROVIDERS[1]}"


def test_context_persistent_has_the_files_of_context_simple() -> None:
    original, copy = ({path.name: path.read_text() for path in folder.glob("*.py")} for folder in (_SIMPLE, _COPY))
    del original["__init__.py"], copy["__init__.py"]
    assert sorted(copy) == sorted(original)
    differing = [name for name in original if copy[name] != original[name]]
    assert not differing, f"copy from {_SIMPLE} to {_COPY}: {', '.join(differing)}"
