"""Repositories of modules as authors push them: the same commits each time, whoever runs the tests.

Each has a work tree, is at branch `main` and has a tag `v1`. Their tools can be mounted and called.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from paddock_sources import GitUri, parse_source
from sources.git.origin_repository import OriginRepository

_TOOL = """\
from amplifier_core import ToolResult
{imports}

class Tool:
    name = {name!r}
    description = "Says where it comes from."
    input_schema = {{"type": "object", "properties": {{}}}}

    async def execute(self, input):
        return ToolResult(output={answer})


async def mount(coordinator, config=None):
    await coordinator.mount("tools", Tool())
"""


def git_uri(text: str, *, held: bool = False) -> GitUri:
    """Return the source that this text says; `held`, if it is a folder, as the folder that it is now."""
    uri = parse_source(text).held() if held else parse_source(text)
    assert isinstance(uri, GitUri)
    return uri


def module_files(
    module_id: str = "tool-greet",
    *,
    answer: str = "'hello'",
    imports: str = "",
    requires: Sequence[str] = (),
    version: str = "1.0.0",
    group: str = "amplifier.modules",
    more: str = "",
) -> dict[str, str]:
    """Return the files of a module whose tool, of the module's id, answers the expression `answer`.

    `imports` is put before its code, `more` behind its project file.
    """
    package = f"amplifier_module_{module_id.replace('-', '_')}"
    listed = ", ".join(f"'{requirement}'" for requirement in requires)
    return {
        "pyproject.toml": f"""\
[project]
name = "amplifier-module-{module_id}"
version = "{version}"
dependencies = [{listed}]

[project.entry-points."{group}"]
{module_id} = "{package}:mount"
{more}""",
        f"{package}/__init__.py": _TOOL.format(
            name=module_id.replace("-", "_"), answer=answer, imports=imports and f"{imports}\n"
        ),
    }


def library_files(name: str = "greeting", *, value: str = "hello from a library") -> dict[str, str]:
    """Return the files of a library whose package has a `VALUE`."""
    return {
        "pyproject.toml": f'[project]\nname = "{name}"\nversion = "2.0.0"\n',
        f"{name}/__init__.py": f"VALUE = {value!r}\n",
    }


def below(folder: str, files: Mapping[str, str]) -> dict[str, str]:
    """Return files as they are called when they lie in a folder of their repository."""
    return {f"{folder}/{path}": content for path, content in files.items()}


def repository(folder: Path, files: Mapping[str, str]) -> OriginRepository:
    """Make a repository of these files."""
    made = OriginRepository(folder)
    made.point("refs/tags/v1", made.commit(dict(files), "first"))
    return made


def module_repository(folder: Path, module_id: str = "tool-greet", **facts: str | Sequence[str]) -> OriginRepository:
    """Make a repository that is one module."""
    return repository(folder, module_files(module_id, **facts))  # type: ignore[arg-type]


def collection_repository(folder: Path, *module_ids: str) -> OriginRepository:
    """Make a repository with several modules, each in `modules/<id>`, and a file beside them."""
    files = {"README.md": "several\n"}
    for module_id in module_ids or ("tool-first", "tool-second"):
        files |= below(f"modules/{module_id}", module_files(module_id, answer=f"{module_id!r}"))
    return repository(folder, files)


def lay_out(folder: Path, files: Mapping[str, str]) -> Path:
    """Write files below a folder, and return the folder."""
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)
    return folder


def large_repository(folder: Path, files: int = 1000, *, modules: Sequence[str] = ("tool-greet",)) -> OriginRepository:
    """Make a repository of so many files in all, some of which are modules in `modules/<id>`, or the only one's own."""
    made = OriginRepository(folder)
    content = module_files(modules[0]) if len(modules) == 1 else {}
    for module_id in modules if len(modules) > 1 else ():
        content |= below(f"modules/{module_id}", module_files(module_id, answer=f"{module_id!r}"))
    for number in range(files - len(content)):
        content[f"data/{number % 20:02}/part_{number:05}.py"] = "".join(
            f"def function_{number}_{line}(value):\n    return value + {line}\n\n" for line in range(number % 30)
        )
    made.git("fast-import", "--quiet", stdin=b"".join(_fast_import(content)))
    made.git("reset", "-q", "--hard")
    made.point("refs/tags/v1", made.head())
    return made


def _fast_import(files: Mapping[str, str]) -> Iterator[bytes]:
    """Yield what makes git write all files of a commit in one go."""
    yield b"commit refs/heads/main\ncommitter Ann <ann@example.org> 1704161045 +0100\ndata 5\nfirst\n"
    for path, text in files.items():
        content = text.encode()
        yield b"M 100644 inline %s\ndata %d\n%s\n" % (path.encode(), len(content), content)
    yield b"done\n"
