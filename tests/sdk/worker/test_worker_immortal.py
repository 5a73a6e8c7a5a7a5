"""Objects that the template makes immortal: what changes for the code that uses them, and where nothing does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import paddock_sdk
from paddock_sdk.worker import immortal

_SDK = str(Path(paddock_sdk.__file__).parents[1])
_CAN = sys.version_info >= (3, 12)

_PROGRAM = """
import asyncio, gc, json, re, sys
sys.path.append(sys.argv[1])
from paddock_sdk.worker.immortal import make_immortal

class Kept:
    def __init__(self):
        self.parts = {"list": [1, "two"], "text": "".join(["not ", "interned"])}

def used(number):
    return re.sub("a", "b", "abc"), (number, "a constant of this function, which is no name"), Kept

kept = Kept()
gc.collect()
gc.freeze()
immortal = make_immortal()
probes = [kept, kept.parts, kept.parts["list"], kept.parts["text"], used, used.__code__, used.__code__.co_consts, Kept]
before = [sys.getrefcount(one) for one in probes]
more = [(one, one) for one in probes]
unchanged = [sys.getrefcount(one) for one in probes] == before
# All goes on as before: code runs, what is changed changes, and what is new is freed.
kept.parts["list"].append(3)
kept.parts["other"] = {}
asyncio.run(asyncio.sleep(0))
class Fresh: pass
fresh = Fresh()
counted = sys.getrefcount(fresh)
again = [fresh] * 3
print(json.dumps([immortal, unchanged, used(1)[0], kept.parts, sys.getrefcount(fresh) - counted, gc.collect() >= 0]))
"""


def test_references_to_what_is_there_are_counted_no_more() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-c", _PROGRAM, _SDK], capture_output=True, timeout=60, check=False, encoding="utf-8"
    )
    assert done.stderr == ""
    parts = {"list": [1, "two", 3], "text": "not interned", "other": {}}
    assert json.loads(done.stdout) == [_CAN, _CAN, "bbc", parts, 3, True]


@pytest.mark.parametrize(
    "changed", [{"implementation": SimpleNamespace(name="another")}, {"byteorder": "big"}, {"gettotalrefcount": id}]
)
def test_another_layout_of_objects_is_left_alone(changed: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(immortal, "sys", SimpleNamespace(**{**vars(sys), **changed}))
    assert not immortal.make_immortal()


@pytest.mark.skipif(_CAN, reason=f"Python {sys.version_info.minor} counts no references to immortal objects")
def test_an_interpreter_that_goes_on_counting_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(immortal, "sys", SimpleNamespace(**{**vars(sys), "version_info": (3, 99)}))
    assert not immortal.make_immortal()
