"""What a module of each kind has to have: every check, met and missed."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

import anyio
import pytest

from paddock_sdk.validation import KINDS, ValidationCheck, ValidationResult, validator_for
from paddock_sources.builtin import BuiltinSource
from support.rows import each_row

from .module_source import REFERENCE, RIGHT, SYNCHRONOUS, module_at

_COMMON = ["module_importable", "mount_exists", "mount_signature", "protocol_compliance"]

_OF_KIND = {
    "tool": ["tool_name", "tool_description", "tool_input_schema", "tool_execute"],
    "provider": [
        "provider_name",
        "provider_get_info",
        "provider_list_models",
        "provider_complete",
        "provider_parse_tool_calls",
    ],
    "hook": [],
    "orchestrator": ["orchestrator_execute"],
    "context": [
        "context_add_message",
        "context_get_messages_for_request",
        "context_get_messages",
        "context_set_messages",
        "context_clear",
    ],
}


async def validated(kind: str, package: Path, **options: object) -> ValidationResult:
    with anyio.fail_after(60):
        return await validator_for(kind).validate(package, **options)  # type: ignore[arg-type]


def check_named(result: ValidationResult, name: str) -> ValidationCheck:
    [check] = [check for check in result.checks if check.name == name]
    return check


def changed(kind: str, old: str, new: str) -> str:
    assert old in RIGHT[kind]
    return RIGHT[kind].replace(old, new)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_module_that_is_right_passes_every_check_in_order(kind: str, tmp_path: Path) -> None:
    result = await validated(kind, module_at(tmp_path, RIGHT[kind]))
    assert [check.name for check in result.checks] == [*_COMMON, *_OF_KIND[kind]]
    assert all(check.passed and check.severity == "info" for check in result.checks), result.checks
    assert result.passed and result.module_type == kind


@each_row(("kind", "name"), REFERENCE.items())
async def test_the_modules_that_come_with_paddock_are_valid(kind: str, name: str) -> None:
    result = await validated(kind, BuiltinSource().resolve(name).package_dir)
    assert result.passed and not result.warnings, result.checks


# The kind, what is changed in a module that is right, and the check that then fails with these words.
_WRONG = [
    ("tool", RIGHT["tool"], "import nothing_of_this_name\n", "module_importable", "ModuleNotFoundError"),
    ("tool", RIGHT["tool"], "raise SystemExit(3)\n", "module_importable", "SystemExit: 3"),
    ("tool", RIGHT["tool"], "def mount(:\n", "module_importable", "SyntaxError"),
    ("tool", RIGHT["tool"], "x = 1\n", "mount_exists", "has no `mount`"),
    ("tool", RIGHT["tool"], "mount = 3\n", "mount_exists", "cannot be called"),
    ("tool", "mount(coordinator, config=None)", "mount(coordinator)", "mount_signature", "fewer than 2 parameters"),
    (
        "tool",
        "mount(coordinator, config=None)",
        "mount(coordinator, *, config=None)",
        "protocol_compliance",
        "mounting the module raised TypeError",
    ),
    ("tool", RIGHT["tool"], "def mount(coordinator, config=None): pass\n", "mount_signature", "not asynchronous"),
    (
        "tool",
        "    await coordinator.mount",
        "    raise OSError('no disk')\n    await coordinator.mount",
        "protocol_compliance",
        "OSError: no disk",
    ),
    ("tool", 'await coordinator.mount("tools", Tool())', "pass", "protocol_compliance", "No tool was mounted"),
    ("tool", 'await coordinator.mount("tools", Tool())', "return 3", "protocol_compliance", "and returned an int"),
    ("tool", '    name = "probe"', "", "protocol_compliance", "raised ValueError"),
    ("tool", '    description = "Probes."', "", "protocol_compliance", "has no `description`"),
    ("tool", '"Probes."', "property(lambda self: 1 / 0)", "protocol_compliance", "ZeroDivisionError"),
    ("tool", 'name = "probe"', "name = 3", "protocol_compliance", "raised TypeError"),
    ("tool", "    async def execute", "    def execute", "tool_execute", "not asynchronous"),
    ("tool", "execute(self, input)", "execute(self)", "tool_execute", "has 0 parameters"),
    (
        "tool",
        "    async def execute(self, input):",
        "    execute = 3\n    def x(self):",
        "protocol_compliance",
        "cannot be called",
    ),
    ("tool", "async def execute", "async def run", "protocol_compliance", "has no `execute`"),
    ("provider", '    name = "probe"', '    name = ""', "provider_name", "has to be a text that is not empty"),
    ("provider", "def get_info", "def about", "protocol_compliance", "has no `get_info`"),
    ("provider", "    def get_info", "    async def get_info", "provider_get_info", "not a coroutine"),
    (
        "provider",
        'return ProviderInfo(id="probe", display_name="Probe")',
        "return {}",
        "provider_get_info",
        "not a dict",
    ),
    ("provider", "async def list_models", "def list_models", "provider_list_models", "not asynchronous"),
    ("provider", "async def list_models", "async def models", "protocol_compliance", "has no `list_models`"),
    ("provider", "async def complete", "def complete", "provider_complete", "not asynchronous"),
    ("provider", "complete(self, request, **kwargs)", "complete(self)", "provider_complete", "has 0 parameters"),
    (
        "provider",
        "def parse_tool_calls",
        "def parse",
        "protocol_compliance",
        "has no `parse_tool_calls`",
    ),
    ("hook", "return coordinator.hooks.register", "raise OSError('no'); coordinator", "protocol_compliance", "OSError"),
    ("orchestrator", "async def execute", SYNCHRONOUS, "orchestrator_execute", "not asynchronous"),
    ("orchestrator", "tools, hooks, **kwargs", "tools", "orchestrator_execute", "has 4 parameters"),
    ("orchestrator", "async def execute", "async def run", "protocol_compliance", "has no `execute`"),
    (
        "orchestrator",
        'await coordinator.mount("orchestrator", Orchestrator())',
        "pass",
        "protocol_compliance",
        "was mounted",
    ),
    *(
        ("context", f"async def {method}", f"def {method}", f"context_{method}", "not asynchronous")
        for method in ("add_message", "get_messages_for_request", "set_messages", "clear")
    ),
    ("context", "async def get_messages(", "async def messages_(", "protocol_compliance", "has no `get_messages`"),
    ("context", "add_message(self, message)", "add_message(self)", "context_add_message", "has 0 parameters"),
    (
        "context",
        'await coordinator.mount("context", Context())',
        "pass",
        "protocol_compliance",
        "No context was mounted",
    ),
]


@pytest.mark.parametrize(("kind", "old", "new", "name", "words"), _WRONG)
async def test_a_module_that_is_wrong_fails_the_check_that_says_so(
    kind: str, old: str, new: str, name: str, words: str, tmp_path: Path
) -> None:
    result = await validated(kind, module_at(tmp_path, changed(kind, old, new)))
    check = check_named(result, name)
    assert not check.passed and check.severity == "error" and words in check.message, check
    assert check in result.errors and not result.passed


# As above, for what is worth a warning; the last column says whether the check counts as passed.
_DOUBTFUL = [
    ("tool", '"Probes."', "3", "tool_description", "not 3", False),
    ("tool", '{"type": "object"}', "[]", "tool_input_schema", "not list", False),
    (
        "tool",
        'await coordinator.mount("tools", Tool())',
        "return print",
        "protocol_compliance",
        "cleanup function",
        True,
    ),
    ("provider", 'return ProviderInfo(id="probe"', 'raise OSError("no"', "provider_get_info", "raised", False),
]


@pytest.mark.parametrize(("kind", "old", "new", "name", "words", "passed"), _DOUBTFUL)
async def test_a_module_that_is_doubtful_gets_a_warning_and_is_valid(
    kind: str, old: str, new: str, name: str, words: str, passed: bool, tmp_path: Path
) -> None:
    result = await validated(kind, module_at(tmp_path, changed(kind, old, new)))
    check = check_named(result, name)
    assert (check.severity, check.passed) == ("warning", passed) and words in check.message, check
    assert result.passed and result.warnings == ([] if passed else [check])


async def test_a_tool_that_is_returned_is_told_how_to_be_mounted(tmp_path: Path) -> None:
    source = changed("tool", 'await coordinator.mount("tools", Tool())', "return Tool()")
    result = await validated("tool", module_at(tmp_path, source))
    assert result.passed and "without mounting" in check_named(result, "protocol_compliance").message


@pytest.mark.parametrize("kind", ["tool", "provider"])
async def test_each_object_a_module_mounts_has_checks_of_its_own(kind: str, tmp_path: Path) -> None:
    point = f"{kind}s"
    other = "class Other:\n    name = ''\n"
    source = (
        f"{other}{RIGHT[kind]}"
        f"    coordinator.mount_points['{point}']['other'] = Other()\n"
        f"    coordinator.mount_points['{point}']['again'] = {kind.capitalize()}()\n"
    )
    result = await validated(kind, module_at(tmp_path, source))
    ends = [*_COMMON[3:], *_OF_KIND[kind]]
    assert [check.name for check in result.checks] == [*_COMMON[:3], *ends, "protocol_compliance", *ends]
    [error] = result.errors
    assert "Other" in error.message and kind.capitalize() not in error.message


async def test_a_single_file_is_a_module(tmp_path: Path) -> None:
    file = tmp_path / "tool_probe.py"
    file.write_text(RIGHT["tool"])
    result = await validated("tool", file)
    assert result.passed and [check.name for check in result.checks] == [*_COMMON, *_OF_KIND["tool"]]
    assert "tool_probe" not in sys.modules


async def test_an_installed_module_goes_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module_at(tmp_path, RIGHT["tool"], "amplifier_module_installed")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert (await validator_for("tool").validate("amplifier_module_installed")).passed
    del sys.modules["amplifier_module_installed"]


@pytest.mark.parametrize(
    ("call", "passes"),
    [
        ("async def __call__(self, event, data):", True),
        ("def __call__(self, event, data):", False),
        ("async def __call__(self, event):", False),
    ],
)
async def test_a_hook_that_is_returned_has_to_be_one(call: str, passes: bool, tmp_path: Path) -> None:
    source = f"class Hook:\n    {call}\n        pass\nasync def mount(coordinator, config):\n    return Hook()\n"
    result = await validated("hook", module_at(tmp_path, source))
    assert [check.name for check in result.checks] == [*_COMMON, "hook_call"]
    assert check_named(result, "hook_call").passed is passes is result.passed


async def test_a_hook_with_handlers_may_return_anything(tmp_path: Path) -> None:
    source = changed("hook", "return coordinator", "coordinator") + "    return object()\n"
    result = await validated("hook", module_at(tmp_path, source))
    assert result.passed and [check.name for check in result.checks] == _COMMON


@pytest.mark.parametrize(("definition", "valid"), [("async def", True), ("def", False)])
async def test_on_session_ready_is_told_of_when_it_is_not_asynchronous(
    definition: str, valid: bool, tmp_path: Path
) -> None:
    source = f"{RIGHT['tool']}\n{definition} on_session_ready(coordinator): pass\n"
    result = await validated("tool", module_at(tmp_path, source))
    names = [check.name for check in result.checks]
    assert names == [*_COMMON[:3], *([] if valid else ["on_session_ready_async"]), *_COMMON[3:], *_OF_KIND["tool"]]
    assert result.passed is valid


@pytest.mark.parametrize("place", ["__init__.py", "code.py"])
@pytest.mark.difference("a validator also checks an `on_session_ready` beside `mount` in another file")
async def test_on_session_ready_is_checked_beside_mount_and_in_the_package(place: str, tmp_path: Path) -> None:
    package = module_at(tmp_path, "from .code import mount\n")
    (package / "code.py").write_text(RIGHT["tool"])
    assert (await validated("tool", package)).passed
    with (package / place).open("a") as file:
        file.write("\ndef on_session_ready(coordinator): pass\n")
    result = await validated("tool", package)
    assert [check.name for check in result.errors] == ["on_session_ready_async"]


async def test_the_configuration_reaches_mount_as_a_copy(tmp_path: Path) -> None:
    source = changed("tool", 'await coordinator.mount("tools", Tool())', "raise ValueError(config.pop('key'))")
    package = module_at(tmp_path, source)
    config = {"key": "the value"}
    assert "ValueError: the value" in check_named(await validated("tool", package, config=config), _COMMON[3]).message
    assert config == {"key": "the value"}
    assert "KeyError" in check_named(await validated("tool", package), _COMMON[3]).message


@pytest.mark.parametrize(
    ("entry_point", "words"),
    [
        ("install", None),
        ("tool-probe", None),
        ("tool-elsewhere", None),
        ("tool-lost", "which cannot be imported"),
        ("tool-without", "has no `nothing`"),
        ("nothing", "declares no entry point of that name"),
    ],
)
@pytest.mark.difference("`entry_point` of a validator names the function that mounts the module")
async def test_an_entry_point_says_what_mounts_the_module(entry_point: str, words: str | None, tmp_path: Path) -> None:
    package = module_at(tmp_path, RIGHT["tool"].replace("def mount", "def install"))
    (package / "other.py").write_text(RIGHT["tool"])
    (tmp_path / "pyproject.toml").write_text(
        '[project.entry-points."amplifier.modules"]\n'
        'tool-probe = "amplifier_module_probe:install"\n'
        'tool-elsewhere = "amplifier_module_probe.other:mount"\n'
        'tool-lost = "amplifier_module_probe.lost:mount"\n'
        '[project.entry-points."amplifier.tools"]\n'
        'tool-without = "amplifier_module_probe:nothing"\n'
    )
    assert not (await validated("tool", package)).passed
    result = await validated("tool", package, entry_point=entry_point)
    assert result.passed is (words is None)
    assert words is None or words in check_named(result, "mount_exists").message


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("nowhere", "does not exist"),
        ("file.txt", "is no Python file"),
        ("empty", "has no `__init__.py`"),
        (".", "give {folder}/amplifier_module_probe"),
    ],
)
async def test_a_path_that_is_no_package_is_told_with_what_to_give_instead(
    path: str, words: str, tmp_path: Path
) -> None:
    module_at(tmp_path, RIGHT["tool"])
    (tmp_path / "file.txt").touch()
    (tmp_path / "empty").mkdir()
    result = await validated("tool", tmp_path / path)
    [check] = result.checks
    assert check.name == "module_importable" and words.format(folder=tmp_path) in check.message


async def test_what_was_mounted_is_cleaned_up_whether_or_not_it_is_valid(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told = tmp_path / "told"
    source = (
        "from pathlib import Path\n"
        "def tell(what):\n"
        f"    with Path({str(told)!r}).open('a') as file: file.write(what)\n"
        "async def mount(coordinator, config):\n"
        "    coordinator.register_cleanup(lambda: tell('registered '))\n"
        "    async def cleanup(): tell('returned ')\n"
        "    return cleanup\n"
    )
    await validated("tool", module_at(tmp_path, source))
    assert told.read_text() == "returned registered "
    await validated("tool", module_at(tmp_path / "failing", source.replace("    return cleanup", "    1 / 0")))
    assert told.read_text() == "returned registered registered "

    caplog.set_level(logging.WARNING)
    callable_tool = changed("tool", 'await coordinator.mount("tools", Tool())', "return Tool()").replace(
        "    async def execute", "    def __call__(self):\n        raise OSError\n    async def execute"
    )
    await validated("tool", module_at(tmp_path / "callable", callable_tool))
    assert not caplog.records  # a module that can be called is nothing to clean up with


@pytest.mark.difference("a `mount` that raises CancelledError fails its check")
async def test_a_cancellation_of_the_module_itself_is_its_failure(tmp_path: Path) -> None:
    source = "import asyncio\nasync def mount(coordinator, config):\n    raise asyncio.CancelledError\n"
    assert "CancelledError" in check_named(await validated("tool", module_at(tmp_path, source)), _COMMON[3]).message


async def test_a_cancelled_validation_leaves_nothing_behind(tmp_path: Path) -> None:
    source = (
        "import asyncio\n"
        "async def mount(coordinator, config):\n"
        "    config['cleanup'](coordinator)\n"
        "    await asyncio.Event().wait()\n"
    )
    package = module_at(tmp_path, source)
    mounting, cleaned = asyncio.Event(), asyncio.Event()

    def on_mount(coordinator: object) -> None:
        coordinator.register_cleanup(cleaned.set)  # type: ignore[attr-defined]
        mounting.set()

    path, modules = list(sys.path), set(sys.modules)
    task = asyncio.create_task(validator_for("tool").validate(package, config={"cleanup": on_mount}))
    with anyio.fail_after(60):
        await mounting.wait()
        assert package.name in sys.modules
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert cleaned.is_set() and sys.path == path and package.name not in set(sys.modules) - modules


@pytest.mark.difference("a validator leaves nothing imported, and accepts two packages of one name")
async def test_packages_of_one_name_are_validated_side_by_side_without_meeting(tmp_path: Path) -> None:
    # The first waits inside its mount, and then imports a part of itself that the other does not have.
    source = (
        "async def mount(coordinator, config):\n"
        "    await config['wait']()\n"
        "    from .part import Tool\n"
        "    await coordinator.mount('tools', Tool())\n"
    )
    packages = [module_at(tmp_path / name, source) for name in ("first", "second")]
    for package in packages:
        (package / "part.py").write_text(RIGHT["tool"].replace('"probe"', f'"{package.parent.name}"'))
    started: list[str] = []
    go_on = asyncio.Event()

    async def wait_for_both() -> None:
        started.append("one")
        await go_on.wait()

    with anyio.fail_after(60):
        tasks = [
            asyncio.create_task(validator_for("tool").validate(package, config={"wait": wait_for_both}))
            for package in packages
        ]
        while not started:
            await asyncio.sleep(0)
        go_on.set()
        results = await asyncio.gather(*tasks)
    assert [check_named(result, "tool_name").message for result in results] == ["`name` is first", "`name` is second"]


def test_a_kind_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(ValueError, match="provider, tool, hook, orchestrator, context"):
        validator_for("resolver")
