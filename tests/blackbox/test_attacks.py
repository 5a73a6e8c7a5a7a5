"""The attacks of `paddock selftest` have the names, families and order that they had, and its JSON the same keys.

`golden/attacks.json` was written from what `paddock selftest --json` showed of all; to run all of them again would take
longer than everything else here. Two are run.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from blackbox.commands import World
from blackbox.frozen import frozen

_ATTACKS = frozen("attacks")["attacks"]
_RUN = ["read_ssh_key", "run_a_shell"]


def test_attacks_have_the_same_names_in_the_same_order(world: World) -> None:
    done = world.run("selftest", "nope")
    _, _, listed = done.stderr.strip().rpartition("there are: ")
    assert done.code == 2
    assert listed.split(", ") == [attack["name"] for attack in _ATTACKS]


def test_every_attack_has_the_same_words_somewhere() -> None:
    spec = importlib.util.find_spec("paddock")
    assert spec is not None
    [folder] = spec.submodule_search_locations or ()
    text = "\n".join(path.read_text(encoding="utf-8") for path in Path(folder).rglob("*.py"))
    words = {attack[key] for attack in _ATTACKS for key in ("name", "family")}
    assert {word for word in words if f'"{word}"' not in text and f"def {word}" not in text} == set()


@pytest.mark.usefixtures("level_ns")
def test_selftest_shows_attacks_with_the_same_keys(world: World) -> None:
    done = world.run("selftest", *_RUN, "--isolation", "ns", "--json")
    assert done.code == 0, done.stdout
    shown: dict[str, Any] = done.json
    assert [*shown] == ["ok", "user", "levels", "unreachable", "attacks", "problems"]
    assert (shown["ok"], shown["levels"], shown["unreachable"], shown["problems"]) == (True, ["ns"], {}, [])
    expected = {attack["name"]: attack for attack in _ATTACKS}
    for attack in shown["attacks"]:
        assert [*attack] == ["name", "family", "tries", "outside", "levels"]
        assert {key: attack[key] for key in ("name", "family", "tries")} == expected[attack["name"]]
        assert [*attack["outside"]] == ["shown", "excuses", "problem"]
        assert [*attack["levels"]["ns"]] == ["verdict", "by", "lag_seconds", "report"]
        assert attack["levels"]["ns"]["verdict"] == "refused"
