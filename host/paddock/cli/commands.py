"""The command `paddock`: the table of its commands, and the place of each."""

from __future__ import annotations

import click

from paddock import __version__
from paddock.cli.command_group import CommandGroup, LazyCommand

_COMMANDS = (
    LazyCommand(
        "run",
        "paddock.cli.run_command:run",
        "Run one turn of a session: start the modules of PLAN, hand them PROMPT, print the answer.",
        workers=lambda args: "modules",
    ),
    LazyCommand(
        "chat",
        "paddock.cli.chat.chat_command:chat",
        "Hold a conversation with the modules of PLAN, by default plan.yaml.",
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
        "Show what isolation this machine gives modules, and how to get more.",
    ),
    LazyCommand(
        "policy",
        "paddock.cli.policy_command:policy",
        "Show or check the operator's files: policy, accepted plans, places of secrets, settings of sources.",
    ),
    LazyCommand(
        "selftest",
        "paddock.cli.selftest_command:selftest",
        "Attack the sandbox of this machine for real, and show the result of each attack.",
    ),
    LazyCommand(
        "why",
        "paddock.cli.why_command:why",
        "Explain whether MODULE may do something, by which rules, and which line would allow it.",
    ),
    LazyCommand(
        "init",
        "paddock.cli.init.init_command:init",
        "Write a plan to PLAN, by default plan.yaml, with the model and the tools that you choose.",
    ),
    LazyCommand(
        "add",
        "paddock.cli.sources.add_command:add",
        "Fetch SOURCE, lock it in paddock.lock and, with --to, name it in a plan.",
        workers=lambda args: "programs" if any(arg.startswith("git+") for arg in args) else None,
    ),
    LazyCommand(
        "remove",
        "paddock.cli.sources.remove_command:remove",
        "Take a module out of paddock.lock and, with --from, out of a plan.",
    ),
    LazyCommand(
        "list",
        "paddock.cli.sources.list_command:list_",
        "List modules: where each comes from, and what it is pinned to.",
    ),
    LazyCommand(
        "lock",
        "paddock.cli.sources.lock_command:lock",
        "Lock the modules of PLAN, by default plan.yaml, that paddock.lock lacks; keep the rest.",
    ),
    LazyCommand(
        "sync",
        "paddock.cli.sources.sync_command:sync",
        "Fetch and install all that is locked, so that it runs without a network.",
    ),
    LazyCommand(
        "update",
        "paddock.cli.sources.update_command:update",
        "Take newer versions of locked modules, by default of all, and show what moved.",
    ),
    LazyCommand(
        "verify",
        "paddock.cli.sources.verify_command:verify",
        "Read all that is locked again, and check that tags lead where they led.",
    ),
    LazyCommand(
        "cache",
        "paddock.cli.sources.cache_command:cache",
        "Show, check and shrink the cache of modules' code and dependencies.",
    ),
    LazyCommand(
        "module",
        "paddock.cli.modules:module",
        "Write modules: start a project, validate it, run its tests.",
    ),
    LazyCommand(
        "help",
        "paddock.cli.help_command:help_",
        "Show the manual's page on TOPIC, or the help of the command that TOPIC names.",
    ),
)


@click.group(
    cls=CommandGroup,
    commands=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, "-V", "--version", prog_name="paddock", message="%(prog)s %(version)s")
def paddock() -> None:
    """Run Amplifier plug-in modules, each in a process of its own.

    Data goes to stdout, everything else to stderr.
    """
