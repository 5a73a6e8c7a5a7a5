"""What code names is read as data, up to a bound, and nothing of it runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from paddock_sources.manifest.code_names import CodeNames
from support.rows import each_row


def named(folder: Path, text: str) -> CodeNames:
    (folder / "__init__.py").write_text(text, encoding="utf-8")
    return CodeNames.of(folder)


@each_row(
    ("text", "expected"),
    [
        ("os.environ['A_B']", CodeNames(variables=("A_B",))),
        ("import os as o\nNAME = 'A'\no.environ.get(NAME, '')", CodeNames(variables=("A",))),
        ("getenv('A'); os.getenv('lower case'); os.environ[name]", CodeNames(variables=("A",))),
        ("headers.get('A'); settings['B']", CodeNames()),
        ("subprocess.run(['git', 'x'])", CodeNames(programs=("git",))),
        ("cmd = ['git', *more]\nasync def f():\n    await asyncio.create_subprocess_exec(cmd)",
         CodeNames(programs=("git",))),
        ("asyncio.create_subprocess_exec('git', 'x')", CodeNames(programs=("git",))),
        ("subprocess.run('git log', shell=True)", CodeNames(programs=("sh", "git"))),
        ("subprocess.run(command); shutil.which('jq')", CodeNames(programs=("jq",))),
        ("subprocess.run(['./x; rm', '-r'])", CodeNames()),
        ("c.get_capability('session.spawn')", CodeNames(capabilities=("session.spawn",))),
        ("c.get_capability('session.working_dir')",
         CodeNames(capabilities=("session.working_dir",), uses_folder=True)),
        ("pathlib.Path.cwd()", CodeNames(uses_folder=True)),
        ("Path.home() / '.x'", CodeNames(uses_home=True)),
        ("raise SystemExit('this would run')", CodeNames()),
        ("def broken(:", CodeNames()),
        ("x = " + "(" * 5000, CodeNames()),
    ],
)  # fmt: skip
def test_what_code_names_is_found(text: str, expected: CodeNames, tmp_path: Path) -> None:
    assert named(tmp_path, text) == expected


def test_no_file_blocks_the_reader_or_leads_out_of_the_package(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (tmp_path / "outside.py").write_text("os.getenv('OUTSIDE')")
    (package / "a.py").write_text("os.getenv('A')")
    os.symlink(tmp_path / "outside.py", package / "b.py")
    assert CodeNames.of(package) == CodeNames(variables=("A",))
    (package / "b.py").unlink()
    os.mkfifo(package / "b.py")
    assert CodeNames.of(package) == CodeNames(variables=("A",))


@pytest.mark.parametrize(("name", "size", "count"), [("a_lot.py", 300 << 10, 1), ("many.py", 60 << 10, 40)])
def test_only_so_much_code_is_read(name: str, size: int, count: int, tmp_path: Path) -> None:
    for number in range(count):
        (tmp_path / f"{number:03}{name}").write_text(f"os.getenv('V{number}')\n#" + "x" * size)
    assert len(CodeNames.of(tmp_path).variables) == (0 if count == 1 else 17)
