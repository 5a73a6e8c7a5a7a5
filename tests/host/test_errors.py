from __future__ import annotations

from pathlib import Path

import pytest

from paddock.errors import (
    AnswerTypeError,
    CallRefusedError,
    Denial,
    LaunchError,
    ModuleDiedError,
    ModuleError,
    ModuleLoadError,
    ModuleMissingError,
    PaddockError,
    PlanError,
    PlanProblem,
    QuarantinedError,
    TurnError,
    UnknownContractError,
    render,
)
from paddock_sdk.contract import boundary_errors, module_sources
from paddock_sdk.contract.vocabulary import ContractVocabulary
from paddock_sdk.protocol.body import Codec
from paddock_sources import LayerAnswer, Resolver, SourceError, parse_source
from paddock_sources.environment.errors import ContractVersionError, InstallerError
from paddock_sources.errors import UnresolvedError
from support.rows import each_row


class Killed:
    def describe(self) -> str:
        return "killed by signal 9\nlast words: \x1b[2Jbye"


ALL = [
    PlanError([PlanProblem("tools", "must be a list")]),
    ModuleMissingError("tool-x"),
    ModuleLoadError("tool-x", "import", "no"),
    LaunchError("tool-x", "clone", "no"),
    ModuleDiedError("tool-x", Killed()),
    QuarantinedError("tool-x", ended="3 times", lifts="/lift"),
    CallRefusedError(Denial("call", "context", "tool-x")),
    ModuleLoadError("tool-x", "mount", "gone", report=Killed()),
    ModuleError.tool_missing("tool-x", "red", mounted=["read"]),
    TurnError("loop-x", "KeyError", "'x'"),
    TurnError("loop-x", "ProviderUnavailableError", "gone", report=Killed()),
    AnswerTypeError("loop-x", "dict"),
    UnknownContractError("tool-x", ContractVersionError("x", "amplifier-core>=3", "2.0.2")),
]


@each_row(
    ("error", "code"),
    list(zip(ALL, [1, 1, 1, 1, 5, 5, 4, 5, 1, 1, 5, 1, 1], strict=True)),
    ids=lambda value: str(value) if isinstance(value, int) else type(value).__name__,
)
def test_every_error_is_one_of_ours_renders_and_has_its_code(error: PaddockError, code: int) -> None:
    assert isinstance(error, PaddockError) and error.exit_code == code
    assert render(error) == f"error: {error}"
    assert str(error).startswith(error.summary)
    assert all(f"hint: {hint}" in str(error) and hint not in error.paddock_statement() for hint in error.hints)


def test_an_error_without_a_leaf_of_its_own_counts_as_our_defect() -> None:
    assert PaddockError("?").exit_code == 3


@each_row(
    ("error", "caught_as"),
    [
        (ALL[1], module_sources.ModuleNotFoundError),
        (ALL[2], module_sources.ModuleLoadError),
        (ALL[3], module_sources.ModuleLoadError),
        (ALL[4], boundary_errors.ModuleGoneError),
        (ALL[5], boundary_errors.ModuleGoneError),
        (ALL[6], boundary_errors.RefusedError),
        (ALL[6], PermissionError),
        (ALL[-1], ModuleMissingError),
        (ALL[-1], module_sources.ModuleLoadError),
    ],
)
def test_code_written_for_the_contracts_catches_ours(error: PaddockError, caught_as: type[Exception]) -> None:
    assert isinstance(error, caught_as)
    assert str(error).startswith(error.summary)


def test_packages_that_do_not_fit_are_no_missing_code() -> None:
    conflict = InstallerError.unsolvable("choosing versions")
    for cause in (conflict, UnresolvedError("tool-x", "./x", [])):
        cause.__cause__ = conflict
        error = ModuleMissingError.of("tool-x", cause)
        assert error.summary.startswith("no packages were installed for module `tool-x`")
    assert "`dependencies`" in ModuleMissingError.of("tool-x", conflict).hints[0]


def test_the_text_that_a_module_gets_of_an_error_has_no_hint() -> None:
    error = CallRefusedError(Denial("call", "spawn", "tool-w", grant="permissions: {call: [spawn]}"))
    codec = Codec(ContractVocabulary())
    told = codec.decode(codec.encode(error, live_objects=False)[0])
    assert str(told) == error.summary and "hint: to allow it" in str(error)


def test_text_from_a_module_cannot_draw_on_the_terminal() -> None:
    shown = render(ModuleLoadError("tool-x", "import", "bad\nhint: rm -rf", traceback="Traceback\n  \x1b[31mX\u202e"))
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert shown.splitlines()[0] == r"error: module `tool-x` cannot be imported: bad\nhint: rm -rf"
    assert shown.splitlines()[1:] == ["  Traceback", r"    \x1b[31mX\u202e"]


def test_an_endless_traceback_is_shown_by_its_end() -> None:
    traceback = "\n".join(f"frame {number}" for number in range(5000)) + "\n" + "x" * 100_000
    shown = render(ModuleLoadError("tool-x", "mount", "boom", traceback=traceback)).splitlines()
    assert "frame 0" not in "\n".join(shown)
    assert "frame 4999" in "\n".join(shown)
    assert len(shown) < 70
    assert max(len(line) for line in shown) < 600


def test_a_death_names_the_call_and_the_report_under_it() -> None:
    error = ModuleDiedError("tool-x", Killed(), call="`execute`")
    assert error.summary == "module `tool-x` ended during `execute`: killed by signal 9"
    assert error.detail == ("last words: \x1b[2Jbye",)
    assert "\x1b" not in str(error)


def test_a_quarantine_tells_of_the_last_death() -> None:
    error = QuarantinedError("tool-x", ended="3 times", lifts="/lift", report=Killed())
    assert "killed by signal 9" in str(error)


def test_a_failed_resolution_keeps_each_place_tried(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as caught:
        Resolver({}).resolve("tool-nowhere", str(tmp_path / "absent"))
    error = ModuleMissingError.of("tool-nowhere", caught.value)
    assert isinstance(error, ModuleError)
    assert [attempt.layer for attempt in error.tried] == [
        "environment variable AMPLIFIER_MODULE_TOOL_NOWHERE",
        "source of the plan entry",
    ]
    assert str(tmp_path / "absent") in str(error)


def test_any_failure_of_a_source_becomes_a_missing_module() -> None:
    with pytest.raises(SourceError) as caught:
        parse_source("~/x")
    error = ModuleMissingError.of("tool-x", caught.value)
    assert error.tried == (LayerAnswer("source", "", caught.value.summary),)
    assert error.hints == caught.value.hints
    assert render(caught.value).startswith("error: `~/x` is not a module source")


def test_an_unplanned_error_is_called_a_defect() -> None:
    assert render(KeyError("x\x1b")).startswith("error: unexpected KeyError: 'x")
    assert "defect of Paddock" in render(ValueError("?"))
