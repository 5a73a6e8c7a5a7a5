"""The mount points of a session's modules: one dict with six keys, live and writable.

Modules may write to it directly instead of calling `mount`. Every change of the dict, by any method, is reported to the
observer, once, after the change; writing the same object again is no change. Only the hook registry is not reported:
its changes are subscriptions, and it has its own observer. The six keys cannot be removed, and no other can be added.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, NoReturn, Protocol, Self, TypeVar, overload

RESOLVER_POINT: Final = "module-source-resolver"
SINGLE_POINTS: Final = ("orchestrator", "context", RESOLVER_POINT)
MULTI_POINTS: Final = ("providers", "tools")
_HOOKS: Final = "hooks"

_T = TypeVar("_T")
_MISSING: Final = object()


class MountObserver(Protocol):
    """Receives mounts and unmounts; at the points that hold one object the name is None."""

    def mounted(self, point: str, name: str | None, obj: Any) -> None: ...

    def unmounted(self, point: str, name: str | None) -> None: ...


class _Reported(dict[str, Any]):
    """A dict that sets every item by `__setitem__`, in which a subclass reports it."""

    def setdefault(self, name: str, default: Any = None, /) -> Any:
        if name not in self:
            self[name] = default
        return self[name]

    def update(self, other: Any = (), /, **named: Any) -> None:
        for name, obj in dict(other, **named).items():
            self[name] = obj

    def __ior__(self, other: Mapping[str, Any] | Iterable[tuple[str, Any]], /) -> Self:  # type: ignore[override,misc]
        self.update(other)
        return self


class MountSlot(_Reported):
    """The objects mounted by name at one point; its changes are reported through its `MountPoints`."""

    def __init__(self, point: str, points: MountPoints) -> None:
        super().__init__()
        self._point = point
        self._points = points

    def __setitem__(self, name: str, obj: Any) -> None:
        is_new = name not in self or self[name] is not obj
        super().__setitem__(name, obj)
        if is_new and self._points.observer is not None:
            self._points.observer.mounted(self._point, name, obj)

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        if self._points.observer is not None:
            self._points.observer.unmounted(self._point, name)

    @overload
    def pop(self, name: str, /) -> Any: ...
    @overload
    def pop(self, name: str, default: _T, /) -> Any | _T: ...
    def pop(self, name: str, default: Any = _MISSING, /) -> Any:
        if name not in self and default is not _MISSING:
            return default
        obj = self[name]
        del self[name]
        return obj

    def popitem(self) -> tuple[str, Any]:
        if not self:
            raise KeyError(f"nothing is mounted at {self._point}")
        name = next(reversed(self))
        return name, self.pop(name)

    def clear(self) -> None:
        for name in list(self):
            del self[name]

    def replace_all(self, objects: Mapping[str, Any]) -> None:
        """Make the slot hold exactly these objects."""
        wanted = dict(objects)
        for name in [name for name in self if name not in wanted]:
            del self[name]
        self.update(wanted)


class MountPoints(_Reported):
    """The six mount points of one session."""

    def __init__(self, hooks: Any) -> None:
        super().__init__()
        self.observer: MountObserver | None = None
        for point in SINGLE_POINTS:
            super().__setitem__(point, None)
        for point in MULTI_POINTS:
            super().__setitem__(point, MountSlot(point, self))
        super().__setitem__(_HOOKS, hooks)

    def __setitem__(self, point: str, obj: Any) -> None:
        if point in MULTI_POINTS:
            # The slot stays the same dict, as its holders expect of a live one.
            if obj is not self[point]:
                self[point].replace_all(obj)
        elif point in SINGLE_POINTS:
            is_new = self[point] is not obj
            super().__setitem__(point, obj)
            if is_new and self.observer is not None:
                if obj is None:
                    self.observer.unmounted(point, None)
                else:
                    self.observer.mounted(point, None, obj)
        elif point == _HOOKS:
            super().__setitem__(point, obj)
        else:
            raise ValueError(f"Unknown mount point: {point}")

    def replace_all(self, objects: Mapping[str, Any]) -> None:
        """Mount exactly these objects; a point they do not mention is emptied, the hook registry stays.

        Raises:
            ValueError: there is an unknown mount point among them.
        """
        empty: dict[str, Any] = dict.fromkeys(SINGLE_POINTS) | {point: {} for point in MULTI_POINTS}
        self.update(empty | dict(objects))

    def __delitem__(self, point: str) -> NoReturn:
        raise TypeError(f"A mount point cannot be removed; unmount what is at {point!r} instead")

    def pop(self, point: str, *default: Any) -> NoReturn:
        del self[point]

    def popitem(self) -> NoReturn:
        raise TypeError("A mount point cannot be removed; unmount what is mounted instead")

    def clear(self) -> NoReturn:
        self.popitem()


def own_names(mounted: Mapping[str, Any]) -> dict[str, str]:
    """Return the mounted name of each object that is mounted under another name than its own, by its own name.

    A name that another object is mounted under, or that several call themselves, is left out.
    """
    named = [(str(getattr(obj, "name", name)), name) for name, obj in mounted.items()]
    bearers = Counter(own for own, _ in named)
    return {own: name for own, name in named if own not in mounted and bearers[own] == 1}
