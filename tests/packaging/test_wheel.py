"""The wheel holds everything an installed Paddock needs, and nothing that is only for its makers."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=_ROOT,
        check=True,
        capture_output=True,
        timeout=60,
    )
    (wheel,) = folder.glob("*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


@pytest.mark.parametrize(
    "name",
    [
        "paddock/kernel/session.py",
        "paddock/demo/plan.yaml",
        "paddock_sandbox/lockdown.py",
        "paddock_sdk/worker/main.py",
        "paddock_sdk/stand_in/amplifier_core/__init__.py",
        "paddock_sources/resolver.py",
        "paddock_sources/builtin/loop-basic/pyproject.toml",
        "paddock_sources/builtin/loop-basic/amplifier_module_loop_basic/__init__.py",
        "paddock/py.typed",
        "paddock_sdk/py.typed",
    ],
)
def test_the_wheel_holds_what_an_installation_needs(name: str, names: set[str]) -> None:
    assert name in names


def test_the_wheel_holds_each_reference_module_with_its_manifest(names: set[str]) -> None:
    for module in (_ROOT / "modules").glob("*/pyproject.toml"):
        module_id = module.parent.name
        package = f"amplifier_module_{module_id.replace('-', '_')}"
        wanted = {f"{module_id}/pyproject.toml", f"{module_id}/{package}/__init__.py", f"{module_id}/README.md"}
        assert {f"paddock_sources/builtin/{name}" for name in wanted} <= names


def test_the_wheel_puts_nothing_beside_its_own_packages(names: set[str]) -> None:
    tops = {name.split("/", 1)[0] for name in names if ".dist-info" not in name}
    assert tops == {"paddock", "paddock_sandbox", "paddock_sdk", "paddock_sources"}
