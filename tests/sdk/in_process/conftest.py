"""Small modules on disk, a resolver that knows them, and a process that forgets them after each test."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from paddock_sdk.contract.module_sources import ModuleNotFoundError as SourceNotFoundError
from paddock_sdk.contract.module_sources import ModuleSource
from paddock_sdk.testing import MockCoordinator

WriteModule = Callable[..., Path]


TOOL = """
    from amplifier_core import ToolResult

    class Greeter:
        name = "greet"
        description = "Greets somebody."
        input_schema = {"type": "object", "properties": {}}

        def __init__(self, config):
            self.config = config

        async def execute(self, input):
            return ToolResult(output=f"{self.config.get('word', 'hello')}, {input.get('who', 'you')}")

    async def mount(coordinator, config=None):
        await coordinator.mount("tools", Greeter(config or {}))
"""


class Folder(ModuleSource):
    """Code that lies in a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def resolve(self) -> Path:
        return self.path


class Resolver:
    """Knows the folders of some modules; everything that it is asked is kept."""

    def __init__(self, **folders: Path) -> None:
        self.folders = {module_id.replace("_", "-"): path for module_id, path in folders.items()}
        self.asked: list[tuple[str, Any, Any]] = []

    def resolve(self, module_id: str, source_hint: Any = None, profile_hint: Any = None) -> Folder:
        self.asked.append((module_id, source_hint, profile_hint))
        if module_id not in self.folders:
            raise SourceNotFoundError(f"nobody has ever heard of {module_id}")
        return Folder(self.folders[module_id])


@pytest.fixture(autouse=True)
def _imports_are_forgotten() -> Iterator[None]:
    path, imported = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - imported:
        if name.startswith("amplifier_module_"):
            del sys.modules[name]


@pytest.fixture
def write_module(tmp_path: Path) -> WriteModule:
    """Write a module of one file as the community lays it out, and return the folder of its project."""

    def write(module_id: str, code: str = TOOL, *, at: Path = tmp_path, project: str = "", package: str = "") -> Path:
        folder = at / f"amplifier-module-{module_id}"
        inside = folder / (package or f"amplifier_module_{module_id.replace('-', '_')}")
        inside.mkdir(parents=True)
        (inside / "__init__.py").write_text(textwrap.dedent(code), "utf-8")
        (folder / "pyproject.toml").write_text(
            f'[project]\nname = "amplifier-module-{module_id}"\nversion = "1.5"\ndescription = "Does it."\n{project}',
            "utf-8",
        )
        return folder

    return write


@pytest.fixture
def coordinator() -> MockCoordinator:
    return MockCoordinator()
