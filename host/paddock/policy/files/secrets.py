"""The operator's `secrets.toml`: for each secret the way to get it, and never the secret itself.

```toml
[OPENAI_API_KEY]
command = ["pass", "show", "openai"]
```
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, Literal

from paddock.errors import PlanProblem
from paddock.plan.problems import NotAcceptedError, path_text, type_text
from paddock.policy.files.owned_file import OperatorFile

Way = Literal["env", "file", "command"]

WAYS_TEXT: Final = 'one of: env = "OTHER", file = "~/path", command = ["pass", "show", "x"]'
"""The ways to get a secret, for hints."""

_VARIABLE: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True, slots=True)
class SecretLocation:
    """Where one secret is: the name of a variable, the path of a file, or a command's words; `line` is the file's."""

    way: Way
    what: str | tuple[str, ...]
    line: int | None


def secrets_in(file: OperatorFile) -> dict[str, SecretLocation]:
    """Return the locations in a file, by the names of secrets.

    Raises:
        PolicyFileError: it names everything in the file that is not understood.
    """
    entries: dict[str, SecretLocation] = {}
    problems: list[PlanProblem] = []
    for name, table in file.table.items():
        place = path_text(name)
        try:
            way, what = _way(name, table)
            entries[name] = SecretLocation(way, what, file.positions.line_of(place))
        except NotAcceptedError as error:
            problems.append(PlanProblem(place, error.problem, error.accepted))
    if problems:
        raise file.error(problems)
    return entries


def _way(name: str, table: Any) -> tuple[Way, str | tuple[str, ...]]:
    if not _VARIABLE.fullmatch(name):
        raise NotAcceptedError("is not the name of a secret", "names are those of variables, as in `OPENAI_API_KEY`")
    if not isinstance(table, dict):
        raise NotAcceptedError(f"must be a table, is {type_text(table)}", f"write [{name}], and below it {WAYS_TEXT}")
    unknown = [key for key in table if key not in ("env", "file", "command")]
    if unknown:
        raise NotAcceptedError(f"unknown key `{unknown[0]}`", WAYS_TEXT)
    if len(table) != 1:
        raise NotAcceptedError("says no way to the secret" if not table else "says more than one way", WAYS_TEXT)
    ((way, what),) = table.items()
    if way == "command":
        return way, _argv(what)
    if not isinstance(what, str) or not what.isprintable() or not what:
        raise NotAcceptedError(f"`{way}` must be text", WAYS_TEXT)
    # No error quotes the value: a user may have written the secret itself here by mistake.
    if way == "env" and not _VARIABLE.fullmatch(what):
        raise NotAcceptedError("`env` is not the name of an environment variable", WAYS_TEXT)
    if way == "file" and not what.startswith(("/", "~/")):
        raise NotAcceptedError("`file` is a relative path", "write an absolute path, or one that begins with `~/`")
    return way, what


def _argv(what: Any) -> tuple[str, ...]:
    if isinstance(what, str):
        raise NotAcceptedError("`command` must be a list, is text", f"no shell reads it: write {WAYS_TEXT}")
    if not isinstance(what, list) or not what or not all(isinstance(word, str) and "\0" not in word for word in what):
        raise NotAcceptedError("`command` must be a list of a program and its arguments", WAYS_TEXT)
    if not what[0]:
        raise NotAcceptedError("`command` names no program", WAYS_TEXT)
    return tuple(what)
