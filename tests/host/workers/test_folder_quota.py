"""What a tree of processes keeps of a folder counts against it however it is kept, once, and nothing else does."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import anyio
import anyio.lowlevel
import pytest

from host.workers.trees import tree
from paddock.workers.exit_report import LimitHit
from paddock.workers.limits.folder_quota import FolderQuota

_MIB = 1 << 20
_MOST = 4 * _MIB
_COUNTS = 4

_FILE = """
def file(folder, mib, name="f"):
    fd = os.open(folder + "/" + name, os.O_RDWR | os.O_CREAT)
    os.unlink(folder + "/" + name)
    os.write(fd, b"x" * (mib << 20))
    return fd
"""

# Each keeps as much as it is told of a folder, under no name.
_KEEPING = {
    "opened": "fd = file({folder!r}, {mib})",
    "opened a thousand times": "fds = [file({folder!r}, 0) for _ in range(900)]; fd = file({folder!r}, {mib})",
    "never named": "fd = os.open({folder!r}, os.O_RDWR | os.O_TMPFILE); os.write(fd, b'x' * ({mib} << 20))",
    "in a folder that is gone": (
        "os.mkdir({folder!r} + '/d'); fd = file({folder!r} + '/d', {mib}); os.rmdir({folder!r} + '/d')"
    ),
    "deeper than a path can tell": """
os.chdir({folder!r})
for _ in range(30):
    os.mkdir("d" * 200)
    os.chdir("d" * 200)
fd = file(".", {mib})
for _ in range(30):
    os.chdir("..")
    os.rmdir("d" * 200)
""",
    "of a child": """
fd = file({folder!r}, {mib})
if os.fork() == 0:
    here(); wait()
os.close(fd)
""",
    "of a thread with a table of its own": """
libc = ctypes.CDLL(None)
held = threading.Event()
def hold():
    assert libc.unshare(0x400) == 0
    file({folder!r}, {mib})
    held.set()
    threading.Event().wait()
threading.Thread(target=hold, daemon=True).start()
held.wait()
""",
    "after its first thread ended": """
fd = file({folder!r}, {mib})
def go_on():
    first = "/proc/self/task/%d/stat" % os.getpid()
    while open(first).read().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.001)
    here(); time.sleep(1000)
threading.Thread(target=go_on).start()
ctypes.CDLL(None).pthread_exit(0)
""",
    "mapped": """
fd = file({folder!r}, {mib})
ctypes.CDLL(None).mmap(None, 4096, 1, 1, fd, 0)
os.close(fd)
""",
    "on its way": """
import array, socket
ours, theirs = socket.socketpair()
fd = file({folder!r}, {mib})
ours.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
os.close(fd)
""",
}
_HIDDEN = ("mapped", "on its way")  # for all that an ordinary user may look at
_SAYS_SO_ITSELF = ("of a child", "after its first thread ended")


@dataclass
class _Instant:
    """Lets no time pass, until everything was counted often enough."""

    scope: anyio.CancelScope
    left: int = _COUNTS

    def now(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        self.left -= 1
        if not self.left:
            self.scope.cancel()
        await anyio.lowlevel.checkpoint()


async def _hits(folder: Path, init_pid: int | None) -> list[LimitHit]:
    hits: list[LimitHit] = []
    process = None if init_pid is None else SimpleNamespace(init_pid=init_pid)
    with anyio.fail_after(60), anyio.CancelScope() as scope:
        clock = _Instant(scope)
        await FolderQuota(folder, _MOST, lambda: process, hits.append, clock=clock).run()
    return hits


async def _hits_of(keeping: str, folder: Path, mib: int, quota: Path | None = None) -> list[LimitHit]:
    os.makedirs(folder, exist_ok=True)
    program = _KEEPING[keeping].format(folder=str(folder), mib=mib)
    if keeping not in _SAYS_SO_ITSELF:
        program += "\nhere()"
    with tree(program.strip(), _FILE.strip()) as running:
        running.begin()
        running.is_here()
        return await _hits(quota or folder, running.init_pid)


def _may_look_at_mappings() -> bool:
    try:
        os.stat(next(Path("/proc/self/map_files").iterdir()))
    except PermissionError:
        return False
    return True


def _require_own_tables() -> None:
    ask = (
        "import ctypes, os; libc = ctypes.CDLL(None, use_errno=True); "
        "libc.unshare(0x400); print(os.strerror(ctypes.get_errno()))"
    )
    told = subprocess.run(
        [sys.executable, "-I", "-S", "-c", ask], capture_output=True, text=True, timeout=60, check=True
    )
    if told.stdout != "Success\n":
        pytest.skip(f"no thread can have a table of descriptors of its own here: unshare: {told.stdout.strip()}")


@pytest.mark.parametrize("keeping", [one for one in _KEEPING if one not in _HIDDEN])
async def test_files_without_a_name_count_however_they_are_kept(keeping: str, tmp_path: Path) -> None:
    if "unshare" in _KEEPING[keeping]:
        _require_own_tables()
    hits = await _hits_of(keeping, tmp_path / "home", 6)
    assert hits and (hits[0].name, hits[0].configured) == ("tmp_max", "4 MiB")
    assert not await _hits_of(keeping, tmp_path / "ordinary", 1)


async def test_descriptors_in_flight_are_not_waited_for_long(tmp_path: Path) -> None:
    (hit,) = await _hits_of("on its way", tmp_path / "home", 1)
    assert hit.observed == "files that cannot be counted"


async def test_mapped_files_of_unknown_size_count(tmp_path: Path) -> None:
    assert await _hits_of("mapped", tmp_path / "home", 6)
    hits = await _hits_of("mapped", tmp_path / "small", 1)
    assert [hit.observed for hit in hits] == ([] if _may_look_at_mappings() else ["files that cannot be counted"])
    # Whose descriptor is still open can be told.
    kept = _KEEPING["mapped"].replace("os.close", "# ")
    folder = tmp_path / "ordinary"
    folder.mkdir()
    with tree(f"{kept.format(folder=str(folder), mib=1)}\nhere()".strip(), _FILE.strip()) as running:
        running.begin()
        running.is_here()
        assert not await _hits(folder, running.init_pid)


async def test_files_that_had_their_names_elsewhere_do_not_count(tmp_path: Path) -> None:
    quota = tmp_path / "home"
    quota.mkdir()
    assert not await _hits_of("opened", tmp_path / "home-of-another", 6, quota)
    with tree("fd = os.memfd_create('x'); os.write(fd, b'x' * (6 << 20)); here()") as running:
        running.begin()
        running.is_here()
        assert not await _hits(quota, running.init_pid)


async def test_a_file_counts_once_and_together_with_those_that_have_names(tmp_path: Path) -> None:
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "named").write_bytes(b"x" * _MIB)
    program = f"""
fds = [file({str(folder)!r}, 1)]
fds += [os.dup(fds[0]) for _ in range(8)] + [os.open({str(folder / "named")!r}, os.O_RDONLY) for _ in range(8)]
here()
"""
    with tree(program.strip(), _FILE.strip()) as running:
        running.begin()
        running.is_here()
        assert not await _hits(folder, running.init_pid)
        (folder / "another").write_bytes(b"x" * 3 * _MIB)
        assert (await _hits(folder, running.init_pid))[0].observed == "5 MiB"


async def test_with_no_process_what_has_a_name_is_counted(tmp_path: Path) -> None:
    assert not await _hits(tmp_path, None)
    (tmp_path / "large").write_bytes(b"x" * (_MOST + 1))
    assert len(await _hits(tmp_path, None)) == _COUNTS
