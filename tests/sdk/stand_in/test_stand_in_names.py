"""The import name that modules use: what it offers, what it costs, and that it offers nothing of its own."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
from importlib import import_module, metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import amplifier_core
import pytest
from amplifier_core import _async_compat, _collect_helper, _engine, _session_init, events, loader, models
from amplifier_core.cancellation import CancellationToken
from amplifier_core.module_sources import FileSystemModuleSource, ModuleSource

from support.rows import each_row

_PACKAGE = Path(amplifier_core.__file__).parent
_STAND_IN = _PACKAGE.parent
_OTHERS_BY_NAME = {("amplifier_core.session", "AmplifierSession"), ("amplifier_core._engine", "classify_error_message")}
_OF_PYTEST = {"behavioral", "structural", "pytest_plugin"}  # for one that has the plugin


def run(code: str) -> object:
    """Return what a fresh interpreter that sees only the stand-in prints as JSON."""
    answer = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"import json, sys\n{code}"],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        env={"PYTHONPATH": f"{_STAND_IN.parents[1]}:{_STAND_IN}"},
    )
    return json.loads(answer.stdout)


# `tests/blackbox/test_public_names.py` shows which names there are, and with what each is called.


def test_a_name_at_the_top_is_the_same_thing_in_each_submodule() -> None:
    paths = [path.relative_to(_STAND_IN).with_suffix("") for path in _PACKAGE.rglob("*.py")]
    names = [".".join(path.parts).removesuffix(".__init__") for path in paths if not _OF_PYTEST & {*path.parts}]
    both = [(name, known) for name in names for known in amplifier_core.__all__ if hasattr(import_module(name), known)]
    assert len(both) > 150
    others = {pair for pair in both if getattr(import_module(pair[0]), pair[1]) is not getattr(amplifier_core, pair[1])}
    assert others == _OTHERS_BY_NAME


def test_the_session_at_the_top_and_the_one_in_its_module_are_two_classes() -> None:
    from amplifier_core.session import AmplifierSession as plain

    from paddock_sdk.in_process.session import AmplifierSession, PlainAmplifierSession

    assert amplifier_core.AmplifierSession is amplifier_core.RustSession is AmplifierSession
    assert plain is PlainAmplifierSession
    assert plain is not amplifier_core.AmplifierSession


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        amplifier_core.Nonsense  # noqa: B018
    with pytest.raises(ImportError):
        from amplifier_core import Nonsense  # noqa: F401


def test_importing_the_package_brings_in_nothing_of_ours_and_no_pydantic() -> None:
    loaded = run("import amplifier_core; print(json.dumps([*sys.modules]))")
    assert isinstance(loaded, list)
    assert [name for name in loaded if name.partition(".")[0] in ("paddock_sdk", "pydantic", "amplifier_core")] == [
        "amplifier_core"
    ]


@each_row("imported", ["from amplifier_core import RateLimitError", "import amplifier_core.hooks"])
def test_what_needs_no_pydantic_is_reached_without(imported: str) -> None:
    assert run(f"{imported}; print(json.dumps('pydantic' in sys.modules))") is False


def test_importing_everything_gives_everything_listed() -> None:
    names: dict[str, Any] = {}
    exec("from amplifier_core import *", names)
    assert set(amplifier_core.__all__) == names.keys() - {"__builtins__"}
    assert len(set(amplifier_core.__all__)) == len(amplifier_core.__all__)
    assert set(amplifier_core.__all__) <= set(dir(amplifier_core))


def test_a_submodule_is_an_attribute_before_import_except_events() -> None:
    # Each in a process of its own: what is looked up may load others.
    names = sorted(path.stem for path in _PACKAGE.glob("[a-z]*") if path.stem not in ("cli", "py", "pytest_plugin"))
    reached = run(
        "import os, amplifier_core\n"
        f"reached = {{}}\nfor name in {names!r}:\n"
        "    if (pid := os.fork()) == 0:\n"
        "        os._exit(hasattr(amplifier_core, name))\n"
        "    reached[name] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])\n"
        "print(json.dumps(reached))"
    )
    assert reached == {name: int(name != "events") for name in names}


def test_type_checkers_are_told_the_very_things_that_are_looked_up() -> None:
    tree = ast.parse((_PACKAGE / "__init__.py").read_text())
    [guarded] = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    told: dict[str, Any] = {"__name__": "amplifier_core", "__package__": "amplifier_core"}
    exec(compile(ast.Module(guarded.body, []), "told", "exec"), told)
    told = {name: value for name, value in told.items() if not name.startswith("__")}
    assert told == {name: getattr(amplifier_core, name) for name in amplifier_core.__all__ if name != "RUST_AVAILABLE"}


def test_errors_are_also_imported_as_one_module_by_another_name() -> None:
    from amplifier_core import llm_errors as kernel_errors

    assert kernel_errors.RateLimitError is amplifier_core.RateLimitError


# What code reaches past the public modules for.


@each_row(
    ("module", "some"),
    [
        (events, {"ALL_EVENTS", "SESSION_START"}),
        (amplifier_core.capabilities, {"ALL_WELL_KNOWN_CAPABILITIES", "TOOLS"}),
    ],
    ids=["events", "capabilities"],
)
def test_the_engine_has_every_constant_of_a_public_module(module: ModuleType, some: set[str]) -> None:
    constants = {name: value for name, value in vars(module).items() if name.isupper()}
    assert some <= set(constants) <= set(dir(_engine))
    assert [name for name, value in constants.items() if getattr(_engine, name) is not value] == []


@pytest.mark.difference("WebAssembly and gRPC modules do not run")
def test_what_runs_webassembly_is_refused_in_words() -> None:
    with pytest.raises(AttributeError, match="`load_wasm_from_path` runs WebAssembly modules, which Paddock does not"):
        _engine.load_wasm_from_path  # noqa: B018 - reading it is the act
    assert not hasattr(_engine, "load_wasm_from_path")
    with pytest.raises(ImportError, match="load_wasm_from_path"):
        from amplifier_core._engine import load_wasm_from_path  # noqa: F401


def test_any_other_name_the_engine_lacks_is_an_attribute_error() -> None:
    assert not hasattr(_engine, "Nonsense") and not hasattr(_engine, "NONSENSE")


def test_an_error_of_the_engine_is_an_error_of_models() -> None:
    error = _engine.ProviderError("slow", provider="p", model="m", status_code=429, retryable=True, retry_after=1.5)
    assert isinstance(error, amplifier_core.LLMError)
    assert (error.provider, error.retryable, error.retry_after) == ("p", True, 1.5)


def test_a_folder_is_resolved_to_how_its_module_is_run(tmp_path: Path) -> None:
    package = tmp_path / "amplifier-module-hooks-x" / "amplifier_module_hooks_x"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    assert _engine.resolve_module(str(package.parent)) == {
        "transport": "python",
        "module_type": "hook",
        "package_name": "amplifier_module_hooks_x",
    }
    (package.parent / "amplifier.toml").write_text('[module]\ntransport = "wasm"\n')
    assert _engine.resolve_module(package.parent)["transport"] == "wasm"


async def test_the_private_functions_do_what_they_are_called_for() -> None:
    async def seven() -> int:
        return 7

    assert await _async_compat._wrap(seven()) == 7
    assert await _collect_helper.collect_contributions({"c": [{"name": "n", "callback": seven}]}, "c") == [7]
    assert _session_init._safe_exception_str(ValueError("no")) == "no"
    assert models._sanitize_for_llm("a\0b") == "ab"


def test_a_token_s_properties_cannot_be_set() -> None:
    properties = [name for name, member in vars(CancellationToken).items() if isinstance(member, property)]
    assert {"state", "is_cancelled"} < {*properties}
    for name in properties:
        with pytest.raises(AttributeError):
            setattr(CancellationToken(), name, None)


def test_mount_points_are_known_by_kind() -> None:
    assert loader.TYPE_TO_MOUNT_POINT == {
        "orchestrator": "orchestrator",
        "provider": "providers",
        "tool": "tools",
        "hook": "hooks",
        "context": "context",
        "resolver": "module-source-resolver",
    }


def test_a_folder_of_modules_is_no_source_of_one() -> None:
    assert not issubclass(FileSystemModuleSource, ModuleSource)
    assert inspect.isabstract(ModuleSource)


# The distribution.


def test_the_distribution_says_its_version_and_what_it_needs() -> None:
    distribution = metadata.distribution("amplifier-core")
    assert Path(str(distribution.locate_file(""))).name == "stand_in"
    assert (distribution.version, metadata.version("amplifier_core")) == ("2.0.2", amplifier_core.__version__)
    assert distribution.metadata["Requires-Python"] == ">=3.11"
    assert sorted(distribution.requires or ()) == ["click", "pydantic>=2", "pyyaml", "tomli", "typing-extensions"]


@each_row(
    ("group", "name", "value"),
    [
        ("console_scripts", "amplifier-core", "amplifier_core.cli:main"),
        ("pytest11", "amplifier_module", "amplifier_core.pytest_plugin"),
    ],
)
def test_the_distribution_declares_its_entry_points(group: str, name: str, value: str) -> None:
    [found] = [one for one in metadata.distribution("amplifier-core").entry_points if one.group == group]
    assert (found.name, found.value) == (name, value)
    # In a program of its own: the plugin is one for another pytest than this.
    module = value.partition(":")[0]
    assert run(f"import importlib.util; print(json.dumps(importlib.util.find_spec({module!r}) is None))") is False
