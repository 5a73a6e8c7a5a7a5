"""Nothing of the user's or the system's configuration, and no variable of git's, has any effect on what is fetched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from failures import failing
from paddock_sources.cache import SourceCache
from paddock_sources.commands.command_runner import CommandAccess
from paddock_sources.commands.direct_runner import DirectRunner
from paddock_sources.git.git_config import GitLimits, config_text, git_environ, trusted_certificates
from paddock_sources.git.git_source import GitSource
from paddock_sources.git.remote import Remote
from sources.git.conftest import Origin
from sources.git.origin_repository import OriginRepository
from sources.git.watched_runner import WatchedRunner
from sources.git_repositories import git_uri


def poisoned_home(tmp_path: Path, victim: str) -> tuple[Path, Path]:
    """Make a home whose configuration runs a program wherever it can, and leads addresses astray."""
    marker, home = tmp_path / "ran", tmp_path / "home"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {marker}\nexit 1\n")
    program.chmod(0o755)
    (home / ".config" / "git").mkdir(parents=True)
    (home / ".config" / "git" / "attributes").write_text("* filter=evil\n")
    (home / ".gitconfig").write_text(
        f'[core]\n\tfsmonitor = {program}\n\tsshCommand = {program}\n\thooksPath = {tmp_path}\n\taskPass = {program}\n'
        f'[credential]\n\thelper = {program}\n[filter "evil"]\n\tsmudge = {program}\n\trequired = true\n'
        f'[uploadpack]\n\tpackObjectsHook = {program}\n[alias]\n\tfetch = !{program}\n'
        f'[url "file://{tmp_path}/elsewhere"]\n\tinsteadOf = {victim}\n'
        f'[protocol]\n\tallow = never\n[protocol "ext"]\n\tallow = always\n'
    )  # fmt: skip
    return home, marker


def test_a_poisoned_home_and_environment_have_no_effect(
    origin: OriginRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = origin.commit({"a.py": "1"})
    victim = f"file://{origin.folder}"
    home, marker = poisoned_home(tmp_path, victim)
    ordinary = subprocess.run(
        ["git", "clone", "-q", victim, str(tmp_path / "clone")],
        env={"PATH": os.environ["PATH"], "HOME": str(home)},
        capture_output=True,
        timeout=60,
    )
    assert ordinary.returncode != 0  # an ordinary git is led astray by it
    marker.unlink(missing_ok=True)
    for name, value in {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "GIT_CONFIG_GLOBAL": str(home / ".gitconfig"),
        "GIT_CONFIG_SYSTEM": str(home / ".gitconfig"),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.file://{tmp_path}/elsewhere.insteadOf",
        "GIT_CONFIG_VALUE_0": victim,
        "GIT_DIR": str(tmp_path / "nowhere"),
        "GIT_WORK_TREE": str(tmp_path / "nowhere"),
        "GIT_OBJECT_DIRECTORY": str(tmp_path / "nowhere"),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(tmp_path / "nowhere"),
        "GIT_TEMPLATE_DIR": str(tmp_path / "nowhere"),
        "GIT_EXEC_PATH": str(tmp_path / "nowhere"),
        "GIT_TRACE": str(tmp_path / "traced"),
        "GIT_SSH_COMMAND": str(tmp_path / "program"),
        "GIT_ASKPASS": str(tmp_path / "program"),
        "GIT_ALLOW_PROTOCOL": "ext",
        "GIT_PYTHON_GIT_EXECUTABLE": str(tmp_path / "program"),
        "LANGUAGE": "de",
    }.items():
        monkeypatch.setenv(name, value)
    uri = git_uri(f"{origin.address}@main")
    with SourceCache(tmp_path / "cache") as cache:
        source = GitSource(uri, cache, DirectRunner(), direct=DirectRunner())
        assert source.pin().commit == commit
        assert (source.fetch(commit).root / "a.py").read_text() == "1"
    assert not marker.exists() and not (tmp_path / "traced").exists()


def test_importing_gitpython_runs_nothing(tmp_path: Path) -> None:
    marker, program = tmp_path / "ran", tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {marker}\necho git version 2.39.5\n")
    program.chmod(0o755)
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    environ["GIT_PYTHON_GIT_EXECUTABLE"] = str(program)
    script = "import os; before = dict(os.environ)\nimport {}\nassert dict(os.environ) == before, os.environ\n"
    for module, is_run in (("git", True), ("paddock_sources.git.repository", False)):
        command = [sys.executable, "-c", script.format(module)]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert marker.exists() == is_run
        marker.unlink(missing_ok=True)


def test_what_a_repository_of_ours_was_made_to_say_is_put_back(origin: Origin, tmp_path: Path) -> None:
    """A git that was taken over could write there, and the next one must not obey."""
    origin.commit({"a.py": "1"})
    origin.source("main").pin()
    (folder,) = (tmp_path / "cache" / "git-v1").iterdir()
    repository, outside, marker = folder / "repo.git", tmp_path / "outside", tmp_path / "ran"
    outside.mkdir()
    (outside / "kept.lock").touch()
    (outside / "tmp_kept").touch()
    (outside / "alternates").touch()
    (repository / "hooks").mkdir()
    (repository / "hooks" / "reference-transaction").write_text(f"#!/bin/sh\ntouch {marker}\n")
    (repository / "hooks" / "reference-transaction").chmod(0o755)
    (repository / "config").write_text(
        f"[core]\n\tbare = true\n\thooksPath = hooks\n[remote \"x\"]\n\turl = {tmp_path}\n[url \"file:///nowhere\"]\n"
        f"\tinsteadOf = file://{origin.folder}\n"
    )  # fmt: skip
    (repository / "HEAD").unlink()
    (repository / "HEAD").symlink_to(outside / "HEAD")
    (repository / "refs" / "elsewhere").symlink_to(outside)
    (repository / "objects" / "info").rename(repository / "objects" / "moved")
    (repository / "objects" / "info").symlink_to(outside)
    (repository / "shallow.lock").touch()
    commit = origin.commit({"a.py": "2"})
    assert origin.source("main").pin().commit == commit
    assert not marker.exists()
    assert sorted(path.name for path in outside.iterdir()) == ["alternates", "kept.lock", "tmp_kept"]


def test_a_link_in_place_of_what_git_says_is_not_read(origin: Origin, tmp_path: Path) -> None:
    origin.commit({"a.py": "1"})

    def swap(verb: str) -> None:
        if verb == "fetch":
            (folder,) = (tmp_path / "cache" / "git-v1").iterdir()
            (folder / "repo.git" / "FETCH_HEAD").unlink()
            (folder / "repo.git" / "FETCH_HEAD").symlink_to("/etc/passwd")

    origin.runner.after = swap
    with pytest.raises(Exception) as caught:
        origin.source("main").pin()
    assert "git did not say what it fetched" in str(caught.value) and "root:" not in str(caught.value)


def remote(text: str) -> Remote:
    return Remote.of(git_uri(text))


def test_a_repository_that_took_the_place_of_the_held_one_is_not_read(origin: Origin, tmp_path: Path) -> None:
    commit, other = origin.commit({"a.py": "1"}), OriginRepository(tmp_path / "other")
    other.commit({"a.py": "2"})
    link = tmp_path / "link"
    link.symlink_to(origin.folder)
    held = origin.source("main", address=f"git+file://{link}", held=True)
    link.unlink()
    link.symlink_to(other.folder)
    assert held.pin().commit == commit

    def replace() -> None:
        if not origin.folder.is_symlink():
            origin.folder.rename(tmp_path / "away")
            origin.folder.symlink_to(other.folder)

    origin.commit({"a.py": "3"})
    origin.runner.opening = replace  # after the first look, and before the sandbox shows a folder
    origin.runner.forget()
    for _ in range(2):
        with failing("SourceMovedError", "not the folder any more"):
            held.pin()
    assert not origin.runner.commands


@pytest.mark.parametrize("scheme", ["https", "ssh", "file"])
def test_only_the_addresss_own_kind_of_transport_is_allowed(scheme: str, tmp_path: Path) -> None:
    config = tmp_path / "gitconfig"
    config.write_text(config_text(remote(f"git+{scheme}://{'' if scheme == 'file' else 'host'}/r"), GitLimits()))

    def asked(*arguments: str) -> str:
        return subprocess.run(
            ["git", "config", "--file", str(config), *arguments], capture_output=True, text=True, timeout=60
        ).stdout.strip()

    assert asked("protocol.allow") == "never"
    assert asked("--get-regexp", r"^protocol\..*\.allow$") == f"protocol.{scheme}.allow always"
    assert asked("--type=bool", "http.sslVerify") == asked("--type=bool", "transfer.fsckObjects") == "true"


def test_only_certificates_are_taken_from_the_operators_environment(tmp_path: Path) -> None:
    environ = {
        "GIT_SSL_NO_VERIFY": "1",
        "GIT_SSH_COMMAND": "ssh -i key",
        "SSH_AUTH_SOCK": "/agent",
        "SECRET": "hunter2",
        "SSL_CERT_FILE": "/ca.pem",
        "SSL_CERT_DIR": "/certs",
        "GIT_SSL_CAINFO": "",
    }
    by_https = git_environ(remote("git+https://host/r"), tmp_path, environ)
    assert (by_https["GIT_SSL_CAINFO"], by_https["GIT_SSL_CAPATH"]) == ("/ca.pem", "/certs")
    assert not {"GIT_SSL_NO_VERIFY", "GIT_SSH_COMMAND", "SSH_AUTH_SOCK", "SECRET"} & set(by_https)
    by_ssh = git_environ(remote("git+ssh://git@host/r"), tmp_path, environ)
    assert by_ssh["SSH_AUTH_SOCK"] == "/agent"
    assert by_ssh["GIT_SSH_COMMAND"].startswith("ssh -i key -o BatchMode=yes")
    assert not {"GIT_SSL_NO_VERIFY", "SECRET", "GIT_SSL_CAINFO"} & set(by_ssh)
    for own in (by_https, by_ssh):
        assert own["GIT_CONFIG_GLOBAL"] == str(tmp_path) and own["GIT_CONFIG_NOSYSTEM"] == "1"
        assert own["GIT_TERMINAL_PROMPT"] == "0" and own["GIT_ASKPASS"] == own["SSH_ASKPASS"] == ""
    assert trusted_certificates({"GIT_SSL_CAINFO": "/own.pem", "SSL_CERT_FILE": "/ca.pem"}) == {
        "GIT_SSL_CAINFO": "/own.pem"
    }
    assert trusted_certificates({"GIT_SSL_CAINFO": "relative.pem"}) == {}


def test_certificates_are_among_what_git_may_read(cache: SourceCache, tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    authority.write_text("")
    opened: list[CommandAccess] = []

    class Refusing:
        def open(self, reach: CommandAccess) -> None:
            opened.append(reach)
            raise RuntimeError("far enough")

    uri = git_uri("git+https://host.example:8443/r@main")
    runner = Refusing()
    environ = {"SSL_CERT_FILE": str(authority), "SSL_CERT_DIR": str(tmp_path / "none")}
    with pytest.raises(RuntimeError, match="far enough"):
        GitSource(uri, cache, runner, direct=DirectRunner(), environ=environ).pin()  # type: ignore[arg-type]
    (reach,) = opened
    assert authority in reach.reads and reach.hosts == ("host.example:8443",)
    assert all(path.exists() for path in (*reach.reads, *reach.writes))


def test_ssh_runs_outside_and_all_else_shut_in(cache: SourceCache, tmp_path: Path) -> None:
    """The stand-in for ssh is told what the real one would be, and asks nobody anything."""
    told = tmp_path / "told"
    program = tmp_path / "ssh"
    program.write_text(f'#!/bin/sh\necho "$@" >> {told}\necho "Permission denied (publickey)." >&2\nexit 255\n')
    program.chmod(0o755)
    shut_in, direct = WatchedRunner(DirectRunner()), WatchedRunner(DirectRunner())
    uri = git_uri("git+ssh://git@host.example:2222/o/r@main")
    source = GitSource(uri, cache, shut_in, direct=direct, environ={"GIT_SSH_COMMAND": str(program)})
    with pytest.raises(Exception) as caught:
        source.pin()
    assert caught.value.code == "AuthRequiredError"
    assert not shut_in.reaches and len(direct.reaches) == 1
    assert "-o BatchMode=yes" in told.read_text() and "git@host.example" in told.read_text()


def test_what_is_in_the_cache_is_found_without_git(origin: Origin, tmp_path: Path) -> None:
    commit = origin.commit({"a.py": "1"})
    origin.source("main").pin()
    script = f"""
import sys
from paddock_sources import parse_source
from paddock_sources.cache import SourceCache
from paddock_sources.git.git_source import GitSource
with SourceCache({str(tmp_path / "cache")!r}) as cache:
    source = GitSource(parse_source({origin.address + "@" + commit!r}), cache, None, direct=None)
    assert (source.fetch({commit!r}).root / "a.py").read_text() == "1"
    assert source.pin().commit == {commit!r}
assert "git" not in sys.modules and "subprocess" not in sys.modules, "git was imported"
"""
    environ = {"PATH": "", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script], env=environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
