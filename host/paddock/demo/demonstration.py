"""Run the demonstration and gather its results.

The job: three files of expenses are read, added up and summarised in a fourth, in a folder that is made for it and
removed with everything in it. Beside that folder are things that no module is granted: a key, a server, and this very
process. The results are compared with sums made here from the same files. What each module did and how it ended comes
from reports, the conversation and the log, not from expectations.
"""

from __future__ import annotations

import csv
import json
import os
import secrets
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from types import FrameType
from typing import Any, Final, Self

from paddock.demo.story import ModulePart, TurnMessages
from paddock.errors import IsolationUnavailableError
from paddock.isolation.levels import guarantees_missing
from paddock.session.session import ModuleStatus, Session
from paddock.workers.exit_report import ExitReason
from paddock_sandbox.profile import IsolationLevel

_HERE: Final = Path(__file__).resolve().parent
PLAN: Final = _HERE / "plan.yaml"
_EXPENSES: Final = _HERE / "expenses"
_PROMPT: Final = "What did we spend in the first quarter? Write the sums by month to summary.md."
_SUMMARY: Final = "summary.md"
_LOG: Final = "session.jsonl"
_PRINTED_AT_LEAST: Final = 8 * 1024 * 1024  # four times the chatterbox's setting in the plan
_KEPT_AT_MOST: Final = 64 * 1024  # the log that a module has by default
_SIGNAL: Final = signal.SIGWINCH  # ignored by default: it does no harm if it arrives


@dataclass(frozen=True, slots=True)
class DemoOutcome:
    """The results of the demonstration; `problems` are the differences from the expected ones.

    `weaker` says, where the usual isolation was unavailable, why, and what the level in use does not give.
    """

    answer: str
    expected_total: str
    summary: str
    seconds: float
    parts: tuple[ModulePart, ...]
    problems: tuple[str, ...]
    weaker: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """Return it as data for JSON."""
        return {
            "ok": not self.problems,
            "answer": self.answer,
            "expected_total": self.expected_total,
            "file": {"name": _SUMMARY, "content": self.summary},
            "seconds": round(self.seconds, 2),
            "modules": [part.as_dict() for part in self.parts],
            "problems": list(self.problems),
            "weaker": list(self.weaker),
        }


class Demonstration:
    """One run of it; `session` is the session while it runs."""

    def __init__(self) -> None:
        self.session: Session | None = None

    async def run(self) -> DemoOutcome:
        """Do the job and return the results.

        Raises:
            PaddockError: the session could not be started, or its turn failed.
        """
        try:
            return await self._run()
        except IsolationUnavailableError as error:
            # Accepted here and reported: the modules are the demonstration's own, and that level refuses the same acts.
            outcome = await self._run("landlock")
            lacking = (f"not given at isolation landlock: {sentence}" for sentence in guarantees_missing("landlock"))
            return replace(outcome, weaker=(error.summary, *error.detail, *lacking))

    async def _run(self, isolation: IsolationLevel | None = None) -> DemoOutcome:
        began = time.monotonic()
        with DemoWorkspace() as scene:
            for file in sorted(_EXPENSES.iterdir()):
                shutil.copy(file, scene.folder)
            async with Session(
                PLAN,
                working_dir=scene.folder,
                environ={**os.environ, **scene.environ},
                isolation=isolation,
                trust_plan=isolation is not None,
            ) as session:
                self.session = session
                answer = await session.execute(_PROMPT)
                conversation = TurnMessages(await session.coordinator.get("context").get_messages())
                # Before the session ends: at the end every module gets a report, the well-behaved as well.
                fared = session.modules
            # After the end, all output has been counted.
            printed = {status.module: status for status in session.modules}
            summary, log = _read(scene.folder / _SUMMARY), _read(scene.folder / _LOG)
            parts = tuple(
                ModulePart.of(status, printed[status.module], conversation, len(log.splitlines())) for status in fared
            )
            expected = _total()
            problems = [*_problems(answer, expected, summary, parts), *scene.losses()]
            return DemoOutcome(answer, expected, summary, time.monotonic() - began, parts, tuple(problems))


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _total() -> str:
    total = Decimal(0)
    for path in _EXPENSES.iterdir():
        with path.open(encoding="utf-8", newline="") as file:
            total += sum((Decimal(row["amount"]) for row in csv.DictReader(file)), Decimal(0))
    return str(total)


def _problems(answer: str, expected: str, summary: str, parts: Sequence[ModulePart]) -> list[str]:
    """Return each difference from the expected results."""
    by_module: Mapping[str, Any] = {part.status.module: part for part in parts}
    crasher, chatterbox = by_module["tool-crasher"], by_module["tool-chatterbox"]
    checks = {
        f"the answer does not name the right total, {expected}": f" {expected};" in answer,
        f"{_SUMMARY} does not hold the right total, {expected}": f"**{expected}**" in summary,
        "a module was not mounted": all(part.status.is_mounted for part in parts),
        "the tool that crashes was not killed by SIGSEGV": [
            report.signal_name for report in crasher.status.exit_reports
        ]
        == ["SIGSEGV"],
        "the tool that prints did not print all, or too much of it was kept": chatterbox.printed_bytes
        >= _PRINTED_AT_LEAST
        and chatterbox.kept_bytes <= _KEPT_AT_MOST
        and not chatterbox.status.exit_reports,
        "the hook that hangs was not ended for it and started again": _was_timed_out(by_module["hooks-sleeper"].status),
        "a module that did nothing wrong ended early": not any(
            part.status.exit_reports
            for name, part in by_module.items()
            if name not in ("tool-crasher", "tool-forker", "tool-glutton", "hooks-sleeper")
        ),
        "the tool that eats memory was not ended for it": [
            report.reason for report in by_module["tool-glutton"].status.exit_reports
        ]
        == [ExitReason.MEMORY],
        "the tool that forks was neither refused nor ended for it": by_module["tool-forker"].is_refused
        or [report.reason for report in by_module["tool-forker"].status.exit_reports] == [ExitReason.TASKS],
        "the tool that snoops got something": by_module["tool-snoop"].is_refused,
    }
    return [problem for problem, is_fine in checks.items() if not is_fine]


def _was_timed_out(status: ModuleStatus) -> bool:
    return [report.reason for report in status.exit_reports] == [ExitReason.TIMEOUT] and status.restarts == 1


class DemoWorkspace:
    """A context for one run; modules work in `folder`, where a file names the places of everything else.

    Everything is made for one run and gone after it: a private key, a server on this machine that records its callers,
    and a handler for the signal that a module tries to send to this process.

    `environ` keeps the session's records in this folder, and not among the user's own.
    """

    def __init__(self) -> None:
        self._around = tempfile.TemporaryDirectory(prefix="paddock-demo-")
        around = Path(self._around.name).resolve()
        self.folder = around / "work"
        self.folder.mkdir()
        self._key = secrets.token_hex(16)
        key = around / "home" / ".ssh" / "id_ed25519"
        key.parent.mkdir(parents=True)
        key.write_text(self._key, encoding="utf-8")
        self.environ = {name: str(around) for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")}
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.setblocking(False)
        self._signals = 0
        self._handler = signal.getsignal(_SIGNAL)
        targets = {"key": str(key), "port": self._server.getsockname()[1], "host": os.getpid()}
        (self.folder / "targets.json").write_text(json.dumps(targets), encoding="utf-8")

    def __enter__(self) -> Self:
        signal.signal(_SIGNAL, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(_SIGNAL, self._handler)
        self._server.close()
        self._around.cleanup()

    def losses(self) -> list[str]:
        """Return the protected things that a module reached without a grant."""
        losses = []
        if any(self._key in file.read_text(errors="replace") for file in self.folder.rglob("*") if file.is_file()):
            losses.append("the private key is in a file of the folder")
        try:
            self._server.accept()[0].close()
            losses.append("the server was called")
        except BlockingIOError:
            pass
        if self._signals:
            losses.append("the host was signalled")
        return losses

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._signals += 1
