"""What is told of a guarded file is told once it is guarded, however the replacement and the looks at it fall."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from paddock_sandbox.profile import Mount
from paddock_sdk.worker import mount_guard
from paddock_sdk.worker.init_socket import unpack
from paddock_sdk.worker.mount_guard import _Guard, _Worker


class _Kernel:
    """The mounts of workers over one file, by their numbers; `then` happens right after the next look at them."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.attached = {0, 1}
        self.takes = {0, 1}
        self.gone_at_once = False
        self.then: bytes | None = None

    def look(self, worker: int) -> frozenset[str]:
        there = frozenset({str(self.file)} if worker in self.attached else ())
        if self.then is not None:
            self.replace(self.then)
            self.then = None
        return there

    def replace(self, content: bytes) -> None:
        new = self.file.with_name("new")
        new.write_bytes(content)
        self.attached.clear()
        os.replace(new, self.file)

    def put_back(self, worker: int, missing: Sequence[Mount]) -> tuple[str, ...]:
        if self.gone_at_once:  # the kernel detaches a mount a moment before the name is gone
            self.file.unlink()
            return ("No such file or directory",) * len(missing)
        self.attached |= {worker} & self.takes
        return ("",) * len(missing)


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Kernel:
    file = tmp_path / "file"
    file.write_bytes(b"one")
    kernel = _Kernel(file)
    monkeypatch.setattr(mount_guard, "attached", kernel.look)
    monkeypatch.setattr(mount_guard, "put_back", kernel.put_back)
    return kernel


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    host, guard = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with host, guard:
        host.setblocking(False)
        yield host, guard


def _told(guard: _Guard, host: socket.socket) -> list[str]:
    """Return what is told after one look."""
    guard._mend()
    told = []
    while True:
        try:
            told.append(unpack(host.recv(1 << 16))["what"])
        except BlockingIOError:
            return told


def _guarding(kernel: _Kernel, control: socket.socket, *workers: int) -> _Guard:
    guard = _Guard(control)
    mount = Mount(str(kernel.file), str(kernel.file))
    guard._workers += [_Worker(number, [mount], [], [number] * 3) for number in workers]
    return guard


def test_what_is_replaced_during_a_look_is_told_once_it_is_guarded(
    kernel: _Kernel, ends: tuple[socket.socket, socket.socket]
) -> None:
    host, control = ends
    guard = _guarding(kernel, control, 0)
    kernel.then = b"two!"
    assert _told(guard, host) == []
    assert _told(guard, host) == ["with other content, 3 bytes before and 4 now"]
    assert kernel.attached == {0}


def test_what_is_removed_is_not_told_to_be_guarded(kernel: _Kernel, ends: tuple[socket.socket, socket.socket]) -> None:
    host, control = ends
    guard = _guarding(kernel, control, 0)
    kernel.attached.clear()
    kernel.gone_at_once = True
    assert _told(guard, host) == []
    kernel.gone_at_once = False
    kernel.file.write_bytes(b"three")
    assert _told(guard, host) == ["with other content, 3 bytes before and 5 now"]


def test_a_file_is_told_to_be_guarded_when_it_is_so_for_every_module(
    kernel: _Kernel, ends: tuple[socket.socket, socket.socket]
) -> None:
    host, control = ends
    guard = _guarding(kernel, control, 0, 1)
    kernel.takes = {0}
    kernel.replace(b"two!")
    assert _told(guard, host) == []
    kernel.takes = {1}
    assert _told(guard, host) == ["with other content, 3 bytes before and 4 now"] * 2
