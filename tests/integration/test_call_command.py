"""`paddock call` as scripts see it: exit codes, its result, what its options grant, and at which level it runs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from integration.command_line import diagnosis, paddock, reachable_level, require_level
from integration.conftest import WriteModule
from integration.tricky_tool import LOOK_FIRST, json_output
from support.examples import repeating

pytestmark = pytest.mark.usefixtures("commands_end")


def test_a_call_that_fails_says_so_by_its_exit_code_and_result(tricky: str) -> None:
    # Those that only fail, or die, are in the frozen `good_and_failed_calls`.
    for do, kind, said in (
        ("raise", "LookupError", "no such"),
        ("not sendable", None, "cannot be sent"),
        ("cancel", None, "cancel"),
    ):
        done = paddock("call", tricky, "tricky", json.dumps({"do": do}), "--json")
        reported = json_output(done)
        assert done.returncode == 1
        assert set(reported) == {"success", "output", "error", "resources", "unreported_programs"}
        assert reported["success"] is False
        assert kind in (None, reported["error"]["type"])
        assert said in reported["error"]["message"]
        assert said in done.stderr and "\x1b" not in done.stderr
        if do == "raise":
            assert r"tool-tricky | out \x1b[2Jloud" in done.stderr
            assert "tool-tricky | err" in done.stderr


def test_a_tool_gets_input_of_stdin_configuration_and_folder(tricky: str, tmp_path: Path) -> None:
    options = ["-C", str(tmp_path), "--allow-read=.", "--config", '{"k": 1}']
    done = paddock("call", tricky, "tricky", "-", *options, "--json", stdin='{"a": [1, "ü"]}')
    assert done.returncode == 0
    reported = json_output(done)
    assert (reported["success"], reported["error"]) == (True, None)
    assert reported["output"] == {"input": {"a": [1, "ü"]}, "folder": str(tmp_path), "config": {"k": 1}}
    assert f"isolation: {reachable_level()}" in done.stderr.splitlines()


def test_an_edit_of_a_file_that_is_granted_alone_is_shown_no_denial(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("beta", encoding="utf-8")
    edit = json.dumps({"file_path": "notes.txt", "old_string": "beta", "new_string": "gamma"})
    granted = ["-C", str(tmp_path), "--allow-write=./notes.txt", "--isolation", require_level("ns")]
    done = paddock("call", "tool-filesystem", "edit_file", edit, *granted)
    assert (tmp_path / "notes.txt").read_text(encoding="utf-8") == "gamma"
    assert done.returncode == 0 and "may not" not in done.stderr


def test_a_module_that_is_no_tool_is_told_to_be_none() -> None:
    done = paddock("call", "loop-basic", "x", "--json")
    reported = json.loads(done.stdout)
    assert done.returncode == 1
    assert reported["error"]["type"] == "NoToolError"
    assert "may not mount at `orchestrator`" in done.stderr


def test_a_call_that_cannot_start_is_explained_and_still_a_result() -> None:
    refused = {
        "--allow-write=/etc": "--allow-write: `/etc` is in `/etc`",
        "--allow-read=/proc": "the kernel's and never granted",
        "--allow-run=gti": "--allow-run: no program `gti`",
    }
    for source, tool, options, kind, said in (
        # Others are in the frozen `calls_that_do_not_start`.
        ("tool-filesistem", "x", [], "ModuleMissingError", ["did you mean `tool-filesystem`?"]),
        ("tool-filesystem", "read_fil", [], "ToolMissingError", ["did you mean `read_file`?"]),
        ("tool-filesystem", "read_file", [*refused], "GrantError", [*refused.values()]),
    ):
        done = paddock("call", source, tool, "{}", *options, "--json")
        reported = json_output(done)
        assert done.returncode == 1
        assert (reported["success"], reported["error"]["type"], reported["error"]["report"]) == (False, kind, None)
        assert not [one for one in said if one not in done.stderr], done.stderr


@pytest.mark.exhaustive
def test_a_call_that_may_write_to_git_says_what_follows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    subprocess.run(["git", "init", "-q", "."], check=True, timeout=60)
    Path("file").write_text("here")
    for written in (".git", ".,.git", ".git/hooks", "."):
        options = ["--allow-read=.", f"--allow-write={written}"]
        done = paddock("call", "tool-filesystem", "read_file", '{"file_path": "file"}', *options)
        assert done.returncode == 0, done.stderr
        is_said = "it may commit, and your next git command there may run its code" in done.stderr
        assert is_said == (".git" in written), (written, done.stderr)


def test_a_module_that_is_not_mounted_in_time_is_explained(write_module: WriteModule) -> None:
    # Those that cannot be mounted at all are in the frozen `calls_that_do_not_start`.
    source = write_module("tool-broken", "import time\nasync def mount(coordinator, config):\n    time.sleep(3600)")
    done = paddock("call", source, "x", "--limit", "start_max=0.3s", "--json")
    reported = json_output(done)
    assert done.returncode == 5
    assert reported["error"]["type"] == "ModuleLoadError"
    assert "not mounted within" in reported["error"]["message"] and "not mounted within" in done.stderr
    assert reported["error"]["report"]["module"] == "tool-broken"


_GRANTED = """
    import os, subprocess

    from amplifier_core.models import ToolResult

    def outcome(act):
        try:
            return act()
        except OSError as error:
            return type(error).__name__

    class GrantedModule:
        name = "granted"
        description = "tries what the input names"

        async def execute(self, input):
            folder = input.get("folder")
            if "hook" in input:
                os.makedirs(f"{folder}/.git/hooks", exist_ok=True)
                with open(f"{folder}/.git/hooks/pre-commit", "w") as file:
                    file.write("exit 1")
            if input.get("then") == "die":
                os._exit(7)
            return ToolResult(output={
                "read": outcome(lambda: open(f"{folder}/file").read()),
                "write": outcome(lambda: open(f"{folder}/new", "w").write("text")),
                "run": outcome(lambda: subprocess.run(["/bin/sh", "-c", "exit 3"]).returncode),
                "env": os.environ.get("PROBE"),
            })

    async def mount(coordinator, config):
        await coordinator.mount("tools", GrantedModule())
"""


@pytest.fixture
def granted(write_module: WriteModule) -> str:
    return write_module("tool-granted", _GRANTED)


@pytest.mark.parametrize(
    ("options", "changed"),
    [
        ([], {}),
        (["--allow-write={folder}", "--allow-env=PROBE=set,LANG"], {"read": "content", "write": 4, "env": "set"}),
        (["--allow-read=link", "--allow-run=sh,true", "--allow-env", "PROBE"], {"read": "content", "run": 3}),
        *repeating(
            (["--allow-write={folder}"], {"read": "content", "write": 4}),
            (["--allow-read={folder}"], {"read": "content"}),
            (["--allow-run=sh"], {"run": 3}),
            (["--allow-env=PROBE"], {"env": "from outside"}),
            (["--allow-env=PROBE=a,,b"], {"env": "a,b"}),
        ),
    ],
    ids=lambda value: " ".join(value) or "nothing" if isinstance(value, list) else "",
)
def test_a_module_can_do_what_was_allowed_and_nothing_else(
    granted: str, folder: Path, tmp_path: Path, options: list[str], changed: dict[str, object]
) -> None:
    (tmp_path / "link").symlink_to("granted")
    given = [option.format(folder=folder) for option in options]
    call = [granted, "granted", json.dumps({"folder": str(folder)})]
    environ = {"PROBE": "from outside", "LANG": "C.UTF-8"}
    done = paddock("call", *call, *given, "-C", str(tmp_path), "--json", environ=environ)
    is_linked = f"tool-granted: read {folder} (by way of {tmp_path}/link -> granted)" in done.stderr
    assert is_linked == ("--allow-read=link" in given)
    assert is_linked == ("by way of" in done.stderr)
    output = json_output(done)["output"]
    assert isinstance(output, dict), (done.stdout, done.stderr)
    if "PROBE" in options:
        changed = {**changed, "env": "from outside"}
    refused = {name: output[name] for name in output if name not in changed}
    assert {name: output[name] for name in changed} == changed
    assert set(refused.values()) <= {"PermissionError", "FileNotFoundError", "OSError", None}  # the last one: EROFS


@pytest.mark.parametrize("then", ["die", *repeating("end well")])
def test_changed_guarded_files_are_reported_after_any_call(granted: str, folder: Path, then: str) -> None:
    call = json.dumps({"folder": str(folder), "hook": True, "then": then})
    done = paddock("call", granted, "granted", call, f"--allow-write={folder}", "--json")
    assert done.returncode == (5 if then == "die" else 0)
    assert f"warning: {folder}/.git/hooks appeared during the run; {LOOK_FIRST}" in done.stderr.splitlines()


@pytest.mark.exhaustive("landlock")
@pytest.mark.parametrize("level", ["ns", "bwrap", "landlock", "none"])
def test_a_call_runs_at_the_level_that_was_asked_for_or_says_why_it_cannot(tricky: str, level: str) -> None:
    found = next(one for one in diagnosis()["levels"] if one["level"] == level)
    done = paddock("call", tricky, "tricky", '{"do": "print"}', "--isolation", level, "--json")
    reported = json_output(done)
    if found["reachable"]:
        assert (done.returncode, reported["output"]) == (0, "plain\ntext")
        assert f"isolation: {level}" in done.stderr.splitlines()
        assert all(sentence.split()[0] in done.stderr for sentence in found["missing_guarantees"])
    else:
        assert (done.returncode, reported["error"]["type"]) == (1, "IsolationUnavailableError")
        assert f"isolation level `{level}` is unavailable" in done.stderr
        assert f"{level}: {found['step']}: " in done.stderr and (found["fix"] or "") in done.stderr
    if level == "none":  # before the module can say anything
        assert done.stderr.splitlines()[0] == "WARNING: NO ISOLATION, level none: tool-tricky"
        assert r"tool-tricky | out \x1b[2Jloud" in done.stderr


def test_a_folder_named_without_its_path_is_what_was_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-tool").mkdir()
    done = paddock("call", "my-tool", "shout", '{"text": "a"}')
    assert done.returncode == 1
    assert """`paddock call ./my-tool shout '{"text": "a"}'`""" in done.stderr
