"""The command `paddock`: the table of its commands, and the place of each."""

from __future__ import annotations

import click

from paddock import __version__
from paddock.cli.command_group import CommandGroup, ForeseenWorkers, LazyCommand, example
from paddock.cli.mcp import COMMANDS as _OF_MCP

_MCP = "Sandbox the MCP servers that a client starts, and serve a plan's tools to a client."
_MODULES = "Write modules: start a project, validate it, run its tests, open a shell for it."
_COMMANDS = {  # by their folder, with the first sentence of their help; `_` ends a name that is one of Python's
    "": {
        "run": "Run one turn: start the modules of PLAN, give them PROMPT, and print the answer.",
        "batch": "Run the tasks of a file with PLAN, a session each, and keep one result a task.",
        "call": "Call one tool of one module and print what it returns.",
        "demo": "Run twelve modules, six of which misbehave, and show what stopped each.",
        "doctor": "Show which isolation works on this machine, and how to get more.",
        "policy": "Show or check the operator's files: policies, accepted plans, secrets and sources.",
        "report": "Write a page on what each module of SESSION was granted, used, was refused and took.",
        "selftest": "Attack the sandbox on this machine, and show the result of each attack.",
        "audit": "Show what ran, what was refused and how modules ended; `verify` checks that no line was changed.",
        "sessions": "List, show, export and delete the sessions that were kept; `run --resume` goes on with one.",
        "why": "Explain whether MODULE may do something, by which rules, and what would allow it.",
        "help_": "Show a page of the manual, or the help of a command.",
    },
    ".operating": {
        "ps": "Show the sessions that run, with what each module does and uses; root sees those of all users.",
        "top": "Show the sessions that run, again each second; c, m and n sort by processor, memory and name, q quits.",
        "logs": "Show what the modules of running sessions printed, or only MODULE.",
        "end": "End a session that runs, or a module of it, which is started again when it is next called.",
    },
    ".chat": {"chat": "Hold a conversation with the modules of PLAN."},
    ".init": {"init": "Write a plan with the model and the tools that you choose."},
    ".sources": {
        "add": "Fetch a module and lock it in paddock.lock; with --to, also add it to a plan.",
        "remove": "Remove a module from paddock.lock; with --from, also from a plan.",
        "list_": "List modules with the source of each and what it is pinned to.",
        "lock": "Lock the modules of a plan that paddock.lock lacks; keep the rest.",
        "sync": "Fetch and install everything that is locked, so that it runs without a network.",
        "update": "Take newer versions of locked modules, and show what changed.",
        "verify": "Check that everything locked is unchanged, and that tags lead where they led.",
        "cache": "Show, check and shrink the cache of modules' code and dependencies.",
    },
}
_INSIDE = {
    "audit": ("verify",),
    "policy": ("check", "forget", "show"),
    "cache": ("clean", "dir", "list", "prune", "size", "verify"),
    "sessions": ("delete", "export", "lift", "list", "show"),
}


def _listed(folder: str, function: str, brief: str) -> LazyCommand:
    name = function.removesuffix("_")
    place = f"paddock.cli{folder}.{name}_command:{function}"
    return LazyCommand(name, place, brief, inside=_INSIDE.get(name, ()), workers=_workers_of(name))


def _workers_of(name: str) -> ForeseenWorkers:
    if name == "add":
        return lambda args: "programs" if any(arg.startswith("git+") for arg in args) else None
    return lambda args: "modules" if name in ("run", "batch", "chat", "call", "demo") else None


@click.group(
    cls=CommandGroup,
    commands=[
        *(_listed(folder, *one) for folder, commands in _COMMANDS.items() for one in commands.items()),
        LazyCommand("module", "paddock.cli.modules:module", _MODULES, inside=("new", "shell", "test", "validate")),
        LazyCommand("mcp", "paddock.cli.mcp:mcp", _MCP, inside=tuple(_OF_MCP)),
    ],
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=example("paddock init"),
)
@click.version_option(__version__, "-V", "--version", prog_name="paddock", message="%(prog)s %(version)s")
def paddock() -> None:
    """Run Amplifier modules (plug-ins of agents), each in its own sandboxed process.

    Data goes to stdout, messages go to stderr. `COMMAND --help` shows the options and an example of each command.
    """
