"""A file that a command writes for its user: a new one, for the user alone, made before the work that fills it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from paddock.errors import KindError
from paddock.text import reason_of


@contextmanager
def output_file(path: Path) -> Iterator[Callable[[str], None]]:
    """Make a new file, and give the function that writes its whole text; if nothing was written, it is removed again.

    Raises:
        KindError: there is something at the path already, or the file cannot be made or written.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _refused(path, error) from error
    is_written = False

    def write(text: str) -> None:
        nonlocal is_written
        try:
            with open(descriptor, "w", encoding="utf-8", errors="backslashreplace", closefd=False) as file:
                file.write(text)
        except OSError as error:
            raise _refused(path, error) from error
        is_written = True

    try:
        yield write
    finally:
        os.close(descriptor)
        if not is_written:
            path.unlink(missing_ok=True)


def _refused(path: Path, error: OSError) -> KindError:
    if isinstance(error, FileExistsError):
        problem = f"`{path}` is not written, as it is there already"
        return KindError("FileExistsError", problem, hints=["name another file, or remove this one first"])
    hint = "name a file in a folder that is there and that you may write to"
    return KindError("OutputFileError", f"`{path}` cannot be written: {reason_of(error)}", hints=[hint])
