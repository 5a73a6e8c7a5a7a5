"""Write a plan for a person to read and change: the purpose of each module, and the effect of each grant.

A written plan can be read back. An existing file stays as it is unless it is to be replaced, and the new file is
written completely or not at all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from paddock.errors import KindError
from paddock.plan.entry_reading import SECTIONS
from paddock.plan.families import FAMILIES
from paddock.plan.formats.yaml_items import flow_text, yaml_lines_of
from paddock.plan.load import load_plan
from paddock.plan.model import Kind, MountPlan
from paddock.plan.permissions import Permissions, Preset
from paddock.text import escape, reason_of

_PRESETS: Final[Mapping[Preset, str]] = {
    "isolated": "its own code and a private folder, and nothing of yours",
    "workspace-read": "reads the folder it works in, and sees nothing else of yours",
    "workspace": "reads and writes the folder it works in, and sees nothing else of yours",
    "shell": "reads and writes the folder it works in, and runs any program of the system and of that folder",
}
_TOLD: Final = "what the model is told first; in it, @ before the name of a file adds what that file says"
_NOTHING: Final = "no permissions: its own code and a private folder are all that it needs"
_GOES_WITHOUT: Final = "it goes without "
GRANT_COMMENT: Final = re.compile(
    rf"# (?:{'|'.join(map(re.escape, (*_PRESETS.values(), _NOTHING)))}|{_GOES_WITHOUT}[^\n]*?)(?=\r?\n|\Z)"
)
"""A comment about an entry's grants, which another grant may make untrue."""


@dataclass(frozen=True, slots=True)
class PlannedModule:
    """A module of a plan that is being written; `purpose` says in a few words what it is for.

    `lacks` is what it goes without, for a reader who wants to grant it. `notes` explain keys of `config`. With
    `by_uv_lock`, the versions of what it depends on are those of its own lock. With `keeps`, its home stays.
    """

    kind: Kind
    module: str
    source: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    permissions: Permissions = field(default_factory=Permissions)
    purpose: str = ""
    lacks: tuple[str, ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict)
    by_uv_lock: bool = False
    keeps: bool = False

    @property
    def granted(self) -> str:
        """Its permissions on one line, for a person."""
        written = self.permissions.as_written()
        if isinstance(written, str):
            return written
        granted = [f"{family} {_names(grants)}" for family, grants in written.items()]
        return ", ".join([*granted, *(["a home that stays"] if self.keeps else [])]) or "nothing"

    def as_entry(self) -> dict[str, Any]:
        """Return its entry in a plan, as data."""
        entry: dict[str, Any] = {"module": self.module}
        if self.source is not None:
            entry["source"] = self.source
        if self.by_uv_lock:
            entry["dependencies"] = "locked"
        if self.config:
            entry["config"] = dict(self.config)
        if self.permissions != Permissions():
            entry["permissions"] = self.permissions.as_written()
        if self.keeps:
            entry["state"] = "keep"
        return entry

    def lines(self) -> list[str]:
        """Return the lines of its entry in YAML, with comments that say what each grant is for."""
        return [*_entry(self)]


def _names(grants: Iterable[object]) -> str:
    return " and ".join(str(one["name"]) if isinstance(one, Mapping) else str(one) for one in grants)


def plan_text(modules: Sequence[PlannedModule], instruction: str = "") -> str:
    """Return the text of a plan of these modules, an orchestrator and a context among them, and of an instruction."""
    lines = [
        "# The modules of a session, and what each is granted; whatever is not written here is refused.",
        "session:",
    ]
    for module in modules:
        if module.kind in ("orchestrator", "context"):
            lines += _comment(module.purpose, 2)
            lines.append(f"  {module.kind}:")
            lines += (f"    {line}" for line in _entry(module))
    if instruction:
        lines += _comment(_TOLD, 2)
        lines += ["  instruction: |", *(f"    {line}" for line in instruction.splitlines())]
    for section, kind in SECTIONS.items():
        found = [module for module in modules if module.kind == kind]
        lines += ["", f"{section}:"] if found else []
        for module in found:
            lines += _comment(module.purpose, 2)
            first, *rest = _entry(module)
            lines += [f"  - {first}", *(f"    {line}" for line in rest)]
    return "\n".join(lines) + "\n"


def plan_exists(path: Path) -> KindError:
    """Return the error for an existing plan that is not to be replaced."""
    return KindError(
        "PlanExistsError",
        f"`{path}` is there already, and stays as it is",
        hints=["name another file, or `--force` replaces this one"],
    )


def write_plan(path: Path, text: str, *, replace: bool = False) -> MountPlan:
    """Write a plan, and return the result of reading it.

    Raises:
        KindError: the file exists already, or cannot be written.
        PlanError: the result would be no valid plan; nothing is written.
    """
    if not replace and os.path.lexists(path):
        raise plan_exists(path)
    # Beside the plan, where relative sources start; with its extension, by which it is read.
    unfinished = path.with_name(f".{path.stem}.unfinished-{os.getpid()}{path.suffix}")
    try:
        try:
            with open(unfinished, "x", encoding="utf-8") as file:
                file.write(text)
            load_plan(unfinished)
            if replace:
                os.replace(unfinished, path)
            else:
                os.link(unfinished, path)  # fails where a plan was created meanwhile
        finally:
            with suppress(FileNotFoundError):
                unfinished.unlink()
    except FileExistsError as error:
        raise plan_exists(path) from error
    except OSError as error:
        raise KindError(
            "PlanNotWrittenError",
            f"`{path}` cannot be written: {reason_of(error)}",
            hints=["name a file in a folder that you can write to"],
        ) from error
    return load_plan(path)


def _entry(module: PlannedModule) -> Iterator[str]:
    yield f"module: {flow_text(module.module)}"
    if module.source is not None:
        yield f"source: {flow_text(module.source)}"
    if module.by_uv_lock:
        yield "dependencies: locked # in the versions of the module's own uv.lock"
    if module.config:
        yield "config:"
        for key, value in module.config.items():
            first, *rest = yaml_lines_of({key: value}, is_flow=False)
            note = f" # {escape(module.notes[key])}" if key in module.notes and not rest else ""
            yield from (f"  {line}" for line in (first + note, *rest))
    yield from _permissions(module)
    if module.keeps:
        yield "state: keep # its home, a folder of its own, is there again in the next session"
    for lack in module.lacks:
        yield f"# {_GOES_WITHOUT}{escape(lack)}"


def _permissions(module: PlannedModule) -> Iterator[str]:
    written = module.permissions.as_written()
    if isinstance(written, str):
        assert module.permissions.preset is not None
        yield f"permissions: {written} # {_PRESETS[module.permissions.preset]}"
        return
    if not written:
        yield from () if module.lacks or module.keeps else (f"# {_NOTHING}",)
        return
    yield "permissions:"
    for family, grants in written.items():
        yield from (f"  {line}" for line in _family(family, grants))


def _family(family: str, grants: Sequence[Any]) -> Iterator[str]:
    if family != "secrets":
        yield f"{family}: {flow_text(list(grants))} # {FAMILIES[family].comment}"
        return
    yield "secrets:"
    for grant in grants:
        if isinstance(grant, str):
            yield f"  - {flow_text(grant)} # it is given the value, and may do with it what it likes"
        else:
            yield f"  - {flow_text(grant)} # it never sees the value, which is put into its requests to that host"


def _comment(text: str, indent: int) -> Iterable[str]:
    return [f"{' ' * indent}# {escape(text)}"] if text else []
