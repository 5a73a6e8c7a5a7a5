"""Pass over a module's breakpoints, and print how a debugger gets a terminal.

A worker has no terminal: a debugger that starts in it reads the end of its input, and raises `BdbQuit` in the module's
code.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_WAY = "`paddock module test PATH --isolation none -- --pdb` stops there, in a plain process\n"


def explain_breakpoints(stderr: int) -> None:
    """Have `breakpoint()` and `pdb.set_trace()` go on, after a line to this descriptor on how to get a debugger.

    PYTHONBREAKPOINT cannot do this: a worker's interpreter does not look at it.
    """
    _finder.stderr = stderr
    sys.breakpointhook = _finder.pass_over
    if "pdb" in sys.modules:
        _finder.change(sys.modules["pdb"])
    elif _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


class _DebuggerFinder:
    """Changes the standard library's debugger once a module imports it, which most never do."""

    def __init__(self) -> None:
        self.stderr = 2

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the debugger's spec, and no other; the next finders know where it is."""
        if name != "pdb":
            return None
        sys.meta_path.remove(self)
        found = (finder.find_spec(name, path, target) for finder in sys.meta_path)
        spec = next((one for one in found if one is not None), None)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_change(module: ModuleType) -> None:
                execute(module)
                self.change(module)

            spec.loader.exec_module = execute_and_change  # type: ignore[method-assign]
        return spec

    def change(self, debugger: ModuleType) -> None:
        """Have a debugger that reads the process's own stdin stop nowhere; one with another input works as usual."""
        stop = debugger.Pdb.set_trace
        if getattr(stop, "passes_over", False):
            return

        def set_trace(its: Any, *args: Any, **kwargs: Any) -> None:
            if its.stdin is sys.stdin:
                self.pass_over(called="pdb.set_trace()")
            else:
                stop(its, *args, **kwargs)

        set_trace.passes_over = True  # type: ignore[attr-defined]
        debugger.Pdb.set_trace = set_trace

    def pass_over(self, *args: object, called: str = "breakpoint()", **kwargs: object) -> None:
        """Print that a breakpoint was passed over."""
        words = f"{called} was passed over: the process of a module has no terminal; {_WAY}"
        os.write(self.stderr, words.encode())


_finder = _DebuggerFinder()
