"""Compile a folder of installed packages, so that no start of a module compiles them.

This is a program of its own that runs in a sandbox, on the Python that runs modules. It parses code and
runs none of it. Its argument is the folder. It needs only the standard library. Code that cannot be compiled is left as
it is: the module that imports it gets the error. A crash of the compiler leaves the rest uncompiled, which costs only
time.

What is compiled is bounded: a file by its source, and all of them by all sources. Constants that the compiler works out
can make a thousand bytes of one.

An interpreter reads the compiled files without a look at the time of their source. A folder in the cache is never
changed, and a copy of a file has another time.
"""

from __future__ import annotations

import marshal
import os
import sys
from collections.abc import Iterator
from importlib.util import MAGIC_NUMBER, cache_from_source, source_hash

_UNCHECKED = (0b01).to_bytes(4, "little")  # the flags of PEP 552: it has its source's hash, which is not looked at
_TIMES = 4  # the size of a source; usual code becomes as large as it is
_LEAST_BYTES = 1 << 16
_TOTAL_TIMES = 2
_TOTAL_LEAST_BYTES = 1 << 20


def main() -> None:
    (site,) = sys.argv[1:]
    sources = list(_sources(site))
    left = max(_TOTAL_TIMES * sum(size for _, size in sources), _TOTAL_LEAST_BYTES)
    for path, size in sources:
        compiled = _compiled(path)
        if 0 < len(compiled) <= min(left, max(_TIMES * size, _LEAST_BYTES)):
            left -= len(compiled)
            target = cache_from_source(path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "xb") as file:
                file.write(compiled)


def _sources(site: str) -> Iterator[tuple[str, int]]:
    for folder, _, names in os.walk(site):
        for name in names:
            if name.endswith(".py"):
                path = os.path.join(folder, name)
                yield path, os.stat(path).st_size


def _compiled(path: str) -> bytes:
    """Return what an interpreter loads in place of a file; nothing where that cannot be made."""
    with open(path, "rb") as file:
        source = file.read()
    try:
        code = compile(source, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return b""
    return MAGIC_NUMBER + _UNCHECKED + source_hash(source) + marshal.dumps(code)


if __name__ == "__main__":
    main()
