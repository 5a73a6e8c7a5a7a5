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
        starts_modules=True,
    ),
    LazyCommand(
        "chat",
        "paddock.cli.chat.chat_command:chat",
        "Talk with the modules of PLAN, by default plan.yaml: on a terminal, or a line in and an answer out.",
        starts_modules=True,
    ),
    LazyCommand(
        "call",
        "paddock.cli.call_command:call",
        "Call one tool of one module and print what it returns.",
        starts_modules=True,
    ),
    LazyCommand(
        "demo",
        "paddock.cli.demo_command:demo",
        "Run a small job with five kinds of modules, six misbehaving ones beside them, and show what became of each.",
        starts_modules=True,
    ),
    LazyCommand(
        "doctor",
        "paddock.cli.doctor_command:doctor",
        "Find out what isolation this machine gives modules, and how to get more.",
    ),
    LazyCommand(
        "policy",
        "paddock.cli.policy_command:policy",
        "Look at the operator's files: the policy, accepted plans, places of secrets, settings of sources.",
    ),
    LazyCommand(
        "selftest",
        "paddock.cli.selftest_command:selftest",
        "Attack the isolation of this machine for real, and show what became of each attack; by default of all.",
    ),
    LazyCommand(
        "why",
        "paddock.cli.why_command:why",
        "Explain whether MODULE may do a thing, by which rules, and which line would let it.",
    ),
    LazyCommand(
        "init",
        "paddock.cli.init.init_command:init",
        "Write a plan that runs, PLAN or plan.yaml: ask on a terminal, or take options, who answers with which tools.",
    ),
    LazyCommand(
        "add",
        "paddock.cli.sources.add_command:add",
        "Fetch SOURCE, lock it in paddock.lock and, with --to, name it in a plan.",
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
        "Lock what PLAN names, by default plan.yaml, and its paddock.lock lacks; what is locked stays as it is.",
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
        "Read again all that is locked, and see whether tags still lead to where they led.",
    ),
    LazyCommand(
        "cache",
        "paddock.cli.sources.cache_command:cache",
        "Look after the cache, which keeps the code of modules and what they depend on.",
    ),
    LazyCommand(
        "module",
        "paddock.cli.modules:module",
        "Write modules: start one, see whether it is what hosts expect, run its tests.",
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
