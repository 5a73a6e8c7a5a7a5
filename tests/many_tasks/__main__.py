"""Run tasks, kill the driver, go on, and count: `python -m many_tasks [COUNT]`, with the tests' folder on the path.

Where Ray is installed, the same tasks then run on three nodes, of which one is killed with all its processes.

Exits with 0 if each task has one result, no trace is there twice, each missing one is that of a lost task, and the
hostile module got nothing; with 1 otherwise.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from many_tasks.modules import TOOL_LOOT, TOOL_TRACE, written

_TASKS: Final = 200
_KILLED_AT: Final = 0.25  # of the results
_AT_ONCE: Final = 8


def main(count: int) -> int:
    """Run the demonstration with so many tasks, and print its table."""
    with tempfile.TemporaryDirectory(prefix="many-tasks-", dir="/var/tmp") as name:
        folder = Path(name)
        out, trace = folder / "results", folder / "shared/trace"
        command = [
            str(Path(sys.executable).with_name("paddock")),
            "batch",
            *_files(folder, out, trace, count),
            "--out",
            str(out),
        ]
        command += ["--trust-plan", "--concurrency", str(_AT_ONCE)]
        first = subprocess.Popen(command)
        while first.poll() is None and len(_lines(out / "results.jsonl")) < count * _KILLED_AT:
            time.sleep(0.05)
        first.send_signal(signal.SIGKILL)
        first.wait()
        print(f"killed the driver at {len(_lines(out / 'results.jsonl'))} results", file=sys.stderr)
        subprocess.run([*command, "--resume"], check=False)
        code = _told([json.loads(line) for line in _lines(out / "results.jsonl")], Counter(_lines(trace)), count)
    return code or (_on_nodes(count) if find_spec("ray") else 0)


def _on_nodes(count: int) -> int:
    """Run as many tasks on nodes, and kill one of them."""
    from integration.ray_cluster import cluster

    with tempfile.TemporaryDirectory(prefix="many-tasks-", dir="/var/tmp") as name, cluster(3) as found:
        folder = Path(name)
        out, trace = folder / "results", folder / "shared/trace"
        command = [str(Path(sys.executable).with_name("paddock")), "batch", *_files(folder, out, trace, count)]
        command += ["--out", str(out), "--trust-plan", "--ray", found.address, "--shared", str(trace.parent)]
        running = subprocess.Popen([*command, "--per-node", str(_AT_ONCE // 2)])
        while running.poll() is None and len(_lines(out / "results.jsonl")) < count * _KILLED_AT:
            time.sleep(0.05)
        found.kill(0)
        print(f"killed a node at {len(_lines(out / 'results.jsonl'))} results", file=sys.stderr)
        running.wait()
        return _told([json.loads(line) for line in _lines(out / "results.jsonl")], Counter(_lines(trace)), count)


def _files(folder: Path, out: Path, trace: Path, count: int) -> list[str]:
    """Write the plan and the tasks; return their paths."""
    trace.parent.mkdir()
    (folder / "ids").mkdir()
    calls = [{"tool_calls": [{"name": name, "arguments": {}}]} for name in ("trace", "loot")]
    tools: list[dict[str, Any]] = [
        {
            "module": "tool-trace",
            "source": written(folder, "tool-trace", TOOL_TRACE),
            "config": {"file": str(trace)},
            "permissions": {"read": ["."], "write": [".", str(trace.parent)]},
        },
        {
            "module": "tool-loot",
            "source": written(folder, "tool-loot", TOOL_LOOT),
            "config": {"folder": str(out)},
            "permissions": {"read": ["."], "write": ["."]},
        },
    ]
    model = {"module": "provider-mock", "config": {"responses": calls, "fallback": "{last_tool_result}"}}
    session = {"orchestrator": "loop-basic", "context": "context-simple"}
    plan, tasks = folder / "plan.json", folder / "tasks.jsonl"
    plan.write_text(json.dumps({"session": session, "providers": [model], "tools": tools}))
    with tasks.open("w") as file:
        for number in range(count):
            id = f"t{number}"
            (folder / "ids" / id).write_text(id)
            file.write(json.dumps({"id": id, "prompt": "go", "files": {"id.txt": f"ids/{id}"}}) + "\n")
    return [str(plan), str(tasks)]


def _told(results: list[dict[str, Any]], traces: Counter[str], count: int) -> int:
    """Print what came of it; return the exit code."""
    ids = [result["id"] for result in results]
    status = Counter(result["status"] for result in results)
    lost = {result["id"] for result in results if result["status"] == "lost"}
    ends = sum(bool(module["exit_reports"]) for result in results for module in result["modules"])
    took = Counter(result["response"] for result in results if "took: " in (result["response"] or ""))
    rows = [
        ("tasks", count, count == len(results) == len({*ids})),
        ("done", status["done"], status["done"] + len(lost) == count),
        ("lost with what was killed", len(lost), len(lost) <= _AT_ONCE),
        ("traces that are there twice", sum(number > 1 for number in traces.values()), set(traces.values()) == {1}),
        ("tasks without a trace that are not lost", len({*ids} - {*traces} - lost), {*ids} - {*traces} <= lost),
        ("sessions in which a module was ended", ends, True),
        ("links and pipes that were taken", sum(len(one["notes"]) != 2 for one in results if one["modules"]), True),
        ("acts of the hostile module that succeeded", sum(took.values()) - took["took: "], took.keys() <= {"took: "}),
    ]
    for what, number, is_right in rows:
        print(f"{what:44}{number:>6}  {'as it should be' if is_right else 'WRONG'}")
    return 0 if all(is_right for _, _, is_right in rows) else 1


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else _TASKS))
