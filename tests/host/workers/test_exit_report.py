"""An exit report says in one sentence how a module ended, and the same as data."""

from __future__ import annotations

import json

import pytest

from paddock.workers.exit_report import ExitReason, ExitReport, ExitStatus, FailedStep, LimitHit
from support.rows import each_row

MEMORY = LimitHit(name="memory_max", value=256 << 20, observed="257 MiB", mechanism="cgroup v2")


@each_row(
    ("status", "reason"),
    [
        (ExitStatus(code=0, signal=None, uptime=1), ExitReason.EXITED),
        (ExitStatus(code=3, signal=None, uptime=1), ExitReason.EXITED),
        (ExitStatus(code=None, signal=11, uptime=1), ExitReason.SIGNALLED),
        (ExitStatus(code=None, signal=9, uptime=1), ExitReason.SIGNALLED),
        (ExitStatus(code=None, signal=24, uptime=1), ExitReason.CPU),
        (ExitStatus(code=None, signal=25, uptime=1), ExitReason.DISK),
        (ExitStatus(code=None, signal=31, uptime=1), ExitReason.DENIED),
        (ExitStatus(code=None, signal=None, uptime=1), ExitReason.SIGNALLED),
        (ExitStatus(code=70, signal=None, uptime=1, failed_step=FailedStep("lockdown", 1, "no")), ExitReason.START),
    ],
)
def test_without_a_recorded_reason_it_is_what_the_status_shows(status: ExitStatus, reason: ExitReason) -> None:
    assert ExitReport.of("tool-x", status).reason is reason


def test_a_recorded_reason_outweighs_what_the_status_shows() -> None:
    killed = ExitStatus(code=None, signal=9, uptime=1)
    assert ExitReport.of("tool-x", killed, recorded=ExitReason.TIMEOUT).reason is ExitReason.TIMEOUT


@each_row(
    ("report", "sentence"),
    [
        (
            ExitReport("tool-x", ExitReason.SIGNALLED, 1.2, signal=11, call_in_flight="execute"),
            "tool-x was killed by SIGSEGV after 1.2 s while running execute",
        ),
        (ExitReport("tool-x", ExitReason.EXITED, 0.0312, code=3), "tool-x exited with code 3 after 31 ms"),
        (ExitReport("tool-x", ExitReason.SIGNALLED, 5), "tool-x vanished without a report after 5.0 s"),
        (ExitReport("tool-x", ExitReason.SIGNALLED, 65, signal=40), "tool-x was killed by signal 40 after 1 min 5 s"),
        (
            ExitReport("tool-x", ExitReason.MEMORY, 7260, signal=9, limit=MEMORY),
            "tool-x was ended for using too much memory (memory_max 256 MiB, 257 MiB seen) after 2 h 1 min",
        ),
        (
            ExitReport("tool-x", ExitReason.START, 0, detail="runtime: ModuleNotFoundError: No module named 'x'"),
            "tool-x did not start: runtime: ModuleNotFoundError: No module named 'x'",
        ),
        (ExitReport("tool-x", ExitReason.START, 0), "tool-x did not start"),
    ],
)
def test_the_sentence_names_cause_time_and_call(report: ExitReport, sentence: str) -> None:
    assert report.describe() == sentence


@each_row("reason", list(ExitReason))
def test_every_reason_has_a_sentence(reason: ExitReason) -> None:
    sentence = ExitReport("tool-x", reason, 1.0, code=1, stderr_tail=("oops",)).describe()
    assert sentence.startswith("tool-x ") and "\n" not in sentence


def test_the_data_is_the_report_in_types_json_knows() -> None:
    report = ExitReport(
        "tool-x", ExitReason.MEMORY, 2.0, signal=9, limit=MEMORY, peak_memory_bytes=1 << 28, stderr_tail=("a", "b")
    )
    data = json.loads(json.dumps(report.as_dict()))
    assert data == {
        "module": "tool-x",
        "reason": "memory",
        "code": None,
        "signal": "SIGKILL",
        "limit": {
            "name": "memory_max",
            "configured": "256 MiB",
            "observed": "257 MiB",
            "mechanism": "cgroup v2",
        },
        "peak_memory_bytes": 1 << 28,
        "uptime": 2.0,
        "call_in_flight": None,
        "stderr_tail": ["a", "b"],
        "detail": "",
        "message": "tool-x was ended for using too much memory (memory_max 256 MiB, 257 MiB seen) after 2.0 s",
    }


@pytest.mark.parametrize(
    ("limit", "proposed"),
    [
        (MEMORY, "memory_max=512M"),
        (LimitHit("memory_max", 12000 << 10, "12 MiB", "cgroup v2"), "memory_max=24000K"),
        (LimitHit("tasks_max", 600_000, "600001", "watchdog"), "tasks_max=1200000"),
        (LimitHit("runtime_max", 0.75, "", "host timer"), "runtime_max=1.5s"),
    ],
)
def test_twice_the_limit_is_proposed_as_it_is_written(limit: LimitHit, proposed: str) -> None:
    report = ExitReport("tool-x", ExitReason.TASKS, 1.0, limit=limit)
    assert report.hints == (f"to allow it more, write in its entry: limits: {{{proposed.replace('=', ': ')}}}",)
    assert report.call_hints == (f"to allow it more, add --limit {proposed}",)


def test_a_failed_step_is_named_with_its_error() -> None:
    assert FailedStep("lockdown", 1, "PR_SET_NO_NEW_PRIVS").reason == "PR_SET_NO_NEW_PRIVS (EPERM)"
    assert FailedStep("runtime", 0, "no module").reason == "no module"
