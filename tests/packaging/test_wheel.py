"""The wheel holds all that an installed Paddock needs and nothing for its makers alone; installed, it answers.

It is installed by its name from a folder that serves as an index, and so is the source archive.
"""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from integration.command_line import accepting
from paddock_sources.bounded_toml import read_toml
from paddock_sources.builtin import BuiltinSource
from support.vendored import lay_beside

_SECONDS = 200  # reached by a hang alone
_ROOT = Path(__file__).resolve().parents[2]
_TEXTS = (".md", ".py", ".template", ".toml")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _built(tmp_path_factory.mktemp("wheel"), "wheel")


def _built(folder: Path, kind: str) -> Path:
    """Build a wheel or an sdist, alone in `folder`, and return it."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    subprocess.run(build, cwd=_ROOT, check=True, capture_output=True, timeout=60)
    (built,) = folder.iterdir()
    return built


def _installed(environment: Path, index: Path) -> Path:
    """Make an environment with `paddock-host` of a folder, beside what it depends on; return the folder of packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True, timeout=_SECONDS)
    (site,) = environment.glob("lib/python*/site-packages")
    required = read_toml((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    lay_beside(site, *(Requirement(one).name for one in required), "hatchling")
    install = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-config", "--no-build-isolation"]
    found = ["--offline", "--no-index", "--find-links", str(index), "paddock-host"]
    subprocess.run([*install, "--python", str(environment / "bin" / "python"), *found], check=True, timeout=_SECONDS)
    return site


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    return set(zipfile.ZipFile(wheel).namelist())


def test_the_wheel_holds_what_an_installation_needs(names: set[str]) -> None:
    wanted = {
        "paddock/session/session.py",
        "paddock/demo/plan.yaml",
        "paddock/manual/permissions.md",
        "paddock/manual/security.md",
        "paddock/manual/writing-modules.md",
        "paddock/manual/sources.md",
        "paddock_sandbox/lockdown.py",
        "paddock_sdk/worker/main.py",
        "paddock_sdk/stand_in/amplifier_core/__init__.py",
        "paddock_sdk/stand_in/amplifier_core/py.typed",
        "paddock_sources/resolver.py",
        "paddock_sources/builtin/agent-loops/pyproject.toml",
        "paddock_sources/builtin/agent-loops/agent_loop/turn.py",
        "paddock_sources/builtin/agent-loops/amplifier_module_loop_basic/__init__.py",
        "paddock/py.typed",
        "paddock_sdk/py.typed",
    }
    assert not wanted - names


def test_the_wheel_holds_each_reference_module_with_its_manifest(names: set[str]) -> None:
    source = BuiltinSource()
    for module_id in source.list():
        found = source.resolve(module_id)
        home = found.root.name
        wanted = {f"{home}/pyproject.toml", f"{home}/{found.package}/__init__.py", f"{home}/README.md"}
        assert {f"paddock_sources/builtin/{name}" for name in wanted} <= names


def test_the_wheel_puts_nothing_beside_its_own_packages(names: set[str]) -> None:
    tops = {name.split("/", 1)[0] for name in names if ".dist-info" not in name}
    assert tops == {"paddock", "paddock_sandbox", "paddock_sdk", "paddock_sources"}


def test_an_installed_wheel_alone_writes_a_plan_and_chats(wheel: Path, tmp_path: Path) -> None:
    environment, home = tmp_path / "environment", tmp_path / "home"
    _installed(environment, wheel.parent)
    home.mkdir()

    def paddock(*args: str, stdin: str = "") -> str:
        done = subprocess.run(
            [str(environment / "bin" / "paddock"), *accepting(args)],
            input=stdin,
            cwd=home,
            env={"HOME": str(home), "PATH": "/usr/local/bin:/usr/bin:/bin"},
            capture_output=True,
            encoding="utf-8",
            timeout=_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert str(_ROOT) not in done.stdout + done.stderr
        return done.stdout

    assert "paddock chat plan.yaml" in paddock("init")
    chat = paddock("chat", stdin="one\ntwo\n")
    assert "list_directory" in chat and chat.endswith("You said: two\n")


@pytest.mark.exhaustive  # its wheel, once it is built, is installed as the other one
def test_the_source_archive_is_installed_by_name_as_the_wheel_is(tmp_path: Path, names: set[str]) -> None:
    (tmp_path / "index").mkdir()
    _built(tmp_path / "index", "sdist")
    site = _installed(tmp_path / "environment", tmp_path / "index")
    packages = {name for name in names if ".dist-info/" not in name}
    assert not [name for name in packages if not (site / name).is_file()]
    metadata = next(site.glob("paddock_host-*.dist-info")).joinpath("METADATA").read_text(encoding="utf-8")
    assert re.search("^Requires-Dist: uv>=", metadata, re.MULTILINE) and "extra == 'uv'" not in metadata


def test_nothing_names_another_project_of_the_index_as_what_to_install() -> None:
    tops = [_ROOT / name for name in ("host", "modules", "sdk", "sources")]
    files = [*_ROOT.glob("*.md"), *(path for top in tops for path in top.rglob("*") if path.suffix in _TEXTS)]
    assert len(files) > 500
    wrong = re.compile(r"""\b(?:pip3?|pipx|uv|uvx) (?!uninstall)[^\n`]*\bpaddock(?![\w./-])""")
    assert wrong.search("pip install 'paddock[uv]'") and not wrong.search("pip install paddock-host")
    assert not [path for path in files if wrong.search(path.read_text(encoding="utf-8"))]
