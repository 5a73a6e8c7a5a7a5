"""What a module's code names of its surroundings, read from its syntax trees and never executed.

It is best effort, and the author chose every word of it: it may help a person to decide, and decides nothing. Files are
read up to caps, each as `outline` reads one; what is beyond them is not looked at.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from paddock_sources.errors import SourceError
from paddock_sources.manifest.outline import parsed
from paddock_sources.tree import SourceTree

_MAX_FILES: Final = 64
_MAX_BYTES: Final = 1 << 20  # of all files together: a tenth of a second
_MAX_DEPTH: Final = 4  # folders below the package
_MAX_TEXTS: Final = 8  # that one name may stand for
_MAX_STEPS: Final = 32  # from an expression to its texts
_VARIABLE: Final = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
_PROGRAM: Final = re.compile(r"[A-Za-z0-9_][\w.+-]{0,63}", re.ASCII)
_CALL: Final = re.compile(r"spawn|providers|context|tools:[\w.-]{1,64}", re.ASCII)
_EVENT: Final = re.compile(r"[\w-]{1,32}:[\w:-]{1,64}", re.ASCII)
_KEY: Final = re.compile(r"[\w.-]{1,64}", re.ASCII)
_RUNS: Final = frozenset({"run", "Popen", "call", "check_call", "check_output", "getoutput"})
_STARTS: Final = frozenset({"create_subprocess_exec", "run_process", "open_process", "which"})
_SHELLS: Final = frozenset({"create_subprocess_shell", "os.system", "os.popen", "subprocess.getoutput"})
_WRITES: Final = frozenset({"mkdir", "makedirs", "write_text", "write_bytes", "sqlite3.connect"})
_MODES: Final = frozenset(f"{way}{form}" for way in "wax" for form in ("", "b", "t", "+", "b+", "+b"))
_OPENS: Final = frozenset({"Path", "open", "os.listdir", "os.scandir", "os.walk"})
_CAPABILITIES: Final = {
    "session.spawn": ("call", "spawn"),
    "session.resume": ("call", "spawn"),
    "session.working_dir": ("folder", ""),
}


@dataclass(frozen=True, slots=True)
class CodeNames:
    """Variables of the environment, programs by their names, and `calls`: what of other modules it uses.

    A call is `spawn`, `providers`, `context` or `tools:NAME`, as plans write them; `events` are those that it handles.
    `uses_folder`: it asks for the working directory, or opens a file by a relative path; `uses_home`: it asks for the
    home, and writes files. `reads_state` and `sets_state` are keys of `session_state`.
    """

    variables: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    uses_folder: bool = False
    uses_home: bool = False
    events: tuple[str, ...] = ()
    reads_state: tuple[str, ...] = ()
    sets_state: tuple[str, ...] = ()

    @staticmethod
    def of(package_dir: Path) -> CodeNames:
        """Return what the files of a package name, as far as they can be read."""
        found: dict[tuple[str, str], None] = {}
        for content in _files(package_dir):
            if (tree := parsed(content)) is not None:
                found |= dict.fromkeys(_File(tree).named())
        of_kind = {kind: tuple(name for one, name in found if one == kind) for kind in {one for one, _ in found}}
        return CodeNames(
            tuple(filter(_VARIABLE.fullmatch, of_kind.get("variable", ()))),
            tuple(filter(_PROGRAM.fullmatch, of_kind.get("program", ()))),
            tuple(filter(_CALL.fullmatch, of_kind.get("call", ()))),
            "folder" in of_kind,
            "home" in of_kind and "write" in of_kind,
            tuple(filter(_EVENT.fullmatch, of_kind.get("event", ()))),
            tuple(filter(_KEY.fullmatch, of_kind.get("state", ()))),
            tuple(filter(_KEY.fullmatch, of_kind.get("state set", ()))),
        )


def names_package(folder: Path, package: str) -> bool:
    """Return whether code in a folder has the name of a package as a word of its own, as far as it can be read."""
    word = re.compile(rb"\b" + re.escape(package.encode()) + rb"\b")
    return any(map(word.search, _files(folder)))


def _files(package_dir: Path) -> Iterator[bytes]:
    """Yield the content of each file of code, those of outer folders first, until there are too many."""
    waiting, files, left = ["."], 0, _MAX_BYTES
    try:
        tree = SourceTree(package_dir)
        while waiting:
            folder = waiting.pop(0)
            for name in tree.names(folder):
                path = os.path.normpath(os.path.join(folder, name))
                if name.endswith(".py"):
                    content = tree.read(path, limit_bytes=left) or b""
                    files, left = files + 1, left - len(content)
                    if files > _MAX_FILES:
                        return
                    yield content
                elif "." not in name and name not in ("tests", "__pycache__") and path.count(os.sep) < _MAX_DEPTH:
                    waiting.append(path)
    except SourceError:
        return  # a link that leads out, or too much: what was read so far counts


class _File:
    """A file's tree, with the texts that its own assignments, loops and defaults give to names."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._imported: dict[str, str] = {}
        self._known: dict[str, list[str]] = {}
        for node in ast.walk(tree):  # outer ones first, so that most names are known before they are used
            for name, value in _bound(node):
                self._known[name] = [*self._known.get(name, ()), *self._texts(value)][:_MAX_TEXTS]
            match node:
                case ast.Import(names=names):
                    self._imported |= {one.asname: one.name for one in names if one.asname}
                case ast.ImportFrom(module=str() as module, names=names):
                    self._imported |= {one.asname or one.name: f"{module}.{one.name}" for one in names}

    def named(self) -> Iterator[tuple[str, str]]:
        """Yield what the file names, each with its kind; it uses tools only if it asks for all there are."""
        found = dict.fromkeys(self._all_named())
        asks = ("call", "tools") in found
        yield from (one for one in found if asks or not one[1].startswith("tools:"))

    def _all_named(self) -> Iterator[tuple[str, str]]:
        for node in ast.walk(self._tree):
            match node:
                case ast.Subscript(value=owner, slice=key, ctx=ast.Load()):
                    yield from _looked_up(self._dotted(owner), self._texts(key))
                case ast.Subscript(value=owner, slice=key) if self._dotted(owner).endswith("session_state"):
                    yield from (("state set", name) for name in self._texts(key))
                case ast.Call(func=func, args=args):
                    first = [*args, *(one.value for one in node.keywords if one.arg == "event")][:1]
                    yield from _called(node, self._dotted(func), self._texts(first[0]) if first else [])

    def _texts(self, place: ast.expr) -> list[str]:
        """Return the texts that may stand in a place: of a list its first, of a lookup its default."""
        waiting, found = [place], list[str]()
        for _ in range(_MAX_STEPS):
            if not waiting:
                break
            match waiting.pop(0):
                case ast.Constant(value=str() as text):
                    found.append(text)
                case ast.Name(id=name) | ast.Attribute(attr=name):
                    found += self._known.get(name, ())
                case ast.List(elts=[first, *_]) | ast.Tuple(elts=[first, *_]) | ast.Starred(value=first):
                    waiting.append(first)
                case ast.BinOp(left=first, op=ast.Add()):
                    waiting.append(first)
                case ast.BoolOp(values=several):
                    waiting += several[:_MAX_TEXTS]
                case ast.IfExp(body=one, orelse=other):
                    waiting += (one, other)
                case ast.Call(func=ast.Attribute(attr="get"), args=[_, default]):
                    waiting.append(default)
        return found[:_MAX_TEXTS]

    def _dotted(self, node: ast.expr) -> str:
        """Return `a.b.c` for such an expression, by the name that was imported, and `.b.c` behind what is no name."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        parts.append(self._imported.get(node.id, node.id) if isinstance(node, ast.Name) else "")
        return ".".join(reversed(parts))


def _looked_up(owner: str, names: list[str]) -> Iterator[tuple[str, str]]:
    """Yield what a lookup by these names in something called `owner` tells."""
    last = owner.rpartition(".")[2].lower()
    for name in names:
        if last == "environ":
            yield "variable", name
        elif last == "session_state":
            yield "state", name
        elif last.endswith("coordinator") and name in ("providers", "context", "tools"):
            yield "call", name
        elif last == "tools":
            yield "call", f"tools:{name}"


def _called(call: ast.Call, name: str, first: list[str]) -> Iterator[tuple[str, str]]:
    """Yield what a call of `name` tells, whose first argument may be these texts."""
    owner, _, last = name.rpartition(".")
    of_shell = [one.value for one in call.keywords if one.arg == "shell"]
    in_shell = any(getattr(value, "value", False) is True for value in of_shell)
    if last == "getenv":
        yield from (("variable", text) for text in first)
    elif last in ("get", "pop", "setdefault"):
        yield from _looked_up(owner, first)
    elif name.endswith("hooks.register"):
        yield from (("event", text) for text in first)
    elif last == "get_capability":
        yield from (_CAPABILITIES[text] for text in first if text in _CAPABILITIES)
    elif name in _SHELLS or last in _SHELLS or (owner == "subprocess" and in_shell):
        yield "program", "sh"
        yield from (("program", text.partition(" ")[0]) for text in first)
    elif (owner == "subprocess" and last in _RUNS) or last in _STARTS:
        yield from (("program", text) for text in first)
    elif name.endswith(("Path.cwd", "os.getcwd")):
        yield "folder", ""
    elif name.endswith("Path.home"):
        yield "home", ""
    elif name in _WRITES or last in _WRITES or (last == "open" and _is_written(call)):
        yield "write", ""
    if name in _OPENS or last in ("Path", "expanduser"):
        for text in first:
            if text and text[0] != "/":
                yield "home" if text[0] == "~" else "folder", ""


def _is_written(call: ast.Call) -> bool:
    """Whether a call of `open`, or of a path's own, has a mode that writes."""
    modes = call.args[:2]
    modes += [one.value for one in call.keywords if one.arg == "mode"]
    return any(isinstance(one, ast.Constant) and one.value in _MODES for one in modes)


def _bound(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names that a statement gives to values, each with the value; attributes by their last part."""
    match node:
        case ast.Assign(targets=targets, value=value):
            pairs = [(target, value) for target in targets]
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            pairs = [(target, value)]
        case ast.For(target=target, iter=ast.List(elts=values) | ast.Tuple(elts=values)):
            pairs = [(target, value) for value in values]
        case ast.arguments(args=args, defaults=defaults):
            yield from ((arg.arg, value) for arg, value in zip(reversed(args), reversed(defaults), strict=False))
            return
        case _:
            return
    for target, value in pairs:
        match target:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                yield name, value
