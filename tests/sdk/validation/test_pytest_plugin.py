"""The pytest plugin and the behavioural tests, as a module's author runs them: in a pytest of their own."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock_sources.builtin import BuiltinSource
from support.warm_pytest import WarmPytest

from .author_pytest import STAND_IN, Run, run_pytest, warm_pytest
from .module_source import REFERENCE, RIGHT, SYNCHRONOUS, repository_at

_CONTRACT_TESTS = {"tool": 7, "provider": 5, "hook": 7, "orchestrator": 6, "context": 10}
_STRICT_TESTS = {"tool": 3, "provider": 3, "hook": 5, "orchestrator": 3, "context": 4}
_TESTS = {kind: _CONTRACT_TESTS[kind] + _STRICT_TESTS[kind] for kind in _CONTRACT_TESTS}


def write_tests(repository: Path, kind: str, also: str = "") -> Path:
    """Write the tests by which an author has a module's behaviour and structure tested."""
    behavior, structure = f"{kind.capitalize()}BehaviorTests", f"{kind.capitalize()}StructuralTests"
    strict = f"Strict{kind.capitalize()}Tests"
    folder = repository / "tests"
    folder.mkdir(parents=True)
    (folder / "test_behavior.py").write_text(
        "import pytest\n"
        f"from amplifier_core.validation.behavioral import {behavior}\n"
        f"from amplifier_core.validation.structural import {structure}\n"
        f"from paddock_sdk.validation.behavioral import {strict}\n"
        f"class TestBehavior({behavior}):\n    pass\n"
        f"class TestStrict({strict}):\n    pass\n"
        f"class TestStructure({structure}):\n    pass\n{also}"
    )
    return repository


def files_of(kind: str) -> list[str]:
    validation = STAND_IN / "amplifier_core" / "validation"
    return [str(validation / flavour / f"test_{kind}.py") for flavour in ("behavioral", "structural")]


def counted(run: Run, folder: Path) -> Counter[str]:
    return Counter(outcome.word for outcome in run.of(folder))


@pytest.fixture(scope="module")
def process() -> Iterator[WarmPytest]:
    with warm_pytest() as process:
        yield process


@pytest.fixture(scope="module")
def right(process: WarmPytest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run over modules of every kind that are right: those that come with Paddock, and the smallest there are."""
    folder = tmp_path_factory.mktemp("right")
    for kind, name in REFERENCE.items():
        repository = folder / f"amplifier-module-{name}"
        found = BuiltinSource().resolve(name)
        others = {path.name for path in found.root.glob("amplifier_module_*")} - {found.package}
        left_out = shutil.ignore_patterns("tests", "__pycache__", *others)
        shutil.copytree(found.root, repository, ignore=left_out)
        write_tests(repository, kind)
        write_tests(repository_at(folder, kind, RIGHT[kind]), kind)
    return run_pytest(process, folder)


@pytest.mark.parametrize("word", ["reference", "smallest"])
@pytest.mark.parametrize("kind", _TESTS)
def test_a_module_that_is_right_passes_the_tests_its_author_inherits(kind: str, word: str, right: Run) -> None:
    stem = {"hook": "hooks", "orchestrator": "loop"}.get(kind, kind)
    name = REFERENCE[kind] if word == "reference" else f"{stem}-probe"
    counts = counted(right, Path(f"amplifier-module-{name}"))
    assert counts == Counter(passed=_TESTS[kind] + 1), right.output


_GET_INFO = "test_get_info_returns_valid_provider_info"

# The kind, what is changed in a module that is right, and the test that then fails with these words.
_WRONG = [
    ("tool", "return ToolResult", "return dict", "test_execute_returns_tool_result", "a ToolResult, not dict"),
    ("tool", "return ToolResult", "return input and dict", "test_execute_answers_an_empty_input", "not dict"),
    ("tool", 'description = "Probes."', 'description = ""', "test_tool_has_description", "`description` is empty"),
    ("tool", "return ToolResult", "input['x'] and ToolResult", "test_invalid_input_returns_error_result", "KeyError"),
    ("tool", '{"type": "object"}', "None", "test_input_schema_is_a_dict", "has to be a JSON schema"),
    ("tool", "async def execute", "def execute", "test_execute_is_asynchronous", "defined with `async def`"),
    ("tool", 'await coordinator.mount("tools", Tool())', "pass", "test_mount_succeeds", "mounted no tool"),
    ("tool", "async def mount", "x = y\nasync def mount", "test_mount_succeeds", "NameError"),
    ("tool", "async def execute", "def execute", "test_structural_validation", "tool_execute: `execute` has to"),
    ("provider", 'name = "probe"', "name = ''", "test_provider_has_name_attribute", "`name` is empty"),
    (
        "provider",
        "return ProviderInfo(",
        "return dict(",
        _GET_INFO,
        "a ProviderInfo, not dict",
    ),
    (
        "provider",
        'display_name="Probe"',
        'display_name=""',
        _GET_INFO,
        "`display_name`",
    ),
    ("provider", "return [ModelInfo(", "return [dict(", "test_list_models_lists_models", "ModelInfo objects, not dict"),
    ("provider", "async def complete", "def complete", "test_complete_is_asynchronous", "defined with `async def`"),
    ("provider", "return []", "return [1]", "test_an_answer_without_tool_calls_has_none", "found tool calls"),
    ("provider", "return []", "return None", "test_parse_tool_calls_returns_list", "a list, not NoneType"),
    ("hook", 'return HookResult(action="continue")', 'return "ok"', "test_handlers_answer_an_event", "no HookResult"),
    (
        "hook",
        "return HookResult",
        "return 3 if data is not None and 'prompt' not in data else HookResult",
        "test_handlers_answer_an_event_without_f",
        "no Hook",
    ),
    (
        "hook",
        "return HookResult",
        "return 3 if data is None else HookResult",
        "test_handlers_answer_an_event_without_data",
        "no Hook",
    ),
    ("hook", "return coordinator.hooks", "return lambda: 1 / 0; coordinator", "test_cleanup_does_not_raise", "ZeroDiv"),
    ("orchestrator", 'return "answered: " + prompt', "return 3", "test_execute_returns_string", "text, not int"),
    ("orchestrator", 'return "answered: " + prompt', 'return ""', "test_execute_returns_string", "nothing"),
    ("orchestrator", "return", "tools['test_tool']; return", "test_execute_does_without_tools", "KeyError"),
    ("orchestrator", "async def execute", SYNCHRONOUS, "test_execute_is_asynchronous", "defined with `async def`"),
    ("orchestrator", "return", "tools.pop('test_tool'); return", "test_execute_answers_again", "KeyError"),
    ("context", "self.messages.append(message)", "pass", "test_message_round_trip", "is not there"),
    ("context", "append(message)", "insert(0, message)", "test_messages_keep_their_order", "assert "),
    ("context", "self.messages = list(messages)", "pass", "test_messages_can_be_replaced", "Forget this."),
    (
        "context",
        "        self.messages = []\n\nasync",
        "        pass\n\nasync",
        "test_clear_removes_messages",
        "are left",
    ),
    (
        "context",
        "return list(self.messages)",
        "return tuple(self.messages)",
        "test_get_messages_never_returns_none",
        "not tuple",
    ),
    ("context", "token_budget=None, provider=None", "", "test_a_request_may_name_a_budget", "TypeError"),
]


_CHOOSE = """
def pytest_collection_modifyitems(items):
    names = {names}
    items[:] = [one for one in items if one.name.startswith(names[one.path.parents[2].name])]
"""


@pytest.fixture(scope="module")
def wrong(process: WarmPytest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run over all the wrong modules, each with its test alone; those of one kind are packages of one name."""
    folder = tmp_path_factory.mktemp("wrong")
    for number, (kind, old, new, _, _) in enumerate(_WRONG):
        assert old in RIGHT[kind], (kind, old)
        place = folder / f"case{number}"
        write_tests(repository_at(place, kind, RIGHT[kind].replace(old, new)), kind)
    names = {f"case{number}": name for number, (*_, name, _) in enumerate(_WRONG)}
    (folder / "conftest.py").write_text(_CHOOSE.format(names=names))
    return run_pytest(process, folder, "--tb=short")


@pytest.mark.parametrize(
    ("number", "name", "words"), [(number, name, words) for number, (*_, name, words) in enumerate(_WRONG)]
)
def test_a_module_that_is_wrong_fails_the_test_that_says_so(number: int, name: str, words: str, wrong: Run) -> None:
    outcome = next(outcome for outcome in wrong.of(Path(f"case{number}")) if outcome.name.startswith(name))
    assert outcome.word in ("failure", "error") and words in outcome.text, outcome


@pytest.mark.exhaustive("package")
@pytest.mark.parametrize("place", ["repository", "package"])
def test_a_module_may_be_named_for_the_files_that_come_with_the_contracts(
    place: str, process: WarmPytest, tmp_path: Path
) -> None:
    repository = repository_at(tmp_path, "context", RIGHT["context"])
    path = repository if place == "repository" else repository / "amplifier_module_context_probe"
    run = run_pytest(process, tmp_path, *files_of("context"), f"--module-path={path.relative_to(tmp_path)}")
    assert Counter(outcome.word for outcome in run.outcomes) == {"passed": _CONTRACT_TESTS["context"] + 1}, run.output


def test_a_module_is_mounted_with_the_named_configuration(process: WarmPytest, tmp_path: Path) -> None:
    code = RIGHT["tool"].replace("Tool())", 'Tool(), name=config["as"])')
    tests = write_tests(repository_at(tmp_path, "tool", code), "tool")
    run = run_pytest(process, tests, '--module-config={"as": "loud"}')
    assert run.outcomes and {one.word for one in run.outcomes} == {"passed"}, run.output
    assert "`loud` is the name that it is mounted as, and its own name is `probe`" in run.output


def test_tests_without_a_module_are_skipped_with_the_reason(process: WarmPytest, tmp_path: Path) -> None:
    outside = write_tests(tmp_path / "outside", "tool")
    run = run_pytest(process, tmp_path)
    outcomes = run.of(outside)
    skipped = [one for one in outcomes if one.word == "skipped" and "there is no module here" in one.text]
    assert outcomes and skipped == outcomes, run.output


@pytest.mark.exhaustive
def test_tests_for_another_type_fail_but_for_the_contracts_own_files(process: WarmPytest, tmp_path: Path) -> None:
    other = write_tests(repository_at(tmp_path, "tool", RIGHT["tool"]), "context")
    own = run_pytest(process, other, *files_of("context"))
    words = "amplifier_module_tool_probe is of type tool, and this is for contexts"
    assert own.outcomes and all(one.word == "skipped" and words in one.text for one in own.outcomes), own.output
    inherited = run_pytest(process, other)
    assert {one.word for one in inherited.outcomes} == {"failure", "error"}, inherited.output


def test_a_module_of_no_known_type_is_taken_for_what_it_is_tested_as(process: WarmPytest, tmp_path: Path) -> None:
    untyped = tmp_path / "amplifier-module-thing"
    repository_at(tmp_path / "made", "hook", RIGHT["hook"]).rename(untyped)
    run = run_pytest(process, write_tests(untyped, "hook"))
    assert {one.word for one in run.outcomes} == {"passed"}, run.output


_FIXTURES = """
import inspect
from pathlib import Path
from amplifier_module_tool_probe import Tool, told
from amplifier_core import ChatRequest, Message, ModuleCoordinator

HERE = Path(__file__).parents[1]

def test_the_module_is_the_one_around(module_path, module_type, is_module_context):
    assert (module_path, module_type, is_module_context) == (HERE / "amplifier_module_tool_probe", "tool", True)

def test_the_coordinator_is_one_for_tests(coordinator):
    assert isinstance(coordinator, ModuleCoordinator) and coordinator.session_id == "test-session"

@pytest.mark.asyncio
async def test_what_an_orchestrator_needs_works(mock_deps):
    context, providers, tools, hooks = mock_deps
    await context.add_message({"role": "user", "content": "?"})
    assert await context.get_messages() == [{"role": "user", "content": "?"}]
    request = ChatRequest(messages=[Message(role="user", content="?")])
    response = await providers["default"].complete(request)
    assert response.content[0].text and providers["default"].parse_tool_calls(response) == []
    assert not hasattr(providers["default"], "stream")
    assert (await tools["test_tool"].execute({})).success
    assert (await hooks.emit("x", {})).action == "continue"

@pytest.mark.asyncio
async def test_the_tool_is_the_mounted_one_of_the_class_that_the_author_imports(tool_module, coordinator):
    assert type(tool_module) is Tool and coordinator.get("tools")["probe"] is tool_module
    told.clear()

def test_the_tool_was_cleaned_up_after_the_test():
    assert told == ["registered", "returned"] or told == ["returned", "registered"]

@pytest.mark.asyncio
@pytest.mark.module_validation
async def test_the_marker_is_known(tool_module):
    pass
"""


def test_the_fixtures_are_there_for_an_authors_own_tests(process: WarmPytest, tmp_path: Path) -> None:
    source = (
        RIGHT["tool"]
        + "    coordinator.register_cleanup(lambda: told.append('registered'))\n"
        + "    async def cleanup():\n        told.append('returned')\n"
        + "    return cleanup\n"
        + "told = []\n"
    )
    repository = write_tests(repository_at(tmp_path, "tool", source), "tool", _FIXTURES)
    run = run_pytest(process, repository, "-o", "pythonpath=.")
    assert {outcome.word for outcome in run.outcomes} == {"passed"}, run.output
    assert len(run.outcomes) == _TESTS["tool"] + 1 + _FIXTURES.count("def test_")


def test_a_hook_is_cleaned_up_once_whether_or_not_the_test_does_it(process: WarmPytest, tmp_path: Path) -> None:
    source = (
        "told = []\n"
        "async def mount(coordinator, config):\n"
        "    told.clear()\n"
        "    async def cleanup():\n        told.append(1)\n"
        "    return cleanup\n"
    )
    also = (
        "from amplifier_module_hooks_probe import told\n"
        "@pytest.fixture\n"
        "def after():\n    yield\n    assert told == [1]\n"
        "@pytest.mark.asyncio\n"
        "async def test_not_called(after, hook_cleanup):\n    assert told == []\n"
        "@pytest.mark.asyncio\n"
        "async def test_called(after, hook_cleanup):\n    await hook_cleanup()\n    assert told == [1]\n"
    )
    repository = write_tests(repository_at(tmp_path, "hook", source), "hook", also)
    run = run_pytest(process, repository, "-o", "pythonpath=.", "-k", "called")
    assert [outcome.word for outcome in run.outcomes if outcome.name.startswith("test_")] == ["passed"] * 2, run.output


@pytest.mark.exhaustive("not installed")
@pytest.mark.parametrize("how", ["not installed", "disabled"])
def test_a_missing_pytest_asyncio_is_named(how: str, process: WarmPytest, tmp_path: Path) -> None:
    also = "def test_of_the_author(coordinator):\n    assert coordinator.session_id\n"
    repository = write_tests(repository_at(tmp_path, "tool", RIGHT["tool"]), "tool", also)
    path = f"{STAND_IN}:{STAND_IN.parents[1]}"
    if how == "disabled":
        run = run_pytest(process, repository, "-p", "no:asyncio", path=path)
    else:
        (tmp_path / "absent").mkdir()
        (tmp_path / "absent" / "pytest_asyncio.py").write_text("raise ModuleNotFoundError(name='pytest_asyncio')\n")
        plugin = "amplifier_core.pytest_plugin"
        run = run_pytest(process, repository, "-p", plugin, path=f"{tmp_path / 'absent'}:{path}", autoload=False)
    words = {outcome.name: (outcome.word, "pip install pytest-asyncio" in outcome.text) for outcome in run.outcomes}
    assert words.pop("test_of_the_author") == ("passed", False), run.output
    assert len(words) == _TESTS["tool"] + 1 and set(words.values()) == {("error", True)}, run.output
