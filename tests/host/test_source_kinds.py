"""The table of the kinds of sources: no row is half, and a whole row is all that another kind takes.

The fifth kind is a shelf of editions: `shelf:tool-x@2` is the folder `tool-x-2` on it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import pytest
from click.testing import CliRunner

from paddock.cli.sources.list_command import list_
from paddock.isolation.persistent_home import PersistentHome
from paddock.module_sources.sourced_modules import name_of
from paddock.plan.model import EntryPlace, ModuleEntry
from paddock.policy.evaluate import refuse_sources
from paddock.policy.files.policy import Policy
from paddock.policy.source_name import SourceName
from paddock_sources import FileSource, Resolution, Resolver, SourceError, SourceUri, SourceUriError, parse_source
from paddock_sources.cache import SourceCache
from paddock_sources.constraints import DependencyRules
from paddock_sources.dependencies import Choice
from paddock_sources.errors import OwnRightsError, pin_mismatch
from paddock_sources.kinds.source_uri import Form, LockFields, Row
from paddock_sources.lock.lock_file import LOCK_FILE, LockFile
from paddock_sources.lock.lock_text import LockTextError, lock_text, parse_lock
from paddock_sources.lock.locked_module import LockedModule
from paddock_sources.locked_sources import LockedSources, LockUse
from paddock_sources.provisioner import NO_RUNNER, SUPPLIES, PinnedSource, Provisioner
from paddock_sources.snapshot import snapshot
from paddock_sources.supplies.supply import Supply
from paddock_sources.uri import KINDS
from sources.module_folder import make_module
from sources.provisioners import provisioner_of
from support.rows import each_row

_MANUAL = Path(__file__).parents[2] / "sources" / "docs" / "sources.md"
_WRITTEN = re.compile(r"shelf:([a-z-]+)(?:@([0-9]+))?")


@dataclass(frozen=True, slots=True)
class ShelfUri(SourceUri):
    kind: ClassVar[str] = "shelf"
    form: ClassVar[str] = "`shelf:<title>@<edition>`"
    lock_fields: ClassVar[LockFields] = LockFields({"commit": bool, "tree": bool}, "an edition has a `tree`")

    title: str
    edition: str

    @classmethod
    def of_text(cls, text: str) -> Self | None:
        if not text.startswith("shelf:"):
            return None
        written = _WRITTEN.fullmatch(text)
        if written is None:
            raise SourceUriError(text, "a shelf has titles and editions")
        return cls(text, written[1], written[2] or "")

    def key(self, folder: Path) -> str:
        return f"shelf:{self.title}" + (f"@{self.edition}" if self.edition else "")

    @property
    def short_name(self) -> str:
        return self.title

    @property
    def requested(self) -> tuple[str, str]:
        return self.edition, ""

    @property
    def ruled_by(self) -> tuple[Form, str]:
        return "name", self.title

    def looseness(self, commit: str) -> tuple[str, str] | None:
        return None if commit or self.edition else ("names no edition", "name one")

    def pin_word(self, requested_kind: str) -> str:
        return "edition"

    def at_any_version(self) -> SourceUri | None:
        return replace(self, text=f"shelf:{self.title}", edition="")


class ShelfSupply(Supply[ShelfUri]):
    has_uv_lock: ClassVar[bool] = False
    shelf: ClassVar[Path]

    def pin(self, uri: ShelfUri, *, allow_impostor: bool = False) -> PinnedSource:
        return PinnedSource(uri.edition, "version", uri.edition)

    def lock(self, uri: ShelfUri, pinned: PinnedSource | None, choice: Choice) -> LockedModule:
        pinned = pinned or self.pin(uri)
        tree = snapshot(self._folder(uri), self.workshop.cache, None).digest
        return LockedModule(uri.text, requested_ref=uri.edition, commit=pinned.commit, tree=tree)

    def provide(self, uri: ShelfUri, module_id: str, locked: LockedModule | None, rules: DependencyRules) -> Resolution:
        assert locked is not None
        found = snapshot(self._folder(uri), self.workshop.cache, None)
        if found.digest != locked.tree:
            raise pin_mismatch(uri.text, locked.tree, found.digest)
        resolution = FileSource(found.root, source=uri.text).resolve(module_id)
        return self.with_libraries(resolution, locked, uri, mine=False)

    def module_ids(self, uri: ShelfUri, locked: LockedModule | None) -> tuple[str, ...]:
        return (uri.title,)

    def own_rights(self, uri: ShelfUri, locked: LockedModule | None) -> OwnRightsError | None:
        return None

    def _folder(self, uri: ShelfUri) -> Path:
        return self.shelf / f"{uri.title}-{uri.edition}"


def _said_by(base: type[Row]) -> list[str]:
    """Return what each row has to say for itself."""
    variables = {name for name, hint in vars(base)["__annotations__"].items() if hint.startswith("ClassVar")}
    return sorted({name for name in variables if not hasattr(base, name)} | base.__abstractmethods__)  # type: ignore[attr-defined]


@each_row(
    "base, whole, forgotten",
    [
        *((SourceUri, ShelfUri, name) for name in _said_by(SourceUri)),
        *((Supply, ShelfSupply, name) for name in _said_by(Supply)),
    ],
)
def test_a_kind_that_forgets_a_part_is_refused_by_its_name(base: Any, whole: Any, forgotten: str) -> None:
    said = {name: vars(whole)[name] for name in _said_by(base)}
    type(base)("Half", (base,), dict(said))  # with all of them it is a kind
    del said[forgotten]
    with pytest.raises(TypeError, match=f"`Half` is no whole kind of source: it lacks `{forgotten}`; "):
        type(base)("Half", (base,), said)


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Have a fifth kind, and a shelf with the first edition of a module on it."""
    for name in ("CONFIG", "CACHE", "STATE", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    for user in ("uri", "provisioner"):
        monkeypatch.setattr(f"paddock_sources.{user}.KINDS", (*KINDS, ShelfUri))
    monkeypatch.setitem(SUPPLIES, "shelf", ShelfSupply)
    ShelfSupply.shelf = tmp_path / "shelf"
    make_module(ShelfSupply.shelf / "tool-x-1", "tool-x")
    yield ShelfSupply.shelf
    del ShelfSupply.shelf


@pytest.fixture
def provisioner(tmp_path: Path, shelf: Path) -> Iterator[Provisioner]:
    with SourceCache(tmp_path / "cache") as cache:
        yield _provisioner(cache)


def _provisioner(cache: SourceCache) -> Provisioner:
    return provisioner_of(cache, NO_RUNNER)


@each_row("missing", ["kind", "supply"])
def test_a_kind_without_its_other_half_is_refused(missing: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if missing == "kind":
            patch.setitem(SUPPLIES, "shelf", ShelfSupply)
        else:
            patch.setattr("paddock_sources.provisioner.KINDS", (*KINDS, ShelfUri))
        cache: Any = None
        with pytest.raises(TypeError, match="'shelf'"):
            _provisioner(cache)


def test_a_fifth_kind_is_parsed_and_named_in_the_errors_of_others(shelf: Path) -> None:
    assert parse_source("shelf:tool-x@1") == ShelfUri("shelf:tool-x@1", "tool-x", "1")
    with pytest.raises(SourceUriError, match="a shelf has titles"):
        parse_source("shelf:Tool")
    with pytest.raises(SourceUriError) as caught:
        parse_source("?")
    assert ShelfUri.form in caught.value.hints[0]
    assert ModuleEntry.read({"module": "tool-x", "source": "shelf:tool-x@1"}, EntryPlace("tool", "tools[0]", shelf))
    home = PersistentHome.of(ModuleEntry.read({"module": "tool-x"}, EntryPlace("tool", "", shelf)), "shelf:t@1", shelf)
    assert (home.source, name_of(parse_source("shelf:tool-x@1"))) == ("shelf:t", "tool-x")


def test_a_fifth_kind_is_resolved_locked_and_provided(provisioner: Provisioner, shelf: Path, tmp_path: Path) -> None:
    sources = LockedSources(provisioner, LockFile(), tmp_path)
    resolver = Resolver({}, base=tmp_path, provide=sources.provide)
    found = resolver.resolve("tool-x", "shelf:tool-x@1")
    assert (found.source, found.package) == ("shelf:tool-x@1", "amplifier_module_tool_x")
    (locked,) = sources.news
    assert parse_lock(lock_text([locked])).modules == (locked,)
    with pytest.raises(LockTextError, match="an edition has"):
        lock_text([replace(locked, tree="")])
    (shelf / "tool-x-1" / "more.py").touch()
    again = LockedSources(provisioner, LockFile((locked,)), tmp_path, LockUse.FROZEN)
    with pytest.raises(SourceError, match="is not what was locked"):
        again.provide(parse_source("shelf:tool-x@1"), "tool-x")
    with pytest.raises(SourceError, match="a source of the kind `shelf`"):
        Resolver({}).resolve("tool-x", "shelf:tool-x@1")


def test_a_fifth_kind_is_listed_by_what_it_is_pinned_to(provisioner: Provisioner, shelf: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "session: {orchestrator: loop-basic, context: context-simple}\n"
        "tools:\n  - {module: tool-x, source: 'shelf:tool-x@1'}\n"
    )
    LockFile((provisioner.lock(parse_source("shelf:tool-x@1")),)).write(tmp_path / LOCK_FILE)
    listed = json.loads(CliRunner().invoke(list_, [str(plan), "--json"]).stdout)["modules"]
    (row,) = [one for one in listed if one["module"] == "tool-x"]
    assert (row["source"], row["pin"], row["locked"]["commit"]) == ("shelf:tool-x@1", "edition", "1")


def test_a_fifth_kind_is_judged_by_its_name_and_pin(shelf: Path) -> None:
    assert SourceName.of("shelf:tool-x@1").text == "shelf:tool-x"
    policy = Policy.parse("require_pinned = true")
    refuse_sources({"tools[0]": "shelf:tool-x@1"}, policy)
    with pytest.raises(Exception, match="names no edition"):
        refuse_sources({"tools[0]": "shelf:tool-x"}, policy)


def test_the_manual_has_a_row_for_each_kind_of_source() -> None:
    table = _MANUAL.read_text(encoding="utf-8").partition("| source | is |")[2].partition("\n\n")[0]
    written = [text for row in table.splitlines() for text in re.findall(r"`([^`]+)`", row.partition(" | ")[0])]
    assert {parse_source(text.replace("<id>", "tool-x")).kind for text in written} == {kind.kind for kind in KINDS}
