"""The content blocks that results of tools and hooks share with messages, and what both are made of.

A host that only passes messages on loads these alone.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, FailFast, PlainSerializer

Visibility: TypeAlias = Literal["internal", "developer", "user"] | None


class _FirstError(FailFast):
    """Refuse a list or a mapping at its first error.

    pydantic keeps some 600 bytes for each error, and a sender could cause one by each byte that it sends.
    """

    __hash__ = object.__hash__  # up to Python 3.11, an annotation in a union has to be hashable


FIRST_ERROR: Final = _FirstError()
FieldsByName: TypeAlias = Annotated[dict[str, Any], FIRST_ERROR]


def _refuse_float(value: object) -> object:
    if isinstance(value, float):
        # pydantic turns a ValueError into its own error; a TypeError would pass through it.
        raise ValueError("money is exact: it must be Decimal, a string or an int, not a float")
    return value


# A string in every dump, so that no JSON reader on the way turns an exact amount into a float.
Money: TypeAlias = Annotated[Decimal, BeforeValidator(_refuse_float), PlainSerializer(str, return_type=str)]


class Envelope(BaseModel):
    """The base of everything here that keeps unknown keys."""

    model_config = ConfigDict(extra="allow", defer_build=True)


class TextBlock(Envelope):
    """Plain text."""

    type: Literal["text"] = "text"
    text: str
    visibility: Visibility = None


class ImageBlock(Envelope):
    """An image; `source` locates its bytes."""

    type: Literal["image"] = "image"
    source: FieldsByName
    visibility: Visibility = None
