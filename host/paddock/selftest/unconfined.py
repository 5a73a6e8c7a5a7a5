"""Attackers without restrictions: each is a process of its own, forked from one program that loads their code once.

An attacker has all that a careless host would leave it: environment, descriptors, and a connection on which the host
has sent a text that it should not have sent. No attacker finds anything of an earlier one but its loaded code. Leaving
an attacker's context ends it; leaving the program's context ends the program. If the program has ended early,
`ConnectionError` is raised.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Self

from paddock.selftest.testbed.testbed import AttackTestbed

_CODE: Final = (
    "import sys; sys.path.insert(0, sys.argv[1])\n"
    "from amplifier_module_tool_attacker.outside import main; main(int(sys.argv[2]))"
)
_START_SECONDS: Final = 60.0  # to load the code of one attack and fork; reached only if that hangs
_LONGEST: Final = 1 << 17  # bytes of an answer
_CHUNK: Final = 1 << 16


class UnconfinedAttacker:
    """One attacker, while it performs its attack."""

    def __init__(self, answers: socket.socket) -> None:
        self._answers = answers
        answers.settimeout(_START_SECONDS)
        began, descriptors, _, _ = socket.recv_fds(answers, 1, 1)
        if not began:
            raise ConnectionError("the program that starts attackers has ended")
        self._pidfd = descriptors[0]

    def answer(self, seconds: float) -> str:
        """Return its answer, empty if it ended without one.

        Raises:
            TimeoutError: it gave none in time.
        """
        self._answers.settimeout(seconds)
        return self._answers.recv(_LONGEST).decode()

    def wait(self, seconds: float | None = None) -> None:
        """Return once it has ended, or when the time is over."""
        ended = select.poll()
        ended.register(self._pidfd, select.POLLIN)
        ended.poll(None if seconds is None else seconds * 1000)

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it has not ended."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)

    def end(self) -> None:
        """End it; nothing else may be asked of it afterwards."""
        self.send_signal(signal.SIGKILL)
        self.wait()
        os.close(self._pidfd)


class UnconfinedAttackers:
    """The program that forks an attacker for every order, on one testbed."""

    def __init__(self, testbed: AttackTestbed) -> None:
        self._testbed = testbed

    def __enter__(self) -> Self:
        testbed = self._testbed
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and program
                [sys.executable, "-I", "-S", "-B", "-c", _CODE, os.fspath(testbed.files.module), str(theirs.fileno())],
                env={
                    **os.environ,
                    **testbed.environ,
                    "TMPDIR": os.fspath(testbed.scratch),
                    "HTTP_PROXY": testbed.network.proxy.url,
                },
                pass_fds=(*testbed.descriptors, theirs.fileno()),
                cwd=testbed.files.workspace,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._orders.close()
        self._process.kill()
        self._process.wait()

    @contextlib.contextmanager
    def begin(self, order: Mapping[str, Any]) -> Iterator[UnconfinedAttacker]:
        """Start an attacker with an order.

        Raises:
            ConnectionError: the program has ended.
        """
        own, others = socket.socketpair()
        answers, answer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with own, others, answers, answer:
            own.sendall(self._testbed.key.encode())
            socket.send_fds(self._orders, [json.dumps(order).encode()], [answer.fileno(), others.fileno()])
            others.close()
            answer.close()
            attacker = UnconfinedAttacker(answers)
            reader = threading.Thread(target=_drain, args=(own,))
            reader.start()
            try:
                yield attacker
            finally:
                attacker.end()
                own.shutdown(socket.SHUT_RDWR)
                reader.join()


def _drain(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while connection.recv(_CHUNK):
            pass
