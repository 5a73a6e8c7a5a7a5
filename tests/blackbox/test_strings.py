"""The strings that JSON and the audit log show for kinds of failures: all are still made, and no others are.

`golden/strings.json` is written by hand. It has, by the name of a field, each string that may stand in it; for
`error.type`, with the exit code. What the frozen commands show is compared with it, so that a new kind is noticed; for
those that no command here can be brought to show, some file of the product has to name the string, as a class or as
text.
"""

from __future__ import annotations

import builtins
import importlib.util
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from blackbox.frozen import GOLDEN, frozen
from support.rows import each_row

_STRINGS = frozen("strings")
_PACKAGES = ("paddock", "paddock_sdk", "paddock_sandbox", "paddock_sources")
# A failure that an exit code goes beyond: a start that a policy or a death ended.
_OTHER_CODES = {"ModuleLoadError": {4, 5}, "ModuleMissingError": {4}, "TurnError": {4, 5}}


def _product() -> str:
    texts = []
    for package in _PACKAGES:
        spec = importlib.util.find_spec(package)
        assert spec is not None
        for folder in spec.submodule_search_locations or ():
            texts += [path.read_text(encoding="utf-8") for path in sorted(Path(folder).rglob("*.py"))]
    return "\n".join(texts)


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _objects(item)


def _commands() -> list[dict[str, Any]]:
    files = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((GOLDEN / "commands").iterdir())]
    return [one for one in _objects(files) if {"args", "code", "stdout"} <= one.keys()]


def _named() -> list[str]:
    return [name for names in _STRINGS.values() for name in ([names] if isinstance(names, str) else names)]


@pytest.fixture(scope="module")
def spelled() -> set[str]:
    """All that stands between two quotes in the product's Python files, and the names of its classes."""
    text = _product()
    return {*re.findall(r"(?<=[\"'])[^\"'\n]+(?=[\"'])", text), *re.findall(r"\bclass (\w+)", text)}


@each_row("name", sorted({name for name in _named() if not hasattr(builtins, name)}))
def test_each_string_is_still_made(name: str, spelled: set[str]) -> None:
    assert name in spelled, f"nothing makes {name}"


def test_commands_show_failures_of_the_list_with_its_exit_codes() -> None:
    shown = 0
    for command in _commands():
        error = command["stdout"].get("error") if isinstance(command["stdout"], dict) else None
        if not isinstance(error, dict) or "hints" not in error:
            continue  # what a tool answered
        kind = error["type"]
        assert command["code"] in {_STRINGS["error.type"][kind], *_OTHER_CODES.get(kind, ())}, command["args"]
        assert error.get("cause") in {None, *_STRINGS["cause"]}
        shown += 1
    assert shown > 50


def test_audit_lines_and_reports_have_words_of_the_list() -> None:
    events, reasons, layers = set(), set(), set()
    for path in (GOLDEN / "commands").iterdir():
        for one in _objects(json.loads(path.read_text(encoding="utf-8"))):
            if "event" in one and "session" in one:
                events.add(one["event"])
            if "reason" in one and "signal" in one:
                reasons.add(one["reason"])
            if "layer" in one and "caller" in one:
                layers.add(one["layer"])
    assert events <= {*_STRINGS["audit event"]} and len(events) >= 7
    assert reasons <= {*_STRINGS["exit report reason"]} and len(reasons) >= 4
    assert layers <= {*_STRINGS["denial layer"]} and len(layers) >= 3
