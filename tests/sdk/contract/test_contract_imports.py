"""What importing a part of the contract brings in, seen from a fresh interpreter."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import paddock_sdk
from support.rows import each_row

_SDK = Path(paddock_sdk.__file__).parents[1]
_PROBE = "import importlib, json, sys; importlib.import_module(sys.argv[1]); print(json.dumps([*sys.modules]))"


def modules_after_importing(name: str) -> set[str]:
    """Return the modules a fresh interpreter holds once it has imported one."""
    answer = subprocess.run(
        [sys.executable, "-W", "error", "-c", _PROBE, name],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        env={"PYTHONPATH": str(_SDK)},
    )
    return set(json.loads(answer.stdout))


@each_row(
    "name",
    ["events", "llm_errors", "content_models", "approval", "module_sources", "capabilities"],
)
def test_a_plain_part_of_the_contract_does_not_bring_in_pydantic(name: str) -> None:
    loaded = modules_after_importing(f"paddock_sdk.contract.{name}")
    assert f"paddock_sdk.contract.{name}" in loaded
    assert "pydantic" not in loaded


def test_the_package_itself_brings_in_none_of_its_parts() -> None:
    loaded = modules_after_importing("paddock_sdk.contract")
    assert not [name for name in loaded if name.startswith("paddock_sdk.contract.")]


def test_the_models_bring_in_only_their_blocks_and_pydantic() -> None:
    loaded = modules_after_importing("paddock_sdk.contract.models")
    ours = {name for name in loaded if name.startswith("paddock_sdk.")}
    assert ours == {"paddock_sdk.contract", "paddock_sdk.contract.block_models", "paddock_sdk.contract.models"}
    assert "pydantic" in loaded
    assert "asyncio" not in loaded
