"""Which module a test is about, where its repository has several."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock_sdk.validation.module_under_test import ModuleUnderTest

_KINDS = {"amplifier_module_first": "context", "amplifier_module_second": "hook"}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "amplifier-module-some"
    for name, kind in _KINDS.items():
        (root / name).mkdir(parents=True)
        (root / name / "__init__.py").write_text(f"__amplifier_module_type__ = {kind!r}\n")
    (root / "tests").mkdir()
    return root


@pytest.mark.parametrize(
    ("text", "package"),
    [
        ("from amplifier_module_second import mount\n", "amplifier_module_second"),
        ("import os, amplifier_module_second.inside as inside\n", "amplifier_module_second"),
        ("from . import amplifier_module_second\nfrom amplifier_module_first import x\n", "amplifier_module_first"),
        ("import pytest\n", "amplifier_module_first"),
        ("def (:\n", "amplifier_module_first"),
    ],
)
def test_a_test_is_about_the_package_that_it_imports(repository: Path, text: str, package: str) -> None:
    test = repository / "tests" / "test_it.py"
    test.write_text(text)
    found = ModuleUnderTest.around(test)
    assert found == ModuleUnderTest(repository / package, _KINDS[package])


def test_a_folder_is_about_the_first_of_them(repository: Path) -> None:
    found = ModuleUnderTest.around(repository / "tests")
    assert found is not None and found.package.name == "amplifier_module_first"
