"""Make the file system that a worker sees: the paths of its profile, at their own places, and nothing else.

`open_trees` opens the sources while the old root is still there. A `NewRoot` is built of them and entered, which leaves
the old root for good. Between the two, root's trees can be given another owner. Sources and targets are walked without
following links: the host resolved them, so a link found now was swapped in.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from paddock_sandbox.namespaces import user_namespace
from paddock_sandbox.profile import Mount
from paddock_sandbox.step_error import StepError
from paddock_sandbox.syscalls import call

NO_LINKS: Final = "held links"
"""The entry of `NewRoot.missing` where the kernel mounts nothing over a symbolic link."""

CLOSED_FILE: Final = "/.closed/file"
CLOSED_FOLDER: Final = "/.closed/folder"
"""Two of no rights at all, in a worker's root. A copy of one is mounted, read-only, over each place that is closed."""

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# From <linux/mount.h> and <linux/fcntl.h>.
_AT_FDCWD: Final = -100
_AT_EMPTY_PATH: Final = 0x1000
_AT_RECURSIVE: Final = 0x8000
_OPEN_TREE_CLONE: Final = 1
_CLONE_NEWNS: Final = 0x00020000
_AT_NO_FOLLOW: Final = 0x0100
_MOVE_FROM_EMPTY_PATH: Final = 0x04
_MOVE_EMPTY_PATHS: Final = _MOVE_FROM_EMPTY_PATH | 0x40
_FSOPEN_CLOEXEC: Final = 1
_FSMOUNT_CLOEXEC: Final = 1
_FSCONFIG_SET_STRING: Final = 1
_FSCONFIG_CREATE: Final = 6
_RDONLY: Final = 0x01
_NOSUID: Final = 0x02
_NODEV: Final = 0x04
_NOEXEC: Final = 0x08
_IDMAP: Final = 0x0010_0000
_MS_REC: Final = 0x4000
_MS_PRIVATE: Final = 1 << 18
_MNT_DETACH: Final = 2
_UMOUNT_NOFOLLOW: Final = 8
_RESOLVE_NO_SYMLINKS: Final = 0x04
_RESOLVE_IN_ROOT: Final = 0x10

_DEV: Final = "/dev"
_PROC: Final = "/proc"
DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
TERMINALS: Final = "/dev/pts"
"""Where `attach_terminals` puts terminals of a process's own, in a folder that is there in every root."""

_MOST_TERMINALS: Final = 64  # each holds some 60 KiB of the kernel's that nothing counts
_LINKS: Final = {"/dev/fd": "/proc/self/fd", "/dev/stdin": "fd/0", "/dev/stdout": "fd/1", "/dev/stderr": "fd/2"}
STAND_INS: Final = ("/etc/passwd", "/etc/group", "/etc/hosts", "/etc/nsswitch.conf", "/etc/resolv.conf")
"""Files of the machine's of which a module in a root of its own has another one by the same name."""

SHARED_FOLDERS: Final = ("/tmp", "/dev/shm")  # noqa: S108 - where programs look for them, in the private folder
_SCRATCH_INODES: Final = 65536  # a file of no bytes takes kernel memory too


class _MountAttributes(ctypes.Structure):
    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("user_namespace", ctypes.c_uint64),
    )


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def account_files(home: str) -> dict[str, str]:
    """Return the files that name the one user and group there are, the caller's, and this machine, for programs.

    Its processors are those that the caller may run on, as `sysfs` lists them.
    """
    uid, gid = os.getuid(), os.getgid()
    processors = ",".join(map(str, sorted(os.sched_getaffinity(0)))) + "\n"
    return {
        "/etc/passwd": f"module:x:{uid}:{gid}:module:{home}:/bin/sh\n",
        "/etc/group": f"module:x:{gid}:\n",
        "/etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
        "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
        **{f"/sys/devices/system/cpu/{name}": processors for name in ("online", "possible", "present")},
    }


def open_trees(sources: Iterable[str]) -> list[int]:
    """Return a descriptor of a detached copy of each source with all that is mounted below it, in order.

    The caller needs the right to mount in its namespace.

    Raises:
        StepError: a source is missing, or a link by now; nothing stays open.
    """
    return _open_each(sources, _detached_copy)


def open_places(sources: Iterable[str]) -> list[int]:
    """Return a descriptor of each source itself, in order, for a program that mounts it; it can read nothing.

    Raises:
        StepError: a source is missing, or a link by now; nothing stays open.
    """
    return _open_each(sources, open_place)


def open_place(path: str) -> int:
    """Return a descriptor of the very file or folder at a path, which can read nothing.

    Raises:
        OSError: it is missing, or a link, also on the way.
    """
    return _open(_AT_FDCWD, path, os.O_PATH, _RESOLVE_NO_SYMLINKS)


def _open_each(sources: Iterable[str], open_one: Callable[[str], int]) -> list[int]:
    opened: list[int] = []
    try:
        for source in sources:
            with _naming(f"open {source}"):
                opened.append(open_one(source))
    except BaseException:
        for descriptor in opened:
            os.close(descriptor)
        raise
    return opened


def give_to_worker(trees: Iterable[int], mounts: Iterable[Mount], owners: OwnerMaps) -> None:
    """Make the owner of each tree's root appear as the worker's own id below it; requires root.

    Raises:
        StepError: a granted path lies on a file system that cannot do this, or not for us. A path that code is loaded
            from does not need it: world-readable files stay readable.
    """
    for tree, mount in zip(trees, mounts, strict=True):
        with _naming(f"map the owner of {mount.source}"):
            root = os.fstat(tree)
            owner = owners.of(root.st_uid, root.st_gid if mount.writable else None)
            try:
                _set_attributes(tree, _IDMAP, user_namespace=owner)
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.EPERM) or not mount.mappable:
                    raise


def cover(mount: Mount) -> None:
    """Mount a target on itself with the mount's own rights, in a root that was entered.

    The mounted file or folder is part of the tree around it, under the same owner, so that no new file becomes visible.

    A symbolic link is covered itself: no other can replace it, and its target stays as open as it is. What is `closed`
    is covered by a file or folder without any rights, whose owner cannot give it some: the mount is read-only.

    Raises:
        StepError: nothing is there, a link is on the way, or the caller may not mount.
    """
    _cover(_AT_FDCWD, mount.target, mount, _RESOLVE_NO_SYMLINKS)


def _cover(root: int, path: str, mount: Mount, resolve: int) -> None:
    with _naming(f"guard {mount.target}"):
        place = _open(root, path, os.O_PATH | os.O_NOFOLLOW, resolve)
        try:
            source, name = (root, _closed_like(place, root)) if mount.closed else (place, b"")
            tree = call("open_tree", source, name, _OPEN_TREE_CLONE | os.O_CLOEXEC | _AT_RECURSIVE | _AT_EMPTY_PATH)
            try:
                _set_attributes(tree, _attributes_of(mount), allowed=_NOEXEC if mount.mappable else 0)
                call("move_mount", tree, b"", place, b"", _MOVE_EMPTY_PATHS)
            finally:
                os.close(tree)
        finally:
            os.close(place)


def _closed_like(place: int, root: int) -> bytes:
    """Return where `root` has what closes a place, as seen from there."""
    closed = CLOSED_FOLDER if stat.S_ISDIR(os.fstat(place).st_mode) else CLOSED_FILE
    return os.fsencode(closed if root == _AT_FDCWD else closed.strip("/"))


def enter_only(folders: Sequence[str]) -> None:
    """Leave for a root that has these folders alone, without what is mounted in them, for the calling process only.

    Raises:
        StepError: a step was refused; the process is then useless.
    """
    with _naming("mounts of its own"):
        call("unshare", _CLONE_NEWNS)
    trees = _open_each(folders, lambda folder: call("open_tree", _AT_FDCWD, os.fsencode(folder), _OPEN_TREE_CLONE))
    root = NewRoot(is_bare=True)
    root.attach([Mount(folder, folder, writable=True) for folder in folders], trees)
    root.enter()


def move(mount: Mount) -> None:
    """Attach what is mounted at a source at its target, with the mount's own rights, in a root that was entered.

    Raises:
        StepError: the target is missing, a link is on the way to it, or the caller may not mount.
    """
    with _naming(f"mount {mount.target}"):
        tree = _detached_copy(mount.source)
        try:
            _set_attributes(tree, _attributes_of(mount))
            _attach(tree, open_place(mount.target))
        finally:
            os.close(tree)


def narrow_proc() -> None:
    """Put the caller's own processes, and nothing of the kernel's, in the place of the whole `/proc`, if there is one.

    Raises:
        StepError: a step was refused; the whole one may still be there.
    """
    if os.path.ismount(_PROC):
        with _naming(f"mount {_PROC}"):
            own = _own_processes()  # which the kernel allows only where the whole is in sight
            detach(_PROC)
            try:
                _attach(own, open_place(_PROC))
            finally:
                os.close(own)


def attach_terminals() -> None:
    """Attach pseudo-terminals that no other process has, in a root that was entered.

    Raises:
        StepError: the caller may not mount.
    """
    with _naming(f"mount {TERMINALS}"):
        options = {"mode": "0600", "ptmxmode": "0666", "max": str(_MOST_TERMINALS)}
        tree = _file_system("devpts", options, _NOSUID | _NOEXEC)
        try:
            _attach(tree, open_place(TERMINALS))
        finally:
            os.close(tree)


def detach(place: str) -> None:
    """Unmount a place with all that is mounted below it, in a root that was entered.

    Raises:
        StepError: nothing is mounted there, or the caller may not unmount.
    """
    with _naming(f"unmount {place}"):
        call("umount2", os.fsencode(place), _MNT_DETACH | _UMOUNT_NOFOLLOW)


class OwnerMaps:
    """User namespaces that show one owner's files as those of the worker, whose id is `outer` in this one."""

    def __init__(self, outer: int) -> None:
        self._outer = outer
        self._namespaces: dict[tuple[int, int | None], int] = {}

    def of(self, owner: int, group: int | None = None) -> int:
        """Return the descriptor for an owner; `close` releases all.

        `group` is the group of all that the worker creates, and needed where it may change anything.
        """
        if (owner, group) not in self._namespaces:
            self._namespaces[owner, group] = user_namespace(owner, self._outer, group)
        return self._namespaces[owner, group]

    def close(self) -> None:
        """Release every descriptor."""
        while self._namespaces:
            os.close(self._namespaces.popitem()[1])


class NewRoot:
    """A root under construction, over the old one; the process works in it and still sees the old one's paths.

    `missing` are the parts that could not be had: `/proc`, which a container with a masked `/proc` does not get, and
    `NO_LINKS`, once `try_to_hold` has looked.

    Raises:
        StepError: every method raises it when a part cannot be made; the process is then useless.
    """

    def __init__(self, *, is_bare: bool = False) -> None:
        """Begin; a root that is bare has neither accounts nor `/proc` nor devices."""
        with _naming("detach mounts from the host's"):
            call("mount", b"none", b"/", None, _MS_REC | _MS_PRIVATE, None)
        with _naming("new root"):
            self._root = _file_system("tmpfs", {"mode": "0755", "size": "1m"}, _NOSUID | _NODEV)
            _attach(self._root, os.open("/", os.O_PATH | os.O_CLOEXEC))
            os.fchdir(self._root)
        self._sealed_later = [self._root]
        self._own_folders = {""}  # made here, with no mount over them: no link is in a path through them
        self.missing: tuple[str, ...] = ()
        if not is_bare:
            self._write_account_files()
            self.missing = self._attach_system()
            self._attach_devices()

    def attach(self, mounts: Iterable[Mount], trees: Iterable[int]) -> None:
        """Attach each mount's tree at its target and close the trees."""
        for mount, tree in zip(mounts, trees, strict=True):
            self._attach(tree, mount.target, _attributes_of(mount))

    def hold(self, links: Iterable[Mount]) -> None:
        """Protect links from being removed, renamed or replaced from inside; call it after all mounts around them."""
        for link in links:
            _cover(self._root, link.target.strip("/"), link, _RESOLVE_NO_SYMLINKS | _RESOLVE_IN_ROOT)

    def close(self, places: Sequence[Mount]) -> None:
        """Cover places that nobody inside may open; call it after all mounts around them."""
        if places:
            with _naming("a closed file and folder"):
                self._make_folder(os.path.dirname(CLOSED_FILE).strip("/"))
                os.close(os.open(CLOSED_FILE.strip("/"), os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0))
                os.mkdir(CLOSED_FOLDER.strip("/"), 0)
        self.hold(places)

    def try_to_hold(self) -> None:
        """Mount a link on itself and unmount it again; add `NO_LINKS` to `missing` when that is refused."""
        name = ".link"
        os.symlink(name, name, dir_fd=self._root)
        try:
            self.hold([Mount(name, name)])
        except OSError:
            self.missing = (*self.missing, NO_LINKS)
        else:
            with _naming("let go of a link"):
                call("umount2", name.encode(), _MNT_DETACH | _UMOUNT_NOFOLLOW)  # the working directory is the new root
        os.unlink(name, dir_fd=self._root)

    def attach_scratch(self, place: str, size: int, *, mappable: bool) -> None:
        """Attach the private folder, and the folders that all programs may write to as parts of it."""
        with _naming(f"mount {place}"):
            options = {"mode": "0700", "size": str(size), "nr_inodes": str(_SCRATCH_INODES)}
            scratch = _file_system("tmpfs", options, _NOSUID | _NODEV | (0 if mappable else _NOEXEC))
            self._put(scratch, place, stat.S_IFDIR)
            for shared in SHARED_FOLDERS:
                name = "." + shared.replace("/", "-")
                os.mkdir(name, 0o700, dir_fd=scratch)
                part = call("open_tree", scratch, name.encode(), _OPEN_TREE_CLONE | os.O_CLOEXEC)
                self._put(part, shared, stat.S_IFDIR)
                os.close(part)
            os.close(scratch)

    def enter(self) -> None:
        """Allow no more changes, and leave the old root: for this process and every other that has it."""
        with _naming("seal the new root"):
            for tree in self._sealed_later:
                _set_attributes(tree, _RDONLY | _NOSUID | _NODEV | _NOEXEC, below=False)
                os.close(tree)
        with _naming("pivot_root"):
            call("pivot_root", b".", b".")
            call("umount2", b".", _MNT_DETACH)
            os.chdir("/")

    def _write_account_files(self) -> None:
        with _naming("write /etc"):
            for name, text in account_files("/scratch").items():
                self._make_folder(os.path.dirname(name[1:]))
                fd = os.open(name[1:], os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644, dir_fd=self._root)
                try:
                    os.fchmod(fd, 0o644)
                    os.write(fd, text.encode())
                finally:
                    os.close(fd)

    def _attach_system(self) -> tuple[str, ...]:
        """Attach `/proc`, with nothing in it but the worker's own processes; return it when that is refused."""
        with _naming("mount /proc"):
            try:
                proc = _own_processes()
            except OSError as error:
                if error.errno != errno.EPERM:
                    raise
                return (_PROC,)
            self._put(proc, _PROC, stat.S_IFDIR)
            os.close(proc)
        with _naming("links in /dev"):
            self._make_folder("dev")
            for name, target in _LINKS.items():
                os.symlink(target, name[1:], dir_fd=self._root)
        return ()

    def _attach_devices(self) -> None:
        with _naming(f"open {_DEV}"):
            dev = _open(_AT_FDCWD, _DEV, os.O_PATH | os.O_DIRECTORY, _RESOLVE_NO_SYMLINKS)
        try:
            for device in DEVICES:
                with _naming(f"open {device}"):
                    name = os.fsencode(os.path.basename(device))
                    tree = call("open_tree", dev, name, _OPEN_TREE_CLONE | os.O_CLOEXEC | _AT_RECURSIVE | _AT_NO_FOLLOW)
                self._attach(tree, device, _NOSUID | _NOEXEC)
        finally:
            os.close(dev)
        with _naming("a place for terminals"):
            self._make_folder(TERMINALS[1:])
            os.symlink("pts/ptmx", "dev/ptmx", dir_fd=self._root)

    def _attach(self, tree: int, target: str, attributes: int) -> None:
        """Attach a detached tree and close its descriptor."""
        with _naming(f"mount {target}"):
            _set_attributes(tree, attributes)
            self._put(tree, target, os.fstat(tree).st_mode)
            os.close(tree)

    def _put(self, tree: int, target: str, mode: int) -> None:
        """Attach a detached tree at a place for it, made in the new root if it is not there."""
        relative = target.strip("/")
        self._make_way_through_shared_folders(relative)
        if self._make_new_place(relative, mode):
            # Without a walk that refuses links: none can be on a way that was made here.
            call("move_mount", tree, b"", self._root, os.fsencode(relative), _MOVE_FROM_EMPTY_PATH)
        else:
            _attach(tree, self._place(target, mode))
            covered = relative + "/"
            self._own_folders = {own for own in self._own_folders if not (own + "/").startswith(covered)}

    def _make_new_place(self, relative: str, mode: int) -> bool:
        """Make a place directly in a folder that was made here; return False where that is not so, or it exists."""
        if not relative or not self._make_folder(os.path.dirname(relative)):
            return False
        try:
            if stat.S_ISDIR(mode):
                os.mkdir(relative, 0o755)
            else:
                os.mknod(relative, stat.S_IFREG | 0o644)
        except FileExistsError:
            return False
        return True

    def _make_folder(self, relative: str) -> bool:
        """Make a folder and those around it; return whether all were made here and none has a mount over it."""
        if relative in self._own_folders:
            return True
        if not self._make_folder(os.path.dirname(relative)):
            return False
        try:
            os.mkdir(relative, 0o755)  # below the working directory, which is the new root
        except FileExistsError:
            return False
        self._own_folders.add(relative)
        return True

    def _place(self, target: str, mode: int) -> int:
        """Return a descriptor of the place for a mount, made in the new root if it is not there."""
        relative = target.strip("/")
        try:
            return self._find(relative)
        except FileNotFoundError:
            pass
        parent = os.path.dirname(relative)
        if parent:
            os.makedirs(parent, 0o755, exist_ok=True)  # below the working directory, which is the new root
        if stat.S_ISDIR(mode):
            os.mkdir(relative, 0o755)
        else:
            os.close(os.open(relative, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
        return self._find(relative)

    def _make_way_through_shared_folders(self, relative: str) -> None:
        """Make the folders between a shared folder and a mount in it as read-only as the root.

        Otherwise a file that a module wrote beside a granted folder would seem to be kept, but would be lost with the
        module.
        """
        for shared in SHARED_FOLDERS:
            first, _, rest = relative.removeprefix(shared[1:] + "/").partition("/")
            place = f"{shared[1:]}/{first}"
            if rest and relative.startswith(place + "/") and not os.path.lexists(place):
                between = _file_system("tmpfs", {"mode": "0755", "size": "1m"}, _NOSUID | _NODEV)
                os.mkdir(place, 0o755)
                _attach(between, self._find(place))
                self._own_folders.add(place)
                self._sealed_later.append(between)

    def _find(self, relative: str) -> int:
        return _open(self._root, relative, os.O_PATH, _RESOLVE_NO_SYMLINKS | _RESOLVE_IN_ROOT)


def _attributes_of(mount: Mount) -> int:
    attributes = _NOSUID | _NODEV
    if not mount.writable:
        attributes |= _RDONLY
    if not mount.mappable:
        attributes |= _NOEXEC
    return attributes


def _detached_copy(source: str) -> int:
    path = open_place(source)
    try:
        # With all that is mounted below it: the kernel requires that for mounts made by another user namespace.
        return call("open_tree", path, b"", _OPEN_TREE_CLONE | os.O_CLOEXEC | _AT_RECURSIVE | _AT_EMPTY_PATH)
    finally:
        os.close(path)


def _open(folder: int, path: str, flags: int, resolve: int) -> int:
    how = _OpenHow(flags | os.O_CLOEXEC, 0, resolve)
    return call("openat2", folder, os.fsencode(path), how, ctypes.sizeof(how))


def _attach(tree: int, place: int) -> None:
    try:
        call("move_mount", tree, b"", place, b"", _MOVE_EMPTY_PATHS)
    finally:
        os.close(place)


def _set_attributes(
    tree: int, attributes: int, *, allowed: int = 0, user_namespace: int = 0, below: bool = True
) -> None:
    wanted = _MountAttributes(attributes, allowed, 0, user_namespace)
    reach = _AT_EMPTY_PATH | (_AT_RECURSIVE if below else 0)
    call("mount_setattr", tree, b"", reach, wanted, ctypes.sizeof(wanted))


def _own_processes() -> int:
    return _file_system("proc", {"subset": "pid", "hidepid": "invisible"}, _NOSUID | _NODEV | _NOEXEC)


def _file_system(kind: str, options: dict[str, str], attributes: int) -> int:
    """Return a descriptor of a new, detached mount."""
    context = call("fsopen", kind.encode(), _FSOPEN_CLOEXEC)
    try:
        for key, value in options.items():
            call("fsconfig", context, _FSCONFIG_SET_STRING, key.encode(), value.encode(), 0)
        call("fsconfig", context, _FSCONFIG_CREATE, None, None, 0)
        return call("fsmount", context, _FSMOUNT_CLOEXEC, attributes)
    finally:
        os.close(context)


@contextmanager
def _naming(step: str) -> Iterator[None]:
    try:
        yield
    except StepError:
        raise
    except OSError as error:
        raise StepError(step, error.errno, error.strerror) from error
