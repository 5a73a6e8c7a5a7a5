"""Names are suggested only where they are near what was typed."""

from __future__ import annotations

import pytest

from paddock_sources.near import near

_PROGRAMS = ("cat", "git", "keytool", "python3", "python3-config", "rm", "bash", "makeinfo")
_MODULES = ("tool-filesystem", "tool-bash", "provider-openai", "loop-basic")


@pytest.mark.parametrize(
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
