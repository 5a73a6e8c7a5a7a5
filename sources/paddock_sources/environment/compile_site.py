"""Compile a folder of installed packages, so that no start of a module compiles them.

This is a program of its own that runs in an installer's sandbox, on the Python that runs modules. It parses code and
runs none of it. Its argument is the folder. It needs only the standard library. Code that cannot be compiled is left as
it is: the module that imports it gets the error. A crash of the compiler leaves the rest uncompiled, which costs only
time.

An interpreter reads the compiled files without a look at the time of their source. A folder in the cache is never
changed, and a copy of a file has another time.
"""

from __future__ import annotations

import os
import sys
from compileall import compile_file
from py_compile import PycInvalidationMode


def main() -> None:
    (site,) = sys.argv[1:]
    for folder, _, names in os.walk(site):
        for name in names:
            if name.endswith(".py"):
                _compile(os.path.join(folder, name))


def _compile(path: str) -> None:
    try:
        compile_file(path, quiet=2, force=True, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)
    except (ValueError, RecursionError, MemoryError):
        pass  # a byte that no text has, or code that is nested too deep


if __name__ == "__main__":
    main()
