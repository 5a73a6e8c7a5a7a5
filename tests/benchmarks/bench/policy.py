"""What it takes to decide on one module: a policy of many rules, a plan entry of many grants."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Final

from bench.row import Row
from bench.sampling import Effort
from bench.yardstick import bare_interpreter
from paddock.plan.model import EntryPlace, ModuleEntry
from paddock.policy.evaluate import EvaluationContext, evaluate
from paddock.policy.files.policy import Policy
from paddock.policy.files.policy_file import PolicyFile
from paddock.policy.grant_request import ModuleRequest
from paddock.policy.owner import Owner
from paddock.policy.trust import Trust

_ROUNDS: Final = 300
_RULES: Final = 30
_SOURCE: Final = "git+https://github.com/org/module-7@0123456789012345678901234567890123456789"

_CAPS: Final = """
[module.grants]
read = [".", "/usr/share", "~/data"]
write = ["out"]
net = ["*.example.org", "api.example.com:443"]
env = ["LANG", "LC_*"]
secrets = [{ name = "API_KEY", inject = "host" }]
run = ["git", "python*"]
call = ["tools"]
emit = ["tool:*"]
"""
_PERMISSIONS: Final = {
    "read": ["src", "docs", "."],
    "write": ["out"],
    "net": ["api.example.org"],
    "env": ["LC_ALL", "LANG=C"],
    "secrets": [{"name": "API_KEY", "inject": "host"}],
    "run": ["git", "python3"],
    "call": ["tools:read_file"],
    "emit": ["tool:post"],
    "mount": ["context"],
}


async def measure_policy(effort: Effort) -> list[Row]:
    """Measure the evaluation of one profile."""
    taken = _measure_policy(effort.of(_ROUNDS))
    about = f"Deciding on a plan entry of {len(_PERMISSIONS)} kinds of grants by a policy of {_RULES} rules."
    return [(await bare_interpreter(effort)).row("evaluate a profile", about, "ms", taken, 1.0)]


def _measure_policy(rounds: int) -> float:
    rules = [f'[[module]]\nmatch = "git+https://github.com/org/module-{number}"\n{_CAPS}' for number in range(_RULES)]
    text = 'minimum_isolation = "bwrap"\ngit_hosts = ["github.com"]\nmax_limits = { memory_max = "1G" }\n'
    file = PolicyFile.parse(text + "\n".join(rules), "policy.toml")
    written = {"module": "tool-x", "permissions": _PERMISSIONS, "config": {"key": "${API_KEY}"}}
    entry = ModuleEntry.read(written, EntryPlace("tool", "tools[0]", Path("/")))
    with tempfile.TemporaryDirectory() as folder:
        working_dir = Path(folder).resolve()
        for name in ("src", "docs", "out"):
            (working_dir / name).mkdir()
        owner = Owner.current(os.environ)
        situation = EvaluationContext(Policy((file,)), Trust(True), working_dir, owner, {"API_KEY": "k"})
        taken = []
        for _ in range(rounds):
            before = time.perf_counter_ns()
            evaluate([ModuleRequest(entry, _SOURCE)], situation)
            taken.append((time.perf_counter_ns() - before) / 1e6)
    return median(taken)
