"""The command `paddock`: the table of its commands, and the place of each."""

from __future__ import annotations

import click

from paddock import __version__
from paddock.cli.command_group import CommandGroup, LazyCommand, example

_COMMANDS = (
    LazyCommand(
        "run",
        "paddock.cli.run_command:run",
        "Run one turn: start the modules of PLAN, give them PROMPT, and print the answer.",
        workers=lambda args: "modules",
    ),
    LazyCommand(
        "chat",
        "paddock.cli.chat.chat_command:chat",
        "Hold a conversation with the modules of PLAN.",
        workers=lambda args: "modules",
    ),
    LazyCommand(
        "call",
        "paddock.cli.call_command:call",
        "Call one tool of one module and print what it returns.",
        workers=lambda args: "modules",
    ),
    LazyCommand(
        "demo",
        "paddock.cli.demo_command:demo",
        "Run twelve modules, six of which misbehave, and show what stopped each.",
        workers=lambda args: "modules",
    ),
    LazyCommand(
        "doctor",
        "paddock.cli.doctor_command:doctor",
        "Show which isolation works on this machine, and how to get more.",
    ),
    LazyCommand(
        "policy",
        "paddock.cli.policy_command:policy",
        "Show or check the operator's files: policies, accepted plans, secrets and sources.",
        inside=("check", "forget", "show"),
    ),
    LazyCommand(
        "selftest",
        "paddock.cli.selftest_command:selftest",
        "Attack the sandbox on this machine, and show the result of each attack.",
    ),
    LazyCommand(
        "why",
        "paddock.cli.why_command:why",
        "Explain whether MODULE may do something, by which rules, and what would allow it.",
    ),
    LazyCommand(
        "init",
        "paddock.cli.init.init_command:init",
        "Write a plan with the model and the tools that you choose.",
    ),
    LazyCommand(
        "add",
        "paddock.cli.sources.add_command:add",
        "Fetch a module and lock it in paddock.lock; with --to, also add it to a plan.",
        workers=lambda args: "programs" if any(arg.startswith("git+") for arg in args) else None,
    ),
    LazyCommand(
        "remove",
        "paddock.cli.sources.remove_command:remove",
        "Remove a module from paddock.lock; with --from, also from a plan.",
    ),
    LazyCommand(
        "list",
        "paddock.cli.sources.list_command:list_",
        "List modules with the source of each and what it is pinned to.",
    ),
    LazyCommand(
        "lock",
        "paddock.cli.sources.lock_command:lock",
        "Lock the modules of a plan that paddock.lock lacks; keep the rest.",
    ),
    LazyCommand(
        "sync",
        "paddock.cli.sources.sync_command:sync",
        "Fetch and install everything that is locked, so that it runs without a network.",
    ),
    LazyCommand(
        "update",
        "paddock.cli.sources.update_command:update",
        "Take newer versions of locked modules, and show what changed.",
    ),
    LazyCommand(
        "verify",
        "paddock.cli.sources.verify_command:verify",
        "Check that everything locked is unchanged, and that tags lead where they led.",
    ),
    LazyCommand(
        "cache",
        "paddock.cli.sources.cache_command:cache",
        "Show, check and shrink the cache of modules' code and dependencies.",
        inside=("clean", "dir", "list", "prune", "size", "verify"),
    ),
    LazyCommand(
        "module",
        "paddock.cli.modules:module",
        "Write modules: start a project, validate it, run its tests, open a shell for it.",
        inside=("new", "shell", "test", "validate"),
    ),
    LazyCommand(
        "help",
        "paddock.cli.help_command:help_",
        "Show a page of the manual, or the help of a command.",
    ),
)


@click.group(
    cls=CommandGroup,
    commands=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=example("paddock init"),
)
@click.version_option(__version__, "-V", "--version", prog_name="paddock", message="%(prog)s %(version)s")
def paddock() -> None:
    """Run Amplifier modules (plug-ins of agents), each in its own sandboxed process.

    Data goes to stdout, messages go to stderr. `COMMAND --help` shows the options and an example of each command.
    """
