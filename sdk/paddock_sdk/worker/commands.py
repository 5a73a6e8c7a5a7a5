"""Run commands for the host, one after the other, in a sandboxed worker: an entry beside that of modules.

A request is its length, the arguments in msgpack, and three descriptors of pipes: the command's input, output and
messages, which it shares with the host. The answer is the exit code and, of a command that could not be started, the
error number. A length of 0 asks for the end of the command that runs.

Each command is a process group of its own, and nothing of it is left when it has ended. The worker ends when the host
closes the connection, and its init then ends all that still runs.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import struct
import subprocess
from contextlib import suppress
from typing import Final

import msgpack

from paddock_sdk.worker.init_socket import read_exactly

LENGTH: Final = struct.Struct(">I")
ANSWER: Final = struct.Struct(">iI")  # the code is negative for a signal

_PIPES: Final = 3
_GRACE_SECONDS: Final = 0.5  # for a command to end by itself, and remove what it has half made
_OWN_INIT: Final = 1


def serve(rpc: socket.socket, name: str) -> None:
    """Run the host's commands until it closes the connection."""
    rpc.setblocking(True)
    is_alone = os.getppid() == _OWN_INIT  # asked before an init can have ended, which would leave us to the machine's
    with suppress(ConnectionError, EOFError):
        while True:
            length, pipes, _, _ = socket.recv_fds(rpc, LENGTH.size, _PIPES, socket.MSG_CMSG_CLOEXEC)
            if not length:
                return
            if request := read_exactly(rpc.fileno(), *LENGTH.unpack(length)):
                rpc.sendall(ANSWER.pack(*_run(rpc, msgpack.unpackb(request), pipes, is_alone)))


def _run(rpc: socket.socket, argv: list[bytes], pipes: list[int], is_alone: bool) -> tuple[int, int]:
    """Run a command to its end, or until the host says anything, or is gone; return its code and an error number.

    `is_alone`: process numbers are our own, so all that there are besides the init are ours.
    """
    given, printed, messages = pipes
    try:
        process = subprocess.Popen(  # noqa: S603 - what to run is the host's to say, who may do anything here
            argv, stdin=given, stdout=printed, stderr=messages, start_new_session=True
        )
    except (IndexError, OSError, ValueError) as error:  # an empty list has no program
        return -1, getattr(error, "errno", None) or errno.EINVAL
    finally:
        for pipe in pipes:
            os.close(pipe)
    pidfd = os.pidfd_open(process.pid)
    ends = select.poll()
    ends.register(pidfd, select.POLLIN)
    ends.register(rpc, select.POLLIN)
    if pidfd not in dict(ends.poll()):
        _signal(process, signal.SIGTERM)
        ends.unregister(rpc)
        ends.poll(_GRACE_SECONDS * 1000)
    _signal(process, signal.SIGKILL)  # also what it left behind, while its number cannot mean another process
    if is_alone:
        with suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)  # neither us nor the init
    os.close(pidfd)
    return process.wait(), 0


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
