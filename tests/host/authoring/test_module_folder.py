"""Which module is at a path, and of which kind, without running any of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from failures import failing
from paddock.authoring.module_folder import ModuleFolder


def _write(root: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def _project(module_id: str, package: str) -> str:
    return (
        f'[project]\nname = "{module_id}"\nversion = "1"\n'
        f'[project.entry-points."amplifier.modules"]\n{module_id} = "{package}:mount"\n'
    )


@pytest.mark.parametrize("named", [".", "src/amplifier_module_tool_x"])
def test_a_repository_and_its_package_are_the_same_module(named: str, tmp_path: Path) -> None:
    package = "amplifier_module_tool_x"
    root = _write(
        tmp_path / "amplifier-module-tool-x",
        {"pyproject.toml": _project("tool-x", package), f"src/{package}/__init__.py": ""},
    )
    found = ModuleFolder.at(root / named)
    assert (found.root, found.package_dir, found.module_id) == (root, root / "src" / package, "tool-x")
    assert found.import_root == root / "src"


def test_of_two_packages_in_a_repository_the_one_that_is_named_is_meant(tmp_path: Path) -> None:
    files = {f"amplifier_module_tool_{name}/__init__.py": "" for name in "ab"}
    root = _write(tmp_path, {"pyproject.toml": '[project]\nname = "both"\nversion = "1"\n', **files})
    for name in "ab":
        found = ModuleFolder.at(root / f"amplifier_module_tool_{name}")
        assert (found.module_id, found.root) == (f"tool-{name}", root)


def test_a_package_with_nothing_around_it_is_a_module(tmp_path: Path) -> None:
    root = _write(tmp_path / "amplifier_module_tool_x", {"__init__.py": ""})
    found = ModuleFolder.at(root)
    assert (found.root, found.package_dir, found.import_root) == (root, root, tmp_path)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("provider-acme", "provider"),
        ("tool-x", "tool"),
        ("hooks-x", "hook"),
        ("loop-x", "orchestrator"),
        ("context-x", "context"),
        ("hooks-tool-guard", "hook"),
        ("my-tool-box", "tool"),
    ],
)
def test_the_name_tells_the_kind(name: str, kind: str, tmp_path: Path) -> None:
    package = f"amplifier_module_{name.replace('-', '_')}"
    root = _write(tmp_path / f"amplifier-module-{name}", {f"{package}/__init__.py": ""})
    assert ModuleFolder.at(root).kind() == kind
    assert ModuleFolder.at(root / package).kind() == kind


def test_the_kind_is_named_or_declared_or_read_from_the_name(tmp_path: Path) -> None:
    package = "amplifier_module_tool_x"
    root = _write(tmp_path / "tool-x", {f"{package}/__init__.py": '__amplifier_module_type__ = "context"\n'})
    found = ModuleFolder.at(root)
    assert (found.kind(), found.kind("hook")) == ("context", "hook")


def test_a_module_that_does_not_say_its_kind_is_asked_for_it(tmp_path: Path) -> None:
    root = _write(tmp_path / "greeter", {"amplifier_module_greeter/__init__.py": ""})
    with failing("KindUnknownError") as unknown:
        ModuleFolder.at(root).kind()
    assert unknown.value.exit_code == 1 and "`--type` takes tool, hook" in unknown.value.hints[0]


def test_a_resolver_is_no_module(tmp_path: Path) -> None:
    root = _write(tmp_path / "r", {"amplifier_module_r/__init__.py": '__amplifier_module_type__ = "resolver"\n'})
    with failing("ModulePathError", "it is a resolver"):
        ModuleFolder.at(root).kind()


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ("nothing", "no such file"),
        ("file", "it is no folder"),
        ("empty", "no package"),
        ("loop", "symbolic links|leads nowhere"),
        ("pyproject", "not TOML"),
    ],
)
def test_where_there_is_no_module_that_is_said(there: str, said: str, tmp_path: Path) -> None:
    place = tmp_path / "tool-x"
    match there:
        case "file":
            place.write_text("")
        case "empty":
            place.mkdir()
        case "loop":
            place.symlink_to(place)
        case "pyproject":
            _write(place, {"pyproject.toml": "[", "amplifier_module_tool_x/__init__.py": ""})
        case _:
            pass
    with failing("ModulePathError", said) as missing:
        ModuleFolder.at(place)
    assert missing.value.exit_code == 1
