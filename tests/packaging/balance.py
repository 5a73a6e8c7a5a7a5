"""The size of the product beside a recorded one: `python tests/packaging/balance.py [--json] [CHECKOUT]`.

Prints the balance of a working tree against its `tests/packaging/size.json`, which has the figures of one commit;
`--json` prints figures as that file has them, for another commit. The exit code is 1 for a file of more than 600 lines,
for a folder of more than 25 files (30 for the attacker's, which has a file for each kind of attack), and for code that
is more than 2 % denser than the recorded one, in statements or tokens a line. All else may grow: the balance shows it.

The product is the Python files below `host`, `sdk`, `sources` and `modules`, without tests. A line of code is one that
is neither blank nor a comment nor part of a docstring. A data file is any other file there, but a document. Density
leaves out imports and `__all__`: the formatter decides how many names stand on a line there, so code that lists fewer
would be denser.
"""

from __future__ import annotations

import ast
import io
import json
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).resolve().parents[2]
_TOPS: Final = ("host", "sdk", "sources", "modules")
_MAX_LINES: Final = 600
_MAX_FILES: Final = 25
_MAX_FILES_OF_ATTACKER: Final = 30
_ATTACKER: Final = Path("host/paddock/selftest/modules/tool-attacker")
_MAX_DENSITY: Final = 1.02
_NO_DATA: Final = (".md", ".py", ".pyc")
_DOCUMENTED: Final = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_IMPORTS: Final = (ast.Import, ast.ImportFrom)
_LAYOUT: Final = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
# From Python 3.12 on, a formatted string is many tokens. It counts as one, so that all versions find the same.
_OPENS: Final = {getattr(tokenize, f"{kind}STRING_START", None) for kind in "FT"} - {None}
_CLOSES: Final = {getattr(tokenize, f"{kind}STRING_END", None) for kind in "FT"} - {None}


@dataclass(frozen=True, slots=True)
class Size:
    """Counts of one file, or of many. `statements` and `tokens` are those of code, without docstrings and imports."""

    lines: int = 0
    code_lines: int = 0
    import_lines: int = 0
    statements: int = 0
    tokens: int = 0
    data_files: int = 0
    data_lines: int = 0

    def __add__(self, other: Size) -> Size:
        mine, theirs = asdict(self), asdict(other)
        return Size(**{name: mine[name] + theirs[name] for name in mine})

    @property
    def densities(self) -> dict[str, float]:
        """Statements and tokens a line of code that imports nothing."""
        lines = max(1, self.code_lines - self.import_lines)
        return {name: getattr(self, name) / lines for name in ("statements", "tokens")}


def main() -> int:
    """Print the balance and what is out of bounds; return the exit code."""
    arguments = [one for one in sys.argv[1:] if one != "--json"]
    root = Path(arguments[0]) if arguments else _ROOT
    paths = list(_product(root))
    with ProcessPoolExecutor() as pool:
        counted = list(pool.map(size_of, paths, chunksize=20))
    sizes = {path.relative_to(root): size for path, size in zip(paths, counted, strict=True)}
    size = sum(sizes.values(), Size())
    if "--json" in sys.argv:
        print(json.dumps(asdict(size), indent=2))
        return 0
    recorded = json.loads((root / "tests/packaging/size.json").read_text(encoding="utf-8"))
    commit, before = recorded.pop("commit"), Size(**recorded)
    print("\n".join(_balance(size, before, commit)))
    excesses = [*_large(sizes), *_dense(size, before, commit)]
    print("\n".join(excesses), end="\n" if excesses else "", file=sys.stderr)
    return int(bool(excesses))


def size_of(path: Path) -> Size:
    """Count one file of the product."""
    text = path.read_bytes().decode("utf-8", "replace")
    lines = text.count("\n")
    if path.suffix != ".py":
        return Size(data_files=1, data_lines=lines)
    statements, documentation, imports = 0, set[int](), set[int]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, _IMPORTS) or (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"):
            imports.update(range(node.lineno, (node.end_lineno or 0) + 1))
            continue
        statements += isinstance(node, ast.stmt)
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            statements -= 1
            documentation.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    tokens, depth, code, uncounted = 0, 0, set[int](), documentation | imports
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in _LAYOUT:
            continue
        depth -= token.type in _CLOSES
        code.update(range(token.start[0], token.end[0] + 1))
        tokens += depth == 0 and token.type not in _CLOSES and token.start[0] not in uncounted
        depth += token.type in _OPENS
    return Size(lines, len(code - documentation), len(imports), statements, tokens)


def _product(root: Path) -> Iterator[Path]:
    for top in _TOPS:
        for path in sorted((root / top).rglob("*")):
            inside = path.relative_to(root).parts
            is_ours = not any(part.startswith(".") or part in ("tests", "__pycache__") for part in inside)
            if is_ours and path.is_file() and (path.suffix == ".py" or path.suffix not in _NO_DATA):
                yield path


def _balance(size: Size, before: Size, commit: str) -> Iterator[str]:
    yield f"{'':24}{'now':>10}{commit:>12}{'balance':>10}"
    for name, now in asdict(size).items():
        if name in size.densities:
            density, earlier = size.densities[name], before.densities[name]
            change = density / max(earlier, 1e-9) - 1
            yield f"{name + ' a code line':24}{density:10.3f}{earlier:12.3f}{change:+10.1%}"
        else:
            then = getattr(before, name)
            yield f"{name.replace('_', ' '):24}{now:10,}{then:12,}{now - then:+10,}"


def _large(sizes: dict[Path, Size]) -> Iterator[str]:
    for path, size in sizes.items():
        if size.lines > _MAX_LINES:
            yield f"{path} has {size.lines} lines, more than {_MAX_LINES}: move a part with a name of its own to a file"
    for folder, count in Counter(path.parent for path in sizes if path.suffix == ".py").items():
        most = _MAX_FILES_OF_ATTACKER if folder.is_relative_to(_ATTACKER) else _MAX_FILES
        if count > most:
            yield f"{folder} has {count} Python files, more than {most}: make a folder of those that belong together"


def _dense(size: Size, before: Size, commit: str) -> Iterator[str]:
    for name, density in size.densities.items():
        most = _MAX_DENSITY * before.densities[name]
        if density > most:
            excess = f"{density:.3f} {name} a line of code, more than {most:.3f}, 2 % above {commit}"
            yield f"{excess}: write what became dense at length"


if __name__ == "__main__":
    sys.exit(main())
