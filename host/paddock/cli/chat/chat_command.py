"""The command `chat`: a conversation with a plan's modules, on a terminal or line by line.

Every process of the session is gone when `run_chat` returns. Returns 0 when the person leaves; without a terminal, the
code of the last turn that failed. A session that cannot start has the code that `run` has for it.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paddock.text import escape

if TYPE_CHECKING:
    from paddock_sandbox.profile import IsolationLevel

DEFAULT_PLAN = "plan.yaml"


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """What the command was given; `grants` are written as MODULE=PRESET, `sources` are the flags about them."""

    plan: Path
    working_dir: Path | None
    isolation: IsolationLevel | None
    is_trusted: bool
    grants: Sequence[str]
    sources: Mapping[str, bool]
    is_verbose: bool


def run_chat(options: ChatOptions) -> int:
    """Hold the conversation, and return the exit code.

    Raises:
        click.UsageError: there is no plan, or an option is not understood.
    """
    if not options.plan.exists():
        raise click.UsageError(
            f"there is no plan `{escape(str(options.plan))}` here: `paddock init` writes one, or name another, as in "
            "`paddock chat path/to/plan.yaml`"
        )
    # Loaded when it is known which is wanted: what a terminal needs takes a while, and is wanted at once.
    if sys.stdin.isatty() and sys.stdout.isatty():
        from .terminal_chat import TerminalChat

        return asyncio.run(TerminalChat(options).run())
    from .line_chat import LineChat

    return LineChat(options).run()
