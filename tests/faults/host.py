"""One host of the simulator: a session that goes through steps, in each of which something is done to it.

`python host.py SEED FIRST STEPS GROUND`. What is done in a step depends on the seed and the step alone. Before a step
its number is written to `step`, and after it the conversation to `seen.json`; a problem is a line on stdout. The host
that is told to kills itself, and the next one goes on with the session behind that step.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from faults.conversation import Message, problems_of
from paddock import Session
from paddock.isolation.record import SessionInUseError
from paddock.session.hosted_session import HostedSession
from paddock.session.journals.journal_folder import Journals
from support.children import descendants_of

ID: Final = "simulated"
_MODULES: Final = Path(__file__).resolve().parent / "modules"
_MOMENTS: Final = ("prompt:submit", "provider:request", "tool:pre", "tool:post", "provider:response")
_KINDS: Final = ("context", "provider", "tool", "orchestrator")
_ACTS: Final = (
    *(("kill", kind) for kind in _KINDS),
    *(("stop", kind) for kind in _KINDS),
    ("cancel", ""),
    ("cancel at once", ""),
    ("second host", ""),
    *(("end host", ""),) * 4,
)
_DEATHS_MAX: Final = 3  # of one kind in one host: more of them quarantine a module, as they should
_STOPPED_SECONDS: Final = 0.05
_TURN_SECONDS: Final = 60  # hit only by a hang


class SimulatedHost:
    """A host, from its start until its steps are over or it ends itself."""

    def __init__(self, seed: int, ground: Path) -> None:
        self._seed = seed
        self._ground = ground
        self._journals = Journals()
        self._deaths: Counter[str] = Counter()
        self._act = ("", "")
        self._moment = ("", 0)

    async def run(self, first: int, steps: int) -> None:
        """Go through the steps from `first` on."""
        options: dict[str, Any] = {"working_dir": self._ground, "trust_plan": True, "journal": self._journals}
        options |= {"resume": ID} if ID in self._journals.ids() else {"session_id": ID}
        async with Session(_plan(), **options) as session:
            for event in _MOMENTS:
                session.coordinator.hooks.register(event, self._reached, 900, f"faults:{event}")
            self._session = session
            await self._look(f"before step {first}")
            for step in range(first, steps):
                await self._step(step)

    async def _step(self, step: int) -> None:
        draw = random.Random(f"{self._seed} {step}")
        self._act = draw.choice(_ACTS)
        self._moment = draw.choice(_MOMENTS), draw.randint(1, 3)
        (self._ground / "step").write_text(str(step))
        said = f"step {step} of seed {self._seed}, {' '.join(self._act)} at {self._moment[0]} {self._moment[1]}"
        try:
            await asyncio.wait_for(self._session.execute(f"prompt {step}"), _TURN_SECONDS)
        except TimeoutError:
            print(f"{said}: the turn is not over", flush=True)
        except Exception:  # a turn may fail when something is done to it: what it leaves is judged
            pass
        self._act = ("", "")
        await self._look(said)

    async def _look(self, when: str) -> None:
        """Judge the conversation, and write it down."""
        context = self._session.coordinator.get("context")
        messages: list[Message] = await context.get_messages()
        seen = self._ground / "seen.json"
        before = json.loads(seen.read_text()) if seen.exists() else []
        marks = self._ground / "marks.txt"
        for problem in problems_of(before, messages, marks.read_text().split() if marks.exists() else []):
            print(f"{when}: {problem}", flush=True)
        seen.write_text(json.dumps(messages))

    async def _reached(self, event: str, data: dict[str, Any]) -> None:
        moment, left = self._moment
        if event == moment:
            self._moment = moment, left - 1
            if left == 1:
                self._do(*self._act)

    def _do(self, act: str, kind: str) -> None:
        match act:
            case "kill" if self._deaths[kind] < _DEATHS_MAX:
                self._deaths[kind] += 1
                self._signal(kind, signal.SIGKILL)
            case "stop":
                self._signal(kind, signal.SIGSTOP)
                asyncio.get_running_loop().call_later(_STOPPED_SECONDS, self._signal, kind, signal.SIGCONT)
            case "cancel":
                self._session.cancel()
            case "cancel at once":
                self._session.cancel(immediate=True)
            case "second host":
                try:
                    self._journals.resumed(ID)
                except SessionInUseError:
                    return
                print("a second host has the session", flush=True)
            case "end host":
                os.kill(os.getpid(), signal.SIGKILL)

    def _signal(self, kind: str, number: signal.Signals) -> None:
        """Send the processes of a module a signal."""
        kernel = self._session._kernel
        assert isinstance(kernel, HostedSession)
        for module in kernel.runtime.modules.all:
            process = module.supervisor.process
            if module.kind == kind and process is not None:
                for pid in (process.pid, *descendants_of(process.pid)):
                    with suppress(ProcessLookupError):
                        os.kill(pid, number)


def _plan() -> dict[str, Any]:
    return {
        "session": {"orchestrator": "loop-basic", "context": "context-simple"},
        "providers": [{"module": "provider-stateless", "source": str(_MODULES / "provider-stateless")}],
        "tools": [
            {"module": "tool-mark", "source": str(_MODULES / "tool-mark"), "permissions": {"write": ["."]}},
        ],
    }


if __name__ == "__main__":
    asyncio.run(SimulatedHost(int(sys.argv[1]), Path(sys.argv[4])).run(int(sys.argv[2]), int(sys.argv[3])))
