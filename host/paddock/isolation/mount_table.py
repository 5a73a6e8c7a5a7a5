"""The places that a worker sees, combined from many wishes: each once, outer places first, and nothing superfluous.

There are two sorts of wishes. Grants add up: of two grants of one place, and of a grant inside another, the greater
counts. A fixed place (code, and paths to be kept) stays as it is, whatever is granted around it.

A fixed place inside a writable folder needs more than a read-only mount over it: its folder could be renamed, with the
mount, and another put in its place. A mount cannot be renamed, so each folder on the way becomes one. So it is with a
place that is covered: what is outside by its name would be the module's otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from paddock_sandbox.profile import Mount


@dataclass(frozen=True, slots=True)
class _Wish:
    source: Path
    target: Path
    writable: bool
    mappable: bool
    fixed: bool
    is_link: bool = False
    is_closed: bool = False
    is_cover: bool = False
    holds_way: bool = True

    @property
    def mount(self) -> Mount:
        return Mount(str(self.source), str(self.target), self.writable, self.mappable, self.is_closed)

    def shows(self, path: Path) -> Path:
        """Return what a worker sees at a path in this place."""
        return path if self.source == self.target else self.source / path.relative_to(self.target)


class Places(NamedTuple):
    """The `links` are held, each in a place which may be written to; nobody opens a place that is `closed`."""

    mounts: tuple[Mount, ...]
    links: tuple[Mount, ...]
    closed: tuple[Mount, ...]


class MountTable:
    """The places a worker sees, under construction."""

    def __init__(self) -> None:
        self._wishes: dict[Path, _Wish] = {}

    def grant(
        self, source: Path, target: Path | None = None, *, writable: bool = False, mappable: bool = False
    ) -> None:
        """Show a place; it also gets all rights that are granted around it."""
        self._add(_Wish(source, target or source, writable, mappable, fixed=False))

    def fix(self, source: Path, target: Path | None = None, *, mappable: bool = False) -> None:
        """Show a place, and never let it be written to."""
        self._add(_Wish(source, target or source, False, mappable, fixed=True))

    def cover(self, place: Path, source: Path) -> None:
        """Show something else at a place, which is in a folder that is granted, and never let it be written to."""
        self._add(_Wish(source, place, False, False, fixed=True, is_cover=True))

    def hold(self, link: Path) -> None:
        """Keep a symbolic link as it is; its target is another place."""
        self._add(_Wish(link, link, False, False, fixed=True, is_link=True))

    def close(self, place: Path, *, holds_way: bool) -> None:
        """Let nobody open a place, nor anything in it; `holds_way` is whether the folders on the way stay, too."""
        self._add(_Wish(place, place, False, False, fixed=True, is_closed=True, holds_way=holds_way))

    def alias(self, place: Path, name: Path) -> None:
        """Show a place, with all that is in it by now, under another name as well."""
        for target, wish in list(self._wishes.items()):
            if target.is_relative_to(place):
                self._add(replace(wish, target=name / target.relative_to(place)))

    def is_seen(self, path: Path) -> bool:
        """Return whether a path is at or below one of the places so far."""
        return any(place in self._wishes for place in (path, *path.parents))

    def mounts(self) -> tuple[Mount, ...]:
        """Return the mounts in the order in which they are made, without held links and closed places."""
        return self.places().mounts

    def places(self) -> Places:
        """Return all places, of each sort those that are outer first."""
        kept = list(self._kept())
        pinned = {pin.target: pin for wish, around in kept for pin in _pins(wish, around)}
        every = {**pinned, **{wish.target: wish for wish, _ in kept}}
        wishes = [every[target] for target in sorted(every, key=lambda path: path.parts)]
        return Places(
            tuple(wish.mount for wish in wishes if not (wish.is_link or wish.is_closed)),
            tuple(wish.mount for wish in wishes if wish.is_link),
            tuple(wish.mount for wish in wishes if wish.is_closed),
        )

    def _add(self, wish: _Wish) -> None:
        other = self._wishes.get(wish.target)
        if other is not None and other.fixed != wish.fixed:
            wish = wish if wish.fixed else other
        elif other is not None:
            writable, mappable = wish.writable or other.writable, wish.mappable or other.mappable
            is_closed = wish.is_closed or other.is_closed
            wish = replace(wish, writable=writable, mappable=mappable, is_closed=is_closed)
        self._wishes[wish.target] = wish

    def _kept(self) -> Iterator[tuple[_Wish, _Wish | None]]:
        """Yield each wish that adds something, with the one that it is in."""
        around: list[_Wish] = []
        for target in sorted(self._wishes, key=lambda path: path.parts):
            wish = self._wishes[target]
            while around and not is_in(target, around[-1].target):
                around.pop()
            outer = around[-1] if around else None
            wish = _with_more_of(wish, outer)
            if outer is None or not _is_superfluous(wish, outer):
                yield wish, outer
                around.append(wish)


def is_in(path: Path, folder: Path) -> bool:
    """Return whether a path is at or below a folder, without making paths on the way as `is_relative_to` does."""
    return path.parts[: len(folder.parts)] == folder.parts


def _with_more_of(wish: _Wish, outer: _Wish | None) -> _Wish:
    """Return a grant with all that may be done around it."""
    if outer is None or wish.fixed or outer.fixed or outer.shows(wish.target) != wish.source:
        return wish
    writable, mappable = wish.writable or outer.writable, wish.mappable or outer.mappable
    return replace(wish, writable=writable, mappable=mappable)


def _is_superfluous(wish: _Wish, outer: _Wish) -> bool:
    if wish.is_closed or outer.is_closed:
        return outer.is_closed
    if outer.shows(wish.target) != wish.source:
        return False
    if wish.is_link:
        return not outer.writable
    if wish.fixed:
        return (wish.writable, wish.mappable) == (outer.writable, outer.mappable)
    return wish.writable <= outer.writable and wish.mappable <= outer.mappable


def _pins(wish: _Wish, outer: _Wish | None) -> Iterator[_Wish]:
    """Yield the folders between a place and the writable one it is in, to be made mounts of their own."""
    if (
        outer is None
        or not outer.writable
        or wish.writable
        or not wish.holds_way
        or not (wish.is_cover or outer.shows(wish.target) == wish.source)
    ):
        return
    for folder in wish.target.parents:
        if folder == outer.target:
            return
        yield replace(outer, source=outer.shows(folder), target=folder)
