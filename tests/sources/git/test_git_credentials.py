"""Credentials come from git's own helpers, once, and go nowhere but into the environment of the git that needs them."""

from __future__ import annotations

import base64
import os
import time
from pathlib import Path

import pytest

from failures import failing
from paddock_sources.commands.direct_runner import DirectRunner
from paddock_sources.git.credentials import Credentials
from paddock_sources.git.git_config import git_environ
from paddock_sources.git.remote import Remote
from sources.git.watched_runner import WatchedRunner
from sources.git_repositories import git_uri


def remote(text: str = "git+https://host.example:8443/org/repo") -> Remote:
    return Remote.of(git_uri(text))


class Helper:
    """A home whose git has one credential helper, a script."""

    def __init__(self, folder: Path, script: str, extra: str = "") -> None:
        self.asked = folder / "asked"
        program = folder / "helper"
        program.write_text(f'#!/bin/sh\n[ "$1" = get ] || exit 0\ncat >> {self.asked}\n{script}\n')
        program.chmod(0o755)
        (folder / ".gitconfig").write_text(f"[credential]\n\thelper = {program}\n{extra}")
        self.environ = {"HOME": str(folder), "PATH": os.environ["PATH"], "GIT_DIR": "/nowhere"}
        self.runner = WatchedRunner(DirectRunner(self.environ))

    def credentials(self, seconds: float = 10.0) -> Credentials:
        return Credentials(self.runner, self.environ, seconds)


def test_a_helper_is_asked_once_for_the_very_repository(tmp_path: Path) -> None:
    helper = Helper(tmp_path, "echo username=ann; echo password=hun:ter=2")
    credentials = helper.credentials()
    assert credentials.known(remote()) is None
    header = credentials.authorization(remote())
    assert header == "Basic " + base64.b64encode(b"ann:hun:ter=2").decode()
    assert credentials.authorization(remote()) == credentials.known(remote()) == header
    assert helper.asked.read_text().count("host=host.example:8443\n") == 1
    assert "protocol=https\n" in helper.asked.read_text()
    assert "hun:ter" not in repr(credentials)


def test_what_they_say_is_not_among_arguments(tmp_path: Path) -> None:
    helper = Helper(tmp_path, "echo username=ann; echo password=hunter2")
    header = helper.credentials().authorization(remote())
    assert header is not None
    assert "hunter2" not in str(helper.runner.commands) + str(helper.runner.reaches)
    environ = git_environ(remote(), tmp_path / "config", {}, header)
    assert environ["GIT_CONFIG_KEY_0"] == "http.https://host.example:8443/org/repo.extraHeader"
    assert environ["GIT_CONFIG_VALUE_0"] == f"Authorization: {header}"
    assert "GIT_CONFIG_COUNT" not in git_environ(remote(), tmp_path / "config", {})


@pytest.mark.parametrize(
    "script", ["exit 0", "exit 1", "echo username=ann", "echo quit=1", "echo password=", "kill $$"]
)
def test_a_helper_without_an_answer_is_no_error_and_asks_no_question(tmp_path: Path, script: str) -> None:
    marker, asking = tmp_path / "prompted", tmp_path / "asking"
    asking.write_text(f"#!/bin/sh\ntouch {marker}\necho secret\n")
    asking.chmod(0o755)
    helper = Helper(tmp_path, script, f"[core]\n\taskPass = {asking}\n")
    helper.environ |= {"GIT_ASKPASS": str(asking), "SSH_ASKPASS": str(asking), "DISPLAY": ":0"}
    assert helper.credentials().authorization(remote()) is None
    assert not marker.exists()


def test_a_helper_that_hangs_is_ended(tmp_path: Path) -> None:
    helper = Helper(tmp_path, "exec sleep 600")
    begun = time.monotonic()
    with failing("GitTimeoutError", "credential helpers"):
        helper.credentials(seconds=0.5).authorization(remote())
    assert time.monotonic() - begun < 60
