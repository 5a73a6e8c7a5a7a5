"""Run pip from a folder or wheel, also where the modes and times of files cannot be changed.

This is a program of its own, for the Python that runs modules; it needs only the standard library. Its arguments are
the path of the package and then those of pip. Where a command is confined by Landlock alone, a program that may open a
file could change its mode. So the sandbox forbids that to all programs. pip tries it without needing it: its files are
made read-only later.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable
from typing import Any


def _tried(call: Callable[..., Any]) -> Callable[..., Any]:
    def attempt(*args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        except PermissionError:
            return None

    return attempt


def main() -> None:
    package, *arguments = sys.argv[1:]
    os.chmod = _tried(os.chmod)
    os.utime = _tried(os.utime)
    sys.path[0] = os.path.dirname(package)  # instead of our own folder, whose names are not pip's business
    sys.argv = [package, *arguments]
    runpy.run_module("pip", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
