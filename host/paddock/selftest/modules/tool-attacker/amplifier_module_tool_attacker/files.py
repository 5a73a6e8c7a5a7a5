"""Attacks on files: secrets, files granted for reading only, the module's own code, devices."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from .descriptors import held, inherited, inherited_listener, opened
from .raw_calls import call, checked, declare, libc
from .way import RefusedActError, Way, in_one_way

_IN_ALL_EVENTS = 0xFFF
_HANDLE_BYTES = 128  # MAX_HANDLE_SZ of <linux/exportfs.h>


# -- reading without a grant ---------------------------------------------------------------


def read_ssh_key(path: str) -> Iterator[Way]:
    yield "open", lambda: _read(path)
    yield "list its folder", lambda: os.listdir(os.path.dirname(path))
    yield "follow a link of its own", lambda: _read(_link_to(path))
    yield "copy it in the kernel", lambda: _sent(path)


def read_a_secret_of_the_environment(name: str) -> Iterator[Way]:
    yield "os.environ", lambda: _present(os.environ.get(name))
    yield "the C library's", lambda: _present(_getenv(name))
    yield "/proc/self/environ", lambda: _initial_environment(name)


def find_out_what_exists(path: str) -> Iterator[Way]:
    yield "stat", lambda: f"{os.stat(path).st_size} bytes"
    yield "access", lambda: _accessible(path)
    yield "open as a place", lambda: _opened(path, os.O_PATH)
    yield "change to its folder", lambda: _visited(os.path.dirname(path))


def climb_out_of_the_root(path: str, pids: Sequence[int]) -> Iterator[Way]:
    """Read `path` by every way around the root: upwards, through processes, through open folders."""
    yield "upwards", lambda: _read("../" * 40 + path.lstrip("/"))
    yield "/proc/self/root", lambda: _read(f"/proc/self/root{path}")
    yield "/proc/self/cwd", lambda: _read("/proc/self/cwd/" + "../" * 40 + path.lstrip("/"))
    for pid in pids:
        yield f"/proc/{pid}/root", partial(_read, f"/proc/{pid}/root{path}")
        yield f"/proc/{pid}/cwd", partial(_read, f"/proc/{pid}/cwd/" + "../" * 40 + path.lstrip("/"))
    yield "open folders", lambda: _through_open_folders(path)


def open_what_is_excluded(path: str) -> Iterator[Way]:
    """Open a file that is there in a folder which may be written to, but not for this module."""
    yield "open", lambda: _read(path)
    yield "copy it in the kernel", lambda: _sent(path)
    yield "/proc/self/root", lambda: _read(f"/proc/self/root{path}")
    yield "open its place again", lambda: _opened_again(path)
    yield "a hard link", lambda: _read_as(path, os.link, os.unlink)
    yield "move it", lambda: _read_as(path, os.rename, lambda moved: os.rename(moved, path))
    yield "move its folder", lambda: _read_in_moved_folder(path)
    yield "change its mode", lambda: (os.chmod(path, 0o600), _read(path))


def open_what_paddock_keeps(path: str) -> Iterator[Way]:
    """Read a file of Paddock's below a folder which may be written to, and put another in its place."""
    yield "open", lambda: _read(path)
    yield "list its folder", lambda: os.listdir(os.path.dirname(path))
    yield "/proc/self/root", lambda: _read(f"/proc/self/root{path}")
    yield "a hard link", lambda: _read_as(path, os.link, os.unlink)
    yield "move its folder", lambda: _read_in_moved_folder(path)
    yield "replace it", lambda: _over(Path(path))
    yield "replace its folder", lambda: _replaced(Path(path).parent)
    yield "replace the folder around all", lambda: _replaced(Path(path).parents[2])


def use_inherited_descriptors() -> Iterator[Way]:
    """Look for open files, folders and listening sockets that the host forgot to close."""
    yield "files", lambda: inherited(stat.S_ISREG, lambda number: os.pread(number, 100, 0).decode())
    yield "folders", lambda: inherited(stat.S_ISDIR, os.listdir)
    yield "listening sockets", inherited_listener


@in_one_way("name_to_handle_at, open_by_handle_at")
def open_by_handle(path: str) -> str:
    """Open a file by its number in the file system, which no path and no mount protects."""

    class FileHandle(ctypes.Structure):
        _fields_ = (("size", ctypes.c_uint), ("kind", ctypes.c_int), ("name", ctypes.c_ubyte * _HANDLE_BYTES))

    handle, mount = FileHandle(size=_HANDLE_BYTES), (ctypes.c_char * 4)()
    call("name_to_handle_at", -100, path, handle, mount, 0)
    with opened(os.path.dirname(path)) as folder:
        descriptor = call("open_by_handle_at", folder, handle, os.O_RDONLY)
    with os.fdopen(descriptor) as file:
        return file.read(100)


# -- changing without a grant --------------------------------------------------------------


def pull_in_by_a_link(folder: str, path: str) -> Iterator[Way]:
    """Bring a file from outside into a writable folder, then use it there."""
    here = Path(folder)
    yield "read through a symbolic link", lambda: _read(_link_to(path, here))
    yield "write through a symbolic link", lambda: _append(_link_to(path, here))
    yield (
        "read through a link to its folder",
        lambda: _read(os.path.join(_link_to(os.path.dirname(path), here), os.path.basename(path))),
    )
    yield "a hard link", lambda: _with_hard_link(path, here)
    yield "move it in and back", lambda: _moved_and_back(path, here)


def change_what_may_only_be_read(path: str) -> Iterator[Way]:
    yield "open to write", lambda: _append(path)
    yield "map and write", lambda: _write_through_memory(path)
    yield "truncate", lambda: os.truncate(path, 0)
    yield "open and truncate", lambda: _opened(path, os.O_WRONLY | os.O_TRUNC)
    yield "a file beside it", lambda: _created(os.path.dirname(path))
    yield "a folder beside it", lambda: os.mkdir(os.path.join(os.path.dirname(path), "new folder"))
    yield "rename", lambda: os.rename(path, f"{path}.moved")
    yield "remove", lambda: os.unlink(path if os.path.lexists(path) else f"{path}.moved")


def change_metadata(path: str) -> Iterator[Way]:
    yield "chmod", lambda: os.chmod(path, 0o640)
    yield "chmod of a descriptor", lambda: _fchmod(Path(path), 0o604)
    yield "chmod, seen from its folder", lambda: _chmod_at(path)
    yield "chown", lambda: os.chown(path, os.getuid(), os.getgid())
    yield "utime", lambda: os.utime(path, (1, 1))
    yield "setxattr", lambda: os.setxattr(path, "user.paddock", b"was here")


def rewrite_its_own_code(others: Sequence[str]) -> Iterator[Way]:
    """Change the source that will be run next time, and leave files where imports look first."""
    own = Path(__file__).parent
    yield "its own source", lambda: _append(str(own / "__init__.py"))
    yield "a module beside it", lambda: _created(str(own))
    yield "a package that shadows another", lambda: os.mkdir(own.parent / "json")
    yield "compiled files", lambda: os.makedirs(own / "__pycache__")
    for folder in others:
        if os.path.isdir(folder):
            yield f"something in {folder}", partial(_created, folder)


def change_devices(paths: Sequence[str]) -> Iterator[Way]:
    """Request the modes that devices have already, which only their owner may request."""
    for path in paths:
        yield f"chmod {path}", partial(_keep_mode, path)
        yield f"chown {path}", partial(os.chown, path, os.getuid(), os.getgid())


def plant_what_runs_later(folder: str) -> Iterator[Way]:
    """Leave commands in another user's folder, in places where that user's own programs run them."""
    git = Path(folder, ".git")
    yield "change a hook", lambda: _append(str(git / "hooks" / "pre-commit"))
    yield "add a hook", lambda: _write(git / "hooks" / "post-checkout")
    yield "replace the hooks", lambda: _replaced(git / "hooks")
    yield "change git's configuration", lambda: _append(str(git / "config"))
    yield "replace git's configuration", lambda: _over(git / "config")
    yield "change the shell's start-up file", lambda: _append(str(Path(folder, ".bashrc")))
    yield "replace all of git's folder", lambda: _replaced(git)


def change_what_programs_start_with(paths: Sequence[str]) -> Iterator[Way]:
    """Change settings of another user's programs, and replace them, alone and with the folder around them."""
    for path in paths:
        yield f"append to {path}", partial(_append, path)
        yield f"replace {path}", partial(_over, Path(path))
    yield f"replace the folder of {paths[0]}", lambda: _replaced(Path(paths[0]).parent)


def turn_a_link(link: str) -> Iterator[Way]:
    """Change where another user's start-up file leads: at its end, at itself, and by the folder of its end."""
    place = Path(link)
    target = place.readlink()
    yield "write to its target", lambda: _append(link)
    yield "replace its target", lambda: _over(target)
    yield "replace the folder of its target", lambda: _replaced(target.parent)
    yield "replace it by a file", lambda: _over(place)
    yield "remove it", lambda: place.unlink()


def write_what_was_saved_meanwhile(path: str) -> Iterator[Way]:
    """Change a file that is run later and that another program has just put there."""
    yield "append to it", lambda: _append(path)
    yield "map and write", lambda: _write_through_memory(path)
    yield "replace it", lambda: _over(Path(path))


def leave_a_set_user_id_program(folder: str) -> Iterator[Way]:
    """Leave a program in another user's folder that gives their rights to everyone who runs it."""
    here = Path(folder)
    yield "chmod", lambda: _with_mode(here / "chmod", os.chmod)
    yield "fchmod", lambda: _with_mode(here / "fchmod", _fchmod)
    yield "create", lambda: os.close(os.open(here / "create", os.O_CREAT | os.O_WRONLY, 0o6755))
    yield "mknod", lambda: os.mknod(here / "mknod", stat.S_IFREG | 0o6755)


def hold_up_whoever_opens_a_file(path: str) -> Iterator[Way]:
    """Take a lease: a process that opens the file then waits until the holder lets go, or for most of a minute."""
    yield "lease for reading", lambda: _leased(path, os.O_RDONLY, fcntl.F_RDLCK)
    yield "lease for writing", lambda: _leased(path, os.O_RDWR, fcntl.F_WRLCK)


def reach_devices(places: Sequence[Sequence[str]]) -> Iterator[Way]:
    """Open devices and the kernel's own files; each place is a path and how to open it."""
    flags = {"read": os.O_RDONLY, "write": os.O_WRONLY, "both": os.O_RDWR}
    for path, how in places:
        if how == "list":
            yield f"list {path}", partial(os.listdir, path)
        else:
            yield f"{how} {path}", partial(_opened, path, flags[how] | os.O_NONBLOCK | os.O_NOCTTY)
    yield "make a device of its own", _made_device


# -- helpers -------------------------------------------------------------------------------


def _scratch() -> Path:
    return Path(tempfile.mkdtemp(prefix="attack-"))


def _read(path: str | os.PathLike[str]) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read(100)


def _write(path: Path) -> str:
    path.write_text("#!/bin/sh\ntouch /tmp/run-later\n", encoding="utf-8")
    return f"wrote {path}"


def _append(path: str) -> str:
    with open(path, "a", encoding="utf-8") as file:
        file.write("# was here\n")
    return f"wrote to {path}"


def _created(folder: str) -> str:
    path = Path(folder, "planted.pth")  # the interpreter runs these when it starts
    path.open("x", encoding="utf-8").close()
    return f"created {path}"


def _opened(path: str, flags: int) -> str:
    with opened(path, flags):
        return f"opened {path}"


def _link_to(path: str, folder: Path | None = None) -> str:
    link = (_scratch() if folder is None else folder) / f"link to {os.path.basename(path)}"
    if not link.is_symlink():
        link.symlink_to(path)
    return str(link)


def _sent(path: str) -> str:
    left, right = socket.socketpair()
    with left, right, open(path, "rb") as file:
        os.sendfile(left.fileno(), file.fileno(), 0, 100)
        return right.recv(100).decode()


@in_one_way("walk")
def read_every_file_of_the_home(home: str, secret: str) -> str:
    denials: list[OSError] = []
    for folder, _, names in os.walk(home, onerror=denials.append):
        for name in names:
            try:
                if secret in _read(Path(folder, name)):
                    return f"the secret in {name}"
            except OSError as error:
                denials.append(error)
    if denials:
        raise denials[0]
    raise RefusedActError("ENOENT", "no secret anywhere")


def _present(value: str | None) -> str:
    if value is None:
        raise RefusedActError("ENOENT", "no such variable")
    return value


def _getenv(name: str) -> str | None:
    value: bytes | None = declare("getenv", ctypes.c_char_p, ctypes.c_char_p)(name.encode())
    return None if value is None else value.decode()


def _initial_environment(name: str) -> str:
    entries = Path("/proc/self/environ").read_bytes().decode(errors="replace").split("\0")
    return _present(next((entry for entry in entries if entry.startswith(f"{name}=")), None))


def _accessible(path: str) -> str:
    if not os.access(path, os.F_OK):
        raise RefusedActError("ENOENT", "not there, it is said")
    return "it exists"


def _visited(folder: str) -> str:
    before = os.getcwd()
    os.chdir(folder)
    try:
        return os.getcwd()
    finally:
        os.chdir(before)


def _through_open_folders(path: str) -> str:
    def read(number: int) -> str:
        with open(os.open("../" * 40 + path.lstrip("/"), os.O_RDONLY, dir_fd=number)) as file:
            return file.read(100)

    return inherited(stat.S_ISDIR, read)


def _with_hard_link(path: str, folder: Path) -> str:
    link = folder / "hard link"
    os.link(path, link)
    return _append(str(link))


def _moved_and_back(path: str, folder: Path) -> str:
    moved = folder / "moved in"
    os.rename(path, moved)
    os.rename(moved, path)
    return "moved"


def _opened_again(path: str) -> str:
    with opened(path, os.O_PATH) as place:
        return _read(f"/proc/self/fd/{place}")


def _read_as(path: str, rename: Callable[[str, str], None], undo: Callable[[str], None]) -> str:
    other = f"{path}.other"
    rename(path, other)
    try:
        return _read(other)
    finally:
        undo(other)


def _read_in_moved_folder(path: str) -> str:
    folder, name = os.path.split(path)
    os.rename(folder, f"{folder}.moved")
    try:
        return _read(os.path.join(f"{folder}.moved", name))
    finally:
        os.rename(f"{folder}.moved", folder)


def _write_through_memory(path: str) -> str:
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 1) as memory:
        memory[0:1] = b"#"
    return "wrote one byte"


def _keep_mode(path: str) -> str:
    mode = stat.S_IMODE(os.stat(path).st_mode)
    os.chmod(path, mode)
    return f"{mode:o} it stays"


def _chmod_at(path: str) -> None:
    with opened(os.path.dirname(path), os.O_PATH) as folder:
        os.chmod(os.path.basename(path), 0o600, dir_fd=folder)


def _replaced(folder: Path) -> str:
    """Move a folder out of the way and put another in its place."""
    folder.rename(folder.with_name(f"{folder.name} as it was"))
    hook = folder / "post-checkout" if folder.name == "hooks" else folder / "hooks" / "post-checkout"
    hook.parent.mkdir(parents=True)
    return _write(hook)


def _over(path: Path) -> str:
    """Put another file in the place of one."""
    new = path.with_name("new")
    _write(new)
    new.replace(path)
    return f"replaced {path}"


def _with_mode(path: Path, change: Callable[[Path, int], None]) -> str:
    path.touch()
    change(path, 0o6755)
    return f"{path.name} has mode {path.stat().st_mode:o}"


def _fchmod(path: Path, mode: int) -> None:
    with path.open("rb") as file:
        os.fchmod(file.fileno(), mode)


def _leased(path: str, flags: int, kind: int) -> str:
    with opened(path, flags) as descriptor:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, kind)
        return "leased"


@in_one_way("inotify")
def watch_what_others_touch(folder: str) -> str:
    """Watch the names of all files that other processes open in a folder."""
    with held(libc.inotify_init()) as queue:
        checked(libc.inotify_add_watch(queue, folder.encode(), _IN_ALL_EVENTS))
        return f"watches {folder}"


def _made_device() -> str:
    path = _scratch() / "zero"
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))
    return _opened(str(path), os.O_RDONLY)
