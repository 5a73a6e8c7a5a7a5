"""What is named in several places is named in each: families of grants, methods, kinds and limits."""

from __future__ import annotations

import re
from enum import IntEnum
from pathlib import Path
from typing import get_args

from paddock.authoring.module_name import KINDS, PREFIXES
from paddock.cli.call_command import call
from paddock.isolation.denials.explain import Family
from paddock.plan import limits
from paddock.plan.families import FAMILIES as TABLE
from paddock.plan.model import Kind
from paddock.plan.permissions import FAMILIES
from paddock.policy.authority import RIGHTS
from paddock.workers.limits.tree_limits import REASONS
from paddock.workers.limits.watchdog import WatchedName
from paddock_sdk.protocol.methods import HostMethod, MirrorSection, WorkerMethod
from support.rows import each_row

_PAGE = (Path(__file__).resolve().parents[2] / "sdk/PROTOCOL.md").read_text(encoding="utf-8")


def test_every_family_of_grants_can_be_given_capped_and_explained() -> None:
    options = {option.name for option in call.params if option.name and option.opts[0].startswith("--allow-")}
    assert {name.removeprefix("allow_") for name in options} == {*FAMILIES}
    assert {*TABLE} == {*get_args(Family)} == {*FAMILIES}


@each_row("kind", get_args(Kind))
def test_every_kind_has_rights_and_a_name(kind: Kind) -> None:
    assert kind in RIGHTS and kind in KINDS and kind in PREFIXES


@each_row("numbers", [HostMethod, WorkerMethod, MirrorSection])
def test_the_page_of_the_protocol_has_a_row_for_each_number(numbers: type[IntEnum]) -> None:
    rows = {(int(number), name) for number, name in re.findall(r"^\| (\d+) \| `(\w+)`", _PAGE, re.MULTILINE)}
    assert {(one.value, one.name) for one in numbers} <= rows


def test_every_limit_that_the_watchdog_names_has_an_exit_reason() -> None:
    assert set(REASONS) == set(get_args(WatchedName))


@each_row("name", limits.Limits.model_fields)
def test_every_limit_is_shown_in_a_unit_that_a_plan_takes(name: str) -> None:
    shown = limits.limit_text(name, {"cpu_quota": 1.0, "memory_max": 8 << 20}.get(name, 65536))
    assert getattr(limits.Limits.model_validate({name: shown.replace(" ", "")}), name) is not None
