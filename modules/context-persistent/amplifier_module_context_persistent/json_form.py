"""The form in which a message is kept: what JSON has, so that what is read back equals what was stored."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import Enum
from typing import Any

from .simple import MODULE


def json_form(value: Any, where: str = "message") -> Any:
    """Return a value as JSON has it: models and dataclasses as mappings, tuples as lists, all else as it is.

    Raises:
        ValueError: JSON has nothing of the kind; the message names the place in the message.
    """
    if isinstance(value, Enum):
        return json_form(value.value, where)
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        strange = next((key for key in value if not isinstance(key, str)), None)
        if strange is not None:
            raise ValueError(f"{MODULE}: a message is kept as JSON, and {where} has the key {strange!r}, no text")
        return {key: json_form(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_form(item, f"{where}[{index}]") for index, item in enumerate(value)]
    if hasattr(value, "model_dump"):
        return json_form(value.model_dump(), where)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return json_form(dataclasses.asdict(value), where)
    raise ValueError(
        f"{MODULE}: a message is kept as JSON, and {where} is of type {type(value).__name__}; "
        "store text instead, as base64 for bytes"
    )
