"""Modules of every kind as source text: one that is right, to be made wrong in one place at a time."""

from __future__ import annotations

from pathlib import Path

__all__ = ["REFERENCE", "RIGHT", "SYNCHRONOUS", "module_at", "repository_at"]

REFERENCE = {
    "provider": "provider-mock",
    "tool": "tool-filesystem",
    "hook": "hooks-logging",
    "orchestrator": "loop-basic",
    "context": "context-simple",
}
SYNCHRONOUS = "def execute(self, prompt, context, providers, tools, hooks): pass\n    async def run"

RIGHT = {
    "tool": """
from amplifier_core.models import ToolResult

class Tool:
    name = "probe"
    description = "Probes."
    input_schema = {"type": "object"}

    async def execute(self, input):
        return ToolResult(output="probed")

async def mount(coordinator, config=None):
    await coordinator.mount("tools", Tool())
""",
    "provider": """
from amplifier_core.models import ModelInfo, ProviderInfo

class Provider:
    name = "probe"

    def get_info(self):
        return ProviderInfo(id="probe", display_name="Probe")

    async def list_models(self):
        return [ModelInfo(id="one", display_name="One", context_window=1, max_output_tokens=1)]

    async def complete(self, request, **kwargs):
        raise NotImplementedError

    def parse_tool_calls(self, response):
        return []

async def mount(coordinator, config=None):
    await coordinator.mount("providers", Provider())
""",
    "hook": """
from amplifier_core.models import HookResult

async def handle(event, data):
    return HookResult(action="continue")

async def mount(coordinator, config=None):
    return coordinator.hooks.register("tool:pre", handle, name="probe")
""",
    "orchestrator": """
class Orchestrator:
    async def execute(self, prompt, context, providers, tools, hooks, **kwargs):
        await context.add_message({"role": "user", "content": prompt})
        return "answered: " + prompt

async def mount(coordinator, config=None):
    await coordinator.mount("orchestrator", Orchestrator())
""",
    "context": """
class Context:
    def __init__(self):
        self.messages = []

    async def add_message(self, message):
        self.messages.append(message)

    async def get_messages_for_request(self, token_budget=None, provider=None):
        return list(self.messages)

    async def get_messages(self):
        return list(self.messages)

    async def set_messages(self, messages):
        self.messages = list(messages)

    async def clear(self):
        self.messages = []

async def mount(coordinator, config=None):
    await coordinator.mount("context", Context())
""",
}


def module_at(folder: Path, source: str, name: str = "amplifier_module_probe") -> Path:
    """Write a package and return its folder."""
    package = folder / name
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(source, "utf-8")
    return package


def repository_at(folder: Path, kind: str, source: str) -> Path:
    """Write a module as its repository is laid out, and return the repository."""
    word = {"orchestrator": "loop", "hook": "hooks"}.get(kind, kind)
    repository = folder / f"amplifier-module-{word}-probe"
    module_at(repository, source, f"amplifier_module_{word}_probe")
    return repository
