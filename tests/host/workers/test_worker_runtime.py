"""The runtime of workers is found where the host was installed, and knows what a module process is made of."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

import pytest

from paddock.workers.runtime import WorkerRuntime


def test_the_interpreter_is_the_one_behind_the_virtual_environment() -> None:
    interpreter = WorkerRuntime.locate().interpreter
    assert interpreter.is_absolute() and not interpreter.is_symlink()
    assert not (interpreter.parent.parent / "pyvenv.cfg").exists()
    said = subprocess.run(
        [interpreter, "-I", "-S", "-c", "import sys; print(sys.path)"], capture_output=True, text=True
    )
    assert "site-packages" not in said.stdout


def test_every_package_is_found_in_the_directory_named_for_it() -> None:
    for name, directory in WorkerRuntime.locate().packages:
        assert (directory / name).is_dir() or (directory / f"{name}.py").is_file(), name


def test_the_stand_in_is_ours_even_where_the_real_package_is_installed() -> None:
    packages = dict(WorkerRuntime.locate().packages)
    for name in ("amplifier_core", "amplifier_foundation"):
        assert packages[name] == packages["paddock_sdk"] / "paddock_sdk" / "stand_in"


def test_a_missing_package_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, package=None: None if name == "msgpack" else find_spec(name, package)
    )
    with pytest.raises(ModuleNotFoundError, match=r"`msgpack` is not installed .* reinstall paddock-host"):
        WorkerRuntime.locate()


def test_two_runtimes_found_in_one_place_are_the_same() -> None:
    assert WorkerRuntime.locate() == WorkerRuntime.locate()
    assert hash(WorkerRuntime.locate()) == hash(WorkerRuntime.locate())
    assert Path(WorkerRuntime.locate().interpreter).exists()
