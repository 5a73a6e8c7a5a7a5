"""What the driver asks of whoever knows the objects behind handles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from paddock_sdk.protocol import HandleEntry


class Handles(Protocol):
    """The objects that cross by handle."""

    def export_all(self, values: Sequence[object]) -> list[HandleEntry]: ...

    def may_go_live(self, value: object) -> bool: ...

    def resolve(self, entry: HandleEntry) -> object: ...

    def release(self, object_id: int, times: int) -> bool: ...

    @property
    def has_dropped(self) -> bool: ...

    def dropped(self) -> list[tuple[int, int]]: ...

    def take_back(self, entries: Sequence[HandleEntry]) -> None: ...
