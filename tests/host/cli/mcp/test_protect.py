"""`paddock mcp protect`: what is shown for each server, what is written and kept, and how that is taken back."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from paddock.cli.mcp import protect_command
from paddock.cli.mcp.protect_command import protect
from paddock.errors import PolicyRefusedError
from paddock.plan.server_flags import ServerFlags
from paddock.state_folder import state_folder
from paddock_sources.resolution import PinnedSource
from paddock_sources.supplies.mcp_pypi import McpPypiSupply

TIME = {"command": "uvx", "args": ["mcp-server-time==1.0"], "env": {"TOKEN": "sekrit"}}
FAR = {"type": "http", "url": "https://x"}


@pytest.fixture(autouse=True)
def _in_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "project" / "data").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setattr("sys.argv", ["/usr/local/bin/paddock"])
    monkeypatch.setattr(
        "shutil.which", lambda name: f"/usr/local/bin/{name}" if name in ("paddock", "own", "python") else None
    )


@pytest.fixture
def accepted(monkeypatch: pytest.MonkeyPatch) -> list[ServerFlags]:
    """The servers that were accepted, which are not fetched."""
    flags: list[ServerFlags] = []

    async def accept(one: ServerFlags, environ: Mapping[str, str], **options: object) -> None:
        assert "sekrit" not in environ.values()
        flags.append(one)

    monkeypatch.setattr(protect_command, "accept", accept)
    return flags


def run(*args: str) -> Result:
    done = CliRunner().invoke(protect, [*args], standalone_mode=False)
    assert done.exception is None, done.exception
    assert "sekrit" not in done.output
    return done


def servers_of(path: str = ".mcp.json") -> dict[str, Any]:
    return {one["name"]: one for one in json.loads(run(path, "--json").stdout)["servers"]}


def write(servers: Mapping[str, object], path: str = ".mcp.json", key: str = "mcpServers") -> str:
    text = json.dumps({"first": 1, key: servers, "last": [1.5, None]}, indent=2)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)
    return text


STARTED = {  # what a client starts, and the source and arguments of that, or why it is not touched
    "uvx mcp-server-time==1.0 --local x": ("mcp+pypi:mcp-server-time==1.0", ["--local", "x"]),
    "/usr/bin/uvx -q mcp-server-time@1.0": ("mcp+pypi:mcp-server-time==1.0", []),
    "uvx mcp-server-time@latest": ("mcp+pypi:mcp-server-time==7.0", []),
    "uv tool run mcp-server-time": ("mcp+pypi:mcp-server-time==7.0", []),
    "uvx --from x-tools==2.0 x-mcp a": ("mcp+pypi:x-tools==2.0", ["a"]),
    "pipx run --spec=x-mcp==2.0 x-mcp": ("mcp+pypi:x-mcp==2.0", []),
    "npx -y @a/server-x@1.2.3 .": ("mcp+npm:@a/server-x@1.2.3", ["."]),
    "npm exec --yes server-x@1.2.3 -- -v": ("mcp+npm:server-x@1.2.3", ["-v"]),
    "npx -y --package=x-tools@2.0.0 x-mcp": ("mcp+npm:x-tools@2.0.0", []),
    "npx server-x@^1": "would be a source that is none",
    "npx github:a/b": "would be a source that is none",
    "own --port 1": ("mcp+command:/usr/local/bin/own", ["--port", "1"]),
    "npx -c x": "gives `npx` the option `-c`, which is not known here",
    "npx": "names no package of the index after `npx`",
    "uvx --python 3.9 x": "gives `uvx` the option `--python`",
    "uvx --from git+https://x/y x": "would be a source that is none",
    "uvx --from": "names no package of the index after `uvx`",
    "uv run x": "is started by `uv`, which starts something else",
    "docker run -i x": "is started by `docker`, which starts something else",
    "sh -c x": "is started by `sh`",
    "python": "gives `python` an option that is not known here",
    "missing": "is started by `missing`, and there is no such program",
}


def test_each_way_to_start_a_server_has_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(McpPypiSupply, "pin", lambda supply, uri: PinnedSource("", "version", "7.0"))
    write({line: {"command": line.split()[0], "args": line.split()[1:]} for line in STARTED})
    found = servers_of()
    for line, expected in STARTED.items():
        if isinstance(expected, str):
            assert found[line]["problem"] and expected in found[line]["problem"], found[line]
            assert found[line]["command"] is None
        else:
            command = found[line]["command"]
            arguments = command[command.index("--") + 1 :] if "--" in command else []
            assert (found[line]["source"], arguments) == expected, found[line]
            assert command[:5] == ["paddock", "mcp", "run", "-C", os.getcwd()]
    assert '--config={"bin": "x-mcp"}' in found["uvx --from x-tools==2.0 x-mcp a"]["command"]


def test_grants_are_what_the_file_names_and_this_machine_has(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("paddock.cli.mcp.client_server.look_up", lambda name: f"/usr/bin/{name}")
    (tmp_path / "outside").touch()
    Path("link").symlink_to(tmp_path / "outside")
    args = [".", "--db=data", "./link", str(tmp_path / "outside"), "missing", "--flag", f"{tmp_path}/project/data"]
    env = {"GITHUB_TOKEN": "sekrit", "EDITOR": "vi"}
    write({"git": {"command": "uvx", "args": ["mcp-server-git==1.0", *args], "env": env}})
    found = servers_of()["git"]
    assert (".git in it" in str(found["notes"])) == ("read" in found["permissions"])
    assert found["permissions"] == {
        "read": [".", "data", f"{tmp_path}/project/data", "!@secrets"],
        "run": ["git"],
        "net": ["api.github.com:443"],
        "env": ["GITHUB_TOKEN", "EDITOR"],
    }
    outside = f"which is outside of {tmp_path}/project"
    assert [one for one in found["notes"] if outside in one] == [
        f"it goes without {path}, {outside}" for path in ("./link", tmp_path / "outside")
    ]


def test_a_file_cannot_widen_what_is_suggested_by_another_folder(tmp_path: Path) -> None:
    write({"time": {**TIME, "cwd": "/", "args": ["mcp-server-time==1.0", str(tmp_path), "etc"]}})
    found = servers_of()["time"]
    assert (found["command"][4], found["permissions"]) == ("/", {"env": ["TOKEN"]})


def test_a_folder_of_a_repository_does_not_stand_for_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for folder in (tmp_path / "home/.keys", Path("~/.keys")):
        folder.mkdir(parents=True)
    write({"time": {**TIME, "args": ["mcp-server-time==1.0", "~/.keys"]}})
    assert servers_of()["time"]["permissions"] == {"env": ["TOKEN"]}


def test_what_no_grant_can_name_is_said() -> None:
    Path("*").touch()
    write({"a": {**TIME, "env": {"A-B": "sekrit"}}, "b": {**TIME, "args": ["mcp-server-time==1.0", "*"]}})
    said = "has a path or a variable that no grant can name"
    assert [one["problem"] for one in servers_of().values()] == [said, said]


def test_options_of_paddock_in_the_file_grant_nothing() -> None:
    write({"time": {**TIME, "args": ["mcp-server-time==1.0", "--allow-read=/", "--allow-net=public"]}})
    found = servers_of()["time"]
    assert found["permissions"] == {"env": ["TOKEN"]}
    assert found["command"][-3:] == ["--", "--allow-read=/", "--allow-net=public"]


def test_in_the_file_of_a_user_what_it_names_is_theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    args = ["mcp-server-time==1.0", str(tmp_path / "project" / "data"), "/etc"]
    write({"time": {"command": "uvx", "args": args}}, f"{tmp_path}/.cursor/mcp.json")
    found = servers_of(f"{tmp_path}/.cursor/mcp.json")["time"]
    assert (found["command"][4], found["notes"][1:]) == (str(tmp_path), [])
    assert found["permissions"] == {"read": [f"{tmp_path}/project/data", "/etc", "!@secrets"]}


def test_an_interpreters_program_is_read_with_its_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", str)
    for name in ("package.json", "dist/index.js", "venv/pyvenv.cfg", "server.py"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).touch()
    python = f"{tmp_path}/project/venv/bin/python"
    write({"js": {"command": "/n/node", "args": ["dist/index.js"]}, "py": {"command": python, "args": ["-m", "x"]}})
    found = servers_of()
    project = f"{tmp_path}/project"
    assert (found["js"]["source"], found["js"]["command"][-1]) == ("mcp+command:/n/node", "dist/index.js")
    assert found["js"]["permissions"] == {"read": [project, "!@secrets"]}
    assert found["py"]["source"] == f"mcp+command:{python}"
    assert found["py"]["permissions"] == {"read": [f"{project}/venv", "!@secrets"]}


def test_a_program_of_the_same_name_is_not_taken_for_paddock() -> None:
    Path("paddock").write_text("#!/bin/sh\n")
    Path("paddock").chmod(0o755)
    run_args = {"args": ["mcp", "run", "x"]}
    own = {"command": "/usr/local/bin/paddock", **run_args}
    write({"own": own, "fake": {"command": "./paddock", **run_args}, "acts": {**own, "env": {"PYTHONPATH": "."}}})
    found = servers_of()
    assert [one["protected"] for one in found.values()] == [True, False, False]
    assert "is another program than this one" in found["fake"]["problem"] and "PYTHONPATH" in found["acts"]["problem"]


# -- write and undo ------------------------------------------------------------------------


def test_what_is_written_is_accepted_and_restored_to_the_byte(accepted: list[ServerFlags], tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    before = write({"far": FAR, "time": TIME})
    real = Path(".mcp.json").rename(tmp_path / "kept" / "mcp.json")
    real.chmod(0o640)
    os.chown(real, *(owner := (1234, 1234) if os.geteuid() == 0 else (os.getuid(), os.getgid())))
    Path(".mcp.json").symlink_to(real)
    assert run(".mcp.json", "--write", "--yes").return_value == 0
    written = json.loads(real.read_text())
    (flags,) = accepted
    assert written["mcpServers"]["time"] == {
        "command": "/usr/local/bin/paddock",
        "args": flags.words("run")[1:],
        "env": TIME["env"],
    }
    assert list(written["mcpServers"]) == ["far", "time"] and written["mcpServers"]["far"] == FAR
    info = real.stat()
    assert Path(".mcp.json").is_symlink() and (stat.S_IMODE(info.st_mode), info.st_uid, info.st_gid) == (0o640, *owner)
    (kept,) = (state_folder() / "clients").iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600 and [one.name for one in real.parent.iterdir()] == ["mcp.json"]

    text = real.read_text()
    again = run(".mcp.json", "--write", "--yes")
    assert (again.return_value, real.read_text(), len(accepted)) == (0, text, 1)
    assert "time: Paddock starts it already" in again.stdout
    assert json.loads(run(".mcp.json", "--undo", "--json").stdout)["undone"] is True
    assert real.read_text() == before and Path(".mcp.json").is_symlink() and not kept.exists()
    assert "has not written what is in it now" in run(".mcp.json", "--undo").stderr


def test_what_was_changed_since_is_not_undone(accepted: list[ServerFlags]) -> None:
    write({"time": TIME})
    run(".mcp.json", "--write", "--yes")
    Path(".mcp.json").write_text(now := Path(".mcp.json").read_text().replace("1.5", "2.5"))
    assert run(".mcp.json", "--undo").return_value == 1 and Path(".mcp.json").read_text() == now


def test_a_file_that_changes_meanwhile_stays_as_it_became(monkeypatch: pytest.MonkeyPatch) -> None:
    async def accept(*args: object, **options: object) -> None:
        change("{}")

    change = Path(".mcp.json").write_text
    monkeypatch.setattr(protect_command, "accept", accept)
    write({"time": TIME})
    done = run(".mcp.json", "--write", "--yes")
    assert done.return_value == 1 and "somebody else changed it at this moment" in done.stderr
    assert Path(".mcp.json").read_text() == "{}" and os.listdir() == ["data", ".mcp.json"]


def test_a_file_with_comments_is_left_to_the_person(accepted: list[ServerFlags]) -> None:
    text = f'{{ // mine\n "servers": {{"time": {json.dumps(TIME)},}}}}'
    Path(".vscode").mkdir()
    Path(".vscode/mcp.json").write_text(text)
    done = run(".vscode/mcp.json", "--write", "--yes")
    assert Path(".vscode/mcp.json").read_text() == text and len(accepted) == 1
    assert accepted[0].line("run") in done.stdout and "write these lines into it yourself" in done.stdout
    assert accepted[0].folder == Path.cwd()


def test_one_server_that_is_refused_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def accept(one: ServerFlags, environ: object, **options: object) -> None:
        if one.arguments:
            raise PolicyRefusedError([])

    monkeypatch.setattr(protect_command, "accept", accept)
    write({"a": {"command": "own", "args": ["x"]}, "b": {"command": "own"}})
    done = run(".mcp.json", "--write", "--yes", "--json")
    assert done.return_value == PolicyRefusedError([]).exit_code
    said = json.loads(done.stdout)
    assert [(one["name"], one["protected"]) for one in said["servers"]] == [("a", False), ("b", True)]
    assert said["written"] and said["error"] and servers_of()["a"]["command"]


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo], ids=["a folder", "a fifo"])
def test_what_is_no_file_is_refused_at_once(make: Callable[[str], None]) -> None:
    make(".mcp.json")
    assert "was left as it is" in run(".mcp.json").stderr
