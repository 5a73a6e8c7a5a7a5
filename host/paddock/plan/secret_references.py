"""`${NAME}` in a module's configuration: found, checked and replaced.

A reference is expanded for its own entry only, and only where that entry's `secrets` grant the name. A secret granted
with `inject: host` is left as written: the module holds the reference, the host the value. Nothing here reads the
process's own environment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from paddock.errors import PlanProblem

from .permissions import Permissions
from .problems import path_text

# Also matches the forms with a default that shells know, to say that they mean nothing here.
_REFERENCE = re.compile(r"\$\{([A-Za-z_]\w*)(:[^}]*|[-+=?][^}]*)?\}", re.ASCII)


def reference_problems(
    config: Any, path: str, permissions: Permissions, environ: Mapping[str, str]
) -> Iterator[PlanProblem]:
    """Yield a problem for every reference in `config` that cannot be honoured."""
    for place, text in _texts(config, path):
        for match in _REFERENCE.finditer(text):
            name, default = match.groups()
            grant = permissions.secret(name)
            if default is not None:
                yield PlanProblem(place, f"`{match[0]}` has a default, which is not supported", f"write ${{{name}}}")
            elif grant is None:
                hint = f"grant it where the module is listed as a table: permissions: {{secrets: [{name}]}}"
                yield PlanProblem(place, f"`{match[0]}` is a secret that this entry is not granted", hint)
            elif name not in environ:
                hint = f"set it before the start: export {name}=…"
                yield PlanProblem(place, f"environment variable `{name}` is not set", hint)


def expanded(config: Any, permissions: Permissions, environ: Mapping[str, str]) -> Any:
    """Return a copy of `config` in which the granted references have become values; it must have no problems."""
    if isinstance(config, str):

        def value_of(match: re.Match[str]) -> str:
            grant = permissions.secret(match[1])
            return environ[match[1]] if grant is not None and grant.inject is None else match[0]

        return _REFERENCE.sub(value_of, config)
    if isinstance(config, Mapping):
        return {key: expanded(value, permissions, environ) for key, value in config.items()}
    if isinstance(config, list):
        return [expanded(value, permissions, environ) for value in config]
    return config


def _texts(config: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(config, str):
        yield path, config
    elif isinstance(config, Mapping):
        for key, value in config.items():
            yield from _texts(value, path_text(path, key))
    elif isinstance(config, list):
        for index, value in enumerate(config):
            yield from _texts(value, path_text(path, index))
