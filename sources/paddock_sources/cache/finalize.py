"""Make a folder that was filled by others one that can be kept: unchangeable, its own, digested, and on the disk."""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
from pathlib import Path
from typing import Final

from paddock_sources.cache.tree_digest import Contents, TreeDigest, file_sha256, kind_of, text_sha256, walk

_FEW: Final = 8  # files, up to which it costs less to write out each than all that the file system has to write


def finalize(root: Path) -> Contents:
    """Make all below `root` read-only and return its contents.

    A file with other hard links, as some installers make them, becomes a copy: it could be written through those links.

    Raises:
        UnsafeTreeError: something in it is neither a file, a folder nor a link.
        OSError: it cannot be read or written.
    """
    for folder, names, _ in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                os.chmod(path, 0o700)
    tree = TreeDigest()
    for path, entry in list(walk(root)):
        if entry.is_symlink():
            tree.add(path, "link", text_sha256(os.readlink(entry.path)))
            continue
        if entry.stat(follow_symlinks=False).st_nlink > 1:
            shutil.copy2(entry.path, f"{entry.path}.own")
            os.replace(f"{entry.path}.own", entry.path)
        os.chmod(entry.path, 0o555 if entry.stat(follow_symlinks=False).st_mode & stat.S_IXUSR else 0o444)
        mode, size, content = file_sha256(entry.path)
        tree.add(path, kind_of(mode), content, size)
    for folder, _, _ in os.walk(root, topdown=False):
        if folder == os.fspath(root):
            continue  # a folder must be writable to be renamed
        os.chmod(folder, 0o555)  # noqa: S103 - what is cached is read by modules, of other users too
    return tree.contents()


def write_out(folder: Path, files: int) -> None:
    """Sync `folder` to the disk: file by file if it has few files, else the whole file system.

    Raises:
        OSError: that failed; also where there was no room for data written earlier.
    """
    if files > _FEW and _write_out_all(folder):
        return
    for at, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(at, name)
            if not os.path.islink(path):
                _sync(path)
        _sync(at)


def _write_out_all(folder: Path) -> bool:
    try:
        syncfs = ctypes.CDLL(None, use_errno=True).syncfs
    except (OSError, AttributeError):  # not a Linux
        return False
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return bool(syncfs(descriptor) == 0)
    finally:
        os.close(descriptor)


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
