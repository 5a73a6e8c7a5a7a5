"""The context protocol over a conversation that is in memory and in a file.

A message counts when it is in the file. A message that cannot be written is not stored, and its caller gets the error.
A context that begins with a conversation from its file keeps that: `set_messages` is then ignored, since the messages
that an application replays on resuming are fewer than those in the file.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from amplifier_module_context_simple import Settings, SimpleContextManager

from .conversation_file import ConversationFile, Messages
from .file_settings import MODULE, MemorySettings

logger = logging.getLogger(__name__)


class PersistentContextManager(SimpleContextManager):
    """A `SimpleContextManager` whose changes are in a file first; `loaded` is the conversation at the start."""

    def __init__(
        self, file: ConversationFile, loaded: Messages, settings: Settings | None = None, *, hooks: Any | None = None
    ) -> None:
        super().__init__(settings or MemorySettings(), hooks=hooks)
        self._file = file
        self._messages = [self._stored(message) for message in loaded]
        self._has_loaded = bool(loaded)

    async def add_message(self, message: Mapping[str, Any]) -> None:
        """Append a message.

        Raises:
            ValueError: it is not a mapping with a `role`, or holds what JSON does not have.
            ConversationFileError: it cannot be written.
        """
        stored = self._stored(json_form(message))
        self._file.append({"add": stored})
        self._messages.append(stored)

    async def set_messages(self, messages: Iterable[Mapping[str, Any]]) -> None:
        """Replace the conversation, unless it was loaded from the file.

        Raises:
            ValueError: an entry is not a mapping with a `role`, or holds what JSON does not have.
            ConversationFileError: it cannot be written.
        """
        if self._has_loaded:
            logger.info("%s: the file has the whole conversation; what should replace it was ignored", MODULE)
            return
        stored = [self._stored(json_form(message)) for message in messages]
        self._file.append({"set": stored})
        self._messages, self._known = stored, []

    async def clear(self) -> None:
        """Forget the conversation, so that another may be set; the file keeps the earlier one.

        Raises:
            ConversationFileError: it cannot be written.
        """
        self._file.append({"clear": True})
        self._messages, self._known = [], []
        self._has_loaded = False


def json_form(value: Any, where: str = "message") -> Any:
    """Return a value in JSON types: models and dataclasses as mappings, tuples as lists, all else unchanged.

    Raises:
        ValueError: JSON has no such type; the error names the place in the message.
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
