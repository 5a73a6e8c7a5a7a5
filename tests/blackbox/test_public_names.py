"""What README, SECURITY, PROTOCOL and the contract let people import is there, and is called as it was."""

from __future__ import annotations

import subprocess
import sys

import pytest

from blackbox.commands import World
from blackbox.documented_names import documented, in_a_worker
from blackbox.frozen import assert_as_frozen
from support.plain_pytest import PLAIN


def test_documented_modules_offer_the_same_names() -> None:
    assert_as_frozen("names_documented", documented())


@pytest.mark.usefixtures("level_ns")
def test_modules_import_the_same_names_in_a_worker(world: World) -> None:
    assert_as_frozen("names_in_a_worker", in_a_worker(world))


def test_pytest_takes_the_plugins_documented_options(world: World) -> None:
    program = [sys.executable, "-m", "pytest", *PLAIN, "-p", "paddock.authoring.sandboxed_plugin"]
    done = subprocess.run(
        [*program, "--help"], cwd=world.work, capture_output=True, encoding="utf-8", timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "--module-path=" in done.stdout
