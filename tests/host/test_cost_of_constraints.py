"""What a plan that was not accepted makes the host compare: its constraints once, however many entries it has."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from packaging.specifiers import SpecifierSet

from paddock.errors import PlanError
from paddock.module_sources.provisioning import SourceOptions
from paddock.module_sources.resolve import ModuleSources
from paddock.module_sources.sourced_modules import SourcedModules
from paddock.plan.load import load_plan
from paddock.policy.files.policy import Policy
from paddock_sources.cache import SourceCache
from paddock_sources.constraints import Constraint

_PACKAGES = 25
_ENTRIES = 100


def _plan(own: int, epoch: int) -> str:
    """Return a plan with as many constraints and entries as one may have; the first `own` have one more of theirs.

    The versions of an epoch are in no other plan, so that no earlier judgement holds for them.
    """
    lines = ["session: {orchestrator: loop-basic, context: context-simple}", "providers: [{module: provider-mock}]"]
    pairs = itertools.product(range(_PACKAGES), range(8 - bool(own)))
    lines += ["constraints:", *(f"  - 'p{one}!={epoch}!{two}.*'" for one, two in pairs)]
    lines += ["tools:"]
    for number in range(_ENTRIES):
        more = f", constraints: ['p0!={epoch}!1.{number}']" if number < own else ""
        lines.append(f"  - {{module: tool-bash, source: ./tool-{number}, instance_id: t{number}{more}}}")
    return "\n".join(lines)


@pytest.mark.parametrize("own", [0, 20])
async def test_constraints_are_read_and_judged_once(own: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    (tmp_path / "plan.yaml").write_text(_plan(own, epoch=2 * own + 1))
    plan = load_plan(tmp_path / "plan.yaml")
    done: Counter[str] = Counter()
    parse = Constraint.parse

    def counted_parse(text: object, place: str = "") -> Constraint:
        done["read"] += 1
        return parse(text, place)

    class CountedSpecifiers(SpecifierSet):
        def __init__(self, *args: Any, **options: Any) -> None:
            done["judged"] += 1
            super().__init__(*args, **options)

    monkeypatch.setattr("packaging.specifiers.SpecifierSet", CountedSpecifiers)
    monkeypatch.setattr(Constraint, "parse", counted_parse)
    with SourceCache(tmp_path / "cache") as cache:
        sources = ModuleSources(cache, environ, tmp_path, tmp_path, Policy(), SourceOptions(offline=True))
        found = await sources.resolve(tuple(plan.entries()), plan.positions, rules=plan.rules_by_entry())
    assert len(found) == _ENTRIES + 3
    written = len(plan.constraints) + own
    assert done["read"] == written and 0 < done["judged"] <= _PACKAGES + own, done
    done.clear()
    (tmp_path / "plan.yaml").write_text(_plan(own, epoch=2 * own + 2))
    assert len(SourcedModules.read(tmp_path / "plan.yaml", tmp_path, environ).modules) == _ENTRIES
    # Those of the file are read twice: as text that is accepted, and with their places.
    assert done["read"] == 2 * written and 0 < done["judged"] <= _PACKAGES + own, done


def test_entries_together_have_no_more_constraints_than_a_list(tmp_path: Path) -> None:
    entries = [{"module": "tool-a", "constraints": [f"a!={number}", f"b!={number}"]} for number in range(101)]
    session = {"orchestrator": "loop-basic", "context": "context-simple"}
    plan = {"session": session, "tools": entries[:100], "agents": {"one": {"tools": entries[:100]}}}
    assert len(list(load_plan(plan).entries())) == 202  # what an agent repeats counts once
    with pytest.raises(PlanError) as caught:
        load_plan({**plan, "tools": entries})
    (problem,) = caught.value.problems
    assert problem.path == "tools[100].constraints" and "more than 200 constraints" in problem.message
