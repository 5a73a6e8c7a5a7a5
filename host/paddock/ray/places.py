"""Run tasks on the nodes of a Ray cluster: what is refused before, and the run."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from ipaddress import ip_address
from pathlib import Path, PurePosixPath
from typing import Any, Final

import anyio
import anyio.to_thread

from paddock.authorization.authorizer import Authorizer
from paddock.batch.batch import Repeat
from paddock.batch.local import USUAL, LocalPlace, SessionSettings, run_at
from paddock.batch.place import Attempt, Places
from paddock.batch.result import TaskResult
from paddock.batch.task_file import WHOLE, Shard
from paddock.errors import KindError, PlanError, PlanProblem
from paddock.plan.model import MountPlan
from paddock.plan.net_rule import NetRule
from paddock.plan.permissions import grants_of
from paddock.policy.secrets.store import SecretSources
from paddock.ray.cluster import RayCluster
from paddock.ray.node import facts_of
from paddock.ray.options import RayOptions
from paddock.ray.pool import Pool
from paddock.ray.shipping import shipment_of
from paddock.session.host import Host
from paddock.text import reason_of
from paddock_sources.cache import SourceCache

_MAX_LENT_BYTES: Final = 64 << 10  # what is larger, Ray would keep as an object


def run(
    plan: Path | str,
    tasks: Path | str,
    *,
    out: Path | str,
    address: str = "auto",
    per_node: int = 8,
    shard: Shard = WHOLE,
    repeat: Repeat = "if-nothing-acted",
    resume: bool = False,
    send_secrets: bool = False,
    shared: Iterable[Path | str] = (),
    settings: SessionSettings = USUAL,
) -> AsyncIterator[TaskResult]:
    """Run the tasks of a file on a cluster, `per_node` at once on each node; yield each result in the order of ends.

    Else as `paddock.batch.run`. `send_secrets` gives nodes the values of secrets from here. Absolute paths may be
    granted in the `shared` folders alone, which have to be the same on all nodes.

    Raises:
        TaskFileError: the file of tasks has a mistake; nothing was run.
        LedgerError: the folder is that of another run, in use, or cannot be written to.
        PaddockError: Ray is not installed or does not answer, the plan cannot be run on it, or no node runs tasks and
            none has come for a minute.
    """
    options = RayOptions(address, per_node, send_secrets, tuple(map(Path, shared)))
    places = partial(ray_places, settings=settings, options=options)
    return run_at(places, plan, Path(tasks), Path(out), shard, repeat, resumes=resume)


@asynccontextmanager
async def ray_places(
    plan: MountPlan,
    first: Attempt,
    *,
    settings: SessionSettings,
    options: RayOptions,
) -> AsyncIterator[Places]:
    """Provide the nodes of a cluster as places.

    Raises:
        PaddockError: there is no cluster, or the plan cannot be run on it.
    """
    environ = os.environ if settings.environ is None else settings.environ
    refuse_one_machines(plan, options.shared)
    authorizer = await Authorizer.at_work(Path.cwd(), environ, None)
    if not await authorizer.is_accepted(plan, trust_plan=settings.trust_plan):
        async with Host() as host:  # a question is asked here, or tells at once how to answer it
            await LocalPlace(plan, settings, host).check(first)
    async with RayCluster.connected(options.address) as cluster:
        refuse_ways_to_nodes(plan, await cluster.addresses())
        with SourceCache.of_user(environ) as cache, tokens_in(options.shared) as tokens:
            shipment = replace(
                await shipment_of(plan, authorizer, settings, environ, cache),
                tokens=tokens,
                lent=await _lent(plan, environ) if options.sends_secrets else {},
            )
            async with Pool.opened(cluster.nodes, shipment, options, await facts_of(environ)) as pool:
                options.began()
                yield pool


def refuse_one_machines(plan: MountPlan, shared: tuple[Path, ...]) -> None:
    """Refuse grants of paths at which each node would have files of its own.

    Raises:
        PlanError: it names each of them.
    """
    hint = "name a folder that all nodes share with `--shared`, or hand files over in `files` of the task"
    problems = []
    for entry in plan.entries():
        granted = grants_of(entry.permissions)
        for family, paths in (("read", granted.read_paths), ("write", granted.write)):
            for path in paths:
                if path.startswith(("/", "~")) and not any(map(PurePosixPath(path).is_relative_to, shared)):
                    place = f"{entry.path}.permissions.{family}"
                    problems.append(PlanProblem(place, f"`{path}` is another folder on each node", hint))
    _raise(plan, problems)


def refuse_ways_to_nodes(plan: MountPlan, addresses: frozenset[str]) -> None:
    """Refuse grants of connections to a node by its address or name: Ray runs what is sent to its ports.

    Raises:
        PlanError: it names each of them.
    """
    hosts = [_host(one) for one in (*addresses, "127.0.0.1", "::1")]
    problems = []
    for entry in plan.entries():
        for written in grants_of(entry.permissions).net:
            rule = NetRule.parse(written)
            if not rule.is_public and not rule.is_self and any(map(rule.names, hosts)):
                problem = f"`{written}` reaches a node of the cluster, where Ray runs what is sent to it as its user"
                hint = "name a host that is no node of the cluster"
                problems.append(PlanProblem(f"{entry.path}.permissions.net", problem, hint))
    _raise(plan, problems)


def _raise(plan: MountPlan, problems: list[PlanProblem]) -> None:
    if problems:
        raise PlanError(problems, origin=None if plan.origin is None else str(plan.origin))


@contextmanager
def tokens_in(shared: Iterable[Path]) -> Iterator[dict[str, str]]:
    """Put a file into each shared folder, by which a node knows that it is the same; yield their contents."""
    tokens: dict[str, str] = {}
    try:
        for folder in shared:
            token = secrets.token_hex(16)
            place = folder / f".paddock-{token[:8]}"
            try:
                place.write_text(token, encoding="ascii")
            except OSError as error:
                problem = f"`{folder}` cannot be shared: {reason_of(error)}"
                raise KindError("NotSharedError", problem, hints=["name a folder that can be written to"]) from error
            tokens[str(place)] = token
        yield tokens
    finally:
        for name in tokens:
            with suppress(OSError):
                os.unlink(name)


def _host(text: str) -> Any:
    try:
        return ip_address(text)
    except ValueError:
        return text.lower()


async def _lent(plan: MountPlan, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the values of the secrets that a plan grants.

    Raises:
        SecretError: one is not to be had.
        KindError: they are too large to be handed over.
    """
    sources = await anyio.to_thread.run_sync(SecretSources.load, environ)
    names = {one.name for entry in plan.entries() for one in grants_of(entry.permissions).secrets}
    values = dict(await sources.fetch(name for name in names if name in sources))
    if sum(len(value) for value in values.values()) > _MAX_LENT_BYTES:
        hint = "have each node get them itself: leave `--send-secrets` away"
        raise KindError("SecretsTooLargeError", "the secrets are too large to be sent", hints=[hint])
    return values
