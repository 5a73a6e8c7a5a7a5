"""No grant reaches modules' code, what Paddock runs from, or what its session needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.isolation.fixed_paths import FixedPaths
from paddock.plan.problems import NotAcceptedError
from paddock.policy.path_walk import GrantedPath
from paddock_sources import Resolution

from ..policy.entries import module_at, owner


def granted(path: Path) -> GrantedPath:
    path.mkdir(parents=True, exist_ok=True)
    return GrantedPath.resolve(str(path), path, owner())


def refusal(fixed: FixedPaths, path: Path, *, by_mounts: bool = True) -> str | None:
    try:
        fixed.refuse(granted(path), by_mounts=by_mounts)
    except NotAcceptedError as error:
        return error.problem
    return None


@pytest.mark.parametrize("src", [False, True])
def test_a_modules_code_is_not_granted_to_it_and_a_folder_beside_it_is(src: bool, tmp_path: Path) -> None:
    own = module_at(tmp_path / "tool", src=src)
    fixed = FixedPaths.of(own, (), (), ())
    for path in {own.root, own.import_root, own.package_dir, own.package_dir / "data"}:
        assert "is the code of module `tool-x`" in (refusal(fixed, path) or "")
    assert refusal(fixed, own.root / "out") is None
    assert refusal(fixed, own.root / "out", by_mounts=False) is None


@pytest.mark.parametrize("src", [False, True])
def test_a_package_that_modules_of_a_project_share_is_not_granted(src: bool, tmp_path: Path) -> None:
    own = module_at(tmp_path / "tool", src=src)
    shared = own.import_root / "shared"
    shared.mkdir()
    (shared / "__init__.py").touch()
    fixed = FixedPaths.of(own, (), (), ())
    for path in (shared, shared / "data"):
        assert "is the code of module `tool-x`" in (refusal(fixed, path) or "")


def test_another_modules_code_is_no_different(tmp_path: Path) -> None:
    own, other = module_at(tmp_path / "own"), module_at(tmp_path / "other")
    fixed = FixedPaths.of(own, (own, other), (), ())
    assert refusal(fixed, other.root) is not None
    assert fixed.inside([tmp_path]) == [own.root, other.root]


def test_a_package_that_is_its_own_root_is_all_there_is_of_its_module(tmp_path: Path) -> None:
    package = tmp_path / "amplifier_module_tool_x"
    package.mkdir()
    (package / "__init__.py").touch()
    own = Resolution("tool-x", str(package), package, package.name, package, tmp_path, "tool")
    fixed = FixedPaths.of(own, (), (), ())
    assert fixed.codes[0].root == package
    assert refusal(fixed, package / "data") is not None
    assert refusal(fixed, tmp_path) is None
    assert refusal(fixed, tmp_path, by_mounts=False) is not None


def test_paddocks_and_the_sessions_own_folders_are_refused(tmp_path: Path) -> None:
    own = module_at(tmp_path / "tool")
    fixed = FixedPaths.of(own, (), [tmp_path / "venv"], [tmp_path / "plans"])
    assert "which Paddock runs from" in (refusal(fixed, tmp_path / "venv" / "lib") or "")
    assert "which the session depends on" in (refusal(fixed, tmp_path / "plans") or "")
    assert refusal(fixed, tmp_path / "work") is None


def test_a_grant_around_it_leaves_it_out_or_is_refused(
    tmp_path: Path,
) -> None:
    own = module_at(tmp_path / "work" / "tool")
    fixed = FixedPaths.of(own, (), [tmp_path / "work" / ".venv", tmp_path / "other"], ())
    assert refusal(fixed, tmp_path / "work") is None
    assert fixed.inside([tmp_path / "work"]) == [own.root, tmp_path / "work" / ".venv"]
    said = refusal(fixed, tmp_path / "work", by_mounts=False)
    assert said is not None and f"holds `{own.root}`" in said
