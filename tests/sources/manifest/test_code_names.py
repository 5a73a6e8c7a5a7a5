"""What code names is read as data, up to a bound, and nothing of it runs."""

from __future__ import annotations

import os
import time
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
        ("import subprocess as sp\nsp.run(['git'])", CodeNames(programs=("git",))),
        ("from subprocess import run as go\ngo(['git'])", CodeNames(programs=("git",))),
        ("c = ['git', 'x']\nc = ['jq', *y]\nasyncio.create_subprocess_exec(*c)", CodeNames(programs=("git", "jq"))),
        ("subprocess.run(['jq'] + more)", CodeNames(programs=("jq",))),
        ("def f(program: str = 'jq'):\n    subprocess.run([program])", CodeNames(programs=("jq",))),
        ("for name in ('A', 'B'):\n    os.getenv(name)", CodeNames(variables=("A", "B"))),
        ("self.key: str = config.get('key', 'A')\nos.getenv(self.key)", CodeNames(variables=("A",))),
        ("os.getenv('A' if old else 'B')", CodeNames(variables=("A", "B"))),
        ("os.environ['A'] = 'set here'", CodeNames()),
        ("c.get_capability('session.spawn')", CodeNames(calls=("spawn",))),
        ("c.get_capability('session.working_dir')", CodeNames(uses_folder=True)),
        ("self.coordinator.get('providers'); settings.get('providers')", CodeNames(calls=("providers",))),
        ("tools = coordinator.get('tools')\ntools.get('bash'); tools['jq']; tools['own'] = 1",
         CodeNames(calls=("tools:bash", "tools:jq"))),
        ("self.tools['bash']; tools.get('bash')", CodeNames()),  # a table of its own
        ("c.hooks.register('tool:pre', f); c.hooks.register(event='tool:post', handler=f); hooks.register('* *', f)",
         CodeNames(events=("tool:pre", "tool:post"))),
        ("pathlib.Path.cwd()", CodeNames(uses_folder=True)),
        ("Path('.agents/skills').exists()", CodeNames(uses_folder=True)),
        ("open('/etc/x'); Path(a).open('r'); Path('')", CodeNames()),
        ("(Path.home() / '.x').mkdir()", CodeNames(uses_home=True)),
        ("with open(os.path.expanduser('~/.x'), 'a'): pass", CodeNames(uses_home=True)),
        ("Path.home().is_dir(); open(Path('~/.x'))", CodeNames()),  # who writes nothing there needs none that stays
        ("c.session_state.get('a')\nc.session_state['b'] = c.session_state['d e']\nstate['f']",
         CodeNames(reads_state=("a",), sets_state=("b",))),
        ("raise SystemExit('this would run')", CodeNames()),
        ("def broken(:", CodeNames()),
        ("x = " + "(" * 5000, CodeNames()),
        ("x = y = 'A'\nx = x or y or x\ny = x\nos.getenv(y)", CodeNames(variables=("A",))),
        ("subprocess.run('..'); subprocess.run('-rf'); subprocess.run('.'); subprocess.run('g\u0456t')", CodeNames()),
        ("subprocess.run('a\\nb'); subprocess.run('\u202egit'); os.getenv('A\\x00')", CodeNames()),
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


@pytest.mark.parametrize(
    "text",
    [
        "os.getenv(x)\n" * 8_000 + "x = x or " + " or ".join(["'a'"] * 15_000),
        "x = " + " + ".join(["y"] * 900) + "\nos.getenv(x)\n" * 5_000,
        "".join(f"v{n} = v{n - 1} or v{n - 2}\n" for n in range(7_000)) + "os.getenv(v6999)",
        "".join(f"os.getenv('V{n}')\n" for n in range(7_000)),
    ],
)
def test_no_code_keeps_the_reader_busy(text: str, tmp_path: Path) -> None:
    started = time.process_time()
    named(tmp_path, text)
    assert time.process_time() - started < 10  # a tenth of it on a machine of today


@pytest.mark.parametrize(("name", "size", "count"), [("a_lot.py", 300 << 10, 1), ("many.py", 60 << 10, 40)])
def test_only_so_much_code_is_read(name: str, size: int, count: int, tmp_path: Path) -> None:
    for number in range(count):
        (tmp_path / f"{number:03}{name}").write_text(f"os.getenv('V{number}')\n#" + "x" * size)
    assert len(CodeNames.of(tmp_path).variables) == (0 if count == 1 else 17)
