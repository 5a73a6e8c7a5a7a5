"""Which modules people import, by what the documents show, and what a worker offers to the code in it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from typing import Any

from blackbox.commands import HERE, REPOSITORY, World

#: README, SECURITY, `sdk/PROTOCOL.md`, `host/docs`, `sdk/docs` and the contract's test classes name these.
DOCUMENTED = [
    "paddock",
    "paddock.batch",
    "paddock_sdk.contract",
    "paddock_sdk.kernel.emitter",
    "paddock_sdk.protocol",
    "paddock_sdk.testing",
    "paddock_sdk.validation",
    "paddock_sdk.validation.behavioral",
    "paddock_sdk.validation.structural",
    # Of the contract, what a worker does not offer, as it has no pytest.
    "amplifier_core.validation.behavioral",
    "amplifier_core.validation.structural",
]

_PROGRAM = """
import importlib, json, sys

from amplifier_core.cli import main
from blackbox.public_names import described

# Of a plugin of pytest only the names count: what a fixture is differs between its versions.
plugins = ("amplifier_core.pytest_plugin", "paddock.authoring.sandboxed_plugin")
named = {name: sorted(getattr(importlib.import_module(name), "__all__", ())) for name in plugins}
print(json.dumps({"modules": described(sys.argv[1:]), "plugins": named, "command line": callable(main)}))
"""

#: The contract's packages, as modules import them.
CONTRACT = [
    "amplifier_core",
    *(
        f"amplifier_core.{name}"
        for name in (
            "_async_compat",
            "_collect_helper",
            "_engine",
            "_session_exec",
            "_session_init",
            "approval",
            "cancellation",
            "capabilities",
            "content_models",
            "coordinator",
            "correlation",
            "display",
            "events",
            "hooks",
            "interfaces",
            "llm_errors",
            "loader",
            "message_models",
            "models",
            "module_sources",
            "retry",
            "session",
            "testing",
            "truncate",
            "utils",
            "utils.retry",
            "utils.truncate",
            "validation",
            "validation.base",
            "validation.context",
            "validation.hook",
            "validation.mount_plan",
            "validation.orchestrator",
            "validation.provider",
            "validation.tool",
        )
    ),
    "amplifier_foundation",
    "amplifier_foundation.spawn_utils",
    "amplifier_foundation.tracing",
    "paddock_sdk.kernel.emitter",
]
_TOOL = """
from importlib.metadata import version

from amplifier_core import ToolResult

from .public_names import described


class Names:
    name = "names"
    description = "Tells what can be imported here."
    input_schema = {"type": "object"}

    async def execute(self, input):
        found = described(input["modules"])
        found["version of amplifier-core"] = version("amplifier-core")
        return ToolResult(output=found)


async def mount(coordinator, config):
    await coordinator.mount("tools", Names())
"""


def documented() -> Any:
    """Return what the documents let people import, in a process of its own, where no test has set anything up."""
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    folders = [str(REPOSITORY / path) for path in settings["tool"]["pytest"]["ini_options"]["pythonpath"]]
    program = [sys.executable, "-c", _PROGRAM, *DOCUMENTED]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    done = subprocess.run(program, env=environ, capture_output=True, encoding="utf-8", timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def in_a_worker(world: World) -> Any:
    """Return what the contract's packages offer in a worker."""
    package = world.write("work/names/amplifier_module_tool_names/__init__.py", _TOOL).parent
    shutil.copy(HERE / "public_names.py", package)
    done = world.run("call", "./names", "names", json.dumps({"modules": CONTRACT}), "--json")
    assert done.code == 0, done.stdout
    return done.json["output"]
