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
_VARIABLE: Final = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
_PROGRAM: Final = re.compile(r"[\w.+-]{1,64}")
_RUNS: Final = frozenset({"run", "Popen", "call", "check_call", "check_output", "getoutput"})
_SHELLS: Final = frozenset({"create_subprocess_shell", "os.system", "os.popen", "subprocess.getoutput"})


@dataclass(frozen=True, slots=True)
class CodeNames:
    """Variables of the environment, programs and capabilities by their names; whether it asks where it works or lives.

    `uses_folder`: it asks for the working directory; `uses_home`: for the home.
    """

    variables: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    uses_folder: bool = False
    uses_home: bool = False

    @staticmethod
    def of(package_dir: Path) -> CodeNames:
        """Return what the files of a package name, as far as they can be read."""
        found: dict[tuple[str, str], None] = {}
        for tree in _trees(package_dir):
            found |= dict.fromkeys(_named(tree))
        of_kind = {kind: tuple(name for one, name in found if one == kind) for kind, _ in found}
        return CodeNames(
            tuple(filter(_VARIABLE.fullmatch, of_kind.get("variable", ()))),
            tuple(filter(_PROGRAM.fullmatch, of_kind.get("program", ()))),
            of_kind.get("capability", ()),
            "folder" in of_kind or "session.working_dir" in of_kind.get("capability", ()),
            "home" in of_kind,
        )


def _trees(package_dir: Path) -> Iterator[ast.Module]:
    """Yield the syntax tree of each file, those of outer folders first, until there are too many."""
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
                    if (parsed_file := parsed(content)) is not None:
                        yield parsed_file
                elif "." not in name and name not in ("tests", "__pycache__") and path.count(os.sep) < _MAX_DEPTH:
                    waiting.append(path)
    except SourceError:
        return  # a link that leads out, or too much: what was read so far counts


def _named(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield what a file names, each with its kind."""
    known = {
        target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }

    def text(node: ast.expr | None) -> str:
        """Return a text, or the first of a list, where it stands in the file; else nothing."""
        node = known.get(node.id) if isinstance(node, ast.Name) else node
        node = node.elts[0] if isinstance(node, ast.List | ast.Tuple) and node.elts else node
        return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""

    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and _dotted(node.value).endswith("environ"):
            yield "variable", text(node.slice)
        if not isinstance(node, ast.Call):
            continue
        name, first = _dotted(node.func), text(node.args[0]) if node.args else ""
        owner, _, last = name.rpartition(".")
        in_shell = any(one.arg == "shell" and getattr(one.value, "value", False) is True for one in node.keywords)
        if last == "getenv" or (owner.endswith("environ") and last in ("get", "pop")):
            yield "variable", first
        elif last == "get_capability":
            yield "capability", first
        elif name in _SHELLS or last in _SHELLS or (owner == "subprocess" and in_shell):
            yield "program", "sh"
            yield "program", first.partition(" ")[0]
        elif (owner == "subprocess" and last in _RUNS) or last == "create_subprocess_exec" or name == "shutil.which":
            yield "program", first
        elif name.endswith(("Path.cwd", "os.getcwd")):
            yield "folder", ""
        elif name.endswith("Path.home"):
            yield "home", ""


def _dotted(node: ast.expr) -> str:
    """Return `a.b.c` for such an expression; of others, the part behind what is no name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([*([node.id] if isinstance(node, ast.Name) else []), *reversed(parts)])
