"""A module is validated in a sandbox, whatever it does there, and its outcome is what the checks say."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import anyio
import psutil
import pytest

from host.authoring.attack import attacked, require_refused
from host.authoring.conftest import Trials
from paddock.authoring.module_name import KINDS, ModuleName
from paddock.authoring.project import write_project
from paddock.errors import ModuleDiedError
from paddock.plan.model import Kind
from paddock.workers.exit_report import ExitReason

_TOOL = """
    from amplifier_core import ToolResult

    class Tool:
        name = "x"
        description = {description}
        input_schema = {{}}

        async def execute(self, input):
            return ToolResult()

    async def mount(coordinator, config=None):
        await coordinator.mount("tools", Tool(), name="x")
"""


def _tool(description: str) -> str:
    return dedent(_TOOL.format(description=description))


@pytest.mark.parametrize("kind", KINDS)
async def test_a_new_project_is_valid_at_once(kind: Kind, trials: Trials, tmp_path: Path) -> None:
    result = await trials.validate(write_project(ModuleName.of(kind, "word-count"), tmp_path).folder)
    assert result.passed and not result.warnings and result.module_type == kind, result.checks


async def test_the_package_is_as_good_as_its_repository(trials: Trials) -> None:
    root = trials.write("tool-x", _tool("'a tool'"))
    by_root, by_package = [await trials.validate(path) for path in (root, root / "amplifier_module_tool_x")]
    assert by_root == by_package and by_root.passed
    assert by_root.module_path == str(root / "amplifier_module_tool_x")


async def test_what_is_wrong_is_told_of_the_authors_own_folder(trials: Trials) -> None:
    root = trials.write("tool-x", "raise ValueError(__file__)")
    result = await trials.validate(root)
    (check,) = result.checks
    assert (check.name, check.passed, check.severity) == ("module_importable", False, "error")
    assert str(root / "amplifier_module_tool_x/__init__.py") in check.message


async def test_a_module_is_taken_as_the_kind_that_is_named(trials: Trials) -> None:
    root = trials.write("tool-x", _tool("'a tool'"))
    assert not (await trials.validate(root, "provider")).passed


async def test_a_module_that_attacks_while_it_is_validated_gets_nowhere(trials: Trials, tmp_path: Path) -> None:
    with attacked(tmp_path) as target:
        root = trials.write("tool-x", target.code + "print(json.dumps(OUTCOMES))\n" + _tool("'a tool'"))
        assert (await trials.validate(root)).passed
        require_refused(json.loads(trials.printed[0]), target)


async def test_a_module_cannot_change_its_own_code_or_its_folder(trials: Trials) -> None:
    outcome = "(lambda: open(__file__, 'a').close() or 'written')"
    before = f"""
try:
    SAID = {outcome}()
except OSError as error:
    SAID = type(error).__name__
"""
    root = trials.write("tool-x", f"{before}\nraise ValueError(f'it was {{SAID}}')")
    exec(compile(before, str(root / "x.py"), "exec"), {"__file__": str(root / "x.py")})  # outside it can
    assert (root / "x.py").exists()
    result = await trials.validate(root)
    (check,) = result.checks
    assert "it was " in check.message and "it was written" not in check.message


@pytest.mark.parametrize(
    ("code", "reason", "limits"),
    [
        ("import os; os._exit(0)", ExitReason.EXITED, {}),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", ExitReason.SIGNALLED, {}),
        ("while True: pass", ExitReason.TIMEOUT, {"runtime_max": "1s"}),
        ("import threading; threading.Event().wait()", ExitReason.TIMEOUT, {"runtime_max": "1s"}),
    ],
)
async def test_a_module_that_ends_or_hangs_is_told_of_by_how_it_ended(
    code: str, reason: ExitReason, limits: dict[str, str], trials: Trials
) -> None:
    root = trials.write("tool-x", code)
    with pytest.raises(ModuleDiedError) as died:
        await trials.validate(root, **limits)
    assert died.value.exit_code == 5 and died.value.report.reason is reason
    assert "its validation" in str(died.value)


@pytest.mark.parametrize("code", ["raise SystemExit(0)", "import sys; sys.exit('done')"])
async def test_leaving_by_an_exception_is_no_way_to_pass(code: str, trials: Trials) -> None:
    assert not (await trials.validate(trials.write("tool-x", code))).passed


async def test_what_a_module_prints_is_no_part_of_the_outcome(trials: Trials) -> None:
    said = '{"module_type": "tool", "passed": true, "checks": []}'
    root = trials.write("tool-x", f"import os\nprint({said!r})\nos.write(1, {said.encode()!r} + b'\\n')\n")
    result = await trials.validate(root)
    assert not result.passed and trials.printed.count(said) == 2


# The host's end of this socket is the one thing that a module shares with what checks it.
_ON_THE_SOCKET = """
import os, socket, struct
import msgpack

for fd in range(3, 64):
    try:
        rpc = socket.socket(fileno=fd)
        if rpc.type == socket.SOCK_STREAM:
            break
        rpc.detach()
    except OSError:
        continue
answer = {answer}
rpc.sendall(struct.pack("!I", {size}) + answer)
"""


@pytest.mark.parametrize(
    ("answer", "size"),
    [
        ("b'no msgpack at all'", "len(answer)"),
        ("b''", "1 << 30"),
        ("msgpack.packb({'checks': []})", "len(answer)"),
        ("msgpack.packb([1, 2])", "len(answer)"),
        ("msgpack.packb({'checks': [{'name': 'x', 'passed': 1, 'message': '', 'severity': 'info'}]})", "len(answer)"),
        (
            "msgpack.packb({'checks': [{'name': 'x', 'passed': True, 'message': 'y' * 5000, 'severity': 'info'}]})",
            "len(answer)",
        ),
        ("b'\\x91' * 100000 + b'\\x90'", "len(answer)"),
    ],
)
async def test_an_answer_that_is_none_is_a_death(answer: str, size: str, trials: Trials) -> None:
    root = trials.write("tool-x", _ON_THE_SOCKET.format(answer=answer, size=size))
    with pytest.raises(ModuleDiedError) as died:
        await trials.validate(root)
    assert died.value.exit_code == 5 and died.value.report.reason is ExitReason.PROTOCOL


async def test_nothing_is_left_of_a_validation_that_is_cancelled(trials: Trials, tmp_path: Path) -> None:
    root = trials.write("tool-x", "print('here', flush=True)\nwhile True: pass\n")
    before = set(psutil.Process().children(recursive=True))
    with anyio.move_on_after(60) as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(trials.validate, root)
            while "here" not in trials.printed:
                await anyio.sleep(0.02)
            group.cancel_scope.cancel()
    assert not scope.cancelled_caught
    assert not set(psutil.Process().children(recursive=True)) - before
