"""What the workers of these tests do instead of serving a host: one function for each way to live or to end."""

from __future__ import annotations

import atexit
import ctypes
import importlib
import importlib.metadata
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading

FLOOD_BYTES = 4 << 20


def returns(rpc: socket.socket, name: str) -> None:
    print(f"{name} is done")


def exits_with_3(rpc: socket.socket, name: str) -> None:
    sys.exit(3)


def exits_with_text(rpc: socket.socket, name: str) -> None:
    sys.exit("no luck")


def raises(rpc: socket.socket, name: str) -> None:
    raise RuntimeError("broken on purpose")


def segfaults(rpc: socket.socket, name: str) -> None:
    print("about to fault", file=sys.stderr)
    ctypes.string_at(0)


def waits(rpc: socket.socket, name: str) -> None:
    rpc.send(b"here")
    rpc.recv(1)


def waits_after_closing_its_socket(rpc: socket.socket, name: str) -> None:
    rpc.close()
    signal.pause()


def ignores_sigterm(rpc: socket.socket, name: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    rpc.send(b"here")
    while True:
        signal.pause()


def stops_its_init(rpc: socket.socket, name: str) -> None:
    os.kill(os.getppid(), signal.SIGSTOP)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    rpc.send(b"here")
    while True:
        signal.pause()


def kills_its_init(rpc: socket.socket, name: str) -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    while True:
        signal.pause()


def floods(rpc: socket.socket, name: str) -> None:
    for _ in range(FLOOD_BYTES >> 10):
        print("x" * 1023)
        print("y" * 1023, file=sys.stderr)
    piece = b"z" * (1 << 16)
    for fd in (1, 2):
        for _ in range(FLOOD_BYTES >> 16):
            os.write(fd, piece)
    print("\nlast words", file=sys.stderr)


def leaves_daemons(rpc: socket.socket, name: str) -> None:
    """Start a child, a grandchild in a session of its own and an orphan forked twice; all hold the fifo open."""
    fifo = os.open(os.environ["FIFO"], os.O_WRONLY)
    try:
        subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"], pass_fds=(fifo,))
    except PermissionError:
        pass  # shut in, it may start no program; it still may fork
    ready, written = os.pipe()
    for sessions in (1, 2):
        if os.fork() == 0:
            os.setsid()
            if sessions == 2 and os.fork() != 0:
                os._exit(0)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.write(written, b"x")
            while True:
                signal.pause()
    for _ in range(2):
        os.read(ready, 1)
    rpc.send(b"here")
    rpc.recv(1)


def forks_without_end(rpc: socket.socket, name: str) -> None:
    """Leave a chain of processes, each of which starts its successor, in a session of its own, and ends."""
    os.open(os.environ["FIFO"], os.O_WRONLY)
    rpc.send(b"here")
    if os.fork() == 0:
        while True:
            os.setsid()
            if os.fork() != 0:
                os._exit(0)


def sends_a_random_number(rpc: socket.socket, name: str) -> None:
    rpc.send(random.randbytes(16))


def outlives_its_entry(rpc: socket.socket, name: str) -> None:
    threading.Thread(target=lambda: print("thread done")).start()
    atexit.register(print, "at exit")


def describes_itself(rpc: socket.socket, name: str) -> None:
    inherited = []
    for fd in map(int, os.listdir("/proc/self/fd")):
        try:
            inherited.append((fd, os.readlink(f"/proc/self/fd/{fd}")))
        except OSError:
            pass  # the listing's own
    status = dict(line.split(":\t", 1) for line in open("/proc/self/status").read().splitlines())
    described = {
        "environ": dict(os.environ),
        "initial_environ": open("/proc/self/environ").read(),
        "fds": inherited,
        "rpc": rpc.fileno(),
        "path": sys.path,
        "argv": sys.argv,
        "cwd": os.getcwd(),
        "umask": status["Umask"],
        "no_new_privs": status["NoNewPrivs"],
        "blocked": int(status["SigBlk"], 16),
        "ignored": int(status["SigIgn"], 16),
        "threads": len(os.listdir("/proc/self/task")),
        "session": (os.getsid(0), os.getpgrp(), os.getpid()),
        "stdin": sys.stdin.read(),
        "importable": {name: _can_import(name) for name in os.environ.get("TRY", "").split()},
        "versions": {name: _version_of(name) for name in ("pydantic", "anyio")},
    }
    rpc.sendall(json.dumps(described).encode())


def _can_import(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


def _version_of(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
