"""What a repository under trial depends on is fetched with nobody's keys, and from nowhere but the public network."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import anyio.to_thread
import pytest

from failures import failing
from host.authoring.conftest import Trials
from paddock.module_sources.provisioning import provisioning
from paddock_sources import SourceError
from paddock_sources.uri import FolderUri


class Surroundings:
    """A user's `ssh` and credential helper, which note that they are run, and a server that hangs up on everybody."""

    def __init__(self, folder: Path) -> None:
        self.used = folder / "used"
        self.server = socket.create_server(("127.0.0.1", 0))
        self.connections = 0
        self.port = self.server.getsockname()[1]
        programs = folder / "bin"
        programs.mkdir()
        for name, answer in (("ssh", "exit 1"), ("helper", "echo username=ann; echo password=hunter2")):
            (programs / name).write_text(f"#!/bin/sh\necho {name} >> {self.used}\n{answer}\n")
            (programs / name).chmod(0o755)
        (folder / ".gitconfig").write_text(f"[credential]\n\thelper = {programs / 'helper'}\n")
        self.path = f"{programs}{os.pathsep}{os.environ['PATH']}"

    @property
    def was_asked(self) -> bool:
        """Whether anybody connected, or had a program of the user's run."""
        return bool(self.connections) or self.used.exists()

    def serve(self) -> None:
        """Hang up on everybody until the server is shut down."""
        while True:
            try:
                connection, _ = self.server.accept()
            except OSError:
                return
            self.connections += 1
            connection.close()


@pytest.fixture
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Surroundings]:
    made = Surroundings(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", made.path)
    serving = threading.Thread(target=made.serve)
    serving.start()
    yield made
    made.server.shutdown(socket.SHUT_RDWR)
    serving.join()
    made.server.close()


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("git+ssh://git@127.0.0.1:{port}/x", "takes your own rights"),
        ("git+http://127.0.0.1:{port}/x", "takes your own rights"),
        ("git+file:///tmp/x", "takes your own rights"),
        ("git+https://127.0.0.1:{port}/x", "on this machine or a private network"),
        ("git+https://localhost:{port}/x", "on this machine or a private network"),
        ("git+https://10.0.0.1:{port}/x", "on this machine or a private network"),
    ],
)
async def test_what_a_repository_names_is_not_fetched_by_the_users_rights(
    address: str, said: str, surroundings: Surroundings, trials: Trials
) -> None:
    wanted = f'["evil @ {address.format(port=surroundings.port)}"]'
    for_all = _depending(trials, wanted)
    for_tests = trials.write("tool-y", "", project=f"[dependency-groups]\ndev = {wanted}\n")
    for run in (trials.validate(for_all), trials.test(for_tests)):
        with failing("StrangersWordError", said) as refused:
            await run
        assert refused.value.exit_code == 1 and any("paddock run PLAN" in hint for hint in refused.value.hints)
    assert not surroundings.was_asked


@pytest.mark.parametrize("address", ["git+ssh://git@127.0.0.1:{port}/x", "git+https://127.0.0.1:{port}/x"])
async def test_by_the_users_own_word_it_is(address: str, surroundings: Surroundings, trials: Trials) -> None:
    root = _depending(trials, f'["evil @ {address.format(port=surroundings.port)}"]')
    async with provisioning(dict(os.environ)) as provisioner:
        with pytest.raises(SourceError):
            await anyio.to_thread.run_sync(provisioner.lock, FolderUri(str(root), root))
    assert surroundings.was_asked


def _depending(trials: Trials, wanted: str) -> Path:
    """Return a module that depends on what is wanted, a list as TOML spells it."""
    root = trials.write("tool-x", "")
    project = (root / "pyproject.toml").read_text()
    (root / "pyproject.toml").write_text(project.replace('"1.0"\n', f'"1.0"\ndependencies = {wanted}\n', 1))
    return root
