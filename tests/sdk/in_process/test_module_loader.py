"""The loader of a plain process: which code an id leads to, what is checked, and how each failure reads."""

from __future__ import annotations

import inspect
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from paddock_sdk.contract.module_sources import ModuleLoadError
from paddock_sdk.contract.module_sources import ModuleNotFoundError as SourceNotFoundError
from paddock_sdk.in_process.module_loader import ModuleLoader
from paddock_sdk.kernel.loading import ModuleValidationError, SessionReadyQueue, module_failure_reason
from paddock_sdk.testing import MockCoordinator
from sdk.in_process.conftest import TOOL, Folder, Resolver, WriteModule

_READY = """
    async def on_session_ready(coordinator):
        coordinator.was_ready = True
"""


def with_resolver(coordinator: MockCoordinator, resolver: Any) -> ModuleLoader:
    coordinator.mount("module-source-resolver", resolver)
    return ModuleLoader(coordinator)


async def answer(coordinator: MockCoordinator, **input: Any) -> Any:
    return (await coordinator.get("tools", "greet").execute(input)).output


async def test_a_module_in_a_folder_is_mounted_with_its_configuration(
    write_module: WriteModule, coordinator: MockCoordinator
) -> None:
    loader = with_resolver(coordinator, Resolver(tool_greet=write_module("tool-greet")))
    mount = await loader.load("tool-greet", {"word": "good day"}, source_hint="from here")
    assert inspect.iscoroutinefunction(mount)
    assert coordinator.get("tools") == {}
    assert await loader.initialize(mount, coordinator) is None
    assert await answer(coordinator, who="Ada") == "good day, Ada"


async def test_a_closure_gets_the_very_configuration_and_an_empty_one_for_none(
    write_module: WriteModule, coordinator: MockCoordinator
) -> None:
    loader = with_resolver(coordinator, Resolver(tool_greet=write_module("tool-greet")))
    config = {"word": "hi"}
    await (await loader.load("tool-greet", config))(coordinator)
    assert coordinator.get("tools", "greet").config is config
    await (await loader.load("tool-greet"))(coordinator)
    assert coordinator.get("tools", "greet").config == {}


async def test_what_mount_returns_is_what_the_closure_returns(
    write_module: WriteModule, coordinator: MockCoordinator
) -> None:
    folder = write_module("tool-greet", TOOL + "        return lambda: None\n")
    mount = await with_resolver(coordinator, Resolver(tool_greet=folder)).load("tool-greet")
    assert callable(await mount(coordinator))


@pytest.mark.parametrize("spelling", ["source_hint", "profile_source"])
async def test_a_resolver_is_given_the_hint_twice(
    write_module: WriteModule, coordinator: MockCoordinator, spelling: str
) -> None:
    resolver = Resolver(tool_greet=write_module("tool-greet"))
    await with_resolver(coordinator, resolver).load("tool-greet", **{spelling: {"any": "thing"}})
    assert resolver.asked == [("tool-greet", {"any": "thing"}, {"any": "thing"})]


@pytest.mark.difference("a resolver gets only the hints that it accepts")
async def test_a_resolver_is_given_the_hints_that_it_takes(
    write_module: WriteModule, coordinator: MockCoordinator
) -> None:
    folder, asked = write_module("tool-greet"), []

    class OfOneHint:
        def resolve(self, module_id: str, profile_hint: Any = None) -> Folder:
            asked.append(profile_hint)
            return Folder(folder)

    class OfAnyWords:
        def resolve(self, module_id: str, **hints: Any) -> Folder:
            asked.append(hints)
            return Folder(folder)

    await with_resolver(coordinator, OfOneHint()).load("tool-greet", source_hint="here")
    await with_resolver(coordinator, OfAnyWords()).load("tool-greet", source_hint="there")
    assert asked == ["here", {"source_hint": "there", "profile_hint": "there"}]


async def test_an_asynchronous_resolver_goes_before_its_synchronous_twin(
    write_module: WriteModule, coordinator: MockCoordinator
) -> None:
    folder = write_module("tool-greet")

    class Both(Resolver):
        async def async_resolve(self, module_id: str, source_hint: Any = None, profile_hint: Any = None) -> Folder:
            return Folder(folder)

    resolver = Both()
    await (await with_resolver(coordinator, resolver).load("tool-greet"))(coordinator)
    assert (await answer(coordinator), resolver.asked) == ("hello, you", [])


async def test_the_coordinator_of_a_call_goes_before_the_loader_s_own(
    write_module: WriteModule, coordinator: MockCoordinator
) -> None:
    other = MockCoordinator()
    other.mount("module-source-resolver", Resolver(tool_greet=write_module("tool-greet")))
    loader = with_resolver(coordinator, Resolver())
    with pytest.raises(SourceNotFoundError):
        await loader.load("tool-greet")
    assert await loader.load("tool-greet", coordinator=other)


@pytest.mark.parametrize("layout", ["project", "the package itself", "another package of the family"])
async def test_a_package_is_found_in_every_layout(
    write_module: WriteModule, coordinator: MockCoordinator, layout: str
) -> None:
    other = "amplifier_module_something_else" if layout == "another package of the family" else ""
    folder = write_module("tool-greet", package=other)
    if layout == "the package itself":
        folder /= "amplifier_module_tool_greet"
    await (await with_resolver(coordinator, Resolver(tool_greet=folder)).load("tool-greet"))(coordinator)
    assert await answer(coordinator) == "hello, you"


async def test_an_entry_point_may_name_another_file_of_the_package(
    write_module: WriteModule, coordinator: MockCoordinator
) -> None:
    declared = '[project.entry-points."amplifier.tools"]\ntool-greet = "amplifier_module_tool_greet.inner:bring"\n'
    folder = write_module("tool-greet", "", project=declared)
    inner = folder / "amplifier_module_tool_greet" / "inner.py"
    inner.write_text(inspect.cleandoc(TOOL).replace("def mount(", "def bring("))
    await (await with_resolver(coordinator, Resolver(tool_greet=folder)).load("tool-greet"))(coordinator)
    assert await answer(coordinator) == "hello, you"


async def test_what_is_added_to_the_import_path_is_taken_off_again(
    write_module: WriteModule, coordinator: MockCoordinator
) -> None:
    folder, before = write_module("tool-greet"), list(sys.path)
    loader = with_resolver(coordinator, Resolver(tool_greet=folder))
    await loader.load("tool-greet")
    assert sys.path == [str(folder), *before]
    loader.cleanup()
    assert sys.path == before
    sys.path.append(str(folder))
    loader.cleanup()
    assert sys.path == [*before, str(folder)]  # which is not the loader's
    sys.path.pop()
    await loader.load("tool-greet")
    assert sys.path == [str(folder), *before]


async def test_two_loaders_of_one_folder_do_not_take_it_from_each_other(
    write_module: WriteModule, coordinator: MockCoordinator
) -> None:
    folder = write_module("tool-greet")
    first, second = (with_resolver(coordinator, Resolver(tool_greet=folder)) for _ in range(2))
    await first.load("tool-greet")
    await second.load("tool-greet")
    first.cleanup()
    assert str(folder) in sys.path
    second.cleanup()
    assert str(folder) not in sys.path


async def test_one_loader_takes_a_module_s_code_once(write_module: WriteModule, coordinator: MockCoordinator) -> None:
    counting = "import builtins\nbuiltins.mounts_of_greet = []\n" + inspect.cleandoc(TOOL).replace(
        "await coordinator.mount(", "__import__('builtins').mounts_of_greet.append(1); await coordinator.mount("
    )
    loader = with_resolver(coordinator, Resolver(tool_greet=write_module("tool-greet", counting)))
    for _ in range(3):
        await (await loader.load("tool-greet"))(coordinator)
    import builtins

    # The first of them is the trial on a mock coordinator.
    assert len(builtins.mounts_of_greet) == 4  # type: ignore[attr-defined]
    del builtins.mounts_of_greet  # type: ignore[attr-defined]


async def test_an_id_that_now_leads_elsewhere_is_refused(
    write_module: WriteModule, coordinator: MockCoordinator, tmp_path: Path
) -> None:
    resolver = Resolver(tool_greet=write_module("tool-greet"))
    loader = with_resolver(coordinator, resolver)
    await loader.load("tool-greet")
    first = resolver.folders["tool-greet"]
    resolver.folders["tool-greet"] = write_module("tool-greet", at=tmp_path / "b")
    with pytest.raises(ModuleValidationError, match=r"is loaded already, from .* is now to come from .*/b/") as caught:
        await loader.load("tool-greet")
    assert str(first) in str(caught.value)


async def test_another_loader_cannot_bring_a_second_package_of_the_name(
    write_module: WriteModule, coordinator: MockCoordinator, tmp_path: Path
) -> None:
    await with_resolver(coordinator, Resolver(tool_greet=write_module("tool-greet"))).load("tool-greet")
    elsewhere = write_module("tool-greet", at=tmp_path / "b")
    with pytest.raises(ModuleValidationError, match=r"has imported `amplifier_module_tool_greet` from .* already"):
        await with_resolver(coordinator, Resolver(tool_greet=elsewhere)).load("tool-greet")


# What is checked, and what is not.


async def test_a_resolved_module_is_mounted_on_a_mock_with_its_configuration(
    write_module: WriteModule, coordinator: MockCoordinator
) -> None:
    refusing = """
        async def mount(coordinator, config=None):
            raise ValueError(f"no key in {sorted(config)} for {coordinator.session_id}")
    """
    loader = with_resolver(coordinator, Resolver(tool_greet=write_module("tool-greet", refusing)))
    with pytest.raises(ModuleValidationError, match=r"no key in \['word'\] for test-session") as caught:
        await loader.load("tool-greet", {"word": "x"})
    assert "does not keep to the contract of a tool" in str(caught.value)
    assert "protocol_compliance" in str(caught.value)


async def test_what_the_trial_does_to_the_configuration_is_not_seen(
    write_module: WriteModule, coordinator: MockCoordinator
) -> None:
    filling = TOOL.replace('await coordinator.mount("tools", Greeter(config or {}))', "")
    filling += """
        config["times"] = config.get("times", 0) + 1
        await coordinator.mount("tools", Greeter(config))
"""
    loader = with_resolver(coordinator, Resolver(tool_greet=write_module("tool-greet", filling)))
    config: dict[str, Any] = {"word": "x"}
    await (await loader.load("tool-greet", config))(coordinator)
    assert config == {"word": "x", "times": 1}


@pytest.mark.parametrize(
    ("module_id", "declared", "kind"),
    [
        ("loop-tools", None, "orchestrator"),
        ("my-orchestrator", None, "orchestrator"),
        ("provider-tool", None, "provider"),
        ("tool-hook", None, "tool"),
        ("hooks-context", None, "hook"),
        ("context-x", None, "context"),
        ("whatever", None, "tool"),
        ("tool-x", "provider", "provider"),
        ("provider-x", "hook", "hook"),
    ],
)
async def test_a_module_is_checked_as_what_it_declares_or_what_its_id_suggests(
    write_module: WriteModule, coordinator: MockCoordinator, module_id: str, declared: str | None, kind: str
) -> None:
    code = f"__amplifier_module_type__ = {declared!r}\n" if declared else ""
    folder = write_module(module_id, code + "async def mount(coordinator, config=None):\n    raise ValueError('no')\n")
    resolver = Resolver()
    resolver.folders[module_id] = folder
    with pytest.raises(ModuleValidationError, match=f"the contract of a {kind} "):
        await with_resolver(coordinator, resolver).load(module_id)


async def test_a_resolver_among_the_modules_is_not_checked(
    write_module: WriteModule, coordinator: MockCoordinator
) -> None:
    code = """
        __amplifier_module_type__ = "resolver"
        async def mount(coordinator, config):
            await coordinator.mount("module-source-resolver", "the new one")
    """
    loader = with_resolver(coordinator, Resolver(resolver_x=write_module("resolver-x", code)))
    await (await loader.load("resolver-x"))(coordinator)
    assert coordinator.get("module-source-resolver") == "the new one"


async def test_an_installed_module_is_not_checked(
    write_module: WriteModule, coordinator: MockCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(write_module("tool-odd", "def mount(coordinator, config):\n    return 'odd'\n"))
    assert await (await ModuleLoader(coordinator).load("tool-odd"))(coordinator) == "odd"
    with pytest.raises(ModuleValidationError):
        folder = Path(sys.modules["amplifier_module_tool_odd"].__file__ or "").parent
        await with_resolver(coordinator, Resolver(tool_odd=folder)).load("tool-odd")


# How each failure reads, and the word it is counted under.


BROKEN: dict[str, tuple[str, str, str, str]] = {
    "nothing in the folder": ("tool-greet", "", "invalid_package_layout", "holds no package; expected"),
    "no mount": ("tool-greet", "x = 1", "invalid_entry_point", "mount_exists"),
    "a mount that is not asynchronous": (
        "tool-greet",
        "def mount(coordinator, config): ...",
        "invalid_entry_point",
        "mount_signature",
    ),
    "a kind that no module is": (
        "tool-greet",
        "__amplifier_module_type__ = 'gadget'",
        "invalid_module_metadata",
        "'gadget'; it has to be one of context, hook, orchestrator, provider, resolver, tool",
    ),
    "a kind that is no text": ("tool-greet", "__amplifier_module_type__ = ['tool']", "invalid_module_metadata", "tool"),
    "code that fails": ("tool-greet", "import no_such_library", "validation_failed", "No module named 'no_such_lib"),
    "code that ends the program": ("tool-greet", "raise SystemExit(3)", "validation_failed", "SystemExit: 3"),
    "nothing mounted": (
        "tool-greet",
        "async def mount(coordinator, config): ...",
        "validation_failed",
        "protocol_compliance",
    ),
}


@pytest.mark.parametrize(("module_id", "code", "reason", "words"), BROKEN.values(), ids=BROKEN)
async def test_a_module_that_cannot_be_used_is_refused_with_its_reason(
    write_module: WriteModule, coordinator: MockCoordinator, module_id: str, code: str, reason: str, words: str
) -> None:
    folder = write_module(module_id, code)
    if not code:
        (folder / "amplifier_module_tool_greet" / "__init__.py").unlink()
    with pytest.raises(ModuleValidationError) as caught:
        await with_resolver(coordinator, Resolver(tool_greet=folder)).load(module_id)
    assert words in str(caught.value)
    assert "'tool-greet'" in str(caught.value)
    assert (caught.value.reason_code, module_failure_reason(caught.value)) == (reason, reason)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("amplifier.toml", '[module]\ntransport = "wasm"\n', "wants to be run by transport `wasm`"),
        ("amplifier.toml", "[module\n", "cannot be read"),
        ("pyproject.toml", "[project\n", "cannot be read"),
    ],
)
async def test_files_beside_the_package_that_say_something_impossible_are_named(
    write_module: WriteModule, coordinator: MockCoordinator, name: str, content: str, words: str
) -> None:
    folder = write_module("tool-greet")
    (folder / "amplifier.toml").write_text('[module]\ntransport = "python"\n')
    loader = with_resolver(coordinator, Resolver(tool_greet=folder))
    assert await loader.load("tool-greet")
    (folder / name).write_text(content)
    with pytest.raises(ModuleValidationError, match=words) as caught:
        await with_resolver(coordinator, Resolver(tool_greet=folder)).load("tool-greet")
    assert caught.value.reason_code == "invalid_module_metadata"


async def test_a_folder_that_is_not_there_is_a_missing_source(coordinator: MockCoordinator, tmp_path: Path) -> None:
    with pytest.raises(ModuleValidationError, match="which is no folder") as caught:
        await with_resolver(coordinator, Resolver(tool_x=tmp_path / "gone")).load("tool-x")
    assert caught.value.reason_code == "missing_source"


async def test_what_a_resolver_raises_of_its_own_is_not_swallowed(coordinator: MockCoordinator) -> None:
    class Broken:
        def resolve(self, module_id: str, source_hint: Any = None, profile_hint: Any = None) -> Folder:
            raise PermissionError("not for you")

    with pytest.raises(PermissionError, match="not for you"):
        await with_resolver(coordinator, Broken()).load("tool-x")


async def test_an_unknown_module_is_not_found_and_both_places_are_named(coordinator: MockCoordinator) -> None:
    with pytest.raises(SourceNotFoundError) as caught:
        await ModuleLoader().load("tool-nowhere")
    assert str(caught.value) == "Module 'tool-nowhere' not found via entry points or filesystem"
    with pytest.raises(SourceNotFoundError, match=r"not found via .* nobody has ever heard of tool-nowhere") as caught:
        await with_resolver(coordinator, Resolver()).load("tool-nowhere")
    assert module_failure_reason(caught.value) == "missing_source"


async def test_installed_code_that_fails_is_a_load_error_with_its_cause(
    write_module: WriteModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(write_module("tool-broken", "import no_such_library"))
    with pytest.raises(ModuleLoadError, match="No module named 'no_such_library'") as caught:
        await ModuleLoader().load("tool-broken")
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


# Without a resolver, or past one that knows nothing.


def _install(folder: Path, name: str, entry_points: str, *requires: str) -> None:
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    lines = [f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nSummary: Greets.\n"]
    (info / "METADATA").write_text("".join([*lines, *(f"Requires-Dist: {one}\n" for one in requires)]))
    (info / "entry_points.txt").write_text(entry_points)


@pytest.mark.parametrize("group", ["amplifier.modules", "amplifier.tools"])
@pytest.mark.parametrize("value", ["amplifier_module_g:bring", "amplifier_module_g.inner"])
async def test_an_entry_point_leads_to_a_function_or_to_a_package_s_mount(
    tmp_path: Path, coordinator: MockCoordinator, monkeypatch: pytest.MonkeyPatch, group: str, value: str
) -> None:
    (tmp_path / "amplifier_module_g").mkdir()
    (tmp_path / "amplifier_module_g" / "__init__.py").write_text(
        "async def bring(coordinator, config): return 'brought'\n"
    )
    (tmp_path / "amplifier_module_g" / "inner.py").write_text(
        "async def mount(coordinator, config): return 'brought'\n"
    )
    _install(tmp_path, "greeting", f"[{group}]\ntool-greeting = {value}\n")
    monkeypatch.syspath_prepend(tmp_path)
    mount = await with_resolver(coordinator, Resolver()).load("tool-greeting")
    assert await mount(coordinator) == "brought"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("no_such_package:mount", "cannot be loaded: ModuleNotFoundError"),
        ("json:mount", "cannot be loaded: AttributeError"),
        ("json.decoder", "`json.decoder` has no `mount`"),
        ("json.decoder:NaN", "leads to a float, which cannot be called"),
    ],
)
async def test_an_entry_point_that_leads_nowhere_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, words: str
) -> None:
    _install(tmp_path, "greeting", f"[amplifier.modules]\ntool-greeting = {value}\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleValidationError, match=words) as caught:
        await ModuleLoader().load("tool-greeting")
    assert caught.value.reason_code == "invalid_entry_point"


async def test_the_folder_of_a_resolver_goes_before_an_entry_point(
    tmp_path: Path, write_module: WriteModule, coordinator: MockCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    _install(tmp_path / "site", "greet", "[amplifier.modules]\ntool-greet = json:dumps\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert [one.name for one in metadata.entry_points(group="amplifier.modules")].count("tool-greet") == 1
    loader = with_resolver(coordinator, Resolver(tool_greet=write_module("tool-greet")))
    await (await loader.load("tool-greet"))(coordinator)
    assert await answer(coordinator) == "hello, you"


@pytest.mark.parametrize("layout", ["amplifier-module-tool-greet", "tool-greet", "."])
async def test_folders_of_modules_are_searched_before_giving_up(
    write_module: WriteModule, coordinator: MockCoordinator, tmp_path: Path, layout: str
) -> None:
    write_module("tool-greet").rename(tmp_path / "project")
    store_context = tmp_path / "shelf"
    store_context.mkdir()
    if layout == ".":
        (tmp_path / "project" / "amplifier_module_tool_greet").rename(store_context / "amplifier_module_tool_greet")
    else:
        (tmp_path / "project").rename(store_context / layout)
    loader = ModuleLoader(search_paths=[str(store_context)])
    await (await loader.load("tool-greet"))(coordinator)
    assert await answer(coordinator) == "hello, you"


# What is called when everything is mounted.


async def test_the_queue_holds_who_is_ready_in_the_order_they_were_mounted(
    write_module: WriteModule, coordinator: MockCoordinator
) -> None:
    folders = {name: write_module(f"tool-{name}", TOOL + _READY) for name in ("a", "b")}
    loader = with_resolver(coordinator, Resolver(**{f"tool_{name}": folder for name, folder in folders.items()}))
    first, second = await loader.load("tool-a"), await loader.load("tool-b")
    assert loader.get_on_session_ready_queue() == []
    await second(coordinator)
    await first(coordinator)
    queue = loader.get_on_session_ready_queue()
    assert [module_id for module_id, _ in queue] == ["tool-b", "tool-a"]
    await queue[0][1](coordinator)
    assert coordinator.was_ready  # type: ignore[attr-defined]
    loader.clear_on_session_ready_queue()
    assert loader.get_on_session_ready_queue() == []
    assert isinstance(loader, SessionReadyQueue)
    loader.enqueue_on_session_ready("own", queue[0][1])
    assert loader.get_on_session_ready_queue() == [("own", queue[0][1])]


async def test_a_module_whose_mount_fails_is_not_in_the_queue(
    write_module: WriteModule, coordinator: MockCoordinator
) -> None:
    code = TOOL + "        if coordinator.config.get('fails'): raise ValueError('no')\n" + _READY
    loader = with_resolver(coordinator, Resolver(tool_greet=write_module("tool-greet", code)))
    mount = await loader.load("tool-greet")
    coordinator.config["fails"] = True
    with pytest.raises(ValueError, match="no"):
        await mount(coordinator)
    assert loader.get_on_session_ready_queue() == []
    del coordinator.config["fails"]
    await mount(coordinator)
    assert len(loader.get_on_session_ready_queue()) == 1


async def test_the_ready_callback_stands_beside_mount_and_is_async(
    write_module: WriteModule,
    coordinator: MockCoordinator,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder = write_module("tool-split", "from .inner import mount\n")
    inner = folder / "amplifier_module_tool_split" / "inner.py"
    inner.write_text("async def mount(c, config): ...\nasync def on_session_ready(coordinator): ...\n")
    monkeypatch.syspath_prepend(folder)
    loader = ModuleLoader()
    await (await loader.load("tool-split"))(coordinator)
    assert [module_id for module_id, _ in loader.get_on_session_ready_queue()] == ["tool-split"]
    sys.modules["amplifier_module_tool_split.inner"].on_session_ready = lambda coordinator: None
    loader.clear_on_session_ready_queue()
    await (await loader.load("tool-split"))(coordinator)
    assert loader.get_on_session_ready_queue() == []
    assert "is not asynchronous and will not be called" in caplog.text


# What there is.


async def test_discovery_lists_modules_without_importing_them(
    tmp_path: Path, write_module: WriteModule, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _install(tmp_path / "site", "greeting", "[amplifier.modules]\nprovider-greeting = never_imported:mount\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    store_context = tmp_path / "shelf"
    write_module("hooks-fine", "raise SystemExit", at=store_context)
    write_module("loop-bare", at=store_context)
    (store_context / "amplifier-module-loop-bare" / "pyproject.toml").unlink()
    (store_context / "amplifier_module_tool_flat").mkdir()
    (store_context / "amplifier_module_tool_flat" / "__init__.py").touch()
    (store_context / "amplifier-module-empty").mkdir()
    (store_context / "something-else").mkdir()
    found = {info.id: info for info in await ModuleLoader(search_paths=[store_context]).discover()}
    assert {name: (info.version, info.type, info.mount_point, info.description) for name, info in found.items()} == {
        "provider-greeting": ("1.0", "provider", "providers", "Greets."),
        "hooks-fine": ("1.5", "hook", "hooks", "Does it."),
        "loop-bare": ("0.0.0", "orchestrator", "orchestrator", ""),
        "tool-flat": ("0.0.0", "tool", "tools", ""),
    }
    assert found["hooks-fine"].name == "Hooks Fine"
    assert "amplifier-module-empty holds no package" in caplog.text


async def test_an_entry_point_without_a_distribution_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    class Bare:
        name = "tool-bare"
        value = "bare:mount"

        def load(self) -> Any:
            return mount

    async def mount(coordinator: Any, config: dict[str, Any]) -> None:
        coordinator.mounted = config

    for module in ("module_loader", "module_package"):
        monkeypatch.setattr(f"paddock_sdk.in_process.{module}.entry_points", lambda: iter([Bare()]))
    loader, coordinator = ModuleLoader(), MockCoordinator()
    await (await loader.load("tool-bare", {"a": 1}))(coordinator)
    assert coordinator.mounted == {"a": 1}  # type: ignore[attr-defined]
    assert "tool-bare" in {info.id for info in await loader.discover()}
