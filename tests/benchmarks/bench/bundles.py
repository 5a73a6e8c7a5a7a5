"""Bundles: what composing them takes beside the parse of their texts, and a command of one beside the same plan."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import yaml

from bench.affinity import every_core
from bench.chat import PADDOCK
from bench.commands import seconds_of
from bench.row import Row, Target
from bench.sampling import Effort, interleave
from bench.sources import remove
from bench.timing import called
from paddock.module_sources.bundles import BundleOptions, pin_bundles
from paddock.module_sources.provisioning import SourceOptions
from paddock.plan.bundles.bundle_file import Named
from paddock.plan.bundles.composition import Composition
from paddock.plan.formats.bounded_yaml import read_yaml
from paddock.plan.load import load_plan
from paddock.plan.source_map import SourceNode
from sources.git.origin_repository import OriginRepository

_ROUNDS: Final = 10
_COLD_ROUNDS: Final = 4
_BUNDLES: Final = 20
_MODULES_EACH: Final = 10
_AGENTS_EACH: Final = 5
_REPOSITORIES: Final = 12
_SECONDS: Final = 120  # for some seconds; hit only by a hang
_HEAD: Final = "session: {orchestrator: loop-basic, context: context-simple}\nproviders: [{module: provider-mock}]\n"
_HOOKS: Final = 18  # with the three of a session's own, a bundle of 21 modules


async def measure_bundles(effort: Effort) -> list[Row]:
    """Measure the three."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("composed", "run", "fetched"):
            os.mkdir(f"{folder}/{name}")
        rows = [*await _composed(Path(folder) / "composed", effort), *await _run(Path(folder) / "run", effort)]
        return [*rows, *await _fetched(Path(folder) / "fetched", effort)]


async def _composed(folder: Path, effort: Effort) -> list[Row]:
    texts = []
    for number in range(effort.of(_BUNDLES)):
        bundle = folder / f"b{number}"
        (bundle / "agents").mkdir(parents=True)
        for agent in range(_AGENTS_EACH):
            front = f"meta:\n  name: a{agent}\n  description: Does what agent {agent} of bundle {number} does.\n"
            text = "It does one thing, says what it found, and ends.\n" * 20
            (bundle / f"agents/a{agent}.md").write_text(f"---\n{front}---\n{text}")
            texts.append(front)
        modules = "".join(_module(number, module) for module in range(_MODULES_EACH))
        agents = "".join(f"    - b{number}:a{agent}\n" for agent in range(_AGENTS_EACH))
        front = f"bundle:\n  name: b{number}\n  version: 1.0.0\n{_HEAD}tools:\n{modules}agents:\n  include:\n{agents}"
        (bundle / "bundle.md").write_text(f"---\n{front}---\nDo it.\n")
        texts.append(front)
    addresses = ", ".join(f"./b{number}" for number in range(effort.of(_BUNDLES)))
    (folder / "plan.yaml").write_text(f"extends: [{addresses}]\n")

    read = {str(file): file.read_text() for file in sorted(folder.rglob("*.md"))}  # noqa: ASYNC240
    names = [Named(f"{folder}/b{number}", SourceNode(1)) for number in range(effort.of(_BUNDLES))]

    def compose() -> None:
        composition = Composition(names)
        while wanted := composition.missing():
            for one in wanted:
                name = next((name for name in one.names if f"{one.tree}/{name}" in read), None)
                composition.take(one, (name, read[f"{one.tree}/{name}"]) if name else None)
        composition.result()

    def each(parse: Callable[[str], Any]) -> list[Any]:
        return [parse(text) for text in texts]

    samples = await interleave(
        {
            "composed": called(compose, 1),
            "loaded": called(lambda: load_plan(folder / "plan.yaml"), 1),
            "parsed": called(lambda: each(read_yaml), 1),
            "SafeLoader": called(lambda: each(lambda text: yaml.load(text, yaml.SafeLoader)), 1),
        },
        effort.of(_ROUNDS),
    )
    what = "compose 20 bundles of 200 modules and 100 agents"
    return [
        Row.compared(
            f"{what}, to the parse of their texts",
            "From their texts to the table of a plan, with its lines, beside the loader in use on the same tables.",
            "us",
            samples,
            ("composed", "parsed"),
            Target(2.0),
        ),
        Row.compared(
            f"{what}, to `yaml.SafeLoader`",
            "The same, beside PyYAML's loader in Python.",
            "us",
            samples,
            ("composed", "SafeLoader"),
            Target(0.5),
        ),
        Row.compared(
            "  read the plan that extends them, to the parse of their texts",
            "The same, with the files, and each entry and agent as a plan has it.",
            "us",
            samples,
            ("loaded", "parsed"),
        ),
    ]


def _module(bundle: int, module: int) -> str:
    source = f"git+https://example.org/org/tool-{bundle}-{module}@main#subdirectory=modules/tool"
    config = "    config:\n      search_paths: [one, two]\n      limits: {most: 10, seconds: 2.5}\n"
    return f"  - module: tool-{bundle}-{module}\n    source: {source}\n{config}"


async def _run(folder: Path, effort: Effort) -> list[Row]:
    hooks = "".join(f"  - {{module: hooks-status-context, instance_id: hook-{n}}}\n" for n in range(effort.of(_HOOKS)))
    (folder / "plan.yaml").write_text(f"{_HEAD}hooks:\n{hooks}")
    (folder / "bundle.yaml").write_text(f"bundle: {{name: all}}\n{_HEAD}hooks:\n{hooks}")
    (folder / "extending.yaml").write_text("extends: ./bundle.yaml\n")

    async def took(plan: str) -> list[float]:
        return [await asyncio.to_thread(seconds_of, str(folder), [*PADDOCK, "run", plan, "hello", "--trust-plan"])]

    with every_core():
        cases = {"bundle": lambda: took("extending.yaml"), "plan": lambda: took("plan.yaml")}
        samples = await interleave(cases, effort.of(_ROUNDS))
    return [
        Row.compared(
            "`paddock run` of a bundle of 21 modules, to the same plan",
            "The whole command with one turn, where a plan extends a bundle, beside the plan with all of it.",
            "s",
            samples,
            ("bundle", "plan"),
            Target(1.15),
        )
    ]


async def _fetched(folder: Path, effort: Effort) -> list[Row]:
    origins = [OriginRepository(folder / f"origin-{number}") for number in range(effort.of(_REPOSITORIES))]
    for number, origin in enumerate(origins):
        files: dict[str, str | bytes] = {f"docs/{page}.md": f"Page {page}.\n" * 200 for page in range(50)}
        origin.commit({**files, "bundle.yaml": f"bundle: {{name: b{number}}}\n{_HEAD}"})
    extends = ", ".join(f'"{origin.address}@main"' for origin in origins)

    async def pinned() -> list[float]:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            plan = Path(place) / "plan.yaml"
            plan.write_text(f"extends: [{extends}]\n")
            environ = {"PATH": os.environ["PATH"], "HOME": place}
            before = time.perf_counter_ns()
            await pin_bundles(plan, environ, BundleOptions(SourceOptions(), lends_keys=True))
            taken = (time.perf_counter_ns() - before) / 1e6
            await asyncio.to_thread(remove, Path(place) / ".cache")
            return [taken]

    async def cloned() -> list[float]:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            before = time.perf_counter_ns()
            for origin in origins:
                clone = ["git", "clone", "--quiet", f"file://{origin.folder}", f"{place}/{origin.folder.name}"]
                subprocess.run(clone, check=True, close_fds=False, timeout=_SECONDS)
            return [(time.perf_counter_ns() - before) / 1e6]

    samples = await interleave({"pinned": pinned, "cloned": cloned}, effort.of(_COLD_ROUNDS, 1))
    return [
        Row.compared(
            "bundles of 12 repositories for the first time, to their clones",
            "A plan that extends them, fetched, checked and pinned with an empty cache, beside `git clone` of each.",
            "ms",
            samples,
            ("pinned", "cloned"),
            Target(2.5),
        )
    ]
