"""The declarations in a package's `__init__.py`, read from its syntax tree and never executed.

The answers are best effort: code may bind names in ways that no reader can follow, so each answer has a value for
"unknown". A file that does not parse, is not UTF-8 or is too large gives an outline with only unknown values. Importing
it will raise the reason, in the worker.
"""

from __future__ import annotations

import ast
import re
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

_KIND_NAME = "__amplifier_module_type__"
_MAX_BYTES = 256 * 1024  # some providers keep all of their code, near 100 KiB, in this file
_MAX_TOKENS = 64 * 1024  # of ordinary code as much as fits in the above; a tree takes up to a KiB for each
_TOKEN = re.compile(r"\w+|[^\w\s]")  # comments and the insides of strings count as well
# Python 3.11 counts the depth in a tree for all threads at once; and the filters of warnings are global.
_PARSING = threading.Lock()


@dataclass(frozen=True, slots=True)
class PackageOutline:
    """`declared_kind`: the constant assigned to the kind's name, None when there is none.

    `defines_mount`: whether a top-level statement binds `mount`; None when that is unknown.
    """

    declared_kind: object = None
    defines_mount: bool | None = None

    @staticmethod
    @lru_cache(maxsize=8)  # each session reads the files of its modules, and mostly finds the same
    def of(source: bytes) -> PackageOutline:
        """Return the outline of a file's content."""
        tree = parsed(source)
        if tree is None:
            return PackageOutline()
        kind: object = None
        mount: bool | None = False
        for statement in _top_level(tree):
            names = set(_bound_names(statement))
            if _KIND_NAME in names:
                value = getattr(statement, "value", None)
                kind = value.value if isinstance(value, ast.Constant) else None
            if "mount" in names:
                mount = True
            elif names & {"*", "__getattr__"} and not mount:
                mount = None
        return PackageOutline(kind, mount)


def parsed(source: bytes) -> ast.Module | None:
    """Return the syntax tree of a file's content; None if it does not parse, is not UTF-8 or is too large."""
    if len(source) > _MAX_BYTES:
        return None
    try:
        # Not the codec that the file may name: some take minutes for a short text.
        text = source.decode("utf-8-sig")
        if next(islice(_TOKEN.finditer(text), _MAX_TOKENS, None), None) is not None:
            return None
        with _PARSING, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the author's invalid escapes do not concern the user
            return ast.parse(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        # MemoryError and RecursionError are how the parser answers nesting beyond its own stack.
        return None


def _top_level(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the statements that run when the module is imported, those inside `if`, `try` and the like included."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        inner: list[ast.AST] = []
        for field in ("body", "handlers", "cases", "orelse", "finalbody"):
            inner.extend(getattr(node, field, ()))
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            waiting.extend(reversed(inner))


def _bound_names(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            for alias in aliases:
                yield alias.asname or alias.name.partition(".")[0]
        case ast.Assign(targets=targets):
            for target in targets:
                yield from _target_names(target)
        case ast.AnnAssign(target=target, value=value) if value is not None:
            yield from _target_names(target)


def _target_names(target: ast.expr) -> Iterator[str]:
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, (ast.Tuple, ast.List)):
        for element in target.elts:
            yield from _target_names(element)
    elif isinstance(target, ast.Starred):
        yield from _target_names(target.value)
