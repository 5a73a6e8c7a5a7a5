"""Show where a tool's exception was raised: the line of the module's code in the answer, the traceback in its log.

Lines of the log begin with `DETAIL`, so that a reader can leave them out. The exception may be of the module's own
class; nothing is raised.
"""

from __future__ import annotations

import sys
import traceback
from typing import Final

DETAIL: Final = "DEBUG paddock: "
_MAX_CHARACTERS: Final = 8000  # of a traceback; its last lines name the place
MAX_LINE: Final = 500
_WORD_ENDS: Final = " \t\"'`<>()[]{}"


def place_of(error: BaseException, package: str) -> str:
    """Return the innermost line of `package` that an exception came through; empty if there is none."""
    found, trace = None, error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_globals.get("__name__")
        if type(name) is str and name.partition(".")[0] == package:
            found = trace
        trace = trace.tb_next
    if found is None:
        return ""
    code = found.tb_frame.f_code
    file = code.co_filename
    return f"{file[file.rfind(f'/{package}') + 1 :]}:{found.tb_lineno}, in {code.co_name}"


def traceback_of(error: BaseException, package: str) -> str:
    """Return the traceback from the first line of `package` on, without marks below the lines of code."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        name = trace.tb_frame.f_globals.get("__name__")
        if type(name) is str and name.partition(".")[0] == package:
            break
        trace = trace.tb_next
    try:
        text = "".join(traceback.format_exception(type(error), error, trace, limit=-50))
    except Exception:  # an exception of the module's own class does not want to be shown
        text = "".join(traceback.format_tb(trace, limit=-50))
    shown = "\n".join(line for line in text.splitlines() if line.strip(" ~^"))
    if len(shown) <= _MAX_CHARACTERS:
        return shown
    return shown[-_MAX_CHARACTERS:].partition("\n")[2]  # whole lines


def cut(line: str, most: int) -> str:
    """Return the start of a line, without the word at the cut: a part of a key is not recognised as one, and shown."""
    if len(line) <= most:
        return line
    start = line[:most]
    end = max(map(start.rfind, _WORD_ENDS))
    return start[: end + 1]


def log_traceback(text: str) -> None:
    """Print a traceback into the module's log."""
    if sys.stderr is not None:
        lines = (f"{DETAIL}{cut(line, MAX_LINE)}\n" for line in text.splitlines())
        sys.stderr.write("".join(lines))
        sys.stderr.flush()
