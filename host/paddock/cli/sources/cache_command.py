"""Manage the user's cache: print its place, size and contents; verify it, and remove things.

stdout receives the requested output, or exactly one JSON object; everything else goes to stderr. Nothing is fetched, no
module is touched, and nothing that a running session uses is removed.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import click

from paddock.cli import failure, options
from paddock.cli.command_group import INTERRUPTED, CommandGroup, Interrupted, example
from paddock.cli.failure import SourceFailedError
from paddock.cli.terminal.json_output import print_json
from paddock.cli.terminal.render import Screen
from paddock.cli.terminal.standard_streams import reporting
from paddock.errors import KindError, PaddockError
from paddock.text import escape
from paddock_sources.cache import SourceCache
from paddock_sources.cache.upkeep import CacheItem, Damage, PruneResult
from paddock_sources.errors import SourceError

_AGE: Final = re.compile(r"([0-9]{1,6})\s*(s|min|m|h|d|w)")
_SECONDS: Final = {"s": 1, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DIGITS: Final = 12  # of a digest; enough to distinguish two by eye
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_STEP: Final = 1024
_KINDS: Final = {
    "git-v1": "repository",
    "commits-v1": "commit",
    "trees-v1": "files",
    "envs-v1": "packages",
    "metadata-v1": "metadata",
    "downloads-v1": "downloads",
    "tmp": "being built",
}
_FIX: Final = "`paddock cache prune` takes it away; what is needed of it is fetched again"


@dataclass(frozen=True, slots=True)
class _CommandReport:
    """The result of a command: facts for scripts, text on stdout for people, and the problem, if any."""

    facts: Mapping[str, object]
    show: Callable[[Screen], None]
    problem: PaddockError | None = None
    notes: tuple[str, ...] = field(default=())


def _damage_error(damages: tuple[Damage, ...]) -> KindError | None:
    """Return the error for changed entries of the cache; None if there are none."""
    if not damages:
        return None
    hints = [_FIX]
    kept = [damage for damage in damages if not damage.is_refused]
    if kept:
        hints.append(f"the cache cannot be written to; remove by hand: {' '.join(str(one.path) for one in kept)}")
    summary = f"{_counted(len(damages), 'entry', 'entries')} of the cache cannot be relied on"
    return KindError("CacheDamagedError", summary, hints=hints)


@click.group(cls=CommandGroup, epilog=example("paddock cache size"))
def cache() -> None:
    """Show, check and shrink the cache of modules' code and dependencies.

    Many sessions may use the cache at the same time. No command removes code that a session is running.
    """


@cache.command("dir", epilog=example("paddock cache dir"))
@options.JSON
def show_dir(as_json: bool) -> int:
    """Print where the cache is.

    The environment variable PADDOCK_CACHE_DIR puts it elsewhere.
    """

    def work(cache: SourceCache) -> _CommandReport:
        return _CommandReport({"dir": str(cache.folder)}, lambda screen: click.echo(escape(str(cache.folder))))

    return _run(work, as_json=as_json)


@cache.command("size", epilog=example("paddock cache size"))
@options.JSON
def show_size(as_json: bool) -> int:
    """Print how much room the cache takes."""

    def work(cache: SourceCache) -> _CommandReport:
        sizes = cache.size()
        rows = [(_KINDS[name], _size_text(size)) for name, size in sizes.items() if size]
        total = sum(sizes.values())
        return _CommandReport(
            {"dir": str(cache.folder), "bytes": total, "folders": sizes},
            lambda screen: screen.listing([*rows, ("all", _size_text(total))]),
        )

    return _run(work, as_json=as_json)


@cache.command("list", epilog=example("paddock cache list"))
@options.JSON
def show_list(as_json: bool) -> int:
    """Print what is in the cache, and when each entry was last used."""

    def work(cache: SourceCache) -> _CommandReport:
        items = cache.list()
        rows = [(_KINDS[item.bucket.value], _name_of(item), _size_text(item.bytes), _about(item)) for item in items]
        notes = () if items else (f"there is nothing in `{cache.folder}`",)
        return _CommandReport(
            {"items": [_item_facts(item) for item in items]}, lambda screen: _list(screen, rows), notes=notes
        )

    return _run(work, as_json=as_json)


@cache.command(epilog=example("paddock cache verify"))
@options.JSON
def verify(as_json: bool) -> int:
    """Read the whole cache, and name every entry that changed since it was stored.

    Paddock no longer uses a damaged entry. Exits with 1 if one is damaged, else with 0.
    """

    def work(cache: SourceCache) -> _CommandReport:
        count = len(cache.list())
        damages = cache.verify()
        rows = [(_KINDS[one.bucket.value], _short(one.name), one.problem, str(one.path)) for one in damages]
        notes = () if damages else (f"of {_counted(count, 'entry', 'entries')} none is damaged",)
        facts = {"ok": not damages, "damages": [_damage_facts(damage) for damage in damages]}
        return _CommandReport(facts, lambda screen: _list(screen, rows), _damage_error(damages), notes)

    return _run(work, as_json=as_json)


@cache.command(epilog=example("paddock cache prune --older-than 30d"))
@click.option(
    "--older-than",
    metavar="AGE",
    default="30d",
    show_default=True,
    help="Remove entries that were not used for this long, such as 30min, 12h, 30d or 8w.",
)
@options.JSON
def prune(older_than: str, as_json: bool) -> int:
    """Remove entries that are old or damaged, and files that killed processes left."""
    age = _read_age(older_than)
    return _run(lambda cache: _freed(cache.prune(age)), as_json=as_json)


@cache.command(epilog=example("paddock cache clean"))
@options.JSON
def clean(as_json: bool) -> int:
    """Remove everything that no session is using.

    Paddock fetches it again when it is needed.

    This also removes what other versions of Paddock keep in the cache. So make sure that no session of another version
    is running.
    """
    return _run(lambda cache: _freed(cache.clean()), as_json=as_json)


def _run(work: Callable[[SourceCache], _CommandReport], *, as_json: bool) -> int:
    """Do the work, report its result, and return the exit code."""
    screen = Screen(sys.stderr)
    try:
        with SourceCache.of_user(os.environ) as cache:
            report = work(cache)
    except KeyboardInterrupt:
        if as_json:
            print_json({"error": Interrupted().as_dict()})
        screen.ending(Interrupted().text)
        return INTERRUPTED
    except SourceError as caught:
        error = SourceFailedError.of(caught, code="CacheFailedError")
        screen.text(failure.text(error))
        if as_json:
            print_json({"error": failure.as_dict(error)})
        return error.exit_code
    with reporting(screen, "the command has done its work") if report.problem is None else nullcontext():
        if as_json:
            problem = None if report.problem is None else failure.as_dict(report.problem)
            print_json({**report.facts, "error": problem})
        else:
            report.show(Screen(sys.stdout))
    if not as_json:
        for note in report.notes:
            screen.note(note)
    if report.problem is None:
        return 0
    screen.text(failure.text(report.problem))
    return report.problem.exit_code


def _freed(freed: PruneResult) -> _CommandReport:
    used = [(_KINDS[one.bucket.value], _short(one.name)) for one in freed.in_use]
    facts = {
        "items": freed.items,
        "bytes": freed.bytes,
        "in_use": [{"kind": _KINDS[one.bucket.value], "name": one.name} for one in freed.in_use],
    }
    line = f"{_counted(freed.items, 'entry', 'entries')} taken away, {_size_text(freed.bytes)} freed"
    notes = tuple(f"left, being in use: {kind} {name}" for kind, name in used)
    return _CommandReport(facts, lambda screen: click.echo(line), notes=notes)


def _read_age(written: str) -> float:
    match = _AGE.fullmatch(written.strip().lower())
    if match is not None and match[2] == "m":
        raise click.UsageError(f"--older-than: `m` may be minutes or months: write `{match[1]}min`, or days as in 30d")
    if match is None:
        raise click.UsageError(
            f"--older-than takes an age, as in 30min, 12h, 30d or 8w; `{escape(written)}` is not that"
        )
    return float(int(match[1]) * _SECONDS[match[2]])


# -- display


def _list(screen: Screen, rows: Sequence[Sequence[str]]) -> None:
    if rows:
        screen.listing(rows)


def _item_facts(item: CacheItem) -> Mapping[str, object]:
    return {
        "kind": _KINDS[item.bucket.value],
        "name": item.name,
        "path": str(item.path),
        "bytes": item.bytes,
        "files": item.files,
        "made_at": _iso(item.made_at),
        "used_at": _iso(item.used_at),
        "damaged": item.is_damaged,
        "facts": item.facts,
    }


def _damage_facts(damage: Damage) -> Mapping[str, object]:
    return {
        "kind": _KINDS[damage.bucket.value],
        "name": damage.name,
        "path": str(damage.path),
        "problem": damage.problem,
        "refused": damage.is_refused,
    }


def _name_of(item: CacheItem) -> str:
    return _short(item.name)


def _short(name: str) -> str:
    digest = name.removeprefix("sha256:")
    return digest[:_DIGITS] if digest != name else name


def _about(item: CacheItem) -> str:
    if item.is_damaged:
        return "damaged: `paddock cache prune` takes it away"
    used = f"used {_day(item.used_at)}" if item.used_at is not None else ""
    about = item.facts.get("folder") or item.facts.get("source") or item.facts.get("distributions") or ""
    if isinstance(about, list):
        about = ", ".join(map(str, about))
    return f"{used}  {about}".rstrip()


def _day(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment):%Y-%m-%d}"


def _iso(moment: float | None) -> str | None:
    return None if moment is None else datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")


def _size_text(size: float) -> str:
    for unit in _UNITS[:-1]:
        if size < _STEP:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= _STEP
    return f"{size:.1f} {_UNITS[-1]}"


def _counted(count: int, one: str, more: str) -> str:
    return f"{count} {one if count == 1 else more}"
