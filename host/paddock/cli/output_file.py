"""A file that a command writes for its user: a new one, for the user alone, made before the work that fills it."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Self

from paddock.errors import KindError
from paddock.text import reason_of


class OutputFile:
    """A new file at `path`; leaving removes it again if nothing was written.

    Raises:
        KindError: there is something at the path already, or the file cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._is_written = False
        try:
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError as error:
            raise KindError(
                "FileExistsError",
                f"`{path}` is not written, as it is there already",
                hints=["name another file, or remove this one first"],
            ) from error
        except OSError as error:
            raise self._refused(error) from error

    def write(self, text: str) -> None:
        """Write the whole text.

        Raises:
            KindError: it cannot be written.
        """
        try:
            with open(self._descriptor, "w", encoding="utf-8", errors="backslashreplace", closefd=False) as file:
                file.write(text)
        except OSError as error:
            raise self._refused(error) from error
        self._is_written = True

    def _refused(self, error: OSError) -> KindError:
        return KindError(
            "OutputFileError",
            f"`{self.path}` cannot be written: {reason_of(error)}",
            hints=["name a file in a folder that is there and that you may write to"],
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        os.close(self._descriptor)
        if not self._is_written:
            self.path.unlink(missing_ok=True)
