"""Run the tasks of a file, a session each, and keep one result a task.

`--json`: `{"tasks", "done", "failed", "lost", "results": path, "error"}`, of this shard, with the tasks of the runs
that it goes on with. Exit codes: 0 all are done; 1 one failed or is lost, or the run cannot go on; 4 a policy refused;
130 interrupted: `--resume` goes on.
"""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import aclosing, closing, nullcontext, redirect_stdout
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread
import click

from paddock.batch.batch import Batch, PlacesOf, Repeat
from paddock.batch.local import SessionSettings, local_places, refuse_paths_above
from paddock.batch.result import TaskResult
from paddock.batch.task_file import Shard, TaskFile
from paddock.cli import failure
from paddock.cli.answer import CommandAnswer, CommandReport
from paddock.cli.bundle_plan import plan_of
from paddock.cli.command_group import example
from paddock.cli.options import JSON, QUIET, SessionOptions, plan_options, this_command
from paddock.cli.plan_options import read_presets
from paddock.cli.session_on_screen import SessionOpener
from paddock.cli.terminal.consent import TerminalConsent
from paddock.cli.terminal.dialogue import Dialogue
from paddock.cli.terminal.interruption import Interruption
from paddock.cli.terminal.log_lines import LogLines
from paddock.cli.terminal.progress import ActivityLine
from paddock.cli.terminal.render import Screen
from paddock.errors import PaddockError
from paddock.plan.load import load_plan
from paddock.plan.model import MountPlan
from paddock.ray.options import RayOptions
from paddock.session.session import ModuleStatus
from paddock_sources.locked_sources import LockUse

_STATUSES: Final = ("done", "failed", "lost")
_TOLD: Final = 10  # failures; of more there is the number, and each is in its result
_PERIOD: Final = 10.0  # seconds between two lines of progress at least, where no line can be replaced
_SHORT: Final = 200  # characters of an error's message


def _read_shard(context: click.Context, parameter: click.Parameter, written: str) -> Shard:
    number, slash, count = written.partition("/")
    if slash and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count):
        return Shard(int(number), int(count))
    raise click.BadParameter(f"`{written}` is no K/N with K from 1 to N, such as 1/4")


@click.command(epilog=example("paddock batch plan.yaml tasks.jsonl --out results"))
@click.argument("plan")
@click.argument("tasks", type=click.Path(path_type=Path))
@click.option(
    "--out",
    metavar="DIR",
    required=True,
    type=click.Path(path_type=Path),
    help="Keep the results there.",
)
@click.option(
    "--concurrency",
    metavar="N",
    type=click.IntRange(1),
    default=8,
    help="Run up to N at once; 8 by default.",
)
@click.option(
    "--shard",
    metavar="K/N",
    callback=_read_shard,
    default="1/1",
    help="Run the Kth of N parts of the tasks.",
)
@click.option(
    "--repeat",
    type=click.Choice(["never", "if-nothing-acted", "always"]),
    default="if-nothing-acted",
    help="Run a task again whose session was lost: by default if nothing in it can have acted outside its folder.",
)
@click.option("--resume", is_flag=True, help="Go on with the run in DIR: tasks that have a result stay as they are.")
@click.option(
    "--ray",
    "address",
    metavar="ADDRESS",
    help="Run on the nodes of a Ray cluster: HOST:PORT, or `auto` for that of this machine.",
)
@click.option(
    "--per-node",
    metavar="N",
    type=click.IntRange(1),
    default=8,
    help="With --ray, run up to N on each node at once.",
)
@click.option(
    "--shared",
    metavar="DIR",
    multiple=True,
    type=click.Path(path_type=Path),
    help="With --ray, a folder that is the same on all nodes, in which absolute paths may be granted.",
)
@click.option(
    "--send-secrets", is_flag=True, help="With --ray, give nodes the values of secrets; else each has its own."
)
@plan_options
@JSON
@QUIET
def batch(
    plan: str,
    tasks: Path,
    out: Path,
    concurrency: int,
    shard: Shard,
    repeat: Repeat,
    resume: bool,
    address: str | None,
    per_node: int,
    shared: tuple[Path, ...],
    send_secrets: bool,
    options: SessionOptions,
    as_json: bool,
    quiet: bool,
) -> int:
    """Run the tasks of a file with PLAN, a session each, and keep one result a task.

    A task is a line of JSON: {"id": "a1", "prompt": "...", "files": {name: path}, "vars": {}}.
    """
    screen = Screen(sys.stderr, is_quiet=quiet)
    cluster = None
    if address is not None:
        cluster = RayOptions(address, per_node, send_secrets, tuple(Path(one).absolute() for one in shared))
    elif shared or send_secrets:
        raise click.UsageError("`--shared` and `--send-secrets` are about the nodes of `--ray ADDRESS`")
    run = _Run(plan_of(plan), options, screen, concurrency, cluster)
    report = CommandReport(screen, as_json, beside=run.facts)
    with LogLines(screen), run.opener.fetching:
        return report.answer(lambda: asyncio.run(run.run(tasks, out, shard, repeat, resumes=resume)))


class _Run:
    """One run, as the person at the terminal sees it."""

    def __init__(
        self, plan: Path, options: SessionOptions, screen: Screen, concurrency: int, cluster: RayOptions | None
    ) -> None:
        self.opener = SessionOpener(plan, options, screen, is_verbose=False)
        self.facts: dict[str, Any] = {"tasks": None, "done": 0, "failed": 0, "lost": 0, "results": None}
        self._plan = plan
        self._screen = screen
        self._concurrency = concurrency
        self._cluster = cluster
        self._consent = TerminalConsent(Dialogue.at(screen, sys.stdin), plan)
        sources = options.sources.read(self.opener.fetching)
        if sources.use is LockUse.UPDATE:
            sources = replace(sources, use=LockUse.LOCKED)
        self._settings = SessionSettings(
            isolation=options.isolation,
            trust_plan=options.trust_plan,
            grants=read_presets(options.grants),
            consent=self._consent,
            sources=sources,
        )
        self._began = 0.0  # when the first task did; 0 before
        self._before = 0  # tasks that had their result by then
        self._told = 0
        self._last_told = time.monotonic()

    async def run(self, tasks: Path, out: Path, shard: Shard, repeat: Repeat, *, resumes: bool) -> CommandAnswer:
        """Run the tasks to their ends, and return the counts."""
        await self.opener.ready()
        plan = load_plan(self._plan)
        refuse_paths_above(plan, out, tasks)
        checked = await anyio.to_thread.run_sync(TaskFile.checked, tasks, shard)
        opened = partial(Batch, checked, out, plan.digest, repeat=repeat, resumes=resumes)
        with closing(await anyio.to_thread.run_sync(opened)) as batch:
            self.facts |= {"tasks": checked.count, "results": str(batch.ledger.kept.path)}
            self._count(batch)
            places = self._places(plan)
            with (
                anyio.CancelScope() as scope,
                Interruption(self._screen.note, lambda: self._stop(batch), scope.cancel) as interruption,
                ActivityLine(self._screen, self._progress),
                nullcontext() if self._cluster is None else redirect_stdout(sys.stderr),  # Ray tells there of nodes
            ):
                try:
                    async with aclosing(batch.results(places)) as results:
                        async for result in results:
                            self._take(result, batch)
                except PaddockError as error:
                    failure.name_plan(error, self._plan)
                    if not self._consent.starts_again:
                        raise
                finally:
                    self._count(batch)
        if interruption.happened:
            command = this_command(*([] if resumes else ["--resume"]))
            self._screen.note(f"to go on: {command or 'the same command with `--resume`'}")
            raise interruption.end
        if self._consent.starts_again:
            return await self.run(tasks, out, shard, repeat, resumes=resumes)
        code = 1 if self.facts["failed"] or self.facts["lost"] else 0
        rows = [(name, str(value)) for name, value in self.facts.items()]
        return CommandAnswer(self.facts, lambda output: output.listing(rows), code)

    def _places(self, plan: MountPlan) -> PlacesOf:
        if self._cluster is None:
            return partial(
                local_places,
                plan,
                settings=self._settings,
                most=self._concurrency,
                tell=self._begin,
            )
        from paddock.ray.places import ray_places  # an extra, and few runs leave this machine

        def left_out(name: str, why: str) -> None:
            self._screen.warning(f"node {name} gets no work: {why}")

        cluster = replace(self._cluster, left_out=left_out, began=lambda: self._begin(()))
        return partial(ray_places, plan, settings=self._settings, options=cluster)

    def _begin(self, modules: tuple[ModuleStatus, ...]) -> None:
        if modules:  # else they start elsewhere
            self.opener.started(modules)
        self._began = time.monotonic()
        self._before = self._ended

    def _stop(self, batch: Batch) -> bool:
        batch.stop()
        return bool(self._began)

    @property
    def _ended(self) -> int:
        return sum(self.facts[name] for name in _STATUSES)

    def _count(self, batch: Batch) -> None:
        self.facts |= {name: batch.ledger.counts[name] for name in _STATUSES}

    def _take(self, result: TaskResult, batch: Batch) -> None:
        self._count(batch)
        if result.status != "done" and self._told < _TOLD:
            self._told += 1
            error = result.error or {}
            message = " ".join(str(error.get("message", "")).split())[:_SHORT]
            self._screen.warning(f"task {result.id} {result.status}: {error.get('type')}: {message}")
        if not self._screen.is_terminal and time.monotonic() - self._last_told > _PERIOD:
            self._last_told = time.monotonic()
            self._screen.note(self._progress())

    def _progress(self) -> str:
        if not self._began:
            return "starting a first session"
        left = self.facts["tasks"] - self._ended
        rate = (self._ended - self._before) / max(time.monotonic() - self._began, 0.001)
        time_left = f", {timedelta(seconds=round(left / rate))} left" if rate else ""
        counts = ", ".join(f"{self.facts[name]} {name}" for name in _STATUSES if self.facts[name] or name == "done")
        return f"{self._ended} of {self.facts['tasks']} tasks: {counts}; {rate:.1f} a second{time_left}"
