"""Which commands there are, and what each is given; what they do is in a file of their own, loaded when one is run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

import paddock as package
from paddock.cli.command_group import CommandGroup
from paddock.cli.modules.module_commands import module
from paddock.cli.sources.cache_commands import cache
from paddock.cli.sources.source_commands import SOURCE_COMMANDS

if TYPE_CHECKING:
    from paddock.isolation.denials.explain import Family
    from paddock_sandbox.profile import IsolationLevel

_WORKING_DIR = click.option(
    "-C",
    "working_dir",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The folder modules work in; by default the current one.",
)
_ISOLATING = ["ns", "bwrap", "landlock"]
_LEVELS = click.Choice([*_ISOLATING, "none"])
_JSON = click.option("--json", "as_json", is_flag=True, help="Write one JSON object to stdout, and nothing else.")

_RUN_ISOLATION = click.option(
    "--isolation",
    type=_LEVELS,
    help="Run modules at this isolation level, unless their entry names one, and accept it however weak it is; by "
    "default the strongest there is.",
)
_TRUST_PLAN = click.option(
    "--trust-plan",
    is_flag=True,
    help="Accept all that the plan asks for, for this run; nothing is remembered.",
)
_GRANTS = click.option(
    "--grant",
    "grants",
    metavar="MODULE=PRESET",
    multiple=True,
    help="Give a module that the plan grants nothing this preset, for this run; can be repeated, or take several with "
    "commas between them.",
)

_SOURCES = (
    click.option("--offline", is_flag=True, help="Fetch nothing: run what the cache has, or say what it lacks."),
    click.option("--locked", is_flag=True, help="Refuse to start if paddock.lock is not up to date."),
    click.option("--frozen", is_flag=True, help="Run exactly what paddock.lock says, and never change it."),
    click.option("--dev", is_flag=True, help="Run modules in folders from there, and not from a copy."),
)


def _source_options(command: Callable[..., int]) -> Callable[..., int]:
    for option in reversed(_SOURCES):
        command = option(command)
    return command


# What each family of grants takes, as a plan has it.
_FAMILIES = {
    "read": ("PATH", "A folder or file it may read."),
    "write": ("PATH", "A folder or file it may read and change."),
    "run": ("PROGRAM", "A program it may execute; `*`: any of the system's."),
    "env": ("NAME[=VALUE]", "An environment variable, passed on or set."),
    "secrets": ("NAME", "A secret of yours that --config may refer to as ${NAME}."),
    "net": ("HOST[:PORT]", "A host it may connect to, at port 443 unless one is written."),
    "call": (
        "WHAT",
        "What it may call without having been handed it: tools, tools:<name>, providers, context, spawn, `*`.",
    ),
    "emit": ("EVENT", "Events it may emit beyond those of its kind."),
    "hooks": ("EVENT", "Events it may handle."),
    "mount": ("POINT", "Where it may mount what is of another kind: providers, orchestrator, context."),
}


def _allow_options(command: Callable[..., int]) -> Callable[..., int]:
    for family, (takes, what) in reversed(_FAMILIES.items()):
        command = click.option(f"--allow-{family}", metavar=takes, multiple=True, help=what)(command)
    return command


def _one_prompt(context: click.Context, parameter: click.Parameter, words: tuple[str, ...]) -> str | None:
    if len(words) > 1:
        raise click.UsageError("the prompt is one argument: put it in quotes, as in 'What changed?'", context)
    return words[0] if words else None


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package.__version__, prog_name="paddock", message="%(prog)s %(version)s")
def paddock() -> None:
    """Run Amplifier plug-in modules, each in a process of its own.

    Data goes to stdout, everything else to stderr.
    """


@paddock.command()
@click.argument("plan", type=click.Path(path_type=Path))
@click.argument("prompt", nargs=-1, metavar="[PROMPT]", callback=_one_prompt)
@_WORKING_DIR
@_RUN_ISOLATION
@_TRUST_PLAN
@_GRANTS
@_source_options
@_JSON
@click.option("-v", "--verbose", is_flag=True, help="List every module and its grants, and tell more of what happens.")
def run(
    plan: Path,
    prompt: str | None,
    working_dir: Path | None,
    isolation: IsolationLevel | None,
    trust_plan: bool,
    grants: tuple[str, ...],
    as_json: bool,
    verbose: bool,
    **sources: bool,
) -> int:
    """Run one turn of a session: start the modules of PLAN, hand them PROMPT, print the answer.

    Without PROMPT it is read from stdin.
    """
    from paddock.cli.run_command import run_turn
    from paddock.cli.source_options import SourceFlags

    return run_turn(
        plan,
        prompt,
        working_dir,
        isolation=isolation,
        trust_plan=trust_plan,
        grants=grants,
        sources=SourceFlags(**sources),
        as_json=as_json,
        verbose=verbose,
    )


@paddock.command()
@click.argument("plan", type=click.Path(path_type=Path), default="plan.yaml")
@_WORKING_DIR
@_RUN_ISOLATION
@_TRUST_PLAN
@_GRANTS
@_source_options
@click.option("-v", "--verbose", is_flag=True, help="Show what is for developers too, such as the model's thinking.")
def chat(
    plan: Path,
    working_dir: Path | None,
    isolation: IsolationLevel | None,
    trust_plan: bool,
    grants: tuple[str, ...],
    verbose: bool,
    **sources: bool,
) -> int:
    """Talk with the modules of PLAN, by default plan.yaml: on a terminal, or a line in and an answer out.

    On a terminal, /help lists the commands and keys.
    """
    from paddock.cli.chat.chat_command import run_chat
    from paddock.cli.chat.chat_options import ChatOptions

    return run_chat(ChatOptions(plan, working_dir, isolation, trust_plan, grants, sources, verbose))


@paddock.command()
@click.argument("source")
@click.argument("tool")
@click.argument("arguments", metavar="[JSON|-]", default="{}")
@click.option("--config", metavar="JSON", default="{}", help="The module's configuration.")
@click.option(
    "--limit", "limits", metavar="K=V", multiple=True, help="A limit, as in runtime_max=30s; can be repeated."
)
@_allow_options
@click.option(
    "--isolation",
    type=_LEVELS,
    help="The isolation level, accepted however weak it is; by default the strongest there is.",
)
@_WORKING_DIR
@_source_options
@_JSON
def call(
    source: str,
    tool: str,
    arguments: str,
    config: str,
    limits: tuple[str, ...],
    isolation: IsolationLevel | None,
    working_dir: Path | None,
    offline: bool,
    locked: bool,
    frozen: bool,
    dev: bool,
    as_json: bool,
    **grants: tuple[str, ...],
) -> int:
    """Call one tool of one module and print what it returns.

    SOURCE is what a plan accepts: a folder (./module), git+https://…@ref, a package (name==version), builtin:<id>, or
    the id of a module that is shipped. The tool's input is a JSON object; `-` reads it from stdin. A paddock.lock in
    the working directory applies.

    The module is granted what the `--allow-` options say and nothing else. They can be repeated, and take several
    values with commas between them; a comma of a value's own is written twice.
    """
    from paddock.cli.call_command import call_tool
    from paddock.cli.source_options import SourceFlags

    families = {name.removeprefix("allow_"): values for name, values in grants.items()}
    return call_tool(
        source,
        tool,
        arguments,
        config,
        limits,
        families,
        isolation,
        working_dir,
        sources=SourceFlags(offline, locked, frozen, dev),
        as_json=as_json,
    )


@paddock.command()
@_JSON
def demo(as_json: bool) -> int:
    """Run a small job with five kinds of modules, six misbehaving ones beside them, and show what became of each."""
    from paddock.cli.demo_command import run_demo

    return run_demo(as_json=as_json)


@paddock.command()
@_JSON
def doctor(as_json: bool) -> int:
    """Find out what isolation this machine gives modules, and how to get more.

    Tries every isolation level for real. Exits with 0 when sessions run without further ado, else with 1.
    """
    from paddock.cli.doctor_command import run_doctor

    return run_doctor(as_json=as_json)


@paddock.command()
@click.argument("attacks", nargs=-1, metavar="[ATTACK]...")
@click.option(
    "--isolation",
    "levels",
    type=click.Choice(_ISOLATING),
    multiple=True,
    help="A level to attack; can be repeated. By default all that can be had.",
)
@_JSON
def selftest(attacks: tuple[str, ...], levels: tuple[IsolationLevel, ...], as_json: bool) -> int:
    """Attack the isolation of this machine for real, and show what became of each attack; by default of all.

    The name of an attack is what the table begins each of its entries with. A name that is none is answered with the
    list of all.
    """
    from paddock.cli.selftest_command import run_selftest

    return run_selftest(attacks, levels, as_json=as_json)


@paddock.command()
@click.argument("module")
@click.argument("kind", type=click.Choice([*_FAMILIES]), metavar="KIND")
@click.argument("target")
@click.option("--session", metavar="ID", help="The session; by default the newest in this folder that ran the module.")
@click.option("--plan", type=click.Path(path_type=Path), help="Explain what this plan would grant; nothing is run.")
@_WORKING_DIR
@_JSON
def why(
    module: str,
    kind: Family,
    target: str,
    session: str | None,
    plan: Path | None,
    working_dir: Path | None,
    as_json: bool,
) -> int:
    """Explain whether MODULE may do a thing, by which rules, and which line would let it.

    KIND is a family of permissions (read, write, run, env, secrets, net, call, emit, hooks, mount), TARGET what it is
    about: a path, a program, a host[:port], the name of a variable or secret, `tools:<name>`, an event, a mount point.
    Exits with 0 for what it may, with 4 for what it may not.
    """
    from paddock.cli.why_command import run_why

    return run_why(module, kind, target, session=session, plan=plan, working_dir=working_dir, as_json=as_json)


@paddock.command()
@click.argument("plan", type=click.Path(path_type=Path), default="plan.yaml")
@click.option(
    "--provider",
    metavar="NAME",
    help="Who answers: openai, anthropic; ollama, vllm, lmstudio, llama.cpp or `local`, asked for its models on this "
    "machine; `server`, named by --base-url; the id of a shipped provider, or a folder with its code.",
)
@click.option("--model", metavar="NAME", help="The model that answers.")
@click.option("--key-variable", metavar="VARIABLE", help="The variable that holds the key. `none`: no key is needed.")
@click.option("--base-url", metavar="URL", help="Where the service is, if not at its usual address.")
@click.option(
    "--tool", "tools", metavar="MODULE", multiple=True, help="A tool, likewise; can be repeated. `none`: no tool."
)
@click.option(
    "--approval/--no-approval",
    "approvals",
    default=None,
    help="Whether you are asked before a tool writes or runs a program; by default on a terminal.",
)
@click.option("--log/--no-log", "logs", default=None, help="Whether to keep a log of the session's events in ./logs.")
@click.option("--yes", is_flag=True, help="Ask nothing; what no option says is as it is by default.")
@click.option("--force", is_flag=True, help="Replace the plan if it is there already.")
@_JSON
def init(
    plan: Path,
    provider: str | None,
    model: str | None,
    key_variable: str | None,
    base_url: str | None,
    tools: tuple[str, ...],
    approvals: bool | None,
    logs: bool | None,
    yes: bool,
    force: bool,
    as_json: bool,
) -> int:
    """Write a plan that runs, PLAN or plan.yaml: ask on a terminal, or take options, who answers with which tools.

    A folder is a module's repository, or its package; what a module is granted there fits what it is, and the plan says
    what each grant is for.
    """
    from paddock.cli.init.init_command import run_init
    from paddock.cli.init.provider_choice import ServiceOptions

    service = ServiceOptions(model, key_variable, base_url)
    return run_init(
        plan,
        provider,
        tools,
        logs,
        approvals=approvals,
        asks_nothing=yes,
        replaces=force,
        as_json=as_json,
        service=service,
    )


for _command in (*SOURCE_COMMANDS, cache, module):
    paddock.add_command(_command)
