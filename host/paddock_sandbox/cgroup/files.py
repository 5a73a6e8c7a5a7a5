"""Read and write the files through which the kernel shows a control group.

They are never created, and each write is one system call, because the kernel takes each as one request. Errors name
the file.
"""

from __future__ import annotations

import os

_PERIOD_US = 100_000  # the kernel's default
_LONGEST_PERIOD_US = 1_000_000  # and its bounds
_LEAST_QUOTA_US = 1_000


_CHUNK_BYTES = 1 << 16


def read(directory: str, name: str) -> str:
    """Return the whole of a file."""
    path = os.path.join(directory, name)
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(fd, _CHUNK_BYTES):
            parts.append(part)
        return b"".join(parts).decode()
    except OSError as error:
        raise _named(error, path) from error
    finally:
        os.close(fd)


def write(directory: str, name: str, value: str | int) -> None:
    """Hand one value to the kernel."""
    path = os.path.join(directory, name)
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, str(value).encode())
    except OSError as error:
        raise _named(error, path) from error
    finally:
        os.close(fd)


def check_writable(directory: str, name: str) -> None:
    """Raise the error that a write would raise for missing permission or a read-only mount; write nothing."""
    os.close(os.open(os.path.join(directory, name), os.O_WRONLY | os.O_CLOEXEC))


def exists(directory: str, name: str) -> bool:
    """Return whether the group has this file."""
    return os.path.exists(os.path.join(directory, name))


def number(directory: str, name: str) -> int:
    """Return the one number that a file holds."""
    return int(read(directory, name))


def table(directory: str, name: str) -> dict[str, int]:
    """Return a file whose lines are a name and a number each."""
    return {key: int(value) for key, value in (line.split() for line in read(directory, name).splitlines())}


def processes(directory: str) -> list[int]:
    """Return the processes in a group; one that this process's namespace has no number for is 0."""
    return [int(line) for line in read(directory, "cgroup.procs").split()]


def _named(error: OSError, path: str) -> OSError:
    return OSError(error.errno, os.strerror(error.errno or 0), path)


def period_and_quota(share: float) -> tuple[int, int]:
    """Return the period and the part of it that make a share of one processor, both in microseconds.

    The minimum is a thousandth.
    """
    period = _PERIOD_US if share * _PERIOD_US >= _LEAST_QUOTA_US else _LONGEST_PERIOD_US
    return period, max(_LEAST_QUOTA_US, round(share * period))
