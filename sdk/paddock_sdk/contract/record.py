"""The data of an object whose class stayed in another process.

A module's own pydantic model, or a data class where only data is allowed, arrives as one of these. It is a mapping, so
it can be dumped, validated and subscripted, and its fields read as attributes as on the original object. Fields named
as a dict's own methods (`items`, `get`) are reached by subscript alone.
"""

from __future__ import annotations

from typing import Any

__all__ = ["Record"]


class Record(dict[str, Any]):
    """Fields by name, also as attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no field '{name}' in what is left of the object", name=name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __delattr__(self, name: str) -> None:
        self.__getattr__(name)  # raises the error if it does not exist
        del self[name]
