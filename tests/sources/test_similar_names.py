"""Names are suggested only where they are near what was typed."""

from __future__ import annotations

import time

from paddock_sources.similar_names import near
from support.rows import each_row

_PROGRAMS = ("cat", "git", "keytool", "python3", "python3-config", "rm", "bash", "makeinfo")
_MODULES = ("tool-filesystem", "tool-bash", "provider-openai", "loop-basic")


@each_row(
    ("typed", "known", "meant"),
    [
        ("gti", _PROGRAMS, ["git"]),
        ("bsah", _PROGRAMS, ["bash"]),
        ("pyhton3", _PROGRAMS, ["python3"]),
        ("GIT", _PROGRAMS, ["git"]),
        ("mytool", _PROGRAMS, []),
        ("toolkey", _PROGRAMS, []),
        ("rg", _PROGRAMS, []),
        ("bat", _PROGRAMS, []),
        ("config", _PROGRAMS, []),
        ("python", _PROGRAMS, ["python3"]),
        ("tool-filesytem", _MODULES, ["tool-filesystem"]),
        ("tool_bash", _MODULES, ["tool-bash"]),
        ("openai", _MODULES, ["provider-openai"]),
        ("tool-weather", _MODULES, []),
        ("provider-gemini", _MODULES, []),
        ("loop", _MODULES, ["loop-basic"]),
        ("", _MODULES, []),
    ],
)
def test_a_name_is_suggested_if_it_is_near(typed: str, known: tuple[str, ...], meant: list[str]) -> None:
    assert near(typed, known) == meant


def test_a_longer_form_is_near_in_a_vocabulary_alone() -> None:
    assert near("network", ("read", "net"), is_vocabulary=True) == ["net"]
    assert near("catalog", ("cat", "net")) == []


def test_the_nearest_comes_first() -> None:
    assert near("tool-bask", ("tool-basks", "tool-bash", "tool-bask"), limit=2) == ["tool-bask", "tool-basks"]


def test_a_long_name_is_near_to_nothing() -> None:
    assert near("x" * 63 + "y", ["x" * 64]) == ["x" * 64]
    assert near("x" * 65, ["x" * 65, "x" * 66, "x" * 65 + "-y"]) == []


def test_the_right_name_is_found_among_very_many() -> None:
    assert near("pyhton3", [*(f"crowd{number:04}"[-7:] for number in range(3000)), "python3"]) == ["python3"]


def test_names_that_were_made_to_be_slow_cost_little() -> None:
    name = "ab" * 32
    for made in (
        [f"{name[:-4]}{number:04}" for number in range(5000)],
        [f"{number:04}{name[4:]}" for number in range(5000)],
    ):
        began = time.process_time()
        near(name, made, limit=2)
        assert time.process_time() - began < 2  # comparing all of them takes ten times as long
