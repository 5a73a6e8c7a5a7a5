"""Modules that are right, and modules that are wrong in one place each, for validators and inherited tests."""

from __future__ import annotations

from typing import Final

from sdk.validation.module_source import RIGHT

__all__ = ["MODULES"]

_MOUNTED: Final = {
    "tool": 'await coordinator.mount("tools", Tool())',
    "provider": 'await coordinator.mount("providers", Provider())',
    "hook": 'return coordinator.hooks.register("tool:pre", handle, name="probe")',
    "orchestrator": 'await coordinator.mount("orchestrator", Orchestrator())',
    "context": 'await coordinator.mount("context", Context())',
}
_READY: Final = "\n\n{} on_session_ready({}):\n    pass\n"
_SYNCHRONOUS: Final = "def execute(self, prompt, context, providers, tools, hooks): pass\n    async def run"
_CLASS: Final = "class Context:\n    "
_OTHER: Final = "class Other:\n    name = 'other'\n\n"

# A kind, what is wrong, and the text that is replaced with another.
_CHANGES: Final[list[tuple[str, str, str, str]]] = [
    ("tool", "cannot be imported", "class Tool", "import nothing_of_this_name\nclass Tool"),
    ("tool", "cannot be parsed", "class Tool", "class Tool("),
    ("tool", "no mount", "async def mount", "async def install"),
    ("tool", "a mount that cannot be called", "async def mount(coordinator, config=None)", "mount = 3\nasync def x()"),
    ("tool", "mount takes one argument", "(coordinator, config=None)", "(coordinator)"),
    ("tool", "mount takes a keyword", "(coordinator, config=None)", "(coordinator, *, config=None)"),
    ("tool", "mount takes anything", "(coordinator, config=None):", "(*args):\n    coordinator = args[0]"),
    (
        "tool",
        "a synchronous mount",
        f"async def mount(coordinator, config=None):\n    {_MOUNTED['tool']}",
        "def mount(c, d): 1",
    ),
    ("tool", "mount raises", "    await coordinator.mount", "    raise OSError('no')\n    await coordinator.mount"),
    ("tool", "nothing is mounted", _MOUNTED["tool"], "pass"),
    ("tool", "a number is returned", _MOUNTED["tool"], "return 3"),
    ("tool", "it is returned, not mounted", _MOUNTED["tool"], "return Tool()"),
    ("tool", "a cleanup function and no tool", _MOUNTED["tool"], "return print"),
    ("tool", "no description", '    description = "Probes."', ""),
    ("tool", "an empty description", '"Probes."', '""'),
    ("tool", "a blank description", '"Probes."', '" "'),
    ("tool", "a description that is a number", '"Probes."', "3"),
    ("tool", "a description that raises", '"Probes."', "property(lambda self: 1 / 0)"),
    ("tool", "no schema", '    input_schema = {"type": "object"}', ""),
    ("tool", "a schema that is a list", '{"type": "object"}', "[]"),
    ("tool", "a schema that raises", '{"type": "object"}', "property(lambda self: 1 / 0)"),
    ("tool", "a synchronous execute", "    async def execute", "    def execute"),
    ("tool", "execute takes nothing", "execute(self, input)", "execute(self)"),
    ("tool", "execute takes anything", "execute(self, input)", "execute(self, *args)"),
    ("tool", "execute is no method", "    async def execute(self, input):", "    execute = 3\n    def x(self):"),
    ("tool", "no execute", "async def execute", "async def run"),
    ("tool", "execute returns a dict", "return ToolResult", "return dict"),
    ("tool", "execute raises ValueError", "return ToolResult", "raise ValueError(1)\n        return ToolResult"),
    ("tool", "execute needs a key", "return ToolResult", "input['key']\n        return ToolResult"),
    ("tool", "a blank name", 'name = "probe"', 'name = " "'),
    ("tool", "another object is mounted, too", "class Tool", f"{_OTHER}class Tool"),
    ("tool", "a synchronous on_session_ready", "Tool())", "Tool())" + _READY.format("def", "coordinator")),
    ("tool", "an on_session_ready for nobody", "Tool())", "Tool())" + _READY.format("async def", "")),
    ("tool", "an on_session_ready", "Tool())", "Tool())" + _READY.format("async def", "coordinator")),
    ("tool", "mounted when ready", _MOUNTED["tool"], "pass" + _READY.format("async def", "coordinator")),
    ("provider", "no name", '    name = "probe"', "    name = ''"),
    ("provider", "a name that raises", '    name = "probe"', "    name = property(lambda self: 1 / 0)"),
    ("provider", "no get_info", "def get_info", "def about"),
    ("provider", "an asynchronous get_info", "    def get_info", "    async def get_info"),
    ("provider", "get_info returns a dict", "return ProviderInfo(", "return dict("),
    ("provider", "get_info raises", "return ProviderInfo(", "raise OSError(1)\n        return ProviderInfo("),
    ("provider", "no display name", 'display_name="Probe"', 'display_name=""'),
    ("provider", "a synchronous list_models", "async def list_models", "def list_models"),
    ("provider", "list_models raises", "return [ModelInfo(", "raise OSError(1)\n        return [ModelInfo("),
    ("provider", "models that are dicts", "return [ModelInfo(", "return [dict("),
    ("provider", "a synchronous complete", "async def complete", "def complete"),
    ("provider", "complete takes nothing", "complete(self, request, **kwargs)", "complete(self)"),
    ("provider", "no parse_tool_calls", "def parse_tool_calls", "def parse"),
    ("provider", "an asynchronous parse_tool_calls", "def parse_tool_calls", "async def parse_tool_calls"),
    ("provider", "tool calls where there are none", "return []", "return [1]"),
    ("provider", "tool calls that are None", "return []", "return None"),
    ("provider", "nothing is mounted", _MOUNTED["provider"], "pass"),
    ("hook", "no handler", _MOUNTED["hook"], "pass"),
    ("hook", "no handler and a cleanup function", _MOUNTED["hook"], "return lambda: None"),
    ("hook", "no handler and a builtin", _MOUNTED["hook"], "return print"),
    ("hook", "a number is returned", "return coordinator", "coordinator"),
    ("hook", "mount raises", _MOUNTED["hook"], "raise OSError(1)"),
    ("hook", "an answer that is none", 'HookResult(action="continue")', "'ok'"),
    ("hook", "a cleanup that raises", _MOUNTED["hook"], "return lambda: 1 / 0"),
    ("hook", "an asynchronous cleanup", _MOUNTED["hook"], "async def clean(): pass\n    return clean"),
    ("orchestrator", "a synchronous execute", "async def execute", _SYNCHRONOUS),
    ("orchestrator", "execute takes three", "context, providers, tools, hooks, **kwargs", "context, providers"),
    ("orchestrator", "execute takes anything", "prompt, context, providers, tools, hooks, **kwargs", "**kwargs"),
    ("orchestrator", "no message is kept", 'await context.add_message({"role": "user", "content": prompt})', "pass"),
    ("orchestrator", "no execute", "async def execute", "async def run"),
    ("orchestrator", "nothing is mounted", _MOUNTED["orchestrator"], "pass"),
    ("orchestrator", "a number is answered", 'return "answered: " + prompt', "return 3"),
    ("orchestrator", "nothing is answered", 'return "answered: " + prompt', 'return ""'),
    ("orchestrator", "execute raises KeyError", 'return "answered: " + prompt', "raise KeyError(1)"),
    ("orchestrator", "execute raises ValueError", 'return "answered: " + prompt', "raise ValueError(1)"),
    ("context", "nothing is mounted", _MOUNTED["context"], "pass"),
    ("context", "it is returned, not mounted", _MOUNTED["context"], "return Context()"),
    ("context", "no clear", "async def clear", "async def empty"),
    ("context", "a synchronous clear", "async def clear", "def clear"),
    ("context", "messages are lost", "self.messages.append(message)", "pass"),
    ("context", "messages are turned round", "append(message)", "insert(0, message)"),
    ("context", "clear forgets nothing", "        self.messages = []\n\nasync", "        pass\n\nasync"),
    ("context", "messages are a tuple", "return list(self.messages)", "return tuple(self.messages)"),
    ("context", "no budget", "token_budget=None, provider=None", ""),
    ("context", "add_message takes nothing", "add_message(self, message)", "add_message(self)"),
    ("context", "messages have to have a role", "append(message)", "append({**message, 'r': message['role']})"),
    ("context", "messages have to have text", "append(message)", "append(message['content'].strip() and message)"),
    (
        "context",
        "compacting says a number",
        "class Context:",
        f"{_CLASS}def _should_compact(self): return 1\n",
    ),
    ("context", "compacting fails", "class Context:", f"{_CLASS}def _compact_internal(self): self.x\n"),
    (
        "context",
        "compacting refuses",
        "class Context:",
        f"{_CLASS}async def _compact_internal(self): 1 / 0\n",
    ),
    (
        "context",
        "compacting takes two",
        "class Context:",
        f"{_CLASS}def _should_compact(self, a, b): return 1\n",
    ),
]


def _changed(kind: str, old: str, new: str) -> str:
    assert old in RIGHT[kind], (kind, old)
    return RIGHT[kind].replace(old, new)


MODULES: Final[dict[str, tuple[str, str]]] = {
    **{f"{kind}: right": (kind, source) for kind, source in RIGHT.items()},
    **{f"{kind}: {what}": (kind, _changed(kind, old, new)) for kind, what, old, new in _CHANGES},
}
