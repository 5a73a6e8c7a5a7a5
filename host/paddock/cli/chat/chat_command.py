"""The command `chat`: a conversation with a plan's modules, on a terminal or line by line.

Every process of the session has ended when `chat` returns. The exit code is 0 when the person leaves, and without a
terminal that of the last turn that failed. A session that cannot start gives the exit code that `paddock run` gives.
"""

from __future__ import annotations

import asyncio
import shlex
import sys

import click

from paddock.cli.bundle_plan import no_such_plan, plan_of
from paddock.cli.command_group import example
from paddock.cli.options import SessionOptions, plan_and_prompt, session_options
from paddock.plan import USUAL_PLAN


@click.command(epilog=example("paddock chat plan.yaml"))
@click.argument("words", nargs=-1, metavar="[PLAN]")
@session_options
@click.option(
    "-v", "--verbose", is_flag=True, help="Also show what is meant for developers, such as the model's thinking."
)
def chat(words: tuple[str, ...], options: SessionOptions, verbose: bool) -> int:
    """Hold a conversation with the modules of PLAN.

    PLAN is plan.yaml by default, or that of the session to go on with. On a terminal, /help lists the commands and
    keys. Elsewhere each line of stdin is a prompt.
    """
    meant = plan_and_prompt(words, options.kept.session, options.working_dir)
    if meant.prompt is not None:
        chats = shlex.join(["paddock", "chat", *([] if meant.plan == USUAL_PLAN else [meant.plan]), *meant.options])
        is_prompt = f"{no_such_plan(words[0])}; if that is a prompt" if len(words) == 1 else "a chat takes no prompt"
        raise click.UsageError(f"{is_prompt}: `{meant.run}` answers it, or type it into `{chats}`")
    plan = plan_of(meant.plan)
    if not plan.exists():
        # Imported here, so that a chat with a plan does not wait for it.
        from paddock.cli import failure
        from paddock.cli.terminal.render import Screen
        from paddock.errors import PlanError
        from paddock.plan.load import load_plan

        try:
            load_plan(plan)
        except PlanError as error:  # as `paddock run` reports it, instead of below a line to type in
            Screen(sys.stderr).text(failure.text(error))
            return failure.exit_code(error)
    # Imported here, so that neither kind of chat waits for the imports of the other.
    if sys.stdin.isatty() and sys.stdout.isatty():
        from paddock.cli.chat.prompt_input import echo

        with echo(sys.stdin, wanted=False):  # from now on keys wait for the line as they are
            from paddock.cli.chat.chat_session import hold_chat

            return asyncio.run(hold_chat(plan, options, is_verbose=verbose))
    from paddock.cli.chat.line_chat import LineChat

    return LineChat(plan, options, is_verbose=verbose).run()
