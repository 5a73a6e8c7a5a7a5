"""Read a file that only the operator may have written: a policy, the accepted grants, the places of secrets.

The host trusts the content of such a file. So no other user may be able to write it, nor put another in its place:
neither in a folder on the way to it nor through a link. A missing file is empty. A file that exists and cannot be read,
trusted or understood is an error with file and line: ignoring it would refuse less than the operator meant.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn, Self, TypeVar

from pydantic import BaseModel, ValidationError

from paddock.errors import PlanProblem, PolicyFileError
from paddock.plan.formats.toml_lines import toml_lines
from paddock.plan.problems import problems_of
from paddock.plan.source_map import Positions
from paddock.policy.owner import Owner, user_name
from paddock.policy.path_walk import PathWalk
from paddock.text import reason_of
from paddock_sources.bounded_toml import TomlError, read_toml

ROOT: Final = Owner(0, Path("/root"))
"""The owner of files that apply to the whole machine."""

_MAX_BYTES: Final = 256 * 1024

_Model = TypeVar("_Model", bound=BaseModel)


def user_config_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of the user's settings for Paddock: policy, grants, places of secrets."""
    base = environ.get("XDG_CONFIG_HOME", "")
    return (Path(base) if os.path.isabs(base) else Owner.current(environ).home / ".config") / "paddock"


@dataclass(frozen=True, slots=True)
class OperatorFile:
    """The content of an operator file, as TOML, with the line of each place."""

    table: dict[str, Any]
    positions: Positions

    @classmethod
    def read(cls, path: Path, owner: Owner, *, max_bytes: int = _MAX_BYTES) -> Self | None:
        """Return the file at `path`, which only `owner` and root may write; None if it is missing.

        Raises:
            PolicyFileError: it exists and cannot be trusted, or is not TOML.
        """
        text = read_owned(path, owner, max_bytes=max_bytes)
        return None if text is None else cls.parse(text, str(path))

    @classmethod
    def parse(cls, text: str, file: str) -> Self:
        """Return the content of a text, which errors name as `file`; raises as `read` does."""
        try:
            return cls(read_toml(text), Positions(file, partial(toml_lines, text)))
        except TomlError as error:
            raise PolicyFileError(file, [PlanProblem("", error.problem, line=error.line)]) from error

    def checked(self, model: type[_Model], known: Mapping[str, tuple[str, ...]]) -> _Model:
        """Return the file as a model; `known` are the keys that its tables accept.

        Raises:
            PolicyFileError: it names everything in the file that is not understood.
        """
        try:
            return model.model_validate(self.table)
        except ValidationError as error:
            raise self.error(problems_of(error, "", known, {})) from error

    def error(self, problems: Iterable[PlanProblem]) -> PolicyFileError:
        """Return the error for these problems of the file, with their lines."""
        located = [replace(one, line=self.positions.line_of(one.at or one.path), at="") for one in problems]
        return PolicyFileError(self.positions.file, located)


def read_owned(path: Path, owner: Owner, *, max_bytes: int = _MAX_BYTES) -> str | None:
    """Return the text of the file at the absolute `path`, which only `owner` and root may write; None if it is missing.

    Raises:
        PolicyFileError: it exists and cannot be read, another user may write it, or it is no text of that size.
    """
    return _OwnedFile(path, owner).read(max_bytes)


class _OwnedFile(PathWalk[os.stat_result]):
    """One file that is being read, and the findings about each folder on its way."""

    def __init__(self, path: Path, owner: Owner) -> None:
        super().__init__(path, os.stat("/"))
        self._shown = str(path)
        self._owner = owner
        self._owner_name = user_name(owner.uid)
        self._written_left = len(self.pending)  # of the given path; the rest of `pending` comes from links
        self._stranger: tuple[str, str] | None = None

    def read(self, max_bytes: int) -> str | None:
        try:
            real = self._follow()
            if real is None:
                return None
            if self._stranger is not None:
                self._refuse(*self._stranger)
            self._check_file(self.levels[-1])
            # Not blocking: a fifo in its place would otherwise hold the host until another process writes to it.
            descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
            with open(descriptor, "rb") as file:
                self._check_file(os.fstat(descriptor))
                content = file.read(max_bytes + 1)
        except OSError as error:
            self._refuse(f"cannot be read: {reason_of(error)}", f"make it readable, or remove it: {self._shown}")
        if len(content) > max_bytes:
            self._refuse(f"is larger than {max_bytes // 1024} KiB", "it is some other file, or has to become shorter")
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            self._refuse(f"is not UTF-8 text, at byte {error.start}", "save it as UTF-8")

    def _follow(self) -> Path | None:
        """Follow the path one component at a time, check who else could, and return where it ends; None: nowhere.

        A folder that another user may write to does not matter while the file is missing.
        """
        for name in self:
            is_of_link = len(self.pending) >= self._written_left
            self._written_left = min(self._written_left, len(self.pending))
            place = self.text_of(name)
            try:
                info = os.lstat(place)
            except (FileNotFoundError, NotADirectoryError):
                if is_of_link:
                    self._refuse(
                        f"leads by way of a link to `{place}`, which does not exist", "mend or remove the link"
                    )
                return None
            self._check_folder(name, info)
            if not stat.S_ISLNK(info.st_mode):
                self.enter(name, info)
            elif self.may_follow:
                self.go_to(os.readlink(place))
            else:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        return self.path

    def _check_folder(self, name: str, info: os.stat_result) -> None:
        folder = self.levels[-1]
        stranger = self._owner.stranger_at(folder, info)
        if stranger is not None and self._stranger is None:
            place, mode = self.path, f"{stat.S_IMODE(folder.st_mode):04o}"
            others = f"somebody else could put another `{name}`: {stranger} (mode {mode})"
            fix = self._owner.remedy(place, folder) or f"run Paddock where nobody else can change `{place}`"
            self._stranger = (f"is reached through `{place}`, in which {others}", fix)

    def _check_file(self, info: os.stat_result) -> None:
        if not stat.S_ISREG(info.st_mode):
            self._refuse("is not a regular file", "put a file in its place, or remove it")
        if info.st_uid not in (0, self._owner.uid):
            fix = self._owner.remedy(Path(self._shown), info)
            self._refuse(
                f"belongs to uid {info.st_uid}, and only {self._owner_name} may say what is in it",
                f"read it, then: {fix}" if fix else "no user of this user namespace may change it: run Paddock outside",
            )
        if info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            # Also where the group belongs to one user: its members are decided elsewhere, and one chmod settles it.
            others = "everybody" if info.st_mode & stat.S_IWOTH else "its group"
            self._refuse(
                f"can be written by others: by {others} (mode {stat.S_IMODE(info.st_mode):04o})",
                f"read it, then: chmod go-w {self._shown}",
            )

    def _refuse(self, problem: str, hint: str) -> NoReturn:
        raise PolicyFileError(self._shown, [PlanProblem("", problem, hint)])
