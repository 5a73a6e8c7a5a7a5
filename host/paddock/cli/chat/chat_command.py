"""The command `chat`: a conversation with a plan's modules, on a terminal or line by line.

Every process of the session has ended when `run_chat` returns. The exit code is 0 when the person leaves, and without a
terminal that of the last turn that failed. A session that cannot start gives the exit code that `paddock run` gives.
"""

from __future__ import annotations

import asyncio
import sys

from paddock.cli.chat.chat_options import ChatOptions

DEFAULT_PLAN = "plan.yaml"


def run_chat(options: ChatOptions) -> int:
    """Hold the conversation, and return the exit code.

    Raises:
        click.UsageError: an option is not understood.
    """
    if not options.plan.exists():
        # Imported here, so that a chat with a plan does not wait for it.
        from paddock.cli import failure
        from paddock.cli.terminal.render import Screen
        from paddock.errors import PlanError
        from paddock.plan.load import load_plan

        try:
            load_plan(options.plan, environ={})
        except PlanError as error:  # as `paddock run` reports it, instead of below a line to type in
            Screen(sys.stderr).text(failure.text(error))
            return failure.exit_code(error)
    # Imported here, so that neither kind of chat waits for the imports of the other.
    if sys.stdin.isatty() and sys.stdout.isatty():
        from paddock.cli.chat.terminal_chat import TerminalChat

        return asyncio.run(TerminalChat(options).run())
    from paddock.cli.chat.line_chat import LineChat

    return LineChat(options).run()
