"""Attackers without restrictions: each is a process of its own, forked from one program that loads their code once.

An attacker has all that a careless host would leave it: environment, descriptors, and a connection on which the host
has sent a text that it should not have sent. No attacker finds anything of an earlier one but its loaded code. Leaving
an attacker's context ends it; `close` ends the program. An attacker that does not come about
raises `ConnectionError` or `TimeoutError`, and the next is forked from a new program.
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
from typing import Any, Final

from paddock.selftest.testbed.testbed import AttackTestbed

_CODE: Final = (
    "import sys; sys.path.insert(0, sys.argv[1])\n"
    "from amplifier_module_tool_attacker.outside import main; main(int(sys.argv[2]))"
)
_START_SECONDS: Final = 60.0  # to load the code of one attack and fork; reached only if that hangs
_LONGEST: Final = 1 << 17  # bytes of an answer
_CHUNK: Final = 1 << 16


class UnconfinedAttacker:
    """One attacker, while it performs its attack: its process, and the socket on which it answers."""

    def __init__(self, pidfd: int, answers: socket.socket) -> None:
        self._pidfd = pidfd
        self._answers = answers

    def answer(self, seconds: float) -> str:
        """Return its answer, empty if it ended without one.

        Raises:
            TimeoutError: it gave none in time.
        """
        self._answers.settimeout(seconds)
        try:
            return self._answers.recv(_LONGEST).decode()
        except TimeoutError:
            raise TimeoutError(f"it gave no answer within {seconds:g} s") from None

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
    """Starts attackers on one testbed, each by an order to a program that forks them."""

    def __init__(self, testbed: AttackTestbed) -> None:
        self._testbed = testbed
        self._program = _Program(testbed)

    @contextlib.contextmanager
    def begin(self, order: Mapping[str, Any]) -> Iterator[UnconfinedAttacker]:
        """Start an attacker with an order.

        Raises:
            ConnectionError: the program has ended, perhaps because of the order.
            TimeoutError: the program did not start it in time.
        """
        own, others = socket.socketpair()
        answers, answer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with own, answers:
            with others, answer:
                own.sendall(self._testbed.key.encode())
                try:
                    self._program.order(order, answer, others)
                except ConnectionError:
                    self._start_anew()
                    raise
            attacker = UnconfinedAttacker(self._process_of(answers), answers)
            reader = threading.Thread(target=_drain, args=(own,))
            reader.start()
            try:
                yield attacker
            finally:
                attacker.end()
                own.shutdown(socket.SHUT_RDWR)
                reader.join()

    def close(self) -> None:
        """End the program; nothing can be started afterwards."""
        self._program.end()

    def _process_of(self, answers: socket.socket) -> int:
        """Return the descriptor of the attacker's process, which it sends first."""
        answers.settimeout(_START_SECONDS)
        try:
            _, descriptors, _, _ = socket.recv_fds(answers, 1, 1)
        except TimeoutError:
            self._start_anew()
            raise TimeoutError(f"it was not started within {_START_SECONDS:g} s") from None
        if not descriptors:
            self._start_anew()
            raise ConnectionError("it was not started: the program that starts attackers has ended")
        return descriptors[0]

    def _start_anew(self) -> None:
        self._program.end()
        self._program = _Program(self._testbed)


class _Program:
    """The program that forks an attacker for every order."""

    def __init__(self, testbed: AttackTestbed) -> None:
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

    def order(self, order: Mapping[str, Any], answer: socket.socket, connection: socket.socket) -> None:
        """Have it fork an attacker, with a socket for its answer and a connection to a host.

        Raises:
            ConnectionError: it has ended.
        """
        socket.send_fds(self._orders, [json.dumps(order).encode()], [answer.fileno(), connection.fileno()])

    def end(self) -> None:
        self._orders.close()
        self._process.kill()
        self._process.wait()


def _drain(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while connection.recv(_CHUNK):
            pass
