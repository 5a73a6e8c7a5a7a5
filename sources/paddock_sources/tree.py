"""A module's folder, read as data.

Only regular files are read, below a size stated by the caller, and only where their real path lies inside the folder: a
symbolic link that leads out is refused, regardless of its target. Reading never blocks on a fifo or a device.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from paddock_sources.errors import ManifestError, SourceError

_MAX_ENTRIES = 10_000  # a repository root has tens of entries; more is a data folder or an attack on our memory


@dataclass(frozen=True, slots=True)
class HeldFolder:
    """A folder of this machine at one moment: its real path, and its device and inode, or None if no folder was there.

    Rules judge a source once, and its code is read later. A link or another folder may have its name by then.
    """

    path: Path
    identity: tuple[int, int] | None

    @classmethod
    def of(cls, path: Path) -> Self:
        """Return the folder that a path leads to now."""
        real = os.path.realpath(path)
        try:
            found = os.stat(real, follow_symlinks=False)
        except (OSError, ValueError):
            return cls(Path(real), None)
        return cls(Path(real), (found.st_dev, found.st_ino) if stat.S_ISDIR(found.st_mode) else None)

    def check(self, seen_as: Path | None = None) -> None:
        """Make sure that the folder is still at its path, and also at `seen_as`, where others see that path.

        Raises:
            SourceError: it is not.
        """
        if HeldFolder.of(self.path) != self:
            raise self._moved()
        if seen_as is not None:
            try:
                found = os.stat(seen_as)
            except PermissionError:
                return  # in a container, a process with another user id may not be looked into
            except OSError as error:
                raise self._moved() from error
            if (found.st_dev, found.st_ino) != self.identity:
                raise self._moved()

    @contextmanager
    def opened(self) -> Iterator[int]:
        """Open the folder; another one that has its name by now is refused.

        Raises:
            SourceError: it is no longer there.
        """
        self.check()
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise ManifestError(self.path, _reason(error)) from error
        try:
            found = os.fstat(descriptor)
            if (found.st_dev, found.st_ino) != self.identity:
                raise self._moved()
            yield descriptor
        finally:
            os.close(descriptor)

    def _moved(self) -> SourceError:
        return SourceError(
            f"`{self.path}` is not the folder any more that it was when rules judged it",
            code="SourceMovedError",
            detail=["a link, or another folder, has taken its place meanwhile"],
            hints=["run the command again: the folder that is there now is judged then"],
        )


class SourceTree:
    """The folder at `root`; every name given to its methods is relative to it."""

    def __init__(self, root: Path) -> None:
        """Take the folder at `root`.

        Raises:
            ManifestError: `root` is not a folder that can be entered.
        """
        try:
            self.root = root.resolve(strict=True)
        except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: a loop of links, before Python 3.13
            raise ManifestError(root, _reason(error)) from error
        if not self.root.is_dir():
            raise ManifestError(root, "it is not a folder")

    def find(self, name: str) -> Path | None:
        """Return the real path of `name`, or None when nothing is there.

        Raises:
            ManifestError: a link leads out of the tree, or the path cannot be followed.
        """
        path = self.root / name
        try:
            real = path.resolve(strict=True)
        except (FileNotFoundError, NotADirectoryError):
            if path.is_symlink():
                raise ManifestError(path, "it is a symbolic link to nothing") from None
            return None
        except (OSError, RuntimeError, ValueError) as error:
            raise ManifestError(path, _reason(error)) from error
        if not real.is_relative_to(self.root):
            raise ManifestError(path, "it leads out of the module's folder through a symbolic link")
        return real

    def read(self, name: str, *, limit_bytes: int) -> bytes | None:
        """Return the content of file `name`, or None when nothing is there.

        Raises:
            ManifestError: it is no regular file, larger than `limit_bytes`, outside the tree, or unreadable.
        """
        real = self.find(name)
        if real is None:
            return None
        try:
            descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
            with open(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise ManifestError(self.root / name, "it is not a regular file")
                content = file.read(limit_bytes + 1)
        except OSError as error:
            raise ManifestError(self.root / name, _reason(error)) from error
        if len(content) > limit_bytes:
            raise ManifestError(self.root / name, f"it is larger than {limit_bytes} bytes")
        return content

    def is_package(self, name: str) -> bool:
        """Return whether `name` is a folder of the tree with an `__init__.py` in it."""
        real = self.find(name)
        return real is not None and real.is_dir() and self.find(os.path.join(name, "__init__.py")) is not None

    def names(self, folder: str = ".") -> list[str]:
        """Return the sorted names in `folder`; empty when it is not there.

        Raises:
            ManifestError: it cannot be listed, or holds an unreasonable number of entries.
        """
        real = self.find(folder)
        if real is None or not real.is_dir():
            return []
        names: list[str] = []
        try:
            with os.scandir(real) as entries:
                for entry in entries:
                    if len(names) == _MAX_ENTRIES:
                        raise ManifestError(real, f"it has more than {_MAX_ENTRIES} entries")
                    names.append(entry.name)
        except OSError as error:
            raise ManifestError(real, _reason(error)) from error
        return sorted(names)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return "its links form a loop" if isinstance(error, RuntimeError) else str(error)
