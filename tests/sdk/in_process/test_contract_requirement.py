"""Which requirements on the contracts are met, and what a module that wants more is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock_sdk.in_process.module_code import CONTRACT_VERSION, unmet_contract_requirement
from paddock_sdk.in_process.module_loader import ModuleLoader
from paddock_sdk.kernel.loading import ModuleValidationError
from paddock_sdk.testing import MockCoordinator
from sdk.in_process.conftest import Resolver, WriteModule
from support.rows import each_row

MET = [
    "amplifier-core",
    "amplifier-core>=1.0.0",
    "amplifier_core >= 2",
    "Amplifier.Core==2.0.2",
    "amplifier-core~=2.0",
    "amplifier-core (<3,>=2)",
    # Older contracts are served by the newest one.
    "amplifier-core<2",
    "amplifier-core==1.*",
    "amplifier-core>1.5,<1.6",
    "amplifier-core==1.2.3",
    "amplifier-core<1",
    "amplifier-core!=2.0.2",
    # A repository names no version.
    "amplifier-core @ git+https://github.com/microsoft/amplifier-core@main",
    # Not for here, or not on the contracts at all.
    "amplifier-core>=3; python_version < '3.0'",
    "amplifier-core>=3; extra == 'future'",
    "amplifier-core-extras>=9",
    "amplifier-core2>=9",
    "not-amplifier-core>=9",
    "amplifier-core>=>=3",
]
UNMET = [
    "amplifier-core>=3",
    "amplifier-core>2.0.2",
    "amplifier-core==2.0.3",
    "amplifier-core~=2.1",
    "amplifier_core[wasm]>=3.0.0rc1",
    "Amplifier.Core >= 2.1, < 4",
    "amplifier-core==3.*",
    "amplifier-core>=3; python_version >= '3.11'",
]


@each_row("requirement", MET)
def test_what_some_known_version_satisfies_is_met(requirement: str) -> None:
    assert unmet_contract_requirement(["requests>=99", requirement]) is None


@each_row("requirement", UNMET)
def test_what_only_newer_versions_satisfy_is_named(requirement: str) -> None:
    assert unmet_contract_requirement(["amplifier-core", requirement, "x"]) == requirement


def test_the_version_that_is_offered_is_what_modules_compare_against() -> None:
    import amplifier_core

    assert amplifier_core.__version__ == CONTRACT_VERSION


@pytest.mark.parametrize("how", ["resolved", "in a folder of modules", "installed"])
async def test_a_module_for_a_newer_contract_is_refused_before_its_code_runs(
    write_module: WriteModule,
    coordinator: MockCoordinator,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
) -> None:
    folder = write_module("tool-new", "raise SystemExit('ran')", project='dependencies = ["amplifier-core>=3"]\n')
    if how == "resolved":
        coordinator.mount("module-source-resolver", Resolver(tool_new=folder))
    if how == "installed":
        info = folder / "amplifier_module_tool_new-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: amplifier-module-tool-new\nVersion: 1.0\nRequires-Dist: amplifier-core>=3\n"
        )
        monkeypatch.syspath_prepend(folder)
    loader = ModuleLoader(coordinator, [tmp_path] if how == "in a folder of modules" else None)
    with pytest.raises(ModuleValidationError) as caught:
        await loader.load("tool-new")
    assert "'tool-new' asks for a version of the module contracts that is not known" in str(caught.value)
    assert "`amplifier-core>=3`, and there is amplifier-core 2.0.2" in str(caught.value)
    assert caught.value.reason_code == "invalid_module_metadata"
