"""The sockets, pipes and shared memory between the host and one process tree, both ends, until each side has its own.

It opens all or nothing. It owns every descriptor that it opened until a caller takes it; `close` releases the rest.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from contextlib import ExitStack

from paddock_sdk.worker.attempts import attempt_log

# Large frames reach the loop in fewer, bigger pieces; the system may grant less.
_RPC_BUFFER_BYTES = 4 << 20


class ChildPipes:
    """One rpc stream, one init socket, two output pipes and the log of attempts."""

    def __init__(self) -> None:
        with ExitStack() as opened:
            self.rpc, self._worker_rpc = _pair(opened, socket.SOCK_STREAM)
            self.init_socket, self._worker_init_socket = _pair(opened, socket.SOCK_SEQPACKET)
            self.stdout, self._worker_stdout = _pipe(opened)
            self.stderr, self._worker_stderr = _pipe(opened)
            self.attempts = _sealed_memory(opened, attempt_log.SIZE)
            opened.pop_all()
        for end in (self.rpc, self._worker_rpc):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _RPC_BUFFER_BYTES)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RPC_BUFFER_BYTES)
        self.rpc.setblocking(False)

    @property
    def worker_fds(self) -> dict[str, int]:
        """The worker's ends by name, in the order a template expects them."""
        return {
            "rpc": self._worker_rpc.fileno(),
            "stdout": self._worker_stdout,
            "stderr": self._worker_stderr,
            "init_socket": self._worker_init_socket.fileno(),
        }

    def tell_worker(self, message: bytes) -> None:
        """Write the first bytes for the worker into the rpc stream, with the log of attempts; they wait there.

        Raises:
            OSError: they do not fit into an empty socket's buffer.
        """
        if socket.send_fds(self.rpc, [message], [self.attempts], socket.MSG_NOSIGNAL) != len(message):
            raise OSError(errno.ENOBUFS, "the socket of a new worker has no room for its first data")

    def close_worker_ends(self) -> None:
        """Close the host's copies of the worker's ends, so that each stream ends when the worker closes it."""
        if self._worker_stdout >= 0:
            os.close(self._worker_stdout)
            os.close(self._worker_stderr)
            self._worker_stdout = self._worker_stderr = -1
        self._worker_rpc.close()
        self._worker_init_socket.close()


def _pair(opened: ExitStack, kind: socket.SocketKind) -> tuple[socket.socket, socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
    opened.callback(ours.close)
    opened.callback(theirs.close)
    return ours, theirs


def _pipe(opened: ExitStack) -> tuple[int, int]:
    ours, theirs = os.pipe()
    opened.callback(os.close, ours)
    opened.callback(os.close, theirs)
    return ours, theirs


def _sealed_memory(opened: ExitStack, size: int) -> int:
    """Return a descriptor of memory, all 0, whose size cannot be changed."""
    memory = os.memfd_create("paddock-attempts", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    opened.callback(os.close, memory)
    os.ftruncate(memory, size)
    fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return memory
