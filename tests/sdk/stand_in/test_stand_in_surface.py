"""The import name modules use: what it offers, what it costs, and that it offers nothing of its own."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import amplifier_core
import pytest

from support.rows import each_row

_PACKAGE = Path(amplifier_core.__file__).parent
_IMPORT_PATH = f"{_PACKAGE.parents[2]}:{_PACKAGE.parent}"

SUBMODULES = {
    "approval": "paddock_sdk.contract.approval",
    "cancellation": "paddock_sdk.kernel.cancellation",
    "capabilities": "paddock_sdk.contract.capabilities",
    "content_models": "paddock_sdk.contract.content_models",
    "coordinator": "paddock_sdk.kernel.coordinator",
    "correlation": "paddock_sdk.kernel.correlation",
    "display": "paddock_sdk.contract.display",
    "events": "paddock_sdk.contract.events",
    "hooks": "paddock_sdk.kernel.hooks",
    "interfaces": "paddock_sdk.contract.interfaces",
    "llm_errors": "paddock_sdk.contract.llm_errors",
    "message_models": "paddock_sdk.contract.message_models",
    "models": "paddock_sdk.contract.models",
    "module_sources": "paddock_sdk.contract.module_sources",
    "retry": "paddock_sdk.kernel.retry",
    "testing": "paddock_sdk.testing",
}


def run(code: str) -> object:
    """Return what a fresh interpreter that sees only the stand-in prints as JSON."""
    answer = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"import json, sys\n{code}"],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        env={"PYTHONPATH": _IMPORT_PATH},
    )
    return json.loads(answer.stdout)


def test_the_list_has_no_name_twice_and_dir_shows_it() -> None:
    assert len(set(amplifier_core.__all__)) == len(amplifier_core.__all__)
    assert set(amplifier_core.__all__) <= set(dir(amplifier_core))


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        amplifier_core.Nonsense  # noqa: B018
    with pytest.raises(ImportError):
        from amplifier_core import Nonsense  # noqa: F401


@each_row(("submodule", "original"), SUBMODULES.items())
def test_a_submodule_gives_the_very_objects_of_its_original(submodule: str, original: str) -> None:
    stand_in, source = import_module(f"amplifier_core.{submodule}"), import_module(original)
    assert stand_in.__all__
    own = [name for name in stand_in.__all__ if hasattr(source, name)]
    assert {name: getattr(stand_in, name) for name in own} == {name: getattr(source, name) for name in own}
    # What the contract's files import of each other is imported from them, too.
    elsewhere = set(stand_in.__all__).difference(own)
    assert all(getattr(stand_in, name) is getattr(amplifier_core, name) for name in elsewhere)
    if source.__name__.split(".")[1] != "kernel":  # what the kernel keeps for itself stays there
        offered = getattr(source, "__all__", None) or [name for name in vars(source) if name.isupper()]
        assert set(offered) <= set(stand_in.__all__)


def test_the_names_of_the_compiled_classes_are_the_classes() -> None:
    assert amplifier_core.RustSession is amplifier_core.AmplifierSession
    assert amplifier_core.RustCoordinator is amplifier_core.ModuleCoordinator
    assert amplifier_core.RustHookRegistry is amplifier_core.HookRegistry
    assert amplifier_core.RustCancellationToken is amplifier_core.CancellationToken
    assert amplifier_core.RUST_AVAILABLE is True


def test_the_session_at_the_top_and_the_one_in_its_module_are_two_classes() -> None:
    from amplifier_core.session import AmplifierSession as plain

    from paddock_sdk.in_process.session import AmplifierSession, PlainAmplifierSession

    assert amplifier_core.AmplifierSession is AmplifierSession
    assert plain is PlainAmplifierSession
    assert plain is not amplifier_core.AmplifierSession


def test_importing_the_package_brings_in_nothing_of_ours_and_no_pydantic() -> None:
    loaded = run("import amplifier_core; print(json.dumps([*sys.modules]))")
    assert isinstance(loaded, list)
    assert [name for name in loaded if name.partition(".")[0] in ("paddock_sdk", "pydantic", "amplifier_core")] == [
        "amplifier_core"
    ]


def test_an_error_class_is_reached_without_pydantic() -> None:
    answer = run("from amplifier_core import RateLimitError; print(json.dumps('pydantic' in sys.modules))")
    assert answer is False


def test_importing_everything_gives_everything_listed() -> None:
    missing = run(
        "names = {}\nexec('from amplifier_core import *', names)\n"
        "import amplifier_core\nprint(json.dumps([n for n in amplifier_core.__all__ if n not in names]))"
    )
    assert missing == []


def test_a_submodule_is_an_attribute_before_import_except_events() -> None:
    # Each in a process of its own: what is looked up may load others.
    reached = run(
        "import os, amplifier_core\n"
        f"reached = {{}}\nfor name in {[*SUBMODULES, 'session']!r}:\n"
        "    if (pid := os.fork()) == 0:\n"
        "        os._exit(hasattr(amplifier_core, name))\n"
        "    reached[name] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])\n"
        "print(json.dumps(reached))"
    )
    assert reached == {name: int(name != "events") for name in [*SUBMODULES, "session"]}


def test_type_checkers_are_told_the_origin_that_is_looked_up() -> None:
    tree = ast.parse((_PACKAGE / "__init__.py").read_text())
    [guarded] = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    declared = {
        alias.asname or alias.name: (node.module, alias.name)
        for node in guarded.body
        if isinstance(node, ast.ImportFrom) and node.level == 0
        for alias in node.names
    }
    assert declared == amplifier_core._ORIGIN
    assert {*declared, "capabilities", "RUST_AVAILABLE"} == set(amplifier_core.__all__)
