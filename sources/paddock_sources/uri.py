"""The table of the kinds of sources, and the value of `source:` in a plan, parsed by it.

Parsing touches no file and no network. It accepts `builtin:<id>`, folders (`/abs`, `./rel`, `../rel`, `file:///abs`),
git addresses (`git+https://…@ref#subdirectory=…`, also `git+ssh`, `git+file`, and `git+http` to this machine), packages
(`name`, `name==version`), and the equivalent tables (`{type: git, url, ref, subdirectory}`). All else raises
`SourceUriError`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from paddock_sources.errors import SourceUriError
from paddock_sources.kinds.builtin_uri import BuiltinUri
from paddock_sources.kinds.folder_uri import FolderUri
from paddock_sources.kinds.git_uri import GitUri
from paddock_sources.kinds.mcp_command_uri import McpCommandUri
from paddock_sources.kinds.mcp_uri import McpNpmUri, McpPypiUri
from paddock_sources.kinds.package_uri import PackageUri
from paddock_sources.kinds.source_uri import SourceUri
from paddock_sources.kinds.written_table import WrittenTable

__all__ = ["KINDS", "BuiltinUri", "FolderUri", "GitUri", "PackageUri", "SourceUri", "parse_source"]

KINDS: tuple[type[SourceUri], ...] = (
    BuiltinUri,
    FolderUri,
    GitUri,
    PackageUri,
    McpPypiUri,
    McpNpmUri,
    McpCommandUri,
)
"""Every kind of source, in the order in which text is tried; `provisioner.SUPPLIES` has how the code of each is got."""

_MAX_LENGTH: Final = 4096  # PATH_MAX: nothing longer can name a folder
_LIKE_SSH: Final = re.compile(r"(?:[^\s/@:]+(?::[^\s/@]*)?@)?(?P<host>[A-Za-z0-9.-]+\.[A-Za-z0-9-]+):(?P<path>[^\s:]+)")


def parse_source(text: object) -> SourceUri:
    """Parse `text` into the value of its kind. A table is first turned into text, which the value then has.

    Raises:
        SourceUriError: the text is of no kind, or is malformed in its own.
    """
    if isinstance(text, Mapping):
        text = _text_of_table(text)
    if not isinstance(text, str):
        raise SourceUriError(text, f"it is {type(text).__name__}, not text", hints=[_accepted()])
    if len(text) > _MAX_LENGTH:
        raise SourceUriError(text[:80] + "…", f"it is longer than {_MAX_LENGTH} characters")
    if not text.strip():
        raise SourceUriError(text, "it is empty", hints=[_accepted()])
    if text != text.strip() or not text.isprintable():
        raise SourceUriError(text, "it has surrounding space or an unprintable character")
    for kind in KINDS:
        if (uri := kind.of_text(text)) is not None:
            return uri
    raise _of_no_kind(text)


def _of_no_kind(text: str) -> SourceUriError:
    """Return the error for text of no kind, with what may be meant."""
    if text.startswith(("zip+", "http://", "https://", "ssh://", "git://")):
        hints = [f"a git repository is written `git+{text}`"] if text.startswith(("https:", "ssh:")) else []
        return SourceUriError(text, "archives are not available in this version", hints=[*hints, _accepted()])
    if text.startswith("~"):
        return SourceUriError(text, "`~` is not expanded", hints=["write the whole path, from `/`"])
    if like_ssh := _LIKE_SSH.fullmatch(text):
        hints = [f"write `git+ssh://git@{like_ssh['host']}/{like_ssh['path']}`", _accepted()]
        return SourceUriError(f"{like_ssh['host']}:…", "it is of no known form", hints=hints)
    if re.search(r"[=<>!~]=|[<>]", text):
        return SourceUriError(text, "a version is pinned exactly", hints=["write `name==1.2.3`, or the name alone"])
    hints = [f"a folder beside the plan is written `./{text}`"] if "/" in text and ":" not in text else []
    return SourceUriError(text, "it is of no known form", hints=[*hints, _accepted()])


def _text_of_table(written: Mapping[object, object]) -> str:
    with_tables = (kind.table for kind in KINDS if kind.table is not None)
    forms = {form.type: form for form in sorted(with_tables, key=lambda form: -len(form.keys))}
    table = WrittenTable(written, f"a table is {_either([form.shown for form in forms.values()], 'or')}")
    form = forms.get(kind) if isinstance(kind := written.get("type"), str) else None
    if form is None:
        raise table.refused(f"its `type` is none of {_either([f'`{one}`' for one in forms], 'and')}")
    table.check_keys(form.keys)
    return form.text(table)


def _accepted() -> str:
    return f"a source is {_either([kind.form for kind in KINDS], 'or')}"


def _either(words: list[str], last: str) -> str:
    return f"{', '.join(words[:-1])} {last} {words[-1]}"
