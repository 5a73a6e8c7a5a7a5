"""A session from its first process to its last: what starts, in which order, and that nothing is left of it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from integration.conftest import OpenSession, WriteModule
from integration.probe import Code, entry_of, loop_code, probed, tool_code
from integration.session_internals import call_after_goodbye
from integration.tricky_tool import plan_of
from paddock import PaddockError, Session
from paddock.cli.run_command import run
from paddock.errors import ModuleLoadError, ModuleMissingError, PlanError, PolicyRefusedError
from paddock.session import shutdown as ending
from support.examples import repeating

_INSPECT = tool_code(
    "inspect",
    """
    import signal, sys
    if input.get("leave") == "grandchild" and os.fork() == 0:
        os.setsid()
        signal.pause()
    if input.get("print"):
        sys.stdout.write("o" * 80 + "\\n" * 1)
        for _ in range(input["print"]):
            os.write(1, b"c" * 65536)
            sys.stderr.write("e" * 65536)
    return ToolResult(output={
        "environ": dict(os.environ),
        "path": sys.path,
        "cwd": os.getcwd(),
    })
    """,
)


def _some_of(moments: range) -> list[Any]:
    """Return every second one, and the others for `make test-all`."""
    return [pytest.param(one, marks=[pytest.mark.exhaustive] if at % 2 else []) for at, one in enumerate(moments)]


def _inspect() -> dict[str, Any]:
    return entry_of("tool-inspect", _INSPECT)


async def test_a_module_sees_nothing_of_the_hosts_environment(
    open_session: OpenSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And a flood of its output blocks neither the module nor the session."""
    monkeypatch.setenv("VERY_SECRET_KEY", "hunter2")
    async with open_session(tools=[_inspect()]) as session:
        seen = await probed(session, "inspect")
        assert await probed(session, "inspect", print=64)
    own = {"PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "TZ", "GIT_OPTIONAL_LOCKS", "GIT_DISCOVERY_ACROSS_FILESYSTEM"}
    told = {name for name in seen["environ"] if seen["environ"][name] in ("1", "-j1")}
    assert set(seen["environ"]) - told <= own and "OMP_NUM_THREADS" in told
    assert "site-packages" not in " ".join(seen["path"])
    assert seen["cwd"] == str(tmp_path / "work")


_ORDERED = """
    async def mount(coordinator, config):
        log = config["log"]

        def say(text):
            with open(log, "a") as file:
                file.write(config["who"] + " " + text + "\\n")

        async def on_end(event, data):
            say("heard " + event)

        say("mounted")
        coordinator.hooks.register("session:end", on_end)
        return lambda: say("cleaned up")
"""

_READY = """
    _say = None

    async def mount(coordinator, config):
        global _say

        def _say(text):
            with open(config["log"], "a") as file:
                file.write(config["who"] + " " + text + "\\n")

        _say("mounted")

    async def on_session_ready(coordinator):
        _say("ready with " + ",".join(sorted(coordinator.get("tools"))))
"""


async def test_modules_start_in_plan_order_and_clean_up_in_reverse(open_session: OpenSession, tmp_path: Path) -> None:
    log = tmp_path / "log"
    entries = [entry_of("hooks-ordered", _ORDERED, config={"who": who, "log": str(log)}) for who in ("one", "two")]
    ready = entry_of("hooks-ready", _READY, config={"who": "three", "log": str(log)})
    async with open_session(hooks=[*entries, ready], tools=[_inspect()]):
        pass
    assert log.read_text().splitlines() == [
        "one mounted",
        "two mounted",
        "three mounted",
        "three ready with inspect",
        "one heard session:end",
        "two heard session:end",
        "two cleaned up",
        "one cleaned up",
    ]


_SPOILS = """
    import asyncio

    async def mount(coordinator, config):
        async def hang(*_):
            await asyncio.sleep(3600)

        def deny(event, data):
            return {"action": "deny", "reason": "no end"}

        def lie(event, data):
            return "nonsense"

        for at in config["at"]:
            for _ in range(12):
                if at == "cleanup":
                    coordinator.register_cleanup(hang)
                else:
                    coordinator.hooks.register(at, {"deny": deny, "lie": lie}.get(config.get("how"), hang), -100)
"""
_LEAVES_WORK = """
    import asyncio
    from pathlib import Path

    async def mount(coordinator, config):
        def note(what):
            with Path(config["file"]).open("a") as file:
                file.write(what + chr(10))

        async def heard(event, data):
            await asyncio.sleep(0.05)
            note("heard")

        async def flush():
            await coordinator.hooks.emit("memory:flushed", {})
            await asyncio.sleep(0.05)
            note("flushed")

        coordinator.hooks.register("session:end", heard)
        coordinator.register_cleanup(flush)
"""


@pytest.mark.exhaustive("at4", "at5")
@pytest.mark.parametrize(
    ("at", "how", "late"),
    [
        pytest.param(["never"], "", [], marks=pytest.mark.exhaustive),
        pytest.param(["session:end"], "", ["session:end"], marks=pytest.mark.exhaustive),
        pytest.param(["cleanup"], "", ["cleanup functions"], marks=pytest.mark.exhaustive),
        pytest.param(["memory:flushed"], "", ["what others emit"], marks=pytest.mark.exhaustive),
        (["session:end", "cleanup", "memory:flushed"], "", ["session:end", "cleanup functions", "what others emit"]),
        (["session:end"], "deny", []),
        (["session:end"], "lie", []),
    ],
)
async def test_a_module_that_hangs_or_lies_at_the_end_costs_others_nothing(
    at: list[str],
    how: str,
    late: list[str],
    open_session: OpenSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(ending, "_SECONDS", {"session:end": 1.0, "cleanup functions": 1.5, "what others emit": 0.2})
    file = tmp_path / "file"
    spoils, leaves = Code(_SPOILS), Code(_LEAVES_WORK)
    hooks = [
        {"module": "hooks-leaves", "source": leaves, "config": {"file": str(file)}},
        # Cleaned up first, as the last that was mounted.
        {"module": "hooks-spoils", "source": spoils, "config": {"at": at, "how": how}},
    ]
    async with open_session(hooks=hooks):
        pass
    assert file.read_text().splitlines() == ["heard", "flushed"]
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    said = [record.getMessage() for record in caplog.records if "did not finish" in record.getMessage()]
    assert all("`hooks-spoils`" in message for message in said)
    assert [
        part
        for part in ("session:end", "cleanup functions", "what others emit")
        if any(part in message for message in said)
    ] == late
    assert len(said) == len(late), "each is said once"


@pytest.mark.exhaustive
def test_a_run_names_modules_that_hang_at_its_end(
    write_module: WriteModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ending, "_SECONDS", {"session:end": 0.3, "cleanup functions": 0.3, "what others emit": 0.3})
    hooks = [
        {"module": f"hooks-{at}", "source": write_module(f"hooks-{at}", _SPOILS), "config": {"at": [event]}}
        for at, event in (("good", "never"), ("deaf", "session:end"), ("slow", "cleanup"))
    ]
    plan = plan_of(
        tmp_path, providers=[{"module": "provider-mock", "config": {"responses": ["the answer"]}}], hooks=hooks
    )
    code = run.main([plan, "hello", "-C", str(tmp_path), "--trust-plan"], standalone_mode=False)
    answered, told = capsys.readouterr()
    assert (code, answered.strip()) == (0, "the answer")
    late = [line for line in told.splitlines() if "did not finish" in line]
    named = [module for module in ("good", "deaf", "slow") if any(f"`hooks-{module}`" in line for line in late)]
    assert named == ["deaf", "slow"]
    assert len(late) == 2
    assert "Traceback" not in told


async def test_an_applications_scope_ends_a_turn_in_which_a_hook_hangs(open_session: OpenSession) -> None:
    hook = entry_of("hooks-spoils", _SPOILS)
    async with open_session(tools=[_inspect()], hooks=[{**hook, "config": {"at": ["session:start"]}}]) as session:
        with anyio.move_on_after(0.3) as scope:
            await probed(session, "inspect")
        assert scope.cancelled_caught
        assert await probed(session, "inspect")


# -- ways not to start ---------------------------------------------------------------------

_NO_MOUNT = "answer = 42\n"
_BAD_IMPORT = "import a_package_that_does_not_exist\n"
_BAD_MOUNT = """
    async def mount(coordinator, config):
        raise ValueError("the API key is missing")
"""
_DIES_IN_IMPORT = "import os; os._exit(4)\n"


@pytest.mark.exhaustive("os._exit")
@pytest.mark.parametrize(
    ("code", "stage", "said"),
    [
        (_BAD_IMPORT, "import", "a_package_that_does_not_exist"),
        (_DIES_IN_IMPORT, "mount", "exited with code 4"),
        *repeating((_NO_MOUNT, "mount", "no function `mount`"), (_BAD_MOUNT, "mount", "the API key is missing")),
    ],
)
async def test_a_context_that_does_not_mount_ends_the_start_with_its_error(
    code: str, stage: str, said: str, open_session: OpenSession
) -> None:
    with pytest.raises(ModuleLoadError) as caught:
        async with open_session(context=entry_of("context-bad", code)):
            pytest.fail("the session started")
    assert caught.value.stage == stage
    assert said in str(caught.value)
    if stage == "import" or "API" in said:
        assert "Traceback" in str(caught.value)


async def test_a_tool_that_does_not_mount_is_reported_and_left_out(open_session: OpenSession) -> None:
    async with open_session(tools=[entry_of("tool-bad", _BAD_MOUNT), _inspect()]) as session:
        bad = next(module for module in session.modules if module.module == "tool-bad")
        assert not bad.is_mounted
        assert "the API key is missing" in str(bad.problem)
        assert await probed(session, "inspect")


async def test_modules_that_are_nowhere_are_all_named_before_anything_starts(open_session: OpenSession) -> None:
    with pytest.raises(ModuleMissingError, match="tool-nowhere"):
        async with open_session(tools=[{"module": "tool-nowhere"}]):
            pytest.fail("the session started")
    with pytest.raises(PlanError) as caught:
        async with open_session(tools=[{"module": "tool-nowhere"}], hooks=[{"module": "hooks-loging"}]):
            pytest.fail("the session started")
    first, second = caught.value.problems
    assert (first.path, second.path) == ("tools[0]", "hooks[0]")
    assert first.hint.startswith("name its source") and second.hint.startswith("did you mean `hooks-logging`? Or name")


async def test_a_weaker_isolation_than_usual_takes_somebodys_word_for_it(open_session: OpenSession) -> None:
    weak = {**_inspect(), "isolation": "none"}
    with pytest.raises(PolicyRefusedError, match=r"tools\[0\].isolation: isolation level `none` needs a plan"):
        async with open_session(tools=[weak], trust_plan=False):
            pass
    async with open_session(tools=[weak], trust_plan=True) as session:
        assert await probed(session, "inspect")
        assert [module.level for module in session.modules if module.kind == "tool"] == ["none"]


# -- ways to end ---------------------------------------------------------------------------


async def test_an_exception_inside_leaves_nothing_behind(open_session: OpenSession) -> None:
    with pytest.raises(ZeroDivisionError):
        async with open_session(tools=[_inspect()]) as session:
            await probed(session, "inspect", leave="grandchild")
            raise ZeroDivisionError


@pytest.mark.parametrize("rounds", _some_of(range(0, 40, 4)))
async def test_a_start_that_is_cancelled_anywhere_leaves_nothing_behind(rounds: int, open_session: OpenSession) -> None:
    entered = anyio.Event()

    async def use_session() -> None:
        async with open_session(tools=[_inspect()]):
            entered.set()
            await anyio.sleep_forever()

    task = asyncio.create_task(use_session())
    for _ in range(rounds * rounds):
        if entered.is_set():
            break
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.exhaustive("16", "32")
@pytest.mark.parametrize("rounds", _some_of(range(0, 40, 8)))
async def test_an_end_that_is_cancelled_anywhere_leaves_nothing_behind(rounds: int, open_session: OpenSession) -> None:
    workers: list[psutil.Process] = []
    before = set(psutil.Process().children(recursive=True))  # what other tests of this process keep open
    entered = anyio.Event()

    async def use_session() -> None:
        async with open_session(tools=[_inspect()]):
            workers.extend(set(psutil.Process().children(recursive=True)) - before)
            entered.set()

    task = asyncio.create_task(use_session())
    await entered.wait()
    for _ in range(rounds * rounds):
        await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    _check_ended(workers)


@pytest.mark.exhaustive("every task")
@pytest.mark.parametrize(
    ("whom", "times"), (pytest.param("the task", 1, marks=pytest.mark.exhaustive), ("the task", 3), ("every task", 1))
)
async def test_an_end_cancelled_with_the_orchestrators_ends_all_modules(
    whom: str, times: int, open_session: OpenSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers: list[psutil.Process] = []
    before = set(psutil.Process().children(recursive=True))  # what other tests of this process keep open
    others, loop = asyncio.all_tasks(), asyncio.get_running_loop()

    async def use_session() -> None:
        async with open_session(tools=[_inspect()]):
            workers.extend(set(psutil.Process().children(recursive=True)) - before)

    def cancel(left: int) -> None:
        for each in {task} if whom == "the task" else asyncio.all_tasks() - others:  # as the loop does when it ends
            each.cancel()
        if left > 1:
            loop.call_soon(cancel, left - 1)

    async def cancel_soon(module: str) -> None:
        if module == "loop-direct" and not task.cancelling():
            loop.call_soon(cancel, times)

    call_after_goodbye(monkeypatch, cancel_soon)
    task = asyncio.create_task(use_session())
    with pytest.raises(asyncio.CancelledError):
        await task
    _check_ended(workers)


def _check_ended(workers: list[psutil.Process]) -> None:
    """Check that processes have ended, those too whose parent has, so that they are no children of this one."""
    assert workers
    _, left = psutil.wait_procs(workers, timeout=60)
    left = [process for process in left if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]
    for process in left:
        process.kill()
    assert not left


_FOREVER = loop_code("""
    try:
        while not coordinator.cancellation.is_cancelled:
            await asyncio.sleep(0.005)
    except asyncio.CancelledError:
        open("was-cancelled", "w").close()
        raise
    return "stopped: " + str(coordinator.cancellation.state)
    """)


async def test_after_a_graceful_cancellation_the_next_turn_runs(open_session: OpenSession) -> None:
    async with open_session(orchestrator=entry_of("loop-forever", _FOREVER)) as session:
        async with anyio.create_task_group() as group:
            answers: list[str] = []

            async def turn() -> None:
                answers.append(await session.execute("go"))

            group.start_soon(turn)
            await anyio.sleep(0.05)  # the turn is under way or about to start; either has to end
            session.cancel()
        assert answers == ["stopped: graceful"]


async def test_cancelling_the_turns_task_cancels_it_in_the_orchestrators_process(
    open_session: OpenSession, tmp_path: Path
) -> None:
    async with open_session(orchestrator=entry_of("loop-forever", _FOREVER)) as session:
        turn = asyncio.create_task(session.execute("go"))
        await anyio.sleep(0.1)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        while not (tmp_path / "work" / "was-cancelled").exists():
            await anyio.sleep(0.005)


async def test_the_public_names_are_what_an_application_needs() -> None:
    assert issubclass(PlanError, PaddockError)
    with pytest.raises(RuntimeError, match="async with"):
        await Session({"session": {"orchestrator": "loop-basic", "context": "context-simple"}}).execute("hello")
