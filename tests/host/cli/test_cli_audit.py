"""`paddock audit` on a screen and for scripts: what it shows of which lines, and what `verify` says."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from paddock.audit import AuditLog, audit_path
from paddock.cli import audit_command
from paddock.cli.audit_command import audit

Said = Callable[..., tuple[int, str, str]]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    """Return the exit code of the command, and what it wrote to stdout and stderr."""

    def run(*args: str) -> tuple[int, str, str]:
        code: int = audit.main([*args], "paddock audit", standalone_mode=False)
        return (code, *capsys.readouterr())

    return run


@pytest.fixture
def log() -> AuditLog:
    log = AuditLog("0123456789-session")
    log.record("session.started", modules={"tool-x": {"level": "ns"}})
    log.record("denial", module="tool-x", target="/etc/shadow", seen_by="host")
    log.of_sub_session("child").record("denial", module="tool-y", target="/etc/hosts")
    AuditLog("another").record("session.ended")
    return log


def test_lines_are_chosen_by_session_event_and_module(said: Said, log: AuditLog) -> None:
    def events(*args: str) -> list[str]:
        code, out, _ = said(*args, "--json")
        assert code == 0
        return [json.loads(line)["event"] for line in out.splitlines()]

    assert events() == ["session.started", "denial", "denial", "session.ended"]
    assert events("--session", "0123") == ["session.started", "denial", "denial"]
    assert events("--session", "child") == ["denial"]
    assert events("--event", "session") == ["session.started", "session.ended"]
    assert events("--module", "tool-x") == ["session.started", "denial"]
    assert events("--event", "sess") == []
    assert "the audit log has no such line" in said("--event", "denial", "--session", "another")[2]
    assert "its events are denial, session.ended, session.started" in said("--event", "denials")[2]


def test_a_line_for_people_has_the_rest_behind_its_event(said: Said, log: AuditLog) -> None:
    code, out, err = said("--event", "denial", "--module", "tool-x")
    assert (code, err) == (0, "")
    assert out.rstrip().endswith("Z  01234567  denial  tool-x  target=/etc/shadow seen_by=host")
    log.record("module.ended", module="tool-z", report={"reason": "memory", "message": "ended at 128M"}, calls=3)
    assert said("--module", "tool-z")[1].rstrip().endswith('tool-z  report="ended at 128M" calls=3')


def test_hostile_texts_act_on_no_screen_and_pass_for_no_other_field(said: Said, log: AuditLog) -> None:
    log.record("denial", module="tool\x1b[2J", target="x seen_by=host\u202e\x9b\nerror: y")
    with audit_path().open("ab") as file:
        file.write(b'{"event": "\x1b]0;t\x07"}\n' + '{"time": "\x7f\x9b2J", "event": "x\u202e"}\n'.encode())
    for args in ([], ["--json"]):
        code, out, err = said(*args)
        assert code == 0 and all(one.isprintable() for one in (out + err).replace("\n", ""))
    assert r'target="x seen_by=host\u202e\x9b\nerror: y"' in out.replace(r"\u009b", r"\x9b") or args
    assert "line 6 of" in err and "is none that Paddock wrote" in err


def test_lines_that_come_are_shown_until_it_is_ended(
    said: Said, log: AuditLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.record("denial", module="tool-z", number=0)
    coming = iter(["tool-x", "tool-z"])

    def pause(_: float) -> None:
        module = next(coming, None)
        if module is None:
            raise KeyboardInterrupt
        log.record("denial", module=module, number=1)

    monkeypatch.setattr(audit_command.time, "sleep", pause)
    code, out, _ = said("--module", "tool-z", "-f", "--json")
    assert code == 130
    *lines, interrupted = map(json.loads, out.splitlines())
    assert [line["number"] for line in lines] == [1] and interrupted["error"]


def test_what_was_never_recorded_is_said(said: Said) -> None:
    for args in ([], ["verify"], ["-f"]):
        code, out, err = said(*args)
        assert (code, out) == (1, "") and "nothing was recorded here" in err


def test_verify_tells_the_digest_that_it_takes_again(said: Said, log: AuditLog) -> None:
    def facts(*args: str) -> tuple[int, dict[str, Any]]:
        code, out, _ = said("verify", *args, "--json")
        return code, json.loads(out)

    code, good = facts()
    assert (code, good["ok"], good["lines"], good["before"], good["error"]) == (0, True, 4, 0, None)
    log.record("session.ended")
    assert facts("--ends-with", good["ends_with"])[1]["since"] == 1
    assert said("verify")[1].splitlines()[0].endswith("5 lines, each to the one before")
    code, out, err = said("verify", "--ends-with", "0" * 32)
    assert code == 1 and "the end was cut off" in err and "5 lines" in out
    audit_path().write_text(audit_path().read_text().replace("/etc/hosts", "/etc/host"))
    code, bad = facts()
    assert (code, bad["ok"]) == (1, False)
    assert bad["wrong"].startswith(f"line 4 of {audit_path()} does not go on from the line before")
    assert bad["wrong"] in said("verify")[2]
    audit_path().write_text('{"event": "old"}\n')
    assert "there is nothing to check" in said("verify")[2]
