from __future__ import annotations

import json

import click
import pytest

from paddock.cli import failure
from paddock.cli.commands import paddock
from paddock.errors import (
    ModuleDiedError,
    PaddockError,
    PlanError,
    TurnError,
)
from paddock.policy.secrets.values import SecretValues
from paddock.session.session import ModuleStatus
from paddock.workers.exit_report import ExitReason, ExitReport
from paddock_sdk.contract.boundary_errors import RefusedError
from support.rows import each_row

_REPORT = ExitReport("provider-x", ExitReason.SIGNALLED, 1.0, signal=11)


def _status(kind: str, *reports: ExitReport) -> ModuleStatus:
    return ModuleStatus(f"{kind}-x", kind, "ns", True, 0, (), reports)


def _remote(error: Exception, kind: str = "ValueError") -> Exception:
    error.__dict__.update(remote_type=kind, remote_traceback="Traceback: \x1b[2J")
    return error


@each_row(
    ("error", "modules", "code"),
    [
        (PlanError([]), [], 1),
        (ModuleDiedError("loop-x", _REPORT), [], 5),
        (_remote(ValueError("no")), [], 1),
        (_remote(ValueError("no")), [_status("tool", _REPORT)], 1),
        (_remote(ValueError("no")), [_status("provider", _REPORT)], 5),
        (_remote(ValueError("no")), [_status("context", _REPORT)], 5),
        (_remote(RefusedError("no")), [], 4),
        (ValueError("no"), [_status("provider", _REPORT)], 3),
    ],
)
def test_a_turn_that_failed_has_the_code_of_its_cause(error: Exception, modules: list[ModuleStatus], code: int) -> None:
    assert failure.exit_code(failure.of_turn(error, "loop-x", modules)) == code


def test_what_a_module_raised_is_told_with_its_own_traceback_escaped() -> None:
    error = failure.of_turn(_remote(ValueError("no"), "its.OwnError"), "loop-x", [])
    assert isinstance(error, TurnError)
    text = failure.text(error)
    assert "`loop-x` raised its.OwnError: no" in text
    assert r"Traceback: \x1b[2J" in text
    assert "defect" not in text


def test_a_turn_shows_the_traceback_only_if_asked_to() -> None:
    error = failure.of_turn(_remote(ValueError("refused\nbehind"), "its.OwnError"), "loop-x", [])
    brief = failure.text_of_turn(error, str, verbose=False)
    assert "raised its.OwnError: refused behind" in brief and "Traceback" not in brief and "`-v`" in brief
    assert "Traceback" in failure.text_of_turn(error, str, verbose=True)
    known = failure.of_turn(_remote(ValueError("refused\nbehind"), "x.NetworkError"), "loop-x", [])
    brief = failure.text_of_turn(known, str, verbose=False)
    assert "refused behind" in brief and "see whether the server is there" in brief and "`-v`" not in brief


def test_a_secret_of_several_lines_is_hidden_before_lines_are_joined() -> None:
    key = json.dumps({"type": "service_account", "private_key": "-----BEGIN\nabcd  efgh\n-----END"}, indent=2)
    mask = SecretValues({"ACCOUNT": key, "SPACED": "hunter2  hunter3"}).mask
    error = failure.of_turn(
        _remote(ValueError(f"bad credentials: {key} hunter2  hunter3"), "its.OwnError"), "loop-x", []
    )
    for verbose in (False, True):
        shown = mask(failure.text_of_turn(error, mask, verbose=verbose))
        assert "bad credentials" in shown
        assert not any(part in shown for part in ("service_account", "abcd", "hunter3"))


def test_scripts_get_what_an_error_knows_beyond_its_text() -> None:
    class RuledOutError(PaddockError):
        exit_code = 4

        def facts(self) -> dict[str, object]:
            return {"rule": {"file": "policy.toml", "line": 3}, "type": "not this"}

    told = failure.as_dict(RuledOutError("no", hints=["ask"]))
    assert told == {
        "type": "RuledOutError",
        "message": "no",
        "hints": ["ask"],
        "rule": {"file": "policy.toml", "line": 3},
    }


def test_a_defect_of_ours_is_told_with_all_that_a_report_needs() -> None:
    def broken() -> None:
        raise KeyError("\x1b[2J")

    with pytest.raises(KeyError) as caught:
        broken()
    text = failure.text(caught.value)
    assert failure.exit_code(caught.value) == 3
    assert "please report it" in text and "in broken" in text and "paddock 0." in text
    assert "\x1b" not in text


def test_no_line_of_a_traceback_passes_for_one_of_ours() -> None:
    text = failure.text(ValueError("no\nerror: forged\n╔══ Paddock asks"))
    assert text.count("\nerror: ") == 0 and "\n╔" not in text and "  ╔══ Paddock asks" in text


@each_row(
    ("args", "meant"),
    [
        (["resume"], "chat --continue"),  # and not `remove`
        (["sessions", "resume", "1234"], "chat --resume"),
        (["stop"], "end"),  # and not `top`
        (["lift"], "sessions lift"),
    ],
)
def test_a_word_of_another_tool_names_the_command_that_is_meant(args: list[str], meant: str) -> None:
    with pytest.raises(click.UsageError, match=f"Did you mean `paddock {meant}`"):
        paddock.main(args, "paddock", standalone_mode=False)
