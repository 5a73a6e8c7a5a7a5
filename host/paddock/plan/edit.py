"""Put a module's entry into an existing plan, or take one out.

The author's text stays: everything outside the entry is left alone, comments included. An edit is accepted only if
reading it gives exactly the old plan with the entry, or without it, and nothing else. Otherwise nothing is written, and
the error shows the lines to write by hand. A plan in JSON is never written; its error shows them in JSON.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import yaml

from paddock.errors import PaddockError, PlanError
from paddock.plan import EXTENDS, entry_reading
from paddock.plan.formats.bounded_yaml import read_yaml
from paddock.plan.formats.document import conversion_of, read_document
from paddock.plan.formats.yaml_items import (
    flow_text,
    item_lines,
    with_item,
    with_key,
    without_comments,
    without_item,
    without_section,
)
from paddock.plan.load import load_plan
from paddock.plan.model import Kind, ModuleEntry, MountPlan
from paddock.plan.permissions import Permissions
from paddock.plan.problems import YamlError
from paddock.plan.writing import GRANT_COMMENT
from paddock.text import reason_of
from paddock_sources import parse_source

SECTIONS: Final[Mapping[Kind, str]] = {kind: section for section, kind in entry_reading.SECTIONS.items()}

_ITEM: Final = re.compile(r"(providers|tools|hooks)\[([0-9]+)\]")
_BYTE_ORDER_MARK: Final = "\ufeff"

Keys = Mapping[str, Mapping[str, Any]]
"""Values of keys, by the places of the entries that have them."""


class PlanNotEditedError(PaddockError):
    """Raised when a plan has to be edited by its owner; nothing was written. `lines` are those to put in it."""

    exit_code = 1

    def __init__(
        self,
        path: Path,
        problem: str,
        *,
        lines: Iterable[str] = (),
        hints: Iterable[str] = (),
    ) -> None:
        self.path = path
        self.problem = problem
        self.lines = tuple(lines)
        super().__init__(f"`{path}` was left as it is: {problem}", detail=self.lines, hints=hints)


@dataclass(frozen=True, slots=True)
class PlanEdit:
    """A changed plan that is not written yet: `place` is where the entry stands, or stood."""

    path: Path
    place: str
    before: bytes
    after: bytes
    plan: MountPlan

    def write(self) -> MountPlan:
        """Write the changed plan, completely or not at all, and return it.

        Raises:
            PlanNotEditedError: the plan changed meanwhile, or cannot be written.
        """
        self._replace(self.before, self.after)
        return self.plan

    def undo(self) -> None:
        """Restore the plan as it was before `write`; raises as that does."""
        self._replace(self.after, self.before)

    def _replace(self, before: bytes, after: bytes) -> None:
        try:
            is_as_read = replaced(self.path, before, after)
        except OSError as error:
            raise PlanNotEditedError(self.path, f"it cannot be written: {reason_of(error)}") from error
        if not is_as_read:
            raise PlanNotEditedError(self.path, "somebody else changed it at this moment", hints=["try again"])


def replaced(path: Path, before: bytes, after: bytes) -> bool:
    """Replace the content of a file, completely or not at all, and return whether it still was `before`.

    A link stays one, and the file keeps its mode and its owner.

    Raises:
        OSError: it cannot be written.
    """
    real = Path(os.path.realpath(path))
    unfinished = real.with_name(f".{real.stem}.unfinished-{os.getpid()}{real.suffix}")
    try:
        with open(unfinished, "xb") as file:
            info = real.stat()
            os.fchown(file.fileno(), info.st_uid, info.st_gid)
            os.fchmod(file.fileno(), stat.S_IMODE(info.st_mode))
            file.write(after)
            file.flush()
            os.fsync(file.fileno())
        is_as_read = real.read_bytes() == before
        if is_as_read:
            os.replace(unfinished, real)
        return is_as_read
    finally:
        with suppress(FileNotFoundError):
            unfinished.unlink()


def with_entry(
    path: Path, kind: Kind, entry: Mapping[str, Any], *, lines: Sequence[str] = (), instead_of: int | None = None
) -> PlanEdit:
    """Return the plan at `path` with one more entry, at the end of the section for modules of its kind.

    `lines` are those of the entry in a YAML plan, with comments. The entry at index `instead_of` of the section is
    taken out.

    Raises:
        PlanError: the file is no plan.
        PlanNotEditedError: it has such a module already, or no place for it was found.
    """
    plan = load_plan(path)
    if kind in ("orchestrator", "context"):
        has = plan.orchestrator if kind == "orchestrator" else plan.context
        place = plan.place_of(has.path).text
        raise PlanNotEditedError(
            path,
            f"a session has one {kind}, and this plan names `{has.module}` ({place})",
            lines=["to have the new one in its place, write there:", _key_line(path, kind, dict(entry))],
        )
    there = next((one for one in plan.own_entries() if one.module == entry["module"]), None)
    if there is not None:
        file = shlex.quote(str(path))
        ref = parse_source(str(entry["source"])).requested[0] if entry.get("source") else ""
        update = f"`paddock update {there.module} --to {shlex.quote(ref)} --plan {file}`"
        remove = f"`paddock remove {there.module} --from {file}`"
        hints = [
            f"for this version of it: {update}"
            if ref
            else f"for another one in its place, take it out first: {remove}",
            f"for a second one, which mounts under other names, name it: `--as {entry['module']}-2`",
        ]
        place = plan.place_of(there.path).text
        raise PlanNotEditedError(path, f"it has module `{there.module}` already, at {place}", hints=hints)
    section = SECTIONS[kind]

    replaced = None if instead_of is None else _own_index(path, plan, section, instead_of)
    if instead_of is not None and replaced is None:
        raise PlanNotEditedError(path, f"what is at `{section}[{instead_of}]` is in a bundle that it extends")

    def add(content: dict[str, Any]) -> str:
        content.setdefault(section, []).append(_unshared(dict(entry)))
        if replaced is not None:
            del content[section][replaced]
        return f"{section}[{len(content[section]) - 1}]"

    def propose(text: str) -> Iterator[str]:
        for added in with_item(text, section, entry, lines):
            if replaced is None:
                yield added
            else:
                yield from without_item(added, section, replaced)

    instead = f", in place of `{section}[{instead_of}]`" if instead_of is not None else ""
    by_hand = [f"in `{section}`{instead}, the entry to add by hand is", *entry_lines(path, entry)]
    return _edited(path, add, propose, by_hand)


def without_entry(path: Path, place: str) -> PlanEdit:
    """Return the plan at `path` without the entry at `place`, as in `tools[1]`.

    Raises:
        PlanError: the file is no plan.
        PlanNotEditedError: the plan needs the entry, or the entry is not found in its text.
    """
    match = _ITEM.fullmatch(place)
    if match is None and place.startswith("agents"):
        line = load_plan(path).place_of(place).text
        raise PlanNotEditedError(
            path, f"it is an agent that has what is at `{place}`", lines=[f"the entry to take out by hand is at {line}"]
        )
    if match is None:
        raise PlanNotEditedError(
            path, f"a session needs what is at `{place}`", hints=["name another one there instead"]
        )
    section, plan = match[1], load_plan(path)
    index = _own_index(path, plan, section, int(match[2]))
    if index is None:
        line = f"a bundle that the plan extends has it, at {plan.place_of(place).text}"
        raise PlanNotEditedError(path, f"it has nothing of its own at `{place}`", lines=[line])

    def remove(content: dict[str, Any]) -> str:
        del content[section][index]
        return place

    lines = [f"the entry to take out by hand is `{place}`, at {plan.place_of(place).text}"]
    return _edited(path, remove, lambda text: without_item(text, section, index), lines)


def with_bundle(path: Path, address: str, read: Callable[[bytes], MountPlan]) -> PlanEdit:
    """Return the plan at `path` with one more bundle that it extends; `read` returns the plan that a text then is.

    Raises:
        PlanError: the result is no plan. Exceptions of `read` propagate.
        PlanNotEditedError: it extends that bundle already, or no place for it was found.
    """

    def add(content: dict[str, Any]) -> str:
        several = extended_by(content)
        if address in several:
            raise PlanNotEditedError(path, f"it extends `{address}` already")
        content[EXTENDS] = [*several, address]
        return EXTENDS

    lines = [f"the line to add by hand is `{EXTENDS}: {flow_text(address)}`, or one more item of its list"]
    return _edited(path, add, lambda text: with_item(text, EXTENDS, address), lines, read)


def without_bundle(path: Path, index: int) -> PlanEdit:
    """Return the plan at `path` without one of the bundles that it extends; raises as `without_entry` does."""

    def remove(content: dict[str, Any]) -> str:
        several = extended_by(content)
        del several[index]
        content[EXTENDS] = several
        return EXTENDS

    def propose(text: str) -> Iterator[str]:
        is_last = len(extended_by(read_document(path).content)) == 1
        return without_section(text, EXTENDS) if is_last else without_item(text, EXTENDS, index)

    lines = [f"the bundle to take out by hand is item {index + 1} of `{EXTENDS}`"]
    return _edited(path, remove, propose, lines)


def extended_by(content: Mapping[str, Any]) -> list[Any]:
    """Return the bundles that a plan's own content extends, as it names them."""
    written = content.get(EXTENDS)
    return [*written] if isinstance(written, list) else [] if written is None else [written]


def with_permissions(
    path: Path,
    place: str,
    permissions: Permissions,
    *,
    keeps_home: bool = False,
) -> PlanEdit:
    """Return the plan at `path` with exactly these grants for the entry at `place`, instead of those it states.

    With `keeps_home` it says too that the module's home stays.

    Raises:
        PlanError: the file is no plan.
        PlanNotEditedError: the entry cannot be found for certain in its text.
    """
    keys = grant_keys(permissions, keeps_home=keeps_home)
    lines = [f"write at `{place}`:", *grant_lines(path, permissions, keeps_home=keeps_home)]
    match = _ITEM.fullmatch(place)
    if match is None:
        raise PlanNotEditedError(path, f"`{place}` is no entry of a list", lines=lines)
    section, plan = match[1], load_plan(path)
    index = _own_index(path, plan, section, int(match[2]))
    if index is None:
        own = {**_named(next(one for one in plan.own_entries() if one.path == place)), **keys}

        def add(content: dict[str, Any]) -> str:
            content.setdefault(section, []).append(_unshared(own))
            return f"{section}[{len(content[section]) - 1}]"

        return _edited(path, add, lambda text: with_item(text, section, own), lines)

    told: list[tuple[tuple[str, ...], object]] = []  # families alone, so that comments of others stay

    def change(content: dict[str, Any]) -> str:
        entry, after = content[section][index], keys["permissions"]
        before = entry.get("permissions")
        if isinstance(before, dict) and isinstance(after, dict):
            told.extend((("permissions", name), one) for name, one in after.items() if before.get(name) != one)
        entry.update(_unshared(keys))
        return place

    def propose(text: str) -> Iterator[str]:
        whole = [((key,), value) for key, value in keys.items()]
        for kept in (without_comments(text, section, index, GRANT_COMMENT), text):
            for several in ([*told, *whole[1:]], whole):
                yield from _with_keys(kept, section, index, several)

    return _edited(path, change, propose, lines)


def with_source(path: Path, place: str, source: str) -> PlanEdit:
    """Return the plan at `path` whose entry at `place` has its code from another source; the rest of it stays.

    Raises:
        PlanError: the file is no plan.
        PlanNotEditedError: the entry cannot be found for certain in its text.
    """
    lines = [f"write at `{place}`:", _key_line(path, "source", source)]
    match, plan = _ITEM.fullmatch(place), load_plan(path)
    index = None if match is None else _own_index(path, plan, match[1], int(match[2]))
    if match is None or index is None:
        raise PlanNotEditedError(path, f"`{place}` is no entry of a list in it", lines=lines)
    section = match[1]

    def change(content: dict[str, Any]) -> str:
        content[section][index]["source"] = source
        return place

    return _edited(path, change, lambda text: with_key(text, section, index, ["source"], source), lines)


def with_keys(path: Path, written: bytes, changes: Keys) -> MountPlan:
    """Return the plan whose file is `written`, with other values of keys in entries; nothing is written.

    A `config` keeps what is not named, and is no part of what a person accepts: the digest stays that of the file.

    Raises:
        PlanError: the result is no plan.
    """
    content = _unshared(read_document(path, written).content)
    settings: dict[str, Any] = {}
    for place, keys in changes.items():
        match = _ITEM.fullmatch(place)
        assert match is not None, place
        given = {key: one for key, one in keys.items() if key != "config"}
        if given:
            _own_entry(content, path, match[1], int(match[2]), written).update(given)
        settings[place] = keys.get("config", {})
    if any(keys.keys() - {"config"} for keys in changes.values()):
        if _is_json(path):
            dumped = json.dumps(content)
        else:
            dumped = yaml.safe_dump(content, allow_unicode=True, sort_keys=False)
        written = dumped.encode()
    plan = load_plan(path, written=written)
    providers = (
        one.model_copy(update={"config": {**one.config, **settings.get(one.path, {})}}) for one in plan.providers
    )
    return replace(plan, providers=tuple(providers))


def _own_index(
    path: Path,
    plan: MountPlan,
    section: str,
    index: int,
    written: bytes | None = None,
) -> int | None:
    """Return the index, in the plan's own file, of an entry of a section; None where only a bundle has it."""
    if plan.bundles is None:
        return index
    entries: Sequence[ModuleEntry] = getattr(plan, section)
    wanted = (entries[index].module, entries[index].instance_id)
    own = read_document(path, written).content.get(section) or []
    for number, one in enumerate(own):
        if isinstance(one, dict) and (one.get("module"), one.get("instance_id")) == wanted:
            return number
    return None


def _own_entry(
    content: dict[str, Any],
    path: Path,
    section: str,
    index: int,
    written: bytes,
) -> dict[str, Any]:
    """Return an entry of a plan's own content, which gets one where only a bundle has it."""
    plan = load_plan(path, written=written)
    own = _own_index(path, plan, section, index, written)
    if own is None:
        content.setdefault(section, []).append(_named(getattr(plan, section)[index]))
        own = -1
    found: dict[str, Any] = content[section][own]
    return found


def _named(entry: ModuleEntry) -> dict[str, Any]:
    """Return the keys of an entry over this one, which a bundle has."""
    return {"module": entry.module, **({"instance_id": entry.instance_id} if entry.instance_id else {})}


def entry_lines(path: Path, entry: Mapping[str, Any]) -> list[str]:
    """Return the lines of an entry in the format of the plan at `path`."""
    return json.dumps(dict(entry), indent=2, ensure_ascii=False).split("\n") if _is_json(path) else item_lines(entry)


def grant_keys(permissions: Permissions, *, keeps_home: bool) -> dict[str, Any]:
    """Return the keys of an entry that would grant this, and let the module's home stay."""
    return {"permissions": permissions.as_written(), **({"state": "keep"} if keeps_home else {})}


def grant_line(path: Path | None, permissions: Permissions) -> str:
    """Return the line of an entry that would grant this, in the format of the plan at `path`; else in YAML."""
    return _key_line(path, "permissions", permissions.as_written())


def grant_lines(path: Path | None, permissions: Permissions, *, keeps_home: bool) -> list[str]:
    """Return the lines of an entry that would grant this, and let the module's home stay."""
    return [_key_line(path, key, value) for key, value in grant_keys(permissions, keeps_home=keeps_home).items()]


def _key_line(path: Path | None, key: str, value: object) -> str:
    if path is not None and _is_json(path):
        return f'"{key}": {json.dumps(value, ensure_ascii=False)}'
    return f"{key}: {flow_text(value)}"


def _is_json(path: Path) -> bool:
    return path.suffix.lower() == ".json"


# -- make an edit --------------------------------------------------------------------------


def _edited(
    path: Path,
    change: Callable[[dict[str, Any]], str],
    propose: Callable[[str], Iterator[str]],
    lines: Iterable[str],
    read: Callable[[bytes], MountPlan] | None = None,
) -> PlanEdit:
    """Return the first proposed text that reads as the old plan after `change`, which `read` reads as a plan."""
    if _is_json(path):
        convert = f"`{conversion_of(path)}` writes it as YAML, which Paddock edits"
        raise PlanNotEditedError(path, "Paddock edits no plan in JSON", lines=lines, hints=[convert])
    document = read_document(path)
    expected = _unshared(document.content)
    place = change(expected)
    mark = _BYTE_ORDER_MARK if document.written.startswith(_BYTE_ORDER_MARK.encode()) else ""
    text = document.written.decode("utf-8-sig")
    section = place.partition("[")[0]
    with suppress(yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        for proposed in propose(text):
            if _says(proposed, expected, section):
                after = (mark + proposed).encode("utf-8")
                plan = _read_back(path, after) if read is None else read(after)
                return PlanEdit(path, place, document.written, after, plan)
    raise PlanNotEditedError(path, "the place of the change in its text could not be determined", lines=lines)


def _read_back(path: Path, after: bytes) -> MountPlan:
    try:
        return load_plan(path, written=after)
    except PlanError as error:
        raise PlanNotEditedError(path, "with the change it would be no plan", lines=error.detail) from error


def _says(text: str, expected: dict[str, Any], section: str) -> bool:
    try:
        said, _ = read_yaml(text)
    except YamlError:
        return False
    # A list that became empty may be gone as well: it means the same.
    return isinstance(said, dict) and _with_list(said, section) == _with_list(expected, section)


def _unshared(value: Any) -> Any:
    """Return a copy that contains no object twice, so that a change in it is a change in one place."""
    if isinstance(value, dict):
        return {key: _unshared(one) for key, one in value.items()}
    return [_unshared(one) for one in value] if isinstance(value, list) else value


def _with_list(content: dict[str, Any], section: str) -> dict[str, Any]:
    return {**content, section: content.get(section, [])}


def _with_keys(
    text: str,
    section: str,
    index: int,
    keys: Sequence[tuple[tuple[str, ...], object]],
) -> Iterator[str]:
    """Propose texts of YAML in which an item has all of these values."""
    if not keys:
        yield text
        return
    (key, value), *more = keys
    for proposed in with_key(text, section, index, key, value):
        yield from _with_keys(proposed, section, index, more)
