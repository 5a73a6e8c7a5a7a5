"""Commands on a shared machine, in CI and as a service: kills, limits of the system, and what an operator sees."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from integration.command_line import Terminal, diagnosis, paddock
from integration.conftest import OpenSession, WriteModule
from paddock import Session
from paddock.cli import failure
from paddock.errors import KindError, ModuleError, render
from paddock.policy.files import policy
from paddock.workers import room
from paddock.workers.exit_report import ExitReport, ExitStatus
from paddock.workers.room import check_room
from paddock_sandbox.cgroup import CgroupReadings

pytestmark = pytest.mark.usefixtures("in_tmp_path")

_PARENT = """
    import os, select

    from amplifier_core.models import ToolResult

    class Parent:
        name = "wait"
        description = "waits for a child that takes too much memory"
        input_schema = {"type": "object"}

        async def execute(self, input):
            read, write = os.pipe()  # the parent keeps the end it never reads anything from
            if os.fork() == 0:
                taken = []
                while True:
                    taken.append(b"x" * (1 << 20))
            select.select([read], [], [])
            return ToolResult(output="never")

    async def mount(coordinator, config):
        await coordinator.mount("tools", Parent())
"""


def test_a_child_killed_for_memory_ends_the_call_that_waits(write_module: WriteModule) -> None:
    memory = next(one for one in diagnosis()["limits"] if one["limit"] == "memory_max")
    if "cgroup" not in (memory["mechanism"] or ""):
        pytest.skip(f"no control group counts memory here: {memory}")
    source = write_module("tool-wait", _PARENT)
    done = paddock("call", source, "wait", "--json", "--limit", "memory_max=128M", "--limit", "runtime_max=10min")
    told = json.loads(done.stdout)["error"]["report"]
    assert done.returncode == 5
    assert (told["reason"], told["limit"]["name"], told["limit"]["mechanism"]) == (
        "memory",
        "memory_max",
        "cgroup memory",
    )


def test_a_kill_for_the_memory_of_others_is_told_apart() -> None:
    used = CgroupReadings(memory_peak=9 << 20, memory_kills=0, memory_kills_outside=1)
    status = ExitStatus(None, signal.SIGKILL, 1.0, used=used)
    assert "the group that Paddock runs in" in ExitReport.of("tool-x", status).describe()
    assert "memory" not in ExitReport.of("tool-x", ExitStatus(None, signal.SIGKILL, 1.0)).describe()


@pytest.mark.exhaustive
def test_what_the_system_lacks_is_said_at_once(tmp_path: Path) -> None:
    # Without the working directory on the path: Python 3.13.0 fails to import anything where that is gone.
    command = f"{sys.executable} -P -c 'from paddock.cli import main; main()' call tool-todo todo '{{}}' --json"
    home = {**os.environ, "HOME": str(tmp_path)}
    told = {}
    for name, before in {
        "limits": "ulimit -n 24; ulimit -f 0; umask 777",
        "folder": f"mkdir {tmp_path}/gone; cd {tmp_path}/gone; rmdir {tmp_path}/gone",
    }.items():
        done = subprocess.run(
            ["bash", "-c", f"{before}; exec {command}"],
            env=home,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert done.returncode == 1 and "defect" not in done.stderr, done.stderr
        told[name] = (json.loads(done.stdout)["error"]["type"], done.stderr)
    assert told["limits"][0] == "NoRoomError" and told["folder"][0] == "NoWorkingDirError"
    for said in ("open files: ", "`ulimit -n ", "the umask 0777", "`umask 077`", "the limit is 0", "`ulimit -f unlim"):
        assert said in told["limits"][1]
    assert "temporary files" not in told["limits"][1]


def test_each_shortage_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    check_room(3)  # there is enough here
    few = {
        resource.RLIMIT_NOFILE: (4096, 4096),
        resource.RLIMIT_NPROC: (1, 1),
        resource.RLIMIT_FSIZE: (room.SIZE_OF_A_FILE, -1),
    }
    monkeypatch.setattr(room.resource, "getrlimit", few.__getitem__)
    monkeypatch.setattr(room.os, "geteuid", lambda: 65533)
    monkeypatch.setattr(room.tempfile, "gettempdir", os.getcwd)
    monkeypatch.delenv("TMPDIR")
    with pytest.raises(KindError) as caught:
        check_room(3)
    said = render(caught.value)
    assert "18 are needed, and this user has 0 of at most 1" in said and "`LimitNPROC=64`" in said
    assert "no folder for temporary files" in said and "TMPDIR" in said and "LimitFSIZE" not in said
    few[resource.RLIMIT_FSIZE] = (room.SIZE_OF_A_FILE - 1, -1)
    with pytest.raises(KindError) as caught:
        check_room(3)
    assert "`LimitFSIZE=infinity`" in render(caught.value)


def test_working_in_the_folder_of_temporary_files_is_no_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room.tempfile, "gettempdir", lambda: "/tmp")
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.chdir("/tmp")
    check_room(1)


def test_a_folder_that_is_gone_is_no_lack_of_temporary_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(room.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.delenv("TMPDIR", raising=False)
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    check_room(1)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("can't start new thread"), "no more threads"),
        (RuntimeError("Could not determine home directory."), "set HOME to a folder"),
    ],
)
def test_faults_of_the_system_are_no_defects(error: Exception, said: str) -> None:
    assert said in failure.text(error) and failure.exit_code(error) == 1
    assert "defect" in failure.text(RuntimeError("another"))


def test_threads_that_memory_lacks_for_name_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = {resource.RLIMIT_AS: (resource.RLIM_INFINITY, -1)}
    monkeypatch.setattr(resource, "getrlimit", limit.__getitem__)
    error = RuntimeError("can't start new thread")
    assert "LimitAS=" not in failure.text(error)
    limit[resource.RLIMIT_AS] = (1 << 27, -1)
    assert "LimitAS=" in failure.text(error) and "LimitNPROC=" in failure.text(error)


def test_another_event_loop_is_a_clear_error() -> None:
    opening = Session({"session": {"orchestrator": "loop-basic", "context": "context-simple"}}).initialize()
    with pytest.raises(KindError, match="event loop of asyncio"):
        opening.send(None)  # as any loop but asyncio's would begin it


# -- the operator's files ------------------------------------------------------------------

_POLICY = """\
minimum_isolation = "landlock"
max_limits = {memory_max = "1G"}
[[module]]
match = "*"
grants = {read = ["."], run = []}
"""


_PAGE = Path(policy.__file__).resolve().parents[4] / "host/docs/policy.md"
_GAPS = """\
max_limits = {memory_max = "1G"}
[[module]]
match = "*"
grants = {net = ["a.example.org"], run = []}
limits = {memory_max = "1G", tasks_max = 8}
level = "ns"
[[module]]
match = "builtin:*"
limits = {runtime_max = "1min"}
[[module]]
match = "git+https://*.example.org/*/tool-*"
grants = {net = ["b.example.org"]}
limits = {tasks_max = 16}
level = "landlock"
[[module]]
match = "git+https://code.example.org/a/*"
grants = "workspace-read"
[[module]]
match = "builtin:tool-filesystem"
grants = {run = ["git"]}
"""


def test_a_rule_that_opens_what_a_wider_one_bounds_is_warned_of() -> None:
    Path("new.toml").write_text(_GAPS)
    done = paddock("policy", "check", "new.toml")
    shown = " ".join(done.stdout.split())
    assert done.returncode == 0 and shown.startswith("valid new.toml")
    assert "line 8: modules from `builtin:*` are not bounded by line 3 (`*`): net, run, tasks_max, level" in shown
    assert "repeat in it" in shown
    told = json.loads(paddock("policy", "check", "new.toml", "--json").stdout)["files"][0]
    opened = [(one["line"], one["message"].partition(" are not bounded by ")[2]) for one in told["warnings"]]
    assert opened == [
        (8, "line 3 (`*`): net, run, tasks_max, level"),
        (11, "line 3 (`*`): run"),
        (16, "line 3 (`*`): tasks_max, level"),
        (19, "line 8 (`builtin:*`): runtime_max"),
        (19, "line 3 (`*`): net, tasks_max, level"),
    ]
    config = Path.home() / ".config/paddock"
    config.mkdir(parents=True)
    (config / "policy.toml").write_text(_GAPS)
    for command in (["policy", "show"], ["doctor"]):
        assert "warning: line 8: modules from `builtin:*`" in " ".join(paddock(*command).stdout.split())


def test_the_warning_is_right_about_what_is_open(tmp_path: Path) -> None:
    """What is warned of does happen, and does not once the bound is repeated, as the page says."""
    config = Path.home() / ".config/paddock"
    config.mkdir(parents=True)
    wide = '[[module]]\nmatch = "*"\ngrants = {net = ["a.example.org"]}\n'
    narrow = '[[module]]\nmatch = "builtin:*"\nlimits = {runtime_max = "1min"}\n'
    call = ["call", "builtin:tool-todo", "todo", '{"action": "list"}', "--allow-net", "evil.example.net"]
    ends = []
    for text in (wide, wide + narrow, wide + narrow + 'grants = {net = ["a.example.org"]}\n'):
        (config / "policy.toml").write_text(text)
        warned = "warning" in paddock("policy", "show").stdout
        ends.append((warned, paddock(*call).returncode == 4))
    assert ends == [(False, True), (True, False), (False, True)]


def test_the_policy_of_the_page_bounds_what_it_says() -> None:
    text = _PAGE.read_text().partition("## A policy for a shared machine")[2].partition("```toml policy\n")[2]
    config = Path.home() / ".config/paddock"
    config.mkdir(parents=True)
    (config / "policy.toml").write_text(text.partition("```")[0])
    call = ["call", "builtin:tool-todo", "todo", '{"action": "list"}']
    assert paddock(*call, "--allow-net", "api.openai.com", "--limit", "memory_max=1G").returncode == 0
    for asked in (["--allow-net", "evil.example.net"], ["--allow-net", "public"], ["--limit", "memory_max=2G"]):
        done = paddock(*call, *asked)
        assert done.returncode == 4 and f"by {config}/policy.toml:" in done.stderr, done.stderr
    done = paddock("call", "git+https://github.com/example/tool@main", "todo", "{}")
    assert done.returncode == 4 and "require_pinned" in done.stderr, done.stderr


def test_a_cap_that_nothing_enforces_is_the_policys_and_not_the_calls() -> None:
    config = Path.home() / ".config/paddock"
    config.mkdir(parents=True)
    (config / "policy.toml").write_text('max_limits = {tmp_max = "8M"}\n')
    call = ["call", "builtin:tool-todo", "todo", '{"action": "list"}', "--isolation", "landlock"]
    done = paddock(*call)
    assert done.returncode == 4 and "--limit" not in done.stderr, done.stderr
    assert "`tmp_max` is capped by a policy" in done.stderr and f"by {config}/policy.toml:1: " in done.stderr
    assert "--limit tmp_max" in paddock(*call, "--limit", "tmp_max=4M").stderr


@pytest.mark.parametrize(
    ("name", "text"), [("policy.toml", _POLICY), ("grants.toml", ""), ("secrets.toml", ""), ("sources.toml", "")]
)
def test_a_file_that_others_may_write_is_refused_by_a_check(name: str, text: str) -> None:
    Path(name).write_text(text)
    Path(name).chmod(0o600)
    assert paddock("policy", "check", name).returncode == 0
    Path(name).chmod(0o666)
    done = paddock("policy", "check", name, "--json")
    assert done.returncode == 4 and "can be written by others" in done.stderr
    assert json.loads(done.stdout)["files"][0]["state"] == "refused"


@pytest.mark.exhaustive
def test_a_policy_is_shown_with_what_it_bounds() -> None:
    config = Path.home() / ".config/paddock"
    config.mkdir(parents=True)
    Path("policy.toml").write_text(_POLICY)
    checked = paddock("policy", "check", "policy.toml")
    assert checked.returncode == 0 and checked.stdout.split()[:2] == ["valid", "policy.toml"]
    Path("sources.toml").write_text('[modules]\ntool-mine = "git+https://example.org/mine@v1"\n')
    checked = paddock("policy", "check", "sources.toml", "--json")
    assert json.loads(checked.stdout)["files"][0]["bounds"] == ["names another source for `tool-mine`"]
    assert paddock("policy", "check").returncode == 2
    (config / "policy.toml").write_text(_POLICY)
    for command in (["policy", "show"], ["doctor"]):
        shown = " ".join(paddock(*command).stdout.split())
        assert f"in force {config}/policy.toml" in shown and f"absent {config}/grants.toml" in shown
        assert "line 1: no module runs below `landlock`" in shown and "memory_max is at most 1 GiB" in shown
        assert "line 4: modules from `*`: read at most .; no run" in shown
    accepted = "".join(
        f'[[plan]]\ndigest = "sha256:{digit * 64}"\naccepted_at = 2026-01-0{digit}T00:00:00Z\nplan = "/w/plan.yaml"\n'
        for digit in "123"
    )
    (config / "grants.toml").write_text(accepted)
    (config / "grants.toml").chmod(0o600)
    shown = " ".join(paddock("policy", "show").stdout.split())
    assert shown.count("/w/plan.yaml") == 1 and "accept versions of `/w/plan.yaml`" in shown, shown
    grants = "grants = [{at = 'tools[0]', source = 'x', permissions = 'shell'}]\n"
    (config / "grants.toml").write_text(accepted + grants)
    done = paddock("policy", "forget", "/w/plan.yaml")
    assert done.returncode == 0 and re.findall(r"2026-01-\d\d", done.stdout) == [f"2026-01-0{day}" for day in "123"]
    said = " ".join(done.stdout.split())
    assert said.startswith("forgotten /w/plan.yaml ") and said.endswith(", with grants to tools[0] (x)"), said
    assert "/w/plan.yaml" not in paddock("policy", "show").stdout
    (config / "secrets.toml").write_text("KEY = 1\n")
    for command in (["policy", "show"], ["doctor"]):
        done = paddock(*command, "--json")
        told = json.loads(done.stdout)
        refused = next(one for one in told["files"] if one["state"] == "refused")
        assert done.returncode == (1 if command == ["doctor"] else 4) and told["ok"] is False
        assert refused["problems"][0]["line"] == 1 and f"{config}/secrets.toml:1" in done.stderr


def test_a_wrong_policy_is_found_before_it_holds(tmp_path: Path) -> None:
    Path("new.toml").write_text('minimum_isolation = "none"\nzzz = {}\n')
    done = paddock("policy", "check", "new.toml")
    assert done.returncode == 4 and "new.toml:1" in done.stderr and "new.toml:2" in done.stderr
    assert paddock("policy", "check", "nowhere.toml").returncode == 1
    page = _PAGE.read_text()
    known = re.search(r"known here: ([\w, ]+)", done.stderr)
    assert known is not None and all(f"`{key}`" in page or f"`[[{key}]]`" in page for key in known[1].split(", "))


# -- resources -----------------------------------------------------------------------------

_FAMILY = """
    import mmap, os

    from amplifier_core.models import ToolResult

    def held():
        return mmap.mmap(-1, 48 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)

    def fill(memory):
        for at in range(0, len(memory), 4096):
            memory[at] = 1

    class Family:
        name = "hold"
        description = "holds 48 MiB, and as much in a child"
        input_schema = {"type": "object"}

        async def execute(self, input):
            mine = held()
            fill(mine)
            ready, told = os.pipe()
            end, ended = os.pipe()
            if os.fork() == 0:
                os.close(ended)
                own = held()  # by its name, until the end
                fill(own)
                os.write(told, b".")
                os.read(end, 1)
                os._exit(0)
            os.read(ready, 1)
            deadline = input.get("seconds", 0)
            if deadline:
                import time
                time.sleep(deadline)  # the watchdog has to look meanwhile
            os.close(ended)
            return ToolResult(output=None)

    async def mount(coordinator, config):
        await coordinator.mount("tools", Family())
"""


@pytest.mark.exhaustive
def test_the_memory_of_a_module_is_that_of_its_whole_tree(write_module: WriteModule) -> None:
    source = write_module("tool-hold", _FAMILY)
    done = paddock("call", source, "hold", '{"seconds": 1}', "--json", "-v")
    used = json.loads(done.stdout)["resources"]
    assert 96 << 20 <= used["peak_memory_bytes"] < 200 << 20, used
    assert used["cpu_seconds"] > 0 and used["calls"] >= 1 and used["restarts"] == 0
    assert re.search(r"used: [0-9.]+ s of processor time, [0-9.]+ MiB at most, \d+ calls, 0 restarts", done.stderr)
    # Where there is no control group, the watchdog sees only what lasts.
    refused = paddock("call", source, "hold", '{"seconds": 60}', "--json", "--limit", "memory_max=80M")
    report = json.loads(refused.stdout)["error"]["report"]
    assert report["limit"]["name"] == "memory_max" and report["peak_memory_bytes"] >= 70 << 20


@pytest.mark.exhaustive
def test_a_run_ends_with_what_each_module_used() -> None:
    Path("plan.yaml").write_text(
        "session: {orchestrator: loop-basic, context: context-simple}\nproviders: [{module: provider-mock}]\n"
    )
    done = paddock("run", "plan.yaml", "hello", "--json", "-v")
    modules = json.loads(done.stdout)["modules"]
    assert all(one["resources"]["peak_memory_bytes"] > 1 << 20 and one["resources"]["calls"] for one in modules)
    assert len(re.findall(r"^\S+ +[0-9.]+ s of processor time, .*restarts$", done.stderr, re.MULTILINE)) == 3


@pytest.mark.exhaustive
def test_quiet_leaves_only_the_answer_and_what_is_wrong(tmp_path: Path) -> None:
    Path("plan.yaml").write_text(
        "session: {orchestrator: loop-basic, context: context-simple}\nproviders: [{module: provider-mock}]\n"
    )
    done = paddock("run", "-q", "plan.yaml", "hello")
    assert done.returncode == 0 and done.stdout and done.stderr == ""
    done = paddock("call", "-q", "tool-filesystem", "read_file", '{"file_path": "plan.yaml"}')
    assert {line.partition(":")[0] for line in done.stderr.splitlines()} == {"error", "warning"}
    assert paddock("run", "-q", "-v", "plan.yaml", "hello").returncode == 2
    assert paddock("sync", "-q").stderr == ""


# -- changes in a running session ----------------------------------------------------------

_MORTAL = """
    import os

    from amplifier_core.models import ToolResult

    class Mortal:
        name = "mortal"
        description = "ends, or says its process"
        input_schema = {"type": "object"}

        async def execute(self, input):
            if input.get("end"):
                os._exit(1)
            return ToolResult(output=os.getpid())

    async def mount(coordinator, config):
        await coordinator.mount("tools", Mortal())
"""


async def test_a_quarantine_is_lifted_and_a_grant_revoked(open_session: OpenSession, write_module: WriteModule) -> None:
    async def call(session: Session, **given: bool) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(await session.execute(json.dumps({"tool": "mortal", "input": given})))
        return told

    tool = {"module": "tool-mortal", "source": write_module("tool-mortal", _MORTAL)}
    async with open_session(tools=[tool]) as session:
        for _ in range(5):
            await call(session, end=True)
        told = await call(session)
        assert told["error"]["type"] == "QuarantinedError" and "lift_quarantine" not in told["error"]["message"]
        session.lift_quarantine("tool-mortal")
        assert (await call(session))["success"]
        session.revoke("tool-mortal")
        assert not (await call(session))["success"]  # it may still meet the process that is being ended
        told = await call(session)
        assert not told["success"] and "what it was granted was taken back" in told["error"]["message"]
        (status,) = (one for one in session.modules if one.module == "tool-mortal")
        assert "was ended by the host: what it was granted was taken back" in status.exit_reports[-1].describe()
        session.lift_quarantine("tool-mortal")
        assert not (await call(session))["success"]
        with pytest.raises(ModuleError, match="no module `tool-nobodys`"):
            session.revoke("tool-nobodys")
    log = (Path.home() / ".local/state/paddock/audit.jsonl").read_text()
    events = [json.loads(line)["event"] for line in log.splitlines()]
    assert "quarantine.lifted" in events and "grants.revoked" in events


@pytest.mark.exhaustive
def test_a_chat_takes_back_what_a_module_was_granted(tmp_path: Path) -> None:
    Path("notes.txt").write_text("buy milk")
    replies = '[{tool_calls: [{name: read_file, arguments: {file_path: notes.txt}}]}, "It said {last_tool_result}"]'
    Path("plan.yaml").write_text(
        "session: {orchestrator: loop-basic, context: context-simple}\n"
        f"providers:\n  - {{module: provider-mock, config: {{responses: {replies}}}}}\n"
        "tools:\n  - module: tool-filesystem\n    permissions: {read: [.]}\n"
    )
    with Terminal("chat", "plan.yaml") as terminal:
        terminal.until("/help lists the commands")
        terminal.type("read it\r")
        terminal.until("buy milk")
        terminal.type("/revoke tool-filesystem write\r")
        terminal.until("`write` is not granted")
        terminal.type("/grant tool-filesystem write=.\r")
        terminal.until("type the word yes, chat or no")
        terminal.type("chat\r")
        terminal.until("/help lists the commands")
        terminal.type("/revoke tool-filesystem read=.\r")
        terminal.until("It has grants for this chat alone, so the file stays as it is.")
        terminal.until("type the word chat or no")
        terminal.type("no\r")
        terminal.until("the plan is not changed")
        assert "write" not in Path("plan.yaml").read_text()
        terminal.type("/exit\r")
        assert terminal.exit_code() == 0
    with Terminal("chat", "plan.yaml") as terminal:
        terminal.until("/help lists the commands")
        terminal.type("/revoke tool-filesystem read=.\r")
        terminal.until("type the word yes, chat or no")
        terminal.type("yes\r")
        terminal.until("the session starts again with it")
        terminal.until("/help lists the commands")
        terminal.type("/lift tool-filesystem\r")
        terminal.until("is started again when it is next called")
        terminal.type("/revoke tool-filesystem\r")
        terminal.until("is ended, and runs no more in this session")
        terminal.type("/help\r")
        assert "was ended" not in terminal.until("Enter sends the line")  # what looks like a crash
        terminal.type("\x04")
        assert terminal.exit_code() == 0
    assert "read: [.]" not in Path("plan.yaml").read_text()
