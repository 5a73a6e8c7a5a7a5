"""The operator's secrets: variables of the environment, files, and commands that print them.

`secrets.toml` in the user's configuration folder names the place of a secret, and precedes the environment variable of
its name; only the operator may have written it. A value is read once, when it is first asked for: `fetch` reads those
of a session before anything of it starts. No error contains a value, and no object of this file shows one in its own
text form.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Self

import anyio
import anyio.to_thread

from paddock.errors import PaddockError, PlanProblem, PolicyFileError, placed
from paddock.plan.secret_references import command_to_set, how_to_set
from paddock.plan.source_map import Location, Positions
from paddock.policy.files.owned_file import OperatorFile, read_owned, user_config_folder
from paddock.policy.files.secrets import SecretLocation, secrets_in
from paddock.policy.owner import Owner
from paddock.policy.secrets.command import MAX_BYTES, NoSecretError, run_secret_command
from paddock.text import reason_of


class SecretError(PaddockError):
    """Raised for unavailable secrets; `problems` say which, where each was looked for, and what to do."""

    exit_code = 1

    def __init__(self, problems: Iterable[PlanProblem], *, origin: str | None = None) -> None:
        self.problems = tuple(problems)
        self.origin = origin
        count = len(self.problems)
        super().__init__(
            "a secret is unavailable" if count == 1 else f"{count} secrets are unavailable",
            detail=[problem.describe(origin) for problem in self.problems],
            hints=dict.fromkeys(problem.hint for problem in self.problems if problem.hint),
        )

    def facts(self) -> dict[str, object]:
        """Return the unavailable secrets, for scripts."""
        return {"problems": [{**problem.as_dict(), "file": self.origin} for problem in self.problems]}


class SecretSources:
    """The secrets by name: those of `entries`, from the file at `path`, and the variables of `environ`."""

    def __init__(
        self, environ: Mapping[str, str], owner: Owner, path: Path, entries: Mapping[str, SecretLocation] | None = None
    ) -> None:
        self._environ = dict(environ)
        self._owner = owner
        self._entries = dict(entries or {})
        self._path = path
        self._values: dict[str, str] = {}

    @classmethod
    def load(cls, environ: Mapping[str, str]) -> Self:
        """Return the secrets of the user of this process; the file may be missing.

        Raises:
            PolicyFileError: the file cannot be trusted or understood.
        """
        owner, path = Owner.current(environ), user_config_folder(environ) / "secrets.toml"
        file = OperatorFile.read(path, owner)
        return cls(environ, owner, path, None if file is None else secrets_in(file))

    def __contains__(self, name: object) -> bool:
        return name in self._entries or bool(self._environ.get(str(name)))

    def where(self, name: str) -> str:
        """Describe where a secret is looked for."""
        entry = self._entries.get(name)
        if entry is None:
            return f"environment variable `{name}`"
        place = Location(str(self._path), entry.line).text
        what = f"`{entry.what}`" if isinstance(entry.what, str) else f"`{entry.what[0]}`"
        kind = {"env": "environment variable", "file": "file", "command": "command"}[entry.way]
        return f"{kind} {what}, by {place}"

    async def fetch(
        self, names: Mapping[str, str] | Iterable[str], *, positions: Positions | None = None
    ) -> Mapping[str, str]:
        """Read these secrets, all at the same time, and return their values by name.

        Where `names` is a mapping, it gives for each the place in the plan that asks for it, whose line is in
        `positions`. A command is ended if the wait is cancelled.

        Raises:
            SecretError: some are unavailable; the error names all of them.
        """
        places = dict(names) if isinstance(names, Mapping) else dict.fromkeys(names, "")
        missed: dict[str, PlanProblem] = {}
        try:
            async with anyio.create_task_group() as getting:
                for name in places:
                    getting.start_soon(self._get, name, missed)
        except BaseExceptionGroup as group:
            raise _alone(group) from None
        if missed:
            raise _error_of([(missed[name], place) for name, place in places.items() if name in missed], positions)
        return {name: self._values[name] for name in places}

    async def _get(self, name: str, missed: dict[str, PlanProblem]) -> None:
        if name in self._values:
            return
        try:
            self._values[name] = _checked(await self._looked_up(name), self.where(name))
        except NoSecretError as error:
            missed[name] = PlanProblem(name, error.problem, error.hint)

    async def _looked_up(self, name: str) -> str:
        entry = self._entries.get(name)
        if entry is None:
            value = self._environ.get(name)
            if not value:
                raise self._missing(name, is_set=value is not None)
            return value
        if isinstance(entry.what, tuple):
            return await self._printed(name, entry.what)
        if entry.way == "file":
            return await anyio.to_thread.run_sync(self._read, name, entry.what)
        value = self._environ.get(entry.what)
        if value is None:
            hint = f"set it first: `{command_to_set(entry.what)}` takes it from the keyboard"
            raise NoSecretError(f"{self.where(name)}: it is not set", hint)
        return value

    def _missing(self, name: str, *, is_set: bool) -> NoSecretError:
        looked = (
            f"environment variable `{name}` is {'empty' if is_set else 'not set'}, and `{self._path}` has no [{name}]"
        )
        return NoSecretError(f"secret `{name}` is nowhere: {looked}", how_to_set(name))

    async def _printed(self, name: str, argv: tuple[str, ...]) -> str:
        home = self._owner.home
        folder = home if home.is_dir() else Path("/")
        try:
            printed = await run_secret_command(argv, self._environ, folder)
        except NoSecretError as error:
            raise NoSecretError(f"{self.where(name)}: {error.problem}", error.hint) from None
        text = _decoded(printed)
        if text is None:
            raise NoSecretError(f"{self.where(name)}: it prints no UTF-8 text")
        return text

    def _read(self, name: str, written: str) -> str:
        path = self._owner.expanded(written, Path("/"))
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
        except FileNotFoundError:
            mode = 0
        except OSError as error:
            raise NoSecretError(f"{self.where(name)}: it cannot be read: {reason_of(error)}") from None
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            reason = f"{self.where(name)}: others than you may read it or more (mode {mode:04o})"
            raise NoSecretError(reason, f"chmod go-rwx {path}")
        try:
            text = read_owned(path, self._owner, max_bytes=MAX_BYTES)
        except PolicyFileError as error:
            problem = error.problems[0]
            raise NoSecretError(f"{self.where(name)}: it {problem.message}", problem.hint) from None
        if text is None:
            raise NoSecretError(f"{self.where(name)}: it does not exist", f"make it, for you alone: {path}")
        return text


def _alone(error: BaseException) -> BaseException:
    """Return an error that is alone in its group, or in nested groups, without the groups."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _decoded(printed: bytes) -> str | None:
    try:
        return printed.decode("utf-8")
    except UnicodeDecodeError:  # the error is dropped here: it contains the whole text that was to be decoded
        return None


def _checked(value: str, where: str) -> str:
    value = value.rstrip("\r\n")
    if not value:
        raise NoSecretError(f"{where}: it is empty")
    if "\0" in value:
        raise NoSecretError(f"{where}: there is a null character in it, which no secret has")
    if any("\ud800" <= char <= "\udfff" for char in value):  # Python's form of variables that are no text
        raise NoSecretError(f"{where}: it is no UTF-8 text")
    return value


def _error_of(missed: Iterable[tuple[PlanProblem, str]], positions: Positions | None) -> SecretError:
    def spot_of(place: str) -> tuple[str, int | None]:
        return positions.spot_of(place) if positions is not None and place else ("", None)

    problems = [placed(replace(problem, path=place or problem.path), *spot_of(place)) for problem, place in missed]
    has_lines = any(problem.line is not None for problem in problems)
    return SecretError(problems, origin=positions.file if positions is not None and has_lines else None)
