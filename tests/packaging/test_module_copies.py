"""Files that reference modules have in common are the same in each, as modules are installed alone.

The loops carry one agent loop (see modules/loop-basic/adr/0001), the contexts one conversation in memory, the providers
one rule for waiting.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

_MODULES = Path(__file__).resolve().parents[2] / "modules"
_COPIES = [
    # what is edited, and where it is copied to
    ("loop-basic/agent_loop/*.py", "loop-streaming/agent_loop"),
    ("loop-basic/agent_loop/*.py", "loop-events/agent_loop"),
    ("context-simple/*.py", "context-persistent/simple"),
    ("provider-anthropic/backoff.py", "provider-openai"),
]
_OWN = {("context-persistent/simple", "__init__.py")}  # a package's own words about itself


def _path(short: str) -> Path:
    """Return where `module-id/rest` is: in the package of the module."""
    module, _, rest = short.partition("/")
    return _MODULES / module / f"amplifier_module_{module.replace('-', '_')}" / rest


def _files(pattern: str, copy: str) -> dict[str, str]:
    found = _path(pattern).parent.glob(Path(pattern).name)
    return {path.name: path.read_text() for path in found if (copy, path.name) not in _OWN}


@pytest.mark.parametrize(("original", "copy"), _COPIES)
def test_a_copy_has_the_files_of_its_original(original: str, copy: str) -> None:
    name = Path(original).name
    files = _files(original, copy)
    assert files
    assert _files(f"{copy}/{name}", copy) == files, f"copy {original} to {copy}"


def test_no_other_file_is_in_two_modules() -> None:
    known = {_path(f"{copy}/{name}") for original, copy in _COPIES for name in _files(original, copy)}
    where = defaultdict(list)
    for path in _MODULES.glob("*/amplifier_module_*/**/*.py"):
        if path not in known and path.stat().st_size:
            where[path.read_text()].append(path)
    assert not [paths for paths in where.values() if len(paths) > 1], "name the original and its copy above"


def test_the_shared_loop_names_no_loop_in_code() -> None:
    files = _files("loop-basic/agent_loop/*.py", "")
    assert "turn.py" in files
    about = files.pop("__init__.py")
    assert "loop-basic" in about
    assert [name for name, text in files.items() if "loop-" in text or "amplifier_module" in text] == []
