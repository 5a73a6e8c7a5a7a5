"""Make the objects of a template immortal before it forks, so that its workers share the memory that they lie in.

Running code counts references to the objects that it touches. Each count is in the object, so a worker copies the page
of nearly every object that it uses, although it changes none. Python 3.12 and newer count no references to an object
that is immortal. A template never frees what it has loaded, so nothing is lost by that (PEP 683).

There is no public way to make an object immortal. This writes the count that `None` has, after a look at an object of
its own shows that the interpreter then counts no more. Where it does not, nothing is changed, and memory is copied as
before.
"""

from __future__ import annotations

import ctypes
import gc
import struct
import sys
import sysconfig
from types import CodeType
from typing import Final

# The half of a word that says whether an object is immortal. The other half is part of the count until 3.13.
_SIZE: Final = ctypes.sizeof(ctypes.c_uint32)
_WITHOUT_PARTS: Final = frozenset({str, bytes, int, float, complex})
_REFERENCES: Final = 10  # taken for the look; more than any that the look itself takes


def make_immortal() -> bool:
    """Make all objects of this process immortal that can be found; return False where that is impossible.

    What lies aside for good (`gc.freeze`) is found too, and everything lies aside afterwards. The collector would
    otherwise sort out each immortal object in every worker, and copy its page to do so.
    """
    if not can_make_immortal():
        return False
    counts = _all_memory()
    gc.unfreeze()
    immortal = counts[_place(None)]
    found = gc.get_objects()
    while found:
        # What is immortal has been here, or was never copied. This runs some 400 000 times.
        reached = []
        for one in found:
            place = id(one) // _SIZE
            if counts[place] != immortal:
                counts[place] = immortal
                if type(one) not in _WITHOUT_PARTS:
                    reached.append(one)
        found = gc.get_referents(*reached)
        for one in reached:
            if type(one) is CodeType:  # it tells the collector of nothing that it has
                found += (one.co_consts, one.co_names, one.co_linetable, one.co_exceptiontable, one.co_filename)
                found += (one.co_name, one.co_qualname, *one.co_varnames, *one.co_freevars, *one.co_cellvars)
    gc.freeze()
    return True


def can_make_immortal() -> bool:
    """Return whether this interpreter stops counting references to an object whose count is that of `None`."""
    is_as_expected = (
        sys.implementation.name == "cpython"
        and sys.version_info >= (3, 12)
        and not sysconfig.get_config_var("Py_GIL_DISABLED")
        and not hasattr(sys, "gettotalrefcount")  # a debug build lays objects out otherwise
        and sys.byteorder == "little"
        and struct.calcsize("P") == 8
    )
    return is_as_expected and _shows_in_an_object(_all_memory())


def _all_memory() -> ctypes.Array[ctypes.c_uint32]:
    return (ctypes.c_uint32 * (1 << 60)).from_address(0)


def _shows_in_an_object(counts: ctypes.Array[ctypes.c_uint32]) -> bool:
    """Return whether an object's count is where it is expected, and stays as it is once it is the count of `None`."""
    looked_at = object()
    place = _place(looked_at)
    before = counts[place]
    references = [looked_at] * _REFERENCES
    if counts[place] != before + _REFERENCES:
        return False
    del references
    counts[place] = counts[_place(None)]
    references = [looked_at] * _REFERENCES
    return len(references) == _REFERENCES and counts[place] == counts[_place(None)]


def _place(one: object) -> int:
    return id(one) // _SIZE
