"""The kind `builtin`: a reference module that ships with the distribution."""

from __future__ import annotations

from dataclasses import dataclass
from operator import not_
from pathlib import Path
from typing import ClassVar, Self

from paddock_sources.errors import ModuleIdError, SourceUriError
from paddock_sources.kinds.source_uri import Form, LockFields, SourceUri
from paddock_sources.module_id import checked_module_id


@dataclass(frozen=True, slots=True)
class BuiltinUri(SourceUri):
    """A reference module that ships with the distribution."""

    kind: ClassVar[str] = "builtin"
    form: ClassVar[str] = "`builtin:<id>`"
    lock_fields: ClassVar[LockFields] = LockFields(
        {"commit": not_, "tree": not_, "hashes": not_, "dependencies": bool},
        "of what is shipped only its dependencies are locked",
        at="source",
    )
    no_lock: ClassVar[str] = "it is shipped with Paddock"

    module_id: str

    @classmethod
    def of_text(cls, text: str) -> Self | None:
        if not text.startswith("builtin:"):
            return None
        try:
            return cls(text, checked_module_id(text.removeprefix("builtin:")))
        except ModuleIdError as error:
            raise SourceUriError(text, f"what follows `builtin:` is no module id: {error.problem}") from error

    def key(self, folder: Path) -> str:
        return f"builtin:{self.module_id}"

    @property
    def short_name(self) -> str:
        return self.module_id

    @property
    def ruled_by(self) -> tuple[Form, str]:
        return "name", self.module_id

    def looseness(self, commit: str) -> tuple[str, str] | None:
        return None

    def pin_word(self, requested_kind: str) -> str:
        return "shipped"

    def written(self, key: str, module_id: str) -> str | None:
        return None if self.module_id == module_id else self.text
