"""Importing a package for a while: what it leaves in the process, which is nothing of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock_sdk.validation.package_import import import_package, own_imports

from .module_source import module_at


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    modules = set(sys.modules)
    yield
    assert [name for name in set(sys.modules) - modules if "probe" in name or "beside" in name] == []


def test_a_package_is_importable_by_its_name_and_then_gone(tmp_path: Path) -> None:
    path = list(sys.path)
    package = module_at(tmp_path, "from amplifier_module_probe.part import value\nfrom .part import value as same\n")
    (package / "part.py").write_text("value = object()\n")
    with own_imports(package):
        module = import_package(package)
        assert module.value is module.same
        assert {"amplifier_module_probe", "amplifier_module_probe.part"} <= set(sys.modules)
    assert sys.path == path


def test_two_packages_of_one_name_are_two(tmp_path: Path) -> None:
    values = []
    for name in ("first", "second"):
        package = module_at(tmp_path / name, "from . import part\nimport beside_probe\n")
        (package / "part.py").write_text(f"value = {name!r}\n")
        (package.parent / "beside_probe.py").write_text(f"value = {name!r}\n")
        with own_imports(package):
            module = import_package(package)
            values.append((module.part.value, module.beside_probe.value))
    assert values == [("first", "first"), ("second", "second")]


def test_a_package_that_was_imported_before_comes_back_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = module_at(tmp_path, "marks = []\n")
    monkeypatch.syspath_prepend(tmp_path)
    import amplifier_module_probe as before  # type: ignore[import-not-found]

    try:
        with own_imports(package):
            assert import_package(package) is not before
        assert sys.modules["amplifier_module_probe"] is before
    finally:
        del sys.modules["amplifier_module_probe"]


def test_a_path_that_the_module_adds_for_itself_goes_with_it(tmp_path: Path) -> None:
    path = list(sys.path)
    package = module_at(
        tmp_path, "import sys, pathlib\nsys.path.append(str(pathlib.Path(__file__).parent / 'vendor'))\nimport beside\n"
    )
    (package / "vendor").mkdir()
    (package / "vendor" / "beside.py").touch()
    with own_imports(package):
        import_package(package)
        assert "beside" in sys.modules
    assert sys.path == path


def test_what_comes_from_elsewhere_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "dependency_of_it.py").touch()
    monkeypatch.syspath_prepend(elsewhere)
    package = module_at(tmp_path / "repository", "import dependency_of_it\n")
    with own_imports(package):
        import_package(package)
    assert sys.modules.pop("dependency_of_it")


def test_a_package_that_fails_half_way_is_gone_as_well(tmp_path: Path) -> None:
    package = module_at(tmp_path, "from . import part\n1 / 0\n")
    (package / "part.py").touch()
    with pytest.raises(ZeroDivisionError), own_imports(package):
        import_package(package)


def test_a_package_may_put_something_else_in_its_place(tmp_path: Path) -> None:
    package = module_at(tmp_path, "import sys, types\nsys.modules[__name__] = types.SimpleNamespace(value=1)\n")
    with own_imports(package):
        assert import_package(package).value == 1
