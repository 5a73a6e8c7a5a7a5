"""Call one tool of one module from the command line.

stdout has what the tool returned or, for scripts, exactly the dump of a tool result, also when there is none of the
tool's own. The module's process is gone when `call_tool` returns, whatever happens.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import anyio
import click
from pydantic import ValidationError

from paddock.errors import LimitNotEnforcedError
from paddock.kernel.modules import failed_result
from paddock.kernel.tool_call import ToolCall, ToolCallOutcome
from paddock.plan import Limits
from paddock.plan.problems import problems_of
from paddock.text import escape
from paddock_sdk.contract.models import ToolResult

from . import INTERRUPTED, failure
from .answer import print_answer
from .approval import TerminalApproval
from .display import ScreenDisplay
from .interruption import Interruption
from .json_output import plain, print_json
from .log_lines import LogLines
from .progress import Progress
from .render import Screen
from .stdin_text import read_stdin
from .unenforced import ENFORCED_LIMITS, LEVEL, unenforced_limits


def call_tool(
    source: str,
    tool: str,
    arguments: str,
    config: str,
    limits: tuple[str, ...],
    working_dir: Path | None,
    *,
    as_json: bool,
) -> int:
    """Start the module, call the tool, print the result and return the exit code."""
    screen = Screen(sys.stderr)
    written = _written_limits(limits)
    settings = _object(config, "--config")
    given = _object(read_stdin(screen, "the tool's input") if arguments == "-" else arguments, "the tool's input")
    approval = TerminalApproval(screen, sys.stdin)
    call = ToolCall(
        source,
        tool,
        given,
        config=settings,
        limits=written,
        working_dir=working_dir,
        approval=approval,
        display=ScreenDisplay(screen),
        on_output=lambda name, line: screen.module_line(name, line.text),
    )
    with LogLines(screen):
        try:
            _refuse_unenforced(written)
            outcome = asyncio.run(_run(call, screen, approval))
        except KeyboardInterrupt:
            outcome = None
        except SystemExit:
            raise
        except BaseException as error:  # the top of a command: what nobody foresaw is told as what it is
            defect = failure.as_exception(error)
            outcome = ToolCallOutcome(failed_result(defect), "", (), defect)
    return _report(outcome, tool, screen, as_json=as_json)


async def _run(call: ToolCall, screen: Screen, approval: TerminalApproval) -> ToolCallOutcome | None:
    """Return what came of the call, None when it was interrupted."""

    def stop() -> None:
        approval.withdraw()
        scope.cancel()

    with (
        anyio.CancelScope() as scope,
        Interruption(screen.note, lambda: False, stop),
        Progress(screen, lambda: call.activity),
    ):
        return await call.run()
    return None


def _report(outcome: ToolCallOutcome | None, tool: str, screen: Screen, *, as_json: bool) -> int:
    if outcome is None:
        if as_json:
            print_json(ToolResult(success=False, error=dict(failure.INTERRUPTION)))
        return INTERRUPTED
    result = outcome.result
    if outcome.level:
        screen.note(f"isolation: {outcome.level}")
    if outcome.error is not None:
        screen.text(failure.text(outcome.error))
    elif not result.success:
        screen.text(f"error: {escape(f'tool `{tool}` failed: {_reason(result)}')}")
    if as_json:
        print_json(result)
    elif result.success or (result.error or {}).get("message") != result.output:
        _print_output(result.output)
    if outcome.error is not None:
        return failure.exit_code(outcome.error)
    return 0 if result.success else 1


def _print_output(output: object) -> None:
    if isinstance(output, str):
        print_answer(output)
    elif output is not None:
        print_answer(json.dumps(plain(output), indent=2))


def _reason(result: ToolResult) -> str:
    error = result.error or {}
    kind, message = error.get("type"), error.get("message")
    return ": ".join(str(part) for part in (kind, message) if part) or "it gave no reason"


# -- what was written ----------------------------------------------------------------------


def _object(text: str, what: str) -> dict[str, Any]:
    """Return the JSON object in `text`.

    Raises:
        click.UsageError: it is none.
    """
    try:
        value = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise click.UsageError(f"{what} is not JSON: {reason}") from error
    if not isinstance(value, dict):
        raise click.UsageError(f'{what} has to be a JSON object, as in \'{{"name": "value"}}\'')
    return value


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")


def _written_limits(written: tuple[str, ...]) -> dict[str, object]:
    """Return the limits as a plan would write them.

    Raises:
        click.UsageError: one is not `K=V`, not known, or its value not understood.
    """
    limits: dict[str, object] = {}
    for item in written:
        name, equals, value = item.partition("=")
        if not (name and equals):
            raise click.UsageError(f"--limit takes K=V, as in runtime_max=30s; `{item}` is not that")
        limits[name] = value
    try:
        Limits.model_validate(limits)
    except ValidationError as error:
        problems = problems_of(error, "", {"": tuple(Limits.model_fields)}, {})
        said = [f"{problem.describe()}{f' ({problem.hint})' if problem.hint else ''}" for problem in problems]
        raise click.UsageError(f"--limit {'; '.join(said)}") from error
    return limits


def _refuse_unenforced(limits: Mapping[str, object]) -> None:
    for name in unenforced_limits(Limits.model_validate(dict(limits))):
        raise LimitNotEnforcedError(name, level=LEVEL, enforced=ENFORCED_LIMITS)
