"""Losses and refusals that a module's own answer hides: a person is shown each, with the line that mends it."""

from __future__ import annotations

import json
import re
import shlex
import socket
from pathlib import Path

import pytest

from integration.command_line import paddock, require_level
from integration.conftest import WriteModule
from integration.probe import tool_code
from support.examples import repeating

_LOSER = """
    import os
    import subprocess
    import tempfile
    import urllib.request
    from pathlib import Path

    from amplifier_core import ToolResult

    def fill(path):
        with open(path, "wb") as file:
            for _ in range(8):
                file.write(bytes(1 << 20))

    def act(how, what):
        match how:
            case "read":
                return Path(what).read_text()
            case "write":
                path = Path(what).expanduser()
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("kept?")
            case "die":
                act("write", what)
                os.kill(os.getpid(), 9)
            case "passing":
                tempfile.mkdtemp()
                tempfile.mkstemp()
            case "fill":
                fill(what)
            case "open":
                return [open("/dev/null") for _ in range(1000)]
            case "threads":
                import threading
                for _ in range(100):
                    threading.Thread(target=threading.Event().wait, daemon=True).start()
            case "fork":
                return [subprocess.Popen(["sleep", "60"]) for _ in range(100)]
            case "variable":
                try:
                    return os.environ[what]
                except KeyError:
                    raise RuntimeError("it is not configured")
            case "fetch":
                failed = []
                for url in what.split():
                    try:
                        urllib.request.urlopen(url)
                    except OSError as error:
                        failed.append(str(error))
                raise RuntimeError("; ".join(failed))
            case "program":
                subprocess.run(["sh", "-c", f"exec {what}"], check=True)
            case "shell":
                return subprocess.run(["sh", "-c", what], check=False).returncode

    class Loser:
        name = "lose"
        description = "does what it is asked, and says ok"
        input_schema = {"type": "object", "properties": {"how": {"type": "string"}, "what": {"type": "string"}}}

        async def execute(self, input):
            act(input["how"], input.get("what", ""))
            return ToolResult(output="ok")

    async def mount(coordinator, config):
        await coordinator.mount("tools", Loser())
"""


_FINDER = """
    return ToolResult(success=os.path.exists(input["name"]), error={"message": "not found"})
"""


@pytest.fixture
def loser(write_module: WriteModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The source of a module that hides its failures, in a working directory with a file."""
    source = write_module("tool-loser", _LOSER)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.txt").write_text("here")
    return source


def call(source: str, how: str, what: str = "", *options: str, code: int = 0) -> str:
    done = paddock("call", source, "lose", json.dumps({"how": how, "what": what}), *options)
    assert done.returncode == code, done.stderr
    return done.stderr


def mended(shown: str) -> list[str]:
    """Return the options that the one warning of a call says to add."""
    (warning,) = [line for line in shown.splitlines() if line.startswith("warning: ")]
    return shlex.split(warning.partition(", add ")[2])


def test_a_relative_path_without_a_grant_is_a_denial(loser: str, tmp_path: Path) -> None:
    shown = call(loser, "read", "in.txt", code=1)
    assert f"may not read `{tmp_path}/in.txt`: the working directory is not granted" in shown
    assert "warning" not in call(loser, "read", "in.txt", *mended(shown))


@pytest.mark.exhaustive
def test_a_file_left_in_the_private_folder_is_told_of(loser: str, tmp_path: Path) -> None:
    shown = call(loser, "write", "made/out.txt")
    assert f"may not write to `{tmp_path}/made/out.txt`" in shown and "lost when the module ends" in shown
    assert "warning" not in call(loser, "write", "made/out.txt", *mended(shown))
    assert (tmp_path / "made/out.txt").read_text() == "kept?"
    shown = call(loser, "shell", "echo x > other.txt", "--allow-run=sh")
    assert f"may not write to `{tmp_path}/other.txt`" in shown
    assert "warning" not in call(loser, "passing")  # temporary files are no loss


def test_a_file_left_by_a_module_that_was_killed_is_told_of(loser: str, tmp_path: Path) -> None:
    require_level("landlock")
    shown = call(loser, "die", "made/out.txt", "--isolation=landlock", code=5)
    assert f"may not write to `{tmp_path}/made/out.txt`" in shown and "lost when the module ends" in shown


@pytest.mark.exhaustive
def test_a_file_below_the_throw_away_home_is_told_of_and_can_be_kept(loser: str, tmp_path: Path) -> None:
    shown = call(loser, "write", "~/.amplifier/log/x.jsonl")
    home = Path("~").expanduser()
    assert f"may not keep `{home}/.amplifier/log/x.jsonl`: its home is a private folder" in shown
    line = shown.rpartition("write in its entry: ")[2].strip()
    assert line == "state: keep"
    use = json.dumps({"name": "lose", "arguments": {"how": "write", "what": "~/.amplifier/log/x.jsonl"}})
    plan = tmp_path / "plan.yaml"
    written = f"""
session: {{orchestrator: loop-basic, context: context-simple}}
providers: [{{module: provider-mock, config: {{responses: [{{tool_calls: [{use}]}}, done]}}}}]
tools:
  - module: tool-loser
    source: {json.dumps(loser)}
"""
    plan.write_text(written)
    done = paddock("run", "plan.yaml", "go", "--trust-plan")
    assert f"may not keep `{home}" in done.stderr
    assert "write in the entry of `tool-loser` in the plan: state: keep" in done.stderr
    plan.write_text(f"{written}    {line}\n")
    done = paddock("run", "plan.yaml", "go", "--trust-plan")
    assert done.returncode == 0 and "warning" not in done.stderr, done.stderr


def test_a_variable_that_was_not_granted_is_a_denial(loser: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_USER", "here")
    shown = call(loser, "variable", "OF_THE_USER", code=1)
    assert "may not see the variable `OF_THE_USER`: of the environment that Paddock runs in" in shown
    assert "warning" not in call(loser, "variable", "OF_THE_USER", *mended(shown))
    assert "for this one; it is not set there either" in call(loser, "variable", "OF_NOBODY", code=1)


def test_a_variable_that_is_missing_at_a_mount_is_a_denial(
    write_module: WriteModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THE_USER", "here")
    code = "import os\n\nasync def mount(coordinator, config):\n    os.environ['OF_THE_USER']\n"
    done = paddock("call", write_module("tool-early", code), "any")
    assert done.returncode == 1 and "may not see the variable `OF_THE_USER`" in done.stderr
    assert "to allow it, add --allow-env=OF_THE_USER" in done.stderr


def test_a_variable_that_may_be_a_key_is_proposed_for_one_host_only(
    loser: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_SECRET_A", "here")
    shown = call(loser, "variable", "MY_SECRET_A", code=1)
    assert "the module says that it looked for this one" in shown
    assert "--allow-env=MY_SECRET_A " not in shown and "--allow-secrets=MY_SECRET_A@HOST:PORT" in shown


def test_a_granted_host_that_cannot_be_reached_is_no_refusal(loser: str) -> None:
    closed = socket.create_server(("127.0.0.1", 0))
    port = closed.getsockname()[1]
    closed.close()
    urls = f"http://nowhere.invalid/ http://127.0.0.1:{port}/"
    shown = call(loser, "fetch", urls, "--allow-net=nowhere.invalid:80", f"--allow-net=127.0.0.1:{port}", code=1)
    assert "502: no address of nowhere.invalid was found (DNS): " in shown  # what the module itself is shown
    assert "cannot connect to `nowhere.invalid:80`: no address of nowhere.invalid was found (DNS)" in shown
    assert f"cannot connect to `127.0.0.1:{port}`: no connection to 127.0.0.1: Connection refused" in shown
    assert shown.count("its grant covers it; Paddock refused nothing") == 2
    assert "may not" not in shown


@pytest.mark.exhaustive("fork-", "fill-big-tmp", "open-")
@pytest.mark.parametrize(
    ("how", "what", "key", "options"),
    [
        ("fill", "big", "tmp_max", ["--limit=tmp_max=2M"]),
        ("fill", "big", "file_size_max", ["--limit=file_size_max=2M", "--allow-write=."]),
        (
            "program",
            "head -c 8M /dev/zero > big",
            "file_size_max",
            ["--limit=file_size_max=2M", "--allow-write=.", "--allow-run=sh,head"],
        ),
        ("open", "", "open_files_max", []),
        ("fork", "", "tasks_max", ["--allow-run=sleep", "--limit=tasks_max=32"]),
        *repeating(("threads", "", "tasks_max", [])),
    ],
)
def test_a_limit_of_the_kernel_is_named_with_the_key_that_raises_it(
    loser: str, how: str, what: str, key: str, options: list[str]
) -> None:
    require_level("ns")
    done = paddock("call", loser, "lose", json.dumps({"how": how, "what": what}), "--json", *options)
    assert done.returncode == 1
    limits = [one for one in json.loads(done.stdout)["error"]["denials"] if one["operation"] == "exceed"]
    assert [re.match(r"limits: \{(\w+): \w+\}", one["grant"])[1] for one in limits] == [key]  # type: ignore[index]
    assert re.search(rf"may not exceed `{key}: \w+`: .*; to allow more, add --limit {key}=\w+", done.stderr)


def test_a_command_that_ended_for_the_size_of_its_file_names_the_limit(loser: str) -> None:
    require_level("ns")
    given = ["bash", '{"command": "head -c 8M /dev/zero > big"}', "--allow-write=.", "--allow-run=bash,head"]
    done = paddock("call", "builtin:tool-bash", *given, "--limit=file_size_max=2M")
    assert done.returncode == 1 and "--limit file_size_max=4M" in done.stderr, done.stderr


def test_limits_that_only_a_program_met_are_named_after_success(loser: str) -> None:
    require_level("ns")
    script = "head -c 8M /dev/zero > $TMPDIR/tmp.XXXXXXXX; exit 0"
    options = ["--limit=tmp_max=2M", "--allow-run=*"]
    shown = call(loser, "shell", script, *options)
    options[0] = f"--limit={mended(shown)[1]}"
    assert options[0] == "--limit=tmp_max=4M"


@pytest.mark.exhaustive
def test_one_line_says_that_what_programs_are_refused_is_not_told(loser: str) -> None:
    shown = call(loser, "shell", "cat in.txt; exit 0", "--allow-run=*")
    (line,) = [one for one in shown.splitlines() if "is not reported" in one]
    assert line.startswith("module `tool-loser` started `sh`: what the kernel refused this program is not reported; ")
    command = re.findall("`(paddock [^`]+)`", line)[0].replace("PATH", "in.txt")
    done = paddock(*shlex.split(command)[1:])
    assert done.returncode == 4 and "--allow-read=./in.txt" in done.stdout
    done = paddock("call", loser, "lose", json.dumps({"how": "shell", "what": "exit 0"}), "--json", "--allow-run=*")
    assert json.loads(done.stdout)["unreported_programs"] == ["sh"]


def test_a_call_that_only_asked_what_is_there_names_the_option(
    write_module: WriteModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_level("ns")
    monkeypatch.chdir(tmp_path)
    Path("in.txt").write_text("text")
    finder = write_module("tool-finder", tool_code("find", _FINDER))
    told = "no grant of module `tool-finder` covers the working directory; "
    shown = paddock("call", finder, "find", '{"name": "in.txt"}').stderr
    (line,) = [one for one in shown.splitlines() if one.startswith(told)]
    option = line.rpartition(" add ")[2]
    assert option == "--allow-read=."
    assert paddock("call", finder, "find", '{"name": "in.txt"}', option).returncode == 0
    assert told not in paddock("call", finder, "find", '{"name": "gone.txt"}', "--allow-read=.").stderr


def test_a_program_without_its_folder_is_not_called_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_level("ns")
    monkeypatch.chdir(tmp_path)
    given = ["bash", '{"command": "ls"}']
    shown = paddock("call", "builtin:tool-bash", *given, "--allow-run=bash,ls").stderr
    assert "Cannot start in" in shown and "--allow-read=." in shown and "started" not in shown
    shown = paddock("call", "builtin:tool-bash", *given).stderr  # both are named at once
    assert "add --allow-read=.\n" in shown and "add --allow-run=bash\n" in shown and "started" not in shown


def test_what_ended_a_module_says_how_to_allow_more(loser: str) -> None:
    shown = call(loser, "shell", "sleep 60", "--allow-run=sh,sleep", "--limit=runtime_max=1s", code=5)
    assert "hint: to allow it more, add --limit runtime_max=2s\n" in shown
