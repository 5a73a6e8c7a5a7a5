"""Manage the user's cache: print its place, size and contents; verify it, and remove things.

stdout receives the requested output, or exactly one JSON object; everything else goes to stderr. Nothing is fetched, no
module is touched, and nothing that a running session uses is removed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial, wraps
from typing import Any, Final

import click

from paddock.cli import options
from paddock.cli.answer import DONE, CommandAnswer, CommandReport
from paddock.cli.command_group import CommandGroup, example
from paddock.cli.failure import SourceFailedError
from paddock.cli.terminal.render import Screen
from paddock.errors import KindError
from paddock.plan.units import size_text
from paddock.text import escape
from paddock_sources.cache import SourceCache
from paddock_sources.cache.upkeep import CacheItem, Damage, PruneResult

_KINDS: Final = {
    "git-v1": "repository",
    "commits-v1": "commit",
    "trees-v2": "files",
    "envs-v1": "packages",
    "metadata-v1": "metadata",
    "resolutions-v1": "chosen versions",
    "downloads-v1": "downloads",
    "tmp": "being built",
}
_FIX: Final = "`paddock cache prune` takes it away; what is needed of it is fetched again"


def _damage_errors(damages: tuple[Damage, ...]) -> list[KindError]:
    """Return the error for changed entries of the cache, if there are any."""
    if not damages:
        return []
    hints = [_FIX]
    kept = [damage for damage in damages if not damage.is_refused]
    if kept:
        hints.append(f"the cache cannot be written to; remove by hand: {' '.join(str(one.path) for one in kept)}")
    summary = f"{_counted(len(damages), 'entry', 'entries')} of the cache cannot be relied on"
    return [KindError("CacheDamagedError", summary, hints=hints)]


def _over_cache(act: Callable[..., CommandAnswer]) -> Callable[..., int]:
    """Return a command with `--json` over the user's cache, which `act` gets before its options."""

    @wraps(act)
    def command(*, as_json: bool, **others: Any) -> int:
        def work() -> CommandAnswer:
            with SourceCache.of_user(os.environ) as cache:
                return act(cache, **others)

        as_error = partial(SourceFailedError.of, code="CacheFailedError")
        return CommandReport(Screen(sys.stderr), as_json, as_error=as_error).answer(work, DONE)

    return options.JSON(command)


@click.group(cls=CommandGroup, epilog=example("paddock cache size"))
def cache() -> None:
    """Show, check and shrink the cache of modules' code and dependencies.

    Many sessions may use the cache at the same time. No command removes code that a session is running.
    """


@cache.command("dir", epilog=example("paddock cache dir"))
@_over_cache
def show_dir(cache: SourceCache) -> CommandAnswer:
    """Print where the cache is.

    The environment variable PADDOCK_CACHE_DIR puts it elsewhere.
    """
    return CommandAnswer({"dir": str(cache.folder)}, lambda screen: click.echo(escape(str(cache.folder))))


@cache.command("size", epilog=example("paddock cache size"))
@_over_cache
def show_size(cache: SourceCache) -> CommandAnswer:
    """Print how much room the cache takes."""
    sizes = cache.upkeep.size()
    total = sum(sizes.values())
    rows = [(_KINDS[name], size_text(size)) for name, size in sizes.items() if size]
    facts = {"dir": str(cache.folder), "bytes": total, "folders": sizes}
    return CommandAnswer(facts, lambda screen: screen.listing([*rows, ("all", size_text(total))]))


@cache.command("list", epilog=example("paddock cache list"))
@_over_cache
def show_list(cache: SourceCache) -> CommandAnswer:
    """Print what is in the cache, and when each entry was last used."""
    items = cache.upkeep.list()
    rows = [(_KINDS[item.bucket.value], _short(item.name), size_text(item.bytes), _about(item)) for item in items]
    notes = () if items else (f"there is nothing in `{cache.folder}`",)
    return CommandAnswer(
        {"items": [_item_facts(item) for item in items]}, lambda screen: screen.listing(rows), notes=notes
    )


@cache.command(epilog=example("paddock cache verify"))
@_over_cache
def verify(cache: SourceCache) -> CommandAnswer:
    """Read the whole cache, and name every entry that changed since it was stored.

    Paddock no longer uses a damaged entry. Exits with 1 if one is damaged, else with 0.
    """
    count = len(cache.upkeep.list())
    damages = cache.upkeep.verify()
    rows = [(_KINDS[one.bucket.value], _short(one.name), one.problem, str(one.path)) for one in damages]
    notes = () if damages else (f"of {_counted(count, 'entry', 'entries')} none is damaged",)
    damaged = [
        {
            "kind": _KINDS[one.bucket.value],
            "name": one.name,
            "path": str(one.path),
            "problem": one.problem,
            "refused": one.is_refused,
        }
        for one in damages
    ]
    facts = {"ok": not damages, "damages": damaged}
    return CommandAnswer(
        facts, lambda screen: screen.listing(rows), 1 if damages else 0, _damage_errors(damages), notes
    )


@cache.command(epilog=example("paddock cache prune --older-than 30d"))
@click.option(
    "--older-than",
    metavar="AGE",
    default="30d",
    show_default=True,
    callback=options.read_age,
    help="Remove entries that were not used for this long, such as 30min, 12h, 30d or 8w.",
)
@_over_cache
def prune(cache: SourceCache, older_than: float) -> CommandAnswer:
    """Remove entries that are old or damaged, and files that killed processes left."""
    return _freed(cache.upkeep.prune(older_than))


@cache.command(epilog=example("paddock cache clean"))
@_over_cache
def clean(cache: SourceCache) -> CommandAnswer:
    """Remove everything that no session is using.

    Paddock fetches it again when it is needed.

    This also removes what other versions of Paddock keep in the cache. So make sure that no session of another version
    is running.
    """
    return _freed(cache.upkeep.clean())


def _freed(freed: PruneResult) -> CommandAnswer:
    used = [(_KINDS[one.bucket.value], one.name) for one in freed.in_use]
    facts = {
        "items": freed.items,
        "bytes": freed.bytes,
        "in_use": [{"kind": kind, "name": name} for kind, name in used],
    }
    line = f"{_counted(freed.items, 'entry', 'entries')} taken away, {size_text(freed.bytes)} freed"
    notes = tuple(f"left, being in use: {kind} {_short(name)}" for kind, name in used)
    return CommandAnswer(facts, lambda screen: click.echo(line), notes=notes)


# -- display


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


def _short(name: str) -> str:
    return name.removeprefix("sha256:")[:12] if name.startswith("sha256:") else name  # enough to distinguish two by eye


def _about(item: CacheItem) -> str:
    if item.is_damaged:
        return "damaged: `paddock cache prune` takes it away"
    used = f"used {datetime.fromtimestamp(item.used_at):%Y-%m-%d}" if item.used_at is not None else ""
    about = item.facts.get("folder") or item.facts.get("source") or item.facts.get("distributions") or ""
    if isinstance(about, list):
        about = ", ".join(map(str, about))
    return f"{used}  {about}".rstrip()


def _iso(moment: float | None) -> str | None:
    return None if moment is None else datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")


def _counted(count: int, one: str, more: str) -> str:
    return f"{count} {one if count == 1 else more}"
