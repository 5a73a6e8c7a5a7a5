"""Perform an attack outside, in a process without restrictions, to show that the act is possible at all.

Only then does a refusal inside prove anything: isolation caused it, and not a missing program, a closed port or a
defect of the attack.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from paddock.selftest.attack import Attack, Outside
from paddock.selftest.testbed.observers import GATES
from paddock.selftest.testbed.testbed import AttackTestbed

# Compiled code is kept for the next process, where no attack looks for it.
_CODE: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); sys.pycache_prefix = sys.argv[2]\n"
    "from amplifier_module_tool_attacker.outside import main; main()"
)
_ANSWER_SECONDS: Final = 20.0  # for one attack; reached only if it hangs
_ENDLESS_SECONDS: Final = 0.4  # a process that runs longer counts as not ending
_CHUNK: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class OutsideAttempt:
    """The result of one way of an attack: it `worked`, was `refused` by `word`, or is `broken`."""

    way: str
    outcome: str
    word: str
    how: str

    @classmethod
    def all_of(cls, answer: Mapping[str, Any]) -> tuple[OutsideAttempt, ...]:
        """Return the attempts in an attacker's report; it ran outside and is Paddock's own.

        Raises:
            ValueError: this is no attacker's report.
        """
        try:
            return tuple(cls(*(str(way[name]) for name in ("way", "outcome", "word", "how"))) for way in answer["ways"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"no answer of an attack: {error!r}") from error


@dataclass(frozen=True, slots=True)
class OutsideResult:
    """The result of an attack outside.

    `shown` describes in words what worked, empty if nothing did. `expected_failures` are the reasons for which some of
    it, or all, could not be shown on this machine; `problem` is why it should have worked and did not.
    """

    shown: str
    expected_failures: tuple[str, ...] = ()
    problem: str = ""

    @property
    def proves_something(self) -> bool:
        """Whether a refusal inside proves anything."""
        return bool(self.shown) and not self.problem


def perform_outside(attack: Attack, testbed: AttackTestbed) -> OutsideResult:
    """Perform the attack on a stage, and leave the stage as it was; takes as long as the act."""
    testbed.renew()
    if attack.saves is not None:
        testbed.files.save(attack.saves(testbed))
    try:
        match attack.outside:
            case Outside.RUNS_ON:
                control = _run_on(attack, testbed)
            case Outside.LIVES_ON:
                control = _live_on(attack, testbed)
            case _:
                control = _answer(attack, testbed)
        if attack.marks and control.proves_something and not testbed.marks():
            return OutsideResult("", problem="it left no mark on the stage, so none would be noticed inside")
        return control
    finally:
        testbed.renew()


def _answer(attack: Attack, testbed: AttackTestbed) -> OutsideResult:
    with _attacker(attack, testbed) as process:
        try:
            said, _ = process.communicate(_order(attack, testbed), timeout=_ANSWER_SECONDS)
        except subprocess.TimeoutExpired:
            return OutsideResult("", problem=f"it gave no answer within {_ANSWER_SECONDS:g} s")
    return _judged(attack, said)


def _judged(attack: Attack, said: str) -> OutsideResult:
    try:
        attempts = OutsideAttempt.all_of(json.loads(said))
    except ValueError as error:
        return OutsideResult("", problem=f"its answer is none: {error}")
    worked = [attempt for attempt in attempts if attempt.outcome == "worked"]
    failed = [attempt for attempt in attempts if attempt.outcome != "worked"]
    unexcused = [attempt for attempt in failed if not attack.reason_for(attempt.word)]
    expected_failures = tuple(dict.fromkeys(filter(None, (attack.reason_for(attempt.word) for attempt in failed))))
    failures = "; ".join(f"{attempt.way}: {attempt.how}" for attempt in unexcused)
    is_enough = not unexcused or (worked and attack.outside is Outside.ANSWERS_ONCE)
    return OutsideResult(
        ", ".join(attempt.way for attempt in worked), expected_failures, "" if is_enough else f"outside too, {failures}"
    )


def _run_on(attack: Attack, testbed: AttackTestbed) -> OutsideResult:
    with _attacker(attack, testbed) as process:
        try:
            said, _ = process.communicate(_order(attack, testbed), timeout=_ENDLESS_SECONDS)
        except subprocess.TimeoutExpired:
            return OutsideResult(f"still at it after {_ENDLESS_SECONDS:g} s")
    return OutsideResult("", problem=f"it ended by itself: {said}")


def _live_on(attack: Attack, testbed: AttackTestbed) -> OutsideResult:
    """Let the attacker come to its end, examine what is left of it, and end that as well."""
    with _attacker(attack, testbed) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(_order(attack, testbed, and_end=True))
        process.stdin.close()
        said = process.stdout.readline()
        daemon = said.partition("daemon ")[2].partition('"')[0]
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_ENDLESS_SECONDS)
        process.terminate()
        time.sleep(_ENDLESS_SECONDS / 4)  # for the signal to have no effect
        lives = testbed.is_lock_held()
        if daemon.isdigit():
            os.kill(int(daemon), signal.SIGKILL)
    return (
        OutsideResult("lives on after its end")
        if lives
        else OutsideResult("", problem=f"nothing of it lives on: {said}")
    )


@contextlib.contextmanager
def _attacker(attack: Attack, testbed: AttackTestbed) -> Iterator[subprocess.Popen[str]]:
    """Start an attacker with all that a careless host would leave it: environment, descriptors, and a connection.

    On the connection the host has sent a text that it should not have sent.
    """
    own, others = socket.socketpair()
    with own, others:
        own.sendall(testbed.key.encode())
        reader = threading.Thread(target=_drain, args=(own,))
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and program
            [sys.executable, "-I", "-S", "-c", _CODE, os.fspath(testbed.files.module), os.fspath(testbed.compiled)],
            env={
                **os.environ,
                **testbed.environ,
                "TMPDIR": os.fspath(testbed.scratch),
                "HTTP_PROXY": testbed.network.proxy.url,
            },
            pass_fds=(*testbed.descriptors, others.fileno()),
            cwd=testbed.files.workspace,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        others.close()
        reader.start()
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
            own.shutdown(socket.SHUT_RDWR)
            reader.join()


def _drain(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while connection.recv(_CHUNK):
            pass


def _order(attack: Attack, testbed: AttackTestbed, *, and_end: bool = False) -> str:
    arguments = (attack.outside_arguments or attack.arguments)(testbed)
    order = {
        "body": attack.body,
        "arguments": dict(arguments),
        "before": attack.before,
        "and_end": and_end,
        "paths": sys.path,  # for attacks on a session, for which the module contract's own code stands in
        "gates": list(GATES),
    }
    return json.dumps(order) + "\n"
