"""The names that branches and tags may have: those of `git check-ref-format`, and some fewer.

They are checked before anything runs: an accepted name is never taken for an option, a range or a path.
"""

from __future__ import annotations

import re

_MAX_BYTES = 255  # a ref is a file below `refs` on most servers
_SPECIAL = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_ABBREVIATED = re.compile(r"[0-9a-fA-F]{4,64}")


def is_commit(ref: str) -> bool:
    """Return whether a ref is the whole name of a commit, in SHA-1 or SHA-256."""
    return _COMMIT.fullmatch(ref) is not None


def is_like_commit(ref: str) -> bool:
    """Return whether a ref may be part of a commit's name, though a branch may have such a name as well."""
    return _ABBREVIATED.fullmatch(ref) is not None and not is_commit(ref)


def problem_of_ref(ref: str) -> str:
    """Return why nothing can be called so, or nothing."""
    if not ref:
        return "it is empty"
    if len(ref.encode("utf-8", "surrogateescape")) > _MAX_BYTES:
        return f"it is longer than {_MAX_BYTES} bytes"
    if not ref.isprintable() or _SPECIAL.search(ref):
        return "it has a space, an unprintable character or one of `~^:?*[\\`"
    if ref == "@" or "@{" in ref or ".." in ref:
        return "`@` alone, `@{` and `..` stand for something else in git"
    if ref.startswith("-"):
        return "it starts with a dash, as options do"
    if ref.startswith("/") or ref.endswith(("/", ".")) or "//" in ref:
        return "it starts or ends with a slash, has two of them, or ends with a dot"
    if any(component.startswith(".") or component.endswith(".lock") for component in ref.split("/")):
        return "a part of it starts with a dot or ends with `.lock`"
    return ""
