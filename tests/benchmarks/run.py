"""Measure what module processes cost: `python tests/benchmarks/run.py [--quick | --record | --beside REV] [PART]...`.

Prints a table, and in full writes `.bench/results.json`. Each row has a sentence on what it measures, its target, and
the figure that was recorded last; `--record` adds this run to `history.json`. Everything runs on one core, because
where the scheduler puts two processes decides more about a short call than any code does. `--quick` repeats little: it
shows that every part runs, and its figures say nothing. A missed target is reported and is no failure, nor is what this
machine lacks; the exit code is 1 only when a part failed, which keeps none of the others from being measured.
`--beside` prints another table: each figure beside that of a commit, measured in turns (`bench/beside.py`).
"""

from __future__ import annotations

import argparse
import asyncio
import faulthandler
import sys
import time
from pathlib import Path

from bench.affinity import use_one_core
from bench.audit import measure_audit
from bench.beside import NotBuilt, Tree, compare
from bench.bundle import measure_bundle
from bench.bundles import measure_bundles
from bench.calls import measure_calls, measure_in_flight
from bench.chat import measure_chat
from bench.commands import measure_commands
from bench.compaction import measure_compaction
from bench.contract import measure_conversation, measure_event, measure_published_turn, measure_reads, measure_turn
from bench.control import measure_control
from bench.deltas import measure_deltas
from bench.egress import measure_egress
from bench.growth import measure_growth
from bench.history import last_recorded, record
from bench.hooks import measure_hooks
from bench.journal import measure_journal
from bench.many_tasks import measure_many_tasks
from bench.mcp_peer import measure_mcp
from bench.mcp_serve import measure_mcp_serve
from bench.memory import measure_memory
from bench.model import measure_model
from bench.parts import Part, run_parts
from bench.payload import measure_payload
from bench.policy import measure_policy
from bench.ray_tasks import measure_ray_tasks
from bench.report import summary, table, write_json
from bench.router import measure_checks
from bench.row import Gap
from bench.sampling import Effort
from bench.sandbox import measure_many, measure_sandboxed_calls
from bench.search import measure_search
from bench.seen import measure_seen
from bench.sessions import measure_sessions
from bench.sources import measure_sources
from bench.start import measure_start
from bench.sub_session import measure_sub_session
from bench.system_calls import measure_system_calls
from bench.tool_mcp import measure_tool_mcp
from bench.used_memory import use_memory_once

_HERE = Path(__file__).resolve()
_ROOT = _HERE.parents[2]
_RESULTS = _ROOT / ".bench" / "results.json"
_HISTORY = _HERE.with_name("history.json")

_PARTS: dict[str, Part] = {
    "calls": measure_calls,
    "calls in flight": measure_in_flight,
    "calls beside MCP": measure_mcp,
    "mcp servers": measure_tool_mcp,
    "server of MCP": measure_mcp_serve,
    "checks of calls": measure_checks,
    "calls into a sandbox": measure_sandboxed_calls,
    "payload": measure_payload,
    "start": measure_start,
    "many starts": measure_many,
    "growth": measure_growth,
    "system calls": measure_system_calls,
    "commands": measure_commands,
    "memory": measure_memory,
    "bundle": measure_bundle,
    "hooks": measure_hooks,
    "deltas of a streamed answer": measure_deltas,
    "event beside the published package": measure_event,
    "turn": measure_turn,
    "turn beside the published package": measure_published_turn,
    "conversation": measure_conversation,
    "journal": measure_journal,
    "audit": measure_audit,
    "seen": measure_seen,
    "control": measure_control,
    "answers of a model": measure_model,
    "chat": measure_chat,
    "reads of mirrored state": measure_reads,
    "compaction": measure_compaction,
    "search": measure_search,
    "policy": measure_policy,
    "egress": measure_egress,
    "sources": measure_sources,
    "bundles": measure_bundles,
    "sub-session": measure_sub_session,
    "sessions": measure_sessions,
    "many-tasks": measure_many_tasks,
    "ray-tasks": measure_ray_tasks,
}
_SECONDS = 600.0  # for all of them; on an idle machine of two cores they take less than half of that
_HANG_SECONDS = _SECONDS + 60  # by when cancelled parts have ended, unless one holds up the whole process


def main() -> int:
    """Measure, print and write; return the exit code."""
    parser = argparse.ArgumentParser(description="Measure what module processes cost.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"only these, also with commas: {', '.join(_PARTS)}")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--quick", action="store_true", help="repeat little, only to see that every part runs")
    how.add_argument("--record", action="store_true", help="keep what is found in history.json")
    how.add_argument("--beside", metavar="REV", help="measure this tree and a commit in turns, and compare them")
    arguments = parser.parse_args()
    named = [name.strip() for one in arguments.parts for name in one.split(",")]
    if unknown := [name for name in named if name not in _PARTS]:
        parser.error(f"no such part: {', '.join(unknown)}")
    parts = {name: part for name, part in _PARTS.items() if not named or name in named}
    if arguments.beside:
        try:
            there = Tree.built(arguments.beside, _ROOT)
        except NotBuilt as reason:
            parser.error(f"{arguments.beside} cannot be measured: {reason}")
        print(compare(Tree("this tree", _ROOT, Path(sys.executable)), there, list(parts)))
        return 0
    effort = Effort.QUICK if arguments.quick else Effort.FULL
    faulthandler.dump_traceback_later(_HANG_SECONDS, exit=True)
    use_one_core()
    if effort is Effort.FULL:
        use_memory_once()
    began = time.monotonic()
    found = asyncio.run(run_parts(parts, effort, _SECONDS))
    print(table(found, last_recorded(_HISTORY)))
    print(f"\n{summary(found)}\nTook {time.monotonic() - began:.0f} s.")
    if effort is Effort.FULL:
        write_json(found, _RESULTS)
        print(f"Written to {_RESULTS}.")
    if arguments.record:
        record(found, _HISTORY)
        print(f"Recorded in {_HISTORY}.")
    return int(any(isinstance(row, Gap) and row.is_error for row in found))


if __name__ == "__main__":
    sys.exit(main())
