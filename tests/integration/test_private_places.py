"""No module sees what Paddock keeps for its user: not by a grant around it, and not by a second mount of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from integration.command_line import paddock, require_level
from integration.conftest import OpenSession, WriteModule
from integration.probe import entry_of, tool_code
from integration.tricky_tool import json_output, plan_of
from paddock.isolation.operator_folders import make_operator_folders
from paddock.isolation.private_places import PrivatePlaces
from paddock.session.journals.journal_folder import Journals
from support.examples import repeating

pytestmark = pytest.mark.usefixtures("commands_end")

_SECONDS = 60  # for what is awaited; hit only by a hang

_LOOKING = tool_code(
    "look",
    """
    path = input["path"]
    if input.get("ends"):
        os._exit(3)
    try:
        if input.get("moves"):
            return ToolResult(output=os.rename(path, path + ".moved"))
        return ToolResult(output=sorted(os.listdir(path)) if os.path.isdir(path) else open(path).read())
    except OSError as error:
        return ToolResult(output=error.strerror)
    """,
)


@pytest.fixture
def source(write_module: WriteModule) -> str:
    return write_module("tool-look", _LOOKING)


@pytest.fixture(scope="module")
def _kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home for each test to begin with, as the first that asked for one made it."""
    return tmp_path_factory.mktemp("kept") / "home"


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, _kept: Path) -> Path:
    """A home with state and settings of Paddock's in it, and a file that is no secret."""
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    if _kept.exists():
        shutil.copytree(_kept, home, symlinks=True)
        monkeypatch.chdir(home / "work")
        return home
    (home / ".config/paddock").mkdir(parents=True)
    (home / "mine.txt").write_text("mine", encoding="utf-8")
    (home / "work").mkdir()
    monkeypatch.chdir(home / "work")
    assert paddock("run", plan_of(home / "work"), "hello").returncode == 0
    assert "session.started" in (home / ".local/state/paddock/audit.jsonl").read_text()
    shutil.copytree(home, _kept, symlinks=True)
    return home


@pytest.mark.parametrize("level", ["ns", *repeating("bwrap")])
def test_a_granted_home_shows_an_empty_folder_in_their_place(
    user: Path, source: str, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_level("bwrap" if level == "bwrap" else "ns")
    (user / "until-logout").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(user / "until-logout"))

    def look(path: Path, **more: object) -> object:
        done = paddock(
            "call", source, "look", str({"path": str(path), **more}).replace("'", '"').replace("True", "true"),
            f"--allow-write={user}", "--isolation", level, "--json",
        )  # fmt: skip
        return json_output(done)["output"]

    state = user / ".local/state/paddock"
    assert look(user / "mine.txt") == "mine"
    assert look(state) == []
    assert look(user / ".config/paddock") == []
    assert (user / "until-logout/paddock").is_dir() and look(user / "until-logout/paddock") == []
    assert look(state / "audit.jsonl") == "No such file or directory"
    assert look(user / ".local", moves=True) == "Device or resource busy"
    assert (state / "audit.jsonl").exists()


def test_settings_that_are_links_stay_what_they_are(user: Path, source: str) -> None:
    dotfiles, settings = user / "dotfiles", user / ".config/paddock/policy.toml"
    (dotfiles / "v1").mkdir(parents=True)
    (dotfiles / "v1/policy.toml").write_text("# mine", encoding="utf-8")
    (dotfiles / "current").symlink_to("v1")
    settings.symlink_to(dotfiles / "current/policy.toml")
    environ = {"HOME": str(user)}
    assert PrivatePlaces.of_user(environ).hold(dotfiles / "v1/policy.toml")
    assert dotfiles / "current" in make_operator_folders(environ)
    level = require_level("ns")
    asked = f'{{"path": "{dotfiles}/v1", "moves": true}}'
    done = paddock("call", source, "look", asked, f"--allow-write={dotfiles}", "--isolation", level, "--json")
    assert json_output(done)["output"] == "Device or resource busy"
    (dotfiles / "v1").rename(dotfiles / "v2")  # as anybody may who is not confined


async def test_the_journals_of_an_application_are_hidden_wherever_they_are(
    tmp_path: Path, open_session: OpenSession
) -> None:
    tool = entry_of("tool-look", _LOOKING, permissions={"read": ["."]})
    kept = tmp_path / "work/kept"
    kept.parent.mkdir()
    async with open_session(tools=[tool], journal=Journals(kept)) as session:
        assert session.journal is not None and os.listdir(kept) == [session.journal.name]
        assert (await session.coordinator.get("tools", "look").execute({"path": str(kept)})).output == []


async def test_a_folder_that_takes_their_place_is_not_written_to(
    tmp_path: Path, open_session: OpenSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = tmp_path / "work/states"
    states.mkdir(parents=True)
    monkeypatch.setenv("XDG_STATE_HOME", str(states))
    tool = entry_of("tool-look", _LOOKING, permissions={"write": ["."]})
    async with open_session(tools=[tool]) as session:
        look = session.coordinator.get("tools", "look").execute
        (states / "paddock").rename(states / "earlier")
        (states / "paddock").mkdir()
        with anyio.fail_after(_SECONDS):
            while not any(line.startswith(f"{states / 'paddock'} was replaced") for line in session.changes):
                await anyio.sleep(0.01)
        assert (await look({"path": str(states / "earlier")})).output == []
        (states / "planted").mkdir()
        assert (await look({"path": str(states / "paddock"), "moves": True})).output == "Device or resource busy"
        assert (await look({"path": str(states / "planted"), "moves": True})).output is None
        shutil.rmtree(states / "paddock")
        await look({"path": str(states), "ends": True})
        assert (await look({"path": str(states / "planted.moved")})).output == []  # it started again


def test_a_folder_of_programs_around_them_shows_them_empty(user: Path, source: str) -> None:
    state = user / ".local/state/paddock"
    asked = f'{{"path": "{state}"}}'
    level = require_level("ns")
    done = paddock(
        "call", source, "look", asked, f"--allow-run={user / '.local'}", "--isolation", level, "--json"
    )  # fmt: skip
    assert os.listdir(state)
    assert json_output(done)["output"] == []


@pytest.mark.parametrize(
    "granted",
    [
        "read=~/.local/state/paddock/audit.jsonl",
        *repeating("read=~/.local/state/paddock", "read=~/.config/paddock", "run=~/.local/state/paddock"),
    ],
)
def test_a_grant_of_one_of_them_is_refused(user: Path, source: str, granted: str) -> None:
    done = paddock("call", source, "look", "{}", f"--allow-{granted}")
    assert done.returncode == 1
    assert "Paddock's own" in done.stderr and "grant another folder" in done.stderr


@pytest.mark.parametrize("more", [[], ["--dev"]], ids=["a copy", "live"])
def test_no_module_has_them_as_its_code(user: Path, source: str, more: list[str]) -> None:
    around = shutil.copytree(source, user / ".local/state", dirs_exist_ok=True)
    done = paddock("call", str(around), "look", f'{{"path": "{around}"}}', *more)
    assert done.returncode == 1
    assert "is around Paddock's own folders" in done.stderr


def test_without_mounts_a_grant_around_them_is_refused(user: Path, source: str) -> None:
    level = require_level("landlock")
    done = paddock("call", source, "look", "{}", f"--allow-read={user}", "--isolation", level)
    assert done.returncode == 1
    assert f"holds `{user}/.local/state/paddock`" in done.stderr
    assert f"as in `{user}/work`" in done.stderr


def test_why_says_that_they_are_covered(user: Path, source: str) -> None:
    entry = {"module": "tool-look", "source": source, "permissions": {"read": ["~"]}}
    plan = plan_of(user / "work", tools=[entry])
    asked = str(user / ".local/state/paddock/audit.jsonl")
    told = json_output(paddock("why", "tool-look", "read", asked, "--plan", plan, "--json"))
    assert (told["allowed"], told["grant"]) == (False, None)


def test_no_instruction_takes_them_to_a_model(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(user)
    mentioned = "@mine.txt @.local/state/paddock/audit.jsonl"
    (user / "AGENTS.md").write_text(mentioned, encoding="utf-8")
    tool = {"module": "tool-filesystem", "permissions": {"read": ["."]}}
    session = {"orchestrator": "loop-basic", "context": "context-simple", "instruction": {"file": "./AGENTS.md"}}
    done = paddock("run", plan_of(user, session=session, tools=[tool]), "hello", "--trust-plan")
    assert done.returncode == 0
    assert "stays text: `.local/state/paddock/audit.jsonl` is Paddock's own" in done.stderr
    assert "mine.txt` stays text" not in done.stderr


def test_a_kept_home_stays_although_its_folder_is_covered(user: Path) -> None:
    tool = {"module": "tool-filesystem", "state": "keep", "permissions": {"read": ["~"]}}
    assert paddock("run", plan_of(user / "work", tools=[tool]), "hello", "--trust-plan").returncode == 0


def test_a_second_mount_of_one_of_them_counts_as_well(user: Path, tmp_path: Path) -> None:
    probe = subprocess.run(["unshare", "-Urm", "true"], capture_output=True, text=True, timeout=60)
    if probe.returncode != 0:
        pytest.skip(f"this user may make no mount namespace here: `unshare -Urm true`: {probe.stderr.strip()}")
    around, part, deeper = tmp_path / "around", tmp_path / "part", tmp_path / "deeper"
    hidden = tmp_path / "hidden"
    state, home = user / ".local/state/paddock", user / ".local/state/paddock/homes/1/home"
    for folder in (around, part, deeper, hidden / "inner", home):
        folder.mkdir(parents=True)
    program = (
        "import os, subprocess, sys\n"
        "from paddock.isolation.private_places import PrivatePlaces\n"
        "for source, target in zip(sys.argv[1::2], sys.argv[2::2]):\n"
        "    kind = ['-t', 'tmpfs'] if source == 'tmpfs' else ['--bind']\n"
        "    subprocess.run(['mount', *kind, source, target], check=True)\n"
        "print(*PrivatePlaces.of_user(os.environ).places, sep='\\n')\n"
    )
    disk, above = tmp_path / "disk", tmp_path / "above"
    for folder in (disk, above):
        folder.mkdir()
    (state / "disk").mkdir()
    beneath = [(state / "journals", hidden / "inner"), ("tmpfs", hidden)]  # a point that nobody reaches any more
    inside = [("tmpfs", disk), (disk, state / "disk")]
    twice = [("tmpfs", user / ".config/paddock")] * 2  # an automount lies so under what it mounts
    pairs = [*beneath, (user / ".local", around), (state / "journals", part), (home, deeper), *inside, *twice]
    pairs += [(user / ".config/paddock", above)]
    mounts = [str(path) for pair in pairs for path in pair]
    done = subprocess.run(
        ["unshare", "-Urm", sys.executable, "-c", program, *mounts], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    places = set(map(Path, done.stdout.split()))
    assert places == {state, user / ".config/paddock", around / "state/paddock", part, deeper, disk, above}
    assert os.path.isdir(state)
