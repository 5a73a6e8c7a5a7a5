"""The text of the file of accepted plans, which has the grants of their modules: how it is read, and how changed.

```toml
[[plan]]
digest = "sha256:…"
plan = "/home/me/plan.yaml"
accepted_at = 2026-01-01T12:00:00Z
grants = [
    {at = "tools[0]", source = "builtin:tool-filesystem", permissions = "workspace"},
]
pins = [
    {source = "git+https://example.org/x@main", commit = "0123…", digest = "sha256:…", dependencies = ["httpx 0.28.1"]},
]
```

A grant may have `without`: what the module would have been given as well if it had been there, as in
`without = {secrets = ["OPENAI_API_KEY"]}`. Once any of it is there, the operator is asked again. With `state = "keep"`
the module's home stays from session to session.

`pins` is what the lock file beside the plan pinned its sources to. Where it is missing, the pins are unknown.

`presets` is the version that the presets had; where it is missing, the first.

Its models are loaded where there is such a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import AwareDatetime, BeforeValidator, Field

from paddock.errors import PlanProblem, PolicyFileError
from paddock.plan.permissions import FAMILIES, Permissions
from paddock.plan.problems import StrictModel, path_text
from paddock.plan.source_map import Positions
from paddock.policy.files.accepted_plans import AcceptedGrant, AcceptedPlan
from paddock.policy.files.owned_file import OperatorFile
from paddock.policy.pins import Pin

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

_HEAD: Final = (
    "The plans you accepted, each by the digest of what it said then, and what you gave to the modules of each.",
    "Paddock adds to it; remove a [[plan]] to be asked again.",
)


# -- read the file --------------------------------------------------------------------------


def _listed(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


class _Grant(StrictModel):
    at: str
    source: str
    permissions: Annotated[Permissions, BeforeValidator(Permissions.written)]
    # Values of this model build its validator, which most that load this file do not need.
    without: Annotated[Permissions, BeforeValidator(Permissions.written)] = Field(default_factory=Permissions)
    state: Literal["keep"] | None = None


class _Pin(StrictModel):
    source: str
    digest: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
    commit: str = ""
    dependencies: Annotated[tuple[str, ...], BeforeValidator(_listed)] = ()


class _Plan(StrictModel):
    digest: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
    plan: str
    accepted_at: AwareDatetime
    grants: Annotated[tuple[_Grant, ...], BeforeValidator(_listed)] = ()
    pins: Annotated[tuple[_Pin, ...] | None, BeforeValidator(_listed)] = None
    presets: Annotated[int, Field(ge=1)] = 1


class _Document(StrictModel):
    plan: Annotated[tuple[_Plan, ...], BeforeValidator(_listed)] = ()


_KNOWN_KEYS: Final = {
    "": tuple(_Document.model_fields),
    "plan": tuple(_Plan.model_fields),
    "grants": tuple(_Grant.model_fields),
    "pins": tuple(_Pin.model_fields),
    "permissions": FAMILIES,
    "without": FAMILIES,
    "secrets": ("name", "inject"),
}


@lru_cache(maxsize=1)  # a session reads the file at each of its decisions, and finds the same text
def read_accepted(text: str, path: str) -> tuple[AcceptedPlan, ...]:
    """Return the accepted plans in a file with this text; `path` names it in errors.

    Raises:
        PolicyFileError: it names everything in the file that is not understood.
    """
    try:
        file = OperatorFile.parse(text, path)
        document = file.checked(_Document, _KNOWN_KEYS)
    except PolicyFileError as error:
        hint = "mend it, or remove it: you are then asked again about each plan"
        lost = PlanProblem("", "what you accepted is not known without it", hint)
        raise PolicyFileError(path, [*error.problems, lost]) from error
    return tuple(_accepted(plan, path_text("plan", index), file.positions) for index, plan in enumerate(document.plan))


def _accepted(plan: _Plan, place: str, positions: Positions) -> AcceptedPlan:
    grants = tuple(
        AcceptedGrant(
            one.at,
            one.source,
            one.permissions,
            positions.line_of(path_text(place, "grants", index)),
            one.without,
            keeps=one.state is not None,
        )
        for index, one in enumerate(plan.grants)
    )
    pins = None
    if plan.pins is not None:
        pins = tuple(Pin(one.source, one.commit, one.digest, one.dependencies) for one in plan.pins)
    line = positions.line_of(place)
    return AcceptedPlan(plan.digest, plan.plan, plan.accepted_at, grants, line, pins, plan.presets)


def _said(plan: AcceptedPlan) -> object:
    grants = [(one.place, one.source, one.permissions, one.without, one.keeps) for one in plan.grants]
    return plan.digest, plan.plan, plan.accepted_at, grants, plan.pins, plan.presets


# -- write the file -------------------------------------------------------------------------


def rewritten(text: str | None, before: Sequence[AcceptedPlan], after: Sequence[AcceptedPlan]) -> str:
    """Return `before` with the plans that are gone removed, new ones at its end, and other pins where they moved.

    Everything else stays as it is written; without a text, one is begun.

    Raises:
        ValueError: the text is written in a way that cannot be changed like this.
    """
    import tomlkit  # readers, such as every session, do not load this

    document = tomlkit.parse(text) if text is not None else _empty()
    tables: Any = document.get("plan")
    left = {_unpinned(one): one for one in after}
    for index in reversed(range(len(before))):
        kept = left.pop(_unpinned(before[index]), None)
        if kept is None:
            del tables[index]
        elif kept.pins != before[index].pins:
            tables[index]["pins"] = _pins(kept.pins or ())
    if left and not tables:
        document["plan"] = tables = tomlkit.aot()
    for one in left.values():
        tables.append(_table(one))
    written = tomlkit.dumps(document)
    if [_said(one) for one in read_accepted(written, "")] != [_said(one) for one in after]:
        raise ValueError("its tables are written in an unusual way")
    return written


def _unpinned(plan: AcceptedPlan) -> tuple[object, ...]:
    """Return what tells an acceptance from others; its pins may move."""
    return plan.digest, plan.accepted_at, plan.line


def _empty() -> TOMLDocument:
    import tomlkit

    document = tomlkit.document()
    for line in _HEAD:
        document.add(tomlkit.comment(line))
    return document


def _table(plan: AcceptedPlan) -> Any:
    import tomlkit

    table = tomlkit.table()
    table["digest"] = plan.digest
    table["plan"] = plan.plan
    table["accepted_at"] = plan.accepted_at
    if plan.presets > 1:  # a Paddock without versions refuses the key
        table["presets"] = plan.presets
    grants = tomlkit.array().multiline(multiline=True)
    for one in plan.grants:
        row = tomlkit.inline_table()
        row.update({"at": one.place, "source": one.source, "permissions": _inline(one.permissions.as_written())})
        if one.without != Permissions():
            row["without"] = _inline(one.without.as_written())
        if one.keeps:
            row["state"] = "keep"
        grants.append(row)
    table["grants"] = grants
    if plan.pins is not None:
        table["pins"] = _pins(plan.pins)
    return table


def _pins(pins: Iterable[Pin]) -> Any:
    import tomlkit

    rows = tomlkit.array().multiline(multiline=True)
    for pin in pins:
        row = tomlkit.inline_table()
        row.update({"source": pin.source, "commit": pin.commit, "digest": pin.digest})
        row["dependencies"] = [*pin.dependencies]
        rows.append(row)
    return rows


def _inline(value: Any) -> Any:
    # A plain dict becomes a table without spaces behind its commas.
    import tomlkit

    if isinstance(value, dict):
        table = tomlkit.inline_table()
        table.update({key: _inline(item) for key, item in value.items()})
        return table
    return [_inline(item) for item in value] if isinstance(value, list) else value
