"""`paddock call` as scripts see it: exit codes, its result, what its options grant, and at which level it runs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from integration.command_line import (
    diagnosis,
    paddock,
    reachable_level,
)
from integration.conftest import WriteModule
from integration.tricky_tool import told_by
from support.examples import repeating

pytestmark = pytest.mark.usefixtures("commands_end")

_LOOK_FIRST = "programs of yours may run what is in it: look at it first"


@pytest.mark.parametrize(
    ("do", "code", "kind", "said"),
    [
        # Those that only fail are in the frozen `good_and_failed_calls`.
        ("segfault", 5, "ModuleDiedError", "SIGSEGV"),
        ("raise", 1, "LookupError", "no such"),
        ("not sendable", 1, None, "cannot be sent"),
    ],
)
def test_a_call_that_fails_says_so_by_its_exit_code_and_result(
    tricky: str, do: str, code: int, kind: str | None, said: str
) -> None:
    done = paddock("call", tricky, "tricky", json.dumps({"do": do}), "--json")
    told = told_by(done)
    assert done.returncode == code
    assert set(told) == {"success", "output", "error", "resources", "unreported_programs"}
    assert told["success"] is False
    assert kind in (None, told["error"]["type"])
    assert said in told["error"]["message"]
    assert said in done.stderr and "\x1b" not in done.stderr
    if do == "segfault":
        report = told["error"]["report"]
        assert (report["reason"], report["signal"], report["call_in_flight"]) == ("signalled", "SIGSEGV", "execute")


def test_what_a_tool_returns_is_on_stdout(tricky: str, tmp_path: Path) -> None:
    done = paddock("call", tricky, "tricky", '{"a": [1, "ü"]}', "-C", str(tmp_path), "--allow-read=.", "--json")
    assert done.returncode == 0
    told = told_by(done)
    assert (told["success"], told["error"]) == (True, None)
    assert told["output"] == {"input": {"a": [1, "ü"]}, "folder": str(tmp_path)}
    assert f"isolation: {reachable_level()}" in done.stderr.splitlines()


def test_a_result_that_json_cannot_express_is_json_all_the_same(tricky: str) -> None:
    output = told_by(paddock("call", tricky, "tricky", '{"do": "not json"}', "--json"))["output"]
    assert output["number"] is None and output["set"] == [1] and isinstance(output["bytes"], str)


def test_a_tool_that_cancels_itself_is_one_that_failed(tricky: str) -> None:
    done = paddock("call", tricky, "tricky", '{"do": "cancel"}', "--json")
    told = told_by(done)
    assert done.returncode not in (0, 130)
    assert told.keys() == {"success", "output", "error", "resources", "unreported_programs"}
    assert told["success"] is False and "cancel" in told["error"]["message"].lower()
    assert "\x1b" not in done.stderr


def test_keys_that_json_has_no_form_for_become_text(tricky: str) -> None:
    output = told_by(paddock("call", tricky, "tricky", '{"do": "odd keys"}', "--json"))["output"]
    assert output == {"\udc80": "\udc80", '["x", "y"]': 1, '[1, "_w=="]': {"null": 2}}


def test_the_input_of_a_tool_may_come_from_stdin(tricky: str) -> None:
    done = paddock("call", tricky, "tricky", "-", "--json", stdin='{"from": "stdin"}')
    assert told_by(done)["output"]["input"] == {"from": "stdin"}


def test_a_module_gets_its_configuration(tricky: str) -> None:
    done = paddock("call", tricky, "tricky", '{"do": "config"}', "--config", '{"k": 1}', "--json")
    assert told_by(done)["output"] == {"k": 1}


def test_a_source_is_also_a_relative_folder_or_the_id_of_what_is_shipped(tricky: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content", encoding="utf-8")
    relative = paddock("call", f"./{Path(tricky).name}", "tricky", '{"do": "text"}', cwd=tmp_path)
    assert (relative.returncode, relative.stdout) == (0, "plain\ntext\n"), relative.stderr
    for source in ("tool-filesystem", "builtin:tool-filesystem"):
        done = paddock("call", source, "read_file", '{"file_path": "file"}', "--allow-read=.", "--json", cwd=tmp_path)
        assert "content" in told_by(done)["output"]["content"]


def test_what_a_module_prints_is_shown_escaped_under_its_name(tricky: str) -> None:
    done = paddock("call", tricky, "tricky", '{"do": "print"}')
    assert r"tool-tricky | out \x1b[2Jloud" in done.stderr
    assert "tool-tricky | err" in done.stderr


def test_a_module_that_is_no_tool_is_told_to_be_none() -> None:
    done = paddock("call", "loop-basic", "x", "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 1
    assert told["error"]["type"] == "NoToolError"
    assert "may not mount at `orchestrator`" in done.stderr


@pytest.mark.parametrize(
    ("source", "tool", "options", "kind", "said"),
    [
        ("tool-filesistem", "x", [], "ModuleMissingError", "did you mean `tool-filesystem`?"),
        ("./nowhere", "x", [], "ModuleMissingError", "no such file"),
        ("tool-filesystem", "read_fil", [], "ToolMissingError", "did you mean `read_file`?"),
        (
            "tool-filesystem",
            "read_file",
            ["--allow-read=./nowhere"],
            "GrantError",
            "--allow-read: `./nowhere` does not",
        ),
        ("tool-filesystem", "read_file", ["--allow-write=/etc"], "GrantError", "--allow-write: `/etc` is in `/etc`"),
        ("tool-filesystem", "read_file", ["--allow-read=/proc"], "GrantError", "the kernel's and never granted"),
        ("tool-filesystem", "read_file", ["--allow-run=gti"], "GrantError", "--allow-run: no program `gti`"),
        ("tool-filesystem", "read_file", ["--config", '{"k": "${NAME}"}'], "PlanError", "add `--allow-secrets=NAME`"),
        (
            "tool-filesystem",
            "read_file",
            ["--config", '{"k": "${NAME}"}', "--allow-secrets=NAME"],
            "PlanError",
            "--allow-secrets: secret `NAME` is not set",
        ),
    ],
)
def test_a_call_that_cannot_start_is_explained_and_still_a_result(
    source: str, tool: str, options: list[str], kind: str, said: str
) -> None:
    done = paddock("call", source, tool, "{}", *options, "--json")
    told = told_by(done)
    assert done.returncode == 1
    assert (told["success"], told["error"]["type"], told["error"]["report"]) == (False, kind, None)
    assert said in done.stderr


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


@pytest.mark.parametrize(
    ("code", "stage", "said"),
    [
        ("import nothing_of_that_name", 1, "nothing_of_that_name"),
        ("def mounted(): ...", 1, "no function `mount`"),
        ("async def mount(coordinator, config):\n    raise ValueError('not today')", 1, "not today"),
        ("import os\nos.kill(os.getpid(), 11)", 5, "SIGSEGV"),
        ("import time\nasync def mount(coordinator, config):\n    time.sleep(3600)", 5, "not mounted within"),
    ],
)
def test_a_module_that_cannot_be_mounted_is_explained(
    write_module: WriteModule, code: str, stage: int, said: str
) -> None:
    source = write_module("tool-broken", code)
    done = paddock("call", source, "x", "--limit", "start_max=2s", "--json")
    told = told_by(done)
    assert done.returncode == stage
    assert told["error"]["type"] == "ModuleLoadError"
    assert said in told["error"]["message"] and said in done.stderr
    assert told["error"]["report"]["module"] == "tool-broken"


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
        description = "tries what it is told to"

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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file, apart from modules and plans."""
    made = tmp_path / "granted"
    made.mkdir()
    (made / "file").write_text("content", encoding="utf-8")
    return made


@pytest.mark.parametrize(
    ("options", "changed"),
    [
        ([], {}),
        (["--allow-write={folder}"], {"read": "content", "write": 4}),
        (["--allow-env=PROBE=set,LANG"], {"env": "set"}),
        (["--allow-read={folder}", "--allow-run=sh,true", "--allow-env", "PROBE"], {"read": "content", "run": 3}),
        *repeating(
            (["--allow-read={folder}"], {"read": "content"}),
            (["--allow-run=sh"], {"run": 3}),
            (["--allow-env=PROBE"], {"env": "from outside"}),
            (["--allow-env=PROBE=a,,b"], {"env": "a,b"}),
        ),
    ],
    ids=lambda value: " ".join(value) or "nothing" if isinstance(value, list) else "",
)
def test_a_module_can_do_what_was_allowed_and_nothing_else(
    granted: str, folder: Path, options: list[str], changed: dict[str, object]
) -> None:
    given = [option.format(folder=folder) for option in options]
    call = [granted, "granted", json.dumps({"folder": str(folder)})]
    done = paddock("call", *call, *given, "--json", environ={"PROBE": "from outside"})
    output = told_by(done)["output"]
    if "PROBE" in options:
        changed = {**changed, "env": "from outside"}
    refused = {name: output[name] for name in output if name not in changed}
    assert {name: output[name] for name in changed} == changed
    assert set(refused.values()) <= {"PermissionError", "FileNotFoundError", "OSError", None}  # the last one: EROFS


def test_an_allowed_secret_reaches_the_configuration_and_is_not_shown(tricky: str) -> None:
    call = ["call", tricky, "tricky", '{"do": "config"}', "--config", '{"key": "${API_KEY}"}', "--json"]
    environ = {"API_KEY": "hidden"}
    done = paddock(*call, "--allow-secrets=API_KEY", environ=environ)
    assert told_by(done)["output"] == {"key": "[secret API_KEY]"}
    assert "hidden" not in done.stderr
    refused = paddock(*call, environ=environ)
    assert refused.returncode == 1
    assert "--config key" in refused.stderr and "hidden" not in refused.stderr + refused.stdout


def test_a_grant_by_way_of_a_link_is_shown(granted: str, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("granted")
    call = ["call", granted, "granted", json.dumps({"folder": str(folder)}), "-C", str(tmp_path), "--json"]
    done = paddock(*call, "--allow-read=link")
    assert told_by(done)["output"]["read"] == "content"
    assert f"tool-granted: read {folder} (by way of {tmp_path}/link -> granted)" in done.stderr
    assert "by way of" not in paddock(*call, "--allow-read=granted").stderr


@pytest.mark.parametrize("then", ["die", *repeating("end well")])
def test_changed_guarded_files_are_reported_after_any_call(granted: str, folder: Path, then: str) -> None:
    call = json.dumps({"folder": str(folder), "hook": True, "then": then})
    done = paddock("call", granted, "granted", call, f"--allow-write={folder}", "--json")
    assert done.returncode == (5 if then == "die" else 0)
    assert f"warning: {folder}/.git/hooks appeared during the run; {_LOOK_FIRST}" in done.stderr.splitlines()


@pytest.mark.parametrize("level", ["ns", "bwrap", "landlock", "none"])
def test_a_call_runs_at_the_level_that_was_asked_for_or_says_why_it_cannot(tricky: str, level: str) -> None:
    found = next(one for one in diagnosis()["levels"] if one["level"] == level)
    done = paddock("call", tricky, "tricky", '{"do": "text"}', "--isolation", level, "--json")
    told = told_by(done)
    if found["reachable"]:
        assert (done.returncode, told["output"]) == (0, "plain\ntext")
        assert f"isolation: {level}" in done.stderr.splitlines()
        assert all(sentence.split()[0] in done.stderr for sentence in found["missing_guarantees"])
    else:
        assert (done.returncode, told["error"]["type"]) == (1, "IsolationUnavailableError")
        assert f"isolation level `{level}` is unavailable" in done.stderr
        assert f"{level}: {found['step']}: " in done.stderr and (found["fix"] or "") in done.stderr


def test_that_nothing_isolates_is_said_before_the_module_can_say_anything(tricky: str) -> None:
    done = paddock("call", tricky, "tricky", '{"do": "print"}', "--isolation", "none")
    first = done.stderr.splitlines()[0]
    assert first == "WARNING: NO ISOLATION, level none: tool-tricky"
