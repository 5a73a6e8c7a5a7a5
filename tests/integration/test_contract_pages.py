"""The snippets of the contract's pages run as a module's author types them: modules, their tests, and commands."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from amplifier_core import AmplifierModuleLoader, ModuleLoadError
from amplifier_core.hooks import HookRegistry
from amplifier_core.interfaces import ContextManager, HookHandler, Orchestrator, Provider, Tool
from amplifier_core.models import HookResult
from amplifier_core.module_sources import ModuleNotFoundError as SourceNotFoundError
from amplifier_core.module_sources import ModuleSource
from amplifier_core.testing import (
    EventRecorder,
    MockContextManager,
    MockProvider,
    MockTool,
    ScriptedOrchestrator,
    TestCoordinator,
    create_test_coordinator,
)

from integration.command_line import paddock
from integration.conftest import OpenSession, WriteModule
from integration.contract_pages import MODULES
from integration.probe import entry_of
from paddock_sources.builtin import BuiltinSource

_KEY = {"api_key": "test-key"}


def typed(kind: str) -> Any:
    """Return the names of a module's only file, as a test of its author imports them."""
    names: dict[str, Any] = {"__name__": f"of_the_{kind}"}
    exec("if True:\n" + MODULES[kind][1], names)
    return SimpleNamespace(**names)


def entries() -> dict[str, dict[str, Any]]:
    """Return an entry of a plan for each kind."""
    made = {kind: entry_of(name, code) for kind, (name, code) in MODULES.items()}
    made["provider"]["config"] = _KEY
    return made


# -- modules in a session --------------------------------------------------------------------


async def test_a_module_of_each_kind_plays_its_part_in_a_turn(open_session: OpenSession) -> None:
    written = entries()
    heard: dict[str, list[dict[str, Any]]] = {}

    def note(event: str, data: dict[str, Any]) -> None:
        heard.setdefault(event, []).append(data)

    async with open_session(
        tools=[written["tool"]],
        hooks=[written["hook"]],
        providers=[written["provider"]],
        orchestrator=written["orchestrator"],
        context=written["context"],
    ) as session:
        for event in ("session:start", "session:end", "provider:request", "tool:pre", "tool:post"):
            session.coordinator.hooks.register(event, note)
        # A hook's feedback comes between a call and its result, as the page's loop stores it.
        assert await session.execute("12345") == "It has 5."
        assert await session.execute("/etc/passwd") == "It has Access denied."
        context = session.coordinator.get_mounted("context")
        stored = await context.get_messages()
        announced = await session.coordinator.collect_contributions("observability.events")
    assert [message["role"] for message in stored[:4]] == ["user", "assistant", "system", "tool"]
    assert stored[4]["content"][0].signature == "sig_abc"
    assert ["my-tool:started"] in announced
    [start], [end] = heard["session:start"], heard["session:end"]
    assert start["config"]["providers"][0]["config"] == {"api_key": "[REDACTED]"}
    assert (end["stats"]["turns"], end["stats"]["tool_calls"]) == (2, 2)
    assert heard["provider:request"][0]["messages"] == [{"role": "user", "content": "12345"}]
    # A model in an event's data is its text, as in the published kernel.
    assert [data["tool_result"] for data in heard["tool:post"]] == ["5"]


@pytest.mark.difference(
    "the shipped loops, `call` and `why` find a tool that is mounted as another by its own name too"
)
async def test_a_tool_is_found_by_its_own_name_as_by_the_mounted_one(
    open_session: OpenSession, write_module: WriteModule, tmp_path: Path
) -> None:
    source = write_module("my-tool", MODULES["tool"][1])
    called = [{"name": name, "arguments": {"text": "four"}} for name in ("my_tool", "my-tool")]
    provider = {"module": "provider-mock", "config": {"responses": [{"tool_calls": called}, "{last_tool_result}"]}}
    judged: list[str] = []
    counted: list[dict[str, Any]] = []
    async with open_session(
        tools=[{"module": "my-tool", "source": source}],
        providers=[{**provider, "permissions": {}}],
        orchestrator={"module": "loop-basic", "permissions": {}},
    ) as session:
        session.coordinator.hooks.register("tool:pre", lambda event, data: judged.append(data["tool_name"]))
        session.coordinator.hooks.register("session:end", lambda event, data: counted.append(data["stats"]))
        assert await session.execute("count") == "4"
    assert (counted[0]["tool_calls"], counted[0]["requests"]) == (2, 2) and counted[0]["input_tokens"] > 0
    assert judged == ["my-tool", "my-tool"]
    for name in ("my_tool", "my-tool"):
        done = paddock("call", source, name, '{"text": "four"}', "--json")
        assert json.loads(done.stdout)["output"] == 4, done.stderr
        asked = ["my-tool", "call", f"tools:{name}", "--session", session.session_id, "--json"]
        told = json.loads(paddock("why", *asked).stdout)
        assert told["target"] == "tools:my-tool" and "tools:my-tool" in told["grant"]


@pytest.mark.exhaustive
@pytest.mark.difference("listings of the working directory have `paddock.lock`, beside a plan that is a file")
def test_a_tool_that_lists_the_folder_of_a_plan_finds_the_lock_file(tmp_path: Path) -> None:
    plan = {
        "session": {"orchestrator": "loop-basic", "context": "context-simple"},
        "providers": [
            {
                "module": "provider-mock",
                "config": {
                    "responses": [
                        {"tool_calls": [{"name": "glob", "arguments": {"pattern": "*"}}]},
                        "{last_tool_result}",
                    ]
                },
            }
        ],
        "tools": [{"module": "tool-search", "permissions": {"read": ["."]}}],
    }
    (tmp_path / "plan.yaml").write_text(json.dumps(plan))
    done = paddock("run", "--trust-plan", "plan.yaml", "what is here?", cwd=tmp_path)
    assert "plan.yaml" in done.stdout and "paddock.lock" in done.stdout, done.stderr


@pytest.mark.exhaustive("provider", "hook", "orchestrator")
@pytest.mark.parametrize("kind", MODULES)
def test_the_pages_command_finds_a_module_valid(kind: str, write_module: WriteModule) -> None:
    name, code = MODULES[kind]
    if kind == "provider":  # it declines without a key, and the command has none to give it
        code = code.replace("if not api_key:", "if False:")
    done = paddock("module", "validate", write_module(name, code), "--type", kind)
    assert done.returncode == 0, done.stdout + done.stderr


# -- tests of modules, in one process --------------------------------------------------------


async def test_a_tool_is_tested_by_itself() -> None:
    tool = typed("tool").Counter(config={})
    result = await tool.execute({"text": "value"})
    assert result.success and result.error is None
    assert (await tool.execute({})).error == {"message": "text is required"}
    assert (await typed("tool").Counter({"max_size": 1}).execute({"text": "long"})).error["type"] == "OverflowError"
    mock_tool = MockTool(name="test_tool", description="Test tool", return_value="mock result")
    assert (await mock_tool.execute({"a": 1})).output == "mock result"
    assert mock_tool.call_count == 1 and mock_tool.last_input == {"a": 1}


async def test_a_provider_is_tested_by_its_mount(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = create_test_coordinator()
    cleanup = await typed("provider").mount(coordinator, _KEY)
    assert "my-provider" in coordinator.get_mounted("providers")
    await cleanup()
    monkeypatch.delenv("MY_API_KEY", raising=False)
    assert await typed("provider").mount(TestCoordinator(), {}) is None


async def test_a_hook_is_tested_by_itself_and_by_its_registration() -> None:
    hook = typed("hook")
    result = await hook.guard("tool:pre", {"tool_name": "Write", "tool_input": {"file_path": "/etc/passwd"}})
    assert result.action == "deny" and "denied" in result.reason.lower()
    coordinator = TestCoordinator()
    cleanup = await hook.mount(coordinator, {})
    assert coordinator.hooks.list_handlers("tool:pre") == {"tool:pre": ["guard"]}
    cleanup()
    assert coordinator.hooks.list_handlers("tool:pre") == {"tool:pre": []}
    recorder = EventRecorder()
    await recorder.record("tool:pre", {"tool_name": "Write"})
    assert len(events := recorder.get_events()) == 1 and events[0][0] == "tool:pre"
    asked = HookResult(action="ask_user", approval_prompt="Allow write to production file?", approval_default="deny")
    assert asked.approval_default == "deny"


async def test_an_orchestrator_is_tested_with_mocks() -> None:
    context = MockContextManager()
    result = (
        await typed("orchestrator")
        .Loop(config={})
        .execute(
            prompt="Test prompt",
            context=context,
            providers={"test": MockProvider()},
            tools={"test_tool": MockTool()},
            hooks=HookRegistry(),
        )
    )
    assert isinstance(result, str) and len(context.messages) > 0
    scripted = ScriptedOrchestrator(responses=["Response 1", "Response 2"])
    assert await scripted.execute("p", context, {}, {}, EventRecorder()) == "Response 1"


async def test_a_context_keeps_pairs_together_and_its_history_whole() -> None:
    recorder = EventRecorder()
    context = typed("context").Memory(max_tokens=100, compaction_threshold=0.5, hooks=recorder)
    call = {"id": "call_123", "type": "function", "function": {"name": "read_file", "arguments": "{}"}}
    await context.add_message({"role": "user", "content": "Read file.txt"})
    for number in range(30):
        await context.add_message({"role": "user", "content": f"Message {number}"})
    await context.add_message({"role": "assistant", "content": None, "tool_calls": [call]})
    for _ in range(3):
        await context.add_message({"role": "tool", "tool_call_id": "call_123", "content": "File contents..."})
    shown = await context.get_messages_for_request()
    made = {one["id"] for message in shown for one in message.get("tool_calls", ())}
    assert {message["tool_call_id"] for message in shown if message["role"] == "tool"} <= made
    assert len(shown) < len(await context.get_messages()) == 35
    assert [event for event, _ in recorder.get_events()] == ["context:pre_compact", "context:post_compact"]
    await context.set_messages([{"role": "user", "content": "Previous conversation"}])
    assert (await context.get_messages())[0]["content"] == "Previous conversation"
    await context.clear()
    assert await context.get_messages() == []
    with pytest.raises(ValueError, match="role"):
        await context.add_message({})


def test_each_object_is_of_its_kind() -> None:
    made = {
        Tool: typed("tool").Counter({}),
        Provider: typed("provider").Echo("key", {}),
        HookHandler: typed("hook").guard,
        Orchestrator: typed("orchestrator").Loop({}),
        ContextManager: typed("context").Memory(1, 1),
    }
    for protocol, obj in made.items():
        assert isinstance(obj, protocol) and not isinstance(object(), protocol)
    assert getattr(made[Tool], "input_schema", {}) == {}


_BLOCKS = [
    {"type": "thinking", "thinking": "...", "signature": "sig_abc", "visibility": "internal"},
    {"type": "tool_call", "id": "call_1", "name": "search", "input": {"q": "x"}},
]


async def test_the_shipped_context_keeps_what_the_specification_says() -> None:
    coordinator, recorder = TestCoordinator(), EventRecorder()
    for event in ("context:pre_compact", "context:post_compact"):
        coordinator.hooks.register(event, recorder.record)
    folder = BuiltinSource().resolve("context-simple").root
    coordinator.mount(
        "module-source-resolver", SimpleNamespace(resolve=lambda id: SimpleNamespace(resolve=lambda: folder))
    )
    mount = await AmplifierModuleLoader(coordinator).load("context-simple", {"max_tokens": 50, "safety_margin": 0})
    await mount(coordinator)
    context = coordinator.get_mounted("context")
    messages = [
        {"role": "system", "content": "Be brief."},
        *({"role": "user", "content": f"Message {number}, " * 20} for number in range(8)),
        {"role": "assistant", "content": _BLOCKS},
        {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "tool_result", "output": "found"}]},
    ]
    for message in messages:
        await context.add_message(message)
    assert await context.get_messages() == messages
    assert await context.get_token_count() > 50
    shown = await context.get_messages_for_request()
    assert len(shown) < len(messages) and shown[0] == messages[0] and shown[-2:] == messages[-2:]
    (_, before), (_, after) = recorder.get_events()
    assert before["before_messages"] == len(messages) and before["strategy"]
    assert after["removed_messages"] == len(messages) - len(shown) and after["removed_tokens"] > 0
    assert (await context.compact())["after_messages"] == len(shown)


# -- where modules come from -----------------------------------------------------------------


@pytest.mark.difference("a module that does not keep to its contract raises a ModuleLoadError, a ModuleValidationError")
async def test_a_resolver_of_the_application_is_asked_by_the_loader(write_module: WriteModule) -> None:
    folders = {"my-tool": Path(write_module("my-tool", MODULES["tool"][1]))}
    hints: list[Any] = []

    class FileSource(ModuleSource):
        def __init__(self, path: Path) -> None:
            self.path = path

        def resolve(self) -> Path:
            return self.path

    class MyCustomResolver:
        def resolve(self, module_id: str, profile_hint: Any = None) -> ModuleSource:
            hints.append(profile_hint)
            if module_id not in folders:
                raise SourceNotFoundError(f"Module '{module_id}' was asked for here: {sorted(folders)}")
            return FileSource(folders[module_id])

    coordinator = TestCoordinator()
    coordinator.mount("module-source-resolver", MyCustomResolver())
    loader = AmplifierModuleLoader(coordinator)
    mount = await loader.load("my-tool", {}, profile_source="from the profile")
    await mount(coordinator)
    assert "my-tool" in coordinator.get_mounted("tools") and hints == ["from the profile"]
    with pytest.raises(SourceNotFoundError):
        await loader.load("my-other", {})
    broken = write_module("my-broken", "import nothing_of_this_name")
    folders["my-broken"] = Path(broken)
    with pytest.raises(ModuleLoadError, match="fails when it is imported"):
        await loader.load("my-broken")
    loader.cleanup()
