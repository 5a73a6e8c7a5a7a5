"""The wheel holds all that an installed Paddock needs and nothing for its makers alone; installed, it answers."""

from __future__ import annotations

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


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=_ROOT,
        check=True,
        capture_output=True,
        timeout=60,
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


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
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True, timeout=_SECONDS)
    python = environment / "bin" / "python"
    required = read_toml((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    lay_beside(next(environment.glob("lib/python*/site-packages")), *(Requirement(one).name for one in required))
    install = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--offline", "--no-deps"]
    subprocess.run([*install, "--python", str(python), str(wheel)], check=True, timeout=_SECONDS)
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
