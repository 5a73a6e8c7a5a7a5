"""What the workers of these tests do instead of serving a host: one function for each way to live or to end."""

from __future__ import annotations

import atexit
import ctypes
import errno
import gc
import importlib
import importlib.metadata
import json
import os
import random
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from typing import Any

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


def refers_to_all_and_collects(rpc: socket.socket, name: str) -> None:
    kept = [value for module in list(sys.modules.values()) for value in list(vars(module).values())]
    kept += [list(vars(value).values()) for value in kept if isinstance(value, type)]
    gc.collect()
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


def tries_to_harm_its_init(rpc: socket.socket, name: str) -> None:
    told = [_outcome("signal", os.getppid(), number) for number in (signal.SIGSTOP, signal.SIGKILL)]
    rpc.sendall(json.dumps(told).encode())


def kills_its_init(rpc: socket.socket, name: str) -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    while True:
        signal.pause()


def aborts(rpc: socket.socket, name: str) -> None:
    os.abort()


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
    except OSError:
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


def leaves_orphans(rpc: socket.socket, name: str) -> None:
    """Leave as many orphans as are asked for; all of them end when the host says so."""
    end, held = os.pipe()
    parent = os.fork()
    if parent == 0:
        for _ in range(int(os.environ["ORPHANS"])):
            if os.fork() == 0:
                os.close(held)
                os.read(end, 1)
                os._exit(0)
        os._exit(0)
    os.waitpid(parent, 0)
    rpc.send(b"here")
    rpc.recv(1)
    os.close(held)
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


def tries(rpc: socket.socket, name: str) -> None:
    """Do what the environment names, a list of acts with their arguments, and send what came of each."""
    acts = json.loads(os.environ["ACTS"])
    rpc.sendall(json.dumps([_outcome(*act) for act in acts]).encode())


def tries_when_told(rpc: socket.socket, name: str) -> None:
    """Do the same once the host says so."""
    rpc.recv(2)
    tries(rpc, name)


def tries_and_waits(rpc: socket.socket, name: str) -> None:
    """Do the same, and end only with the host's connection."""
    tries(rpc, name)
    rpc.shutdown(socket.SHUT_WR)
    rpc.recv(1)


def _outcome(act: str, *arguments: object) -> str:
    try:
        said = _ACTS[act](*arguments)
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "ok" if said is None else str(said)


def _read(path: str) -> str:
    with open(path) as file:
        return file.read()


def _write(path: str, text: str = "written") -> None:
    with open(path, "w") as file:
        file.write(text)


def _open_descriptors() -> str:
    """Without a /proc, which not every level has."""
    found = []
    for fd in range(256):
        try:
            os.fstat(fd)
        except OSError:
            continue
        found.append(fd)
    return str(len(found))


def _reach(address: str, port: int) -> str:
    """Connect, and return all that is said there."""
    said = b""
    with socket.create_connection((address, port), 10) as stream:
        while data := stream.recv(1 << 10):
            said += data
    return said.decode()


def _ask(address: str, port: int, question: str) -> str:
    """Send a datagram and return the answer."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.connect((address, port))  # or that nobody is there would not be told
        datagrams.settimeout(60)
        datagrams.send(question.encode("latin-1"))
        return datagrams.recv(1 << 10).decode("latin-1")


def _look_up(name: str, port: int) -> str:
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        return f"gaierror {error.errno}"
    return ",".join(f"{address[0]}:{address[1]}" for *_, address in found)


def _connect_by_sending(address: str, port: int) -> None:
    with socket.socket() as stream:
        stream.sendto(b"x", socket.MSG_FASTOPEN, (address, port))


def _listen(*address: object) -> None:
    with socket.socket() as stream:
        if address:
            stream.bind(address)
        stream.listen()


_FAMILIES = {"tcp": socket.AF_INET, "udp": socket.AF_INET}
_TYPES = {"udp": socket.SOCK_DGRAM, "datagrams": socket.SOCK_DGRAM, "packets": socket.SOCK_SEQPACKET}


def socket_of(kind: str) -> socket.socket:
    """Return a new socket: `tcp`, `udp`, or one of the machine's own kind: `stream`, `packets`, `datagrams`."""
    return socket.socket(_FAMILIES.get(kind, socket.AF_UNIX), _TYPES.get(kind, socket.SOCK_STREAM))


def talk(kind: str, address: str) -> str:
    """Serve at an address, talk to it from a thread, and return what was said and by whom."""
    with socket_of(kind) as server, socket_of(kind) as client:
        server.bind(("127.0.0.1", 0) if address == "loopback" else address)
        if kind != "udp":
            server.listen()
        calling = threading.Thread(target=lambda: (client.connect(server.getsockname()), client.send(b"hello")))
        calling.start()
        taken = server if kind == "udp" else server.accept()[0]
        said = taken.recv(100).decode()
        calling.join()
        if kind in ("stream", "packets"):
            _, uid, gid = struct.unpack("3i", taken.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            said += f" from {'itself' if (uid, gid) == (os.getuid(), os.getgid()) else 'a stranger'}"
        if taken is not server:
            taken.close()
        return said


def reach(call: str, path: str) -> str:
    """Reach a socket in the file system by a call, and say that it was done."""
    if call == "connect":
        with socket_of("stream") as client:
            client.connect(path)
    elif call == "sendmsg from a pair":
        left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        with left, right:
            left.sendmsg([b"x"], [], 0, path)
    else:
        with socket_of("datagrams") as sender:
            sender.sendmsg([b"x"], [], 0, path) if call == "sendmsg" else sender.sendto(b"x", path)
    return "done"


def race(what: str, ours: str, theirs: str, seconds: float) -> str:
    """Connect for a while, as another thread changes what is connected to which name; return all outcomes."""
    good, bad = (b"\1\0" + path.encode() + b"\0" for path in (ours, theirs))
    client, other, pipe = socket_of("stream"), socket_of("tcp"), os.pipe()
    spare = os.dup(client.fileno())
    name = ctypes.create_string_buffer(256)
    link = ours + ".link"
    done = threading.Event()

    def change() -> None:
        while not done.is_set():
            if what == "memory":
                ctypes.memmove(name, bad, len(bad))
                ctypes.memmove(name, good, len(good))
            elif what == "link":
                for target in (theirs, ours):
                    os.symlink(target, link + ".new")
                    os.rename(link + ".new", link)
            elif what == "descriptor":
                for one in (other.fileno(), pipe[0], spare):
                    os.dup2(one, client.fileno())

    def accept(server: socket.socket) -> None:
        while True:
            server.accept()[0].close()

    server = socket_of("stream")
    server.bind(ours)
    server.listen(128)
    threading.Thread(target=accept, args=(server,), daemon=True).start()
    if what == "signals":
        signal.signal(signal.SIGALRM, lambda number, frame: None)
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    changing = threading.Thread(target=change)
    changing.start()
    libc, outcomes = ctypes.CDLL(None, use_errno=True), set()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what != "descriptor":
            client.close()
            client = socket_of("stream")
            client.setblocking(False)  # it need not wait until somebody accepts
        wanted = {"memory": name, "link": b"\1\0" + link.encode() + b"\0", "descriptor": bad, "signals": good}[what]
        size = max(len(good), len(bad)) if what == "memory" else len(wanted)
        failed = libc.connect(client.fileno(), wanted, size)
        outcomes.add(errno.errorcode[ctypes.get_errno()] if failed else "ok")
    signal.setitimer(signal.ITIMER_REAL, 0)
    done.set()
    changing.join()
    return ",".join(sorted(outcomes))


def _connect_a_pipe() -> str:
    """Connect the end of a pipe, which is no socket, and close it; say whether anybody else has it open."""
    reading, writing = os.pipe2(os.O_NONBLOCK)
    ctypes.CDLL(None).connect(writing, b"\1\0/tmp/nobody", 15)
    os.close(writing)
    return "closed" if os.read(reading, 1) == b"" else "written to"


def _buffers(kind: str) -> str:
    """Return the sizes of the buffers of a connection's two ends; the listener is bound, or left to the kernel."""
    with socket_of("tcp") as server:
        if kind == "bound":
            server.bind(("127.0.0.1", 0))
        server.listen()
        with socket.create_connection(server.getsockname()) as near, server.accept()[0] as far:
            sizes = {
                one.getsockopt(1, option) for one in (near, far) for option in (socket.SO_SNDBUF, socket.SO_RCVBUF)
            }
    return ",".join(map(str, sizes))


def _bind(kind: str, *address: Any) -> None:
    with socket_of(kind) as one:
        one.bind(address if kind in _FAMILIES else address[0])


def _capabilities() -> str:
    """Those in any set but the bounding one."""
    from paddock_sandbox import capabilities

    held = capabilities.held()
    return ",".join(map(str, sorted(held.effective | held.permitted | held.inheritable | held.ambient)))


_ACTS = {
    "talk": talk,
    "reach by": reach,
    "race": race,
    "connect a pipe": _connect_a_pipe,
    "buffers": _buffers,
    "bind": _bind,
    "link": os.link,
    "symlink": os.symlink,
    "rename": os.rename,
    "reach": _reach,
    "ask": _ask,
    "look up": _look_up,
    "socket": lambda *kind: socket.socket(*kind).close(),
    "connect by sending": _connect_by_sending,
    "listen": _listen,
    "capabilities": _capabilities,
    "read": _read,
    "write": _write,
    "list": lambda path: ",".join(sorted(os.listdir(path))),
    "signal": os.kill,
    "pids": lambda: f"{os.getpid()} {os.getppid()}",
    "environment": lambda: json.dumps(dict(os.environ)),
    "folder": os.getcwd,
    "descriptors": _open_descriptors,
    "execute": lambda *command: subprocess.run(command).returncode,
    "connect": lambda port: socket.create_connection(("127.0.0.1", port), 1).close(),
    "import": lambda name: None if _can_import(name) else "missing",
    "files": lambda: resource.getrlimit(resource.RLIMIT_NOFILE)[1],
    "fill": lambda path, size: _write(path, "x" * size),
}


def eats_memory(rpc: socket.socket, name: str) -> None:
    """Take memory once told to, more than there is for it."""
    rpc.send(b"here")
    rpc.recv(1)
    eaten = [b"x" * (1 << 20) for _ in range(int(os.environ["MIB"]))]
    assert eaten
    rpc.send(b"full")
    rpc.recv(1)


def eats_memory_by_its_child(rpc: socket.socket, name: str) -> None:
    child = os.fork()
    if child == 0:
        eats_memory(rpc, name)
    os.waitpid(child, 0)


def eats_more_than_its_children(rpc: socket.socket, name: str) -> None:
    """Take most of the memory, have two children take the rest, and say how the first of them ended."""
    rpc.send(b"here")
    rpc.recv(1)
    gate, opener = os.pipe()
    children = []
    for _ in range(2):
        if (child := os.fork()) == 0:
            os.read(gate, 1)
            eaten = [b"y" * (1 << 20) for _ in range(12)]
            signal.pause()
        children.append(child)
    eaten = [b"x" * (1 << 20) for _ in range(int(os.environ["MIB"]))]
    while "MARKED" in os.environ and not all(map(_goes_first, children)):
        time.sleep(0.01)
    os.write(opener, b"..")
    rpc.send(f"{os.wait()[1]:04}".encode())
    rpc.recv(1)
    assert eaten


def _goes_first(pid: int) -> bool:
    with open(f"/proc/{pid}/oom_score_adj") as mark:
        return mark.read() == "1000\n"


def storms(rpc: socket.socket, name: str) -> None:
    """Fork without end, in every child as well."""
    rpc.send(b"here")
    rpc.recv(1)
    while True:
        try:
            os.fork()
        except OSError:
            pass


def fills_its_folder(rpc: socket.socket, name: str) -> None:
    rpc.send(b"here")
    rpc.recv(1)
    _write(os.environ["HOME"] + "/file", "x" * (int(os.environ["MIB"]) << 20))
    rpc.send(b"full")
    rpc.recv(1)


def forks(rpc: socket.socket, name: str) -> None:
    """Have so many children, or as many as can be had, and say how many that were."""
    rpc.send(b"here")
    rpc.recv(1)
    born = 0
    try:
        while born < int(os.environ["CHILDREN"]):
            if os.fork() == 0:
                while True:
                    signal.pause()
            born += 1
    except BlockingIOError:
        pass
    rpc.send(f"{born:04}".encode())
    rpc.recv(1)


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
