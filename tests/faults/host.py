"""One host of the simulator: a session that goes through the acts of a script, and is judged after each.

In a step an act is done at some moment of a turn; then a turn in which nothing is done has to end as every turn does.
`next` has the number of the step that a later host begins with, and `seen.json` the conversation that it must find. A
host stops at the first problem.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from faults.acts import FRAME, Act, Script
from faults.conversation import Message, answers_of, problems_of
from paddock import Policy, Session
from paddock.isolation.record import SessionInUseError
from paddock.rpc.channel import Channel
from paddock.session.hosted_session import HostedSession
from paddock.session.journals.journal_folder import Journals
from paddock.session.module import HostedModule
from support.cgroups import groups_of
from support.children import descendants_of

ID: Final = "simulated"
OVER, FAILED, GO_ON = 0, 1, 3  # how a host ends: its steps are over, something failed, or another host goes on
_MODULES: Final = Path(__file__).resolve().parent / "modules"
_EVENTS: Final = ("prompt:submit", "provider:request", "tool:pre", "tool:post", "provider:response")
_STOPPED_SECONDS: Final = 0.05
_PULSES: Final = 8  # of a slow reader
_PULSE_SECONDS: Final = 0.02  # for which it is stopped, in each
_LARGE: Final = 300_000  # characters of a prompt for it; more than a socket takes at once
_TURN_SECONDS: Final = 60  # hit only by a hang
_ENDING_SECONDS: Final = 20  # hit only by a process that stays
_DEATHS: Final = 5  # that quarantine a module; each costs a turn at most
_CALLS: Final = 4  # of the tool, in a turn
_DAY: Final = 86_400
_JUMPS: Final = (_DAY, -_DAY, 3650 * _DAY, -3650 * _DAY, -time.time())  # the last one to 1970
_GARBAGE: Final = (b"\xff" * 64, bytes(64), b"\x00\x00\x00\x40" + b"\xee" * 64)  # too long, too short, of no kind


class BrokenError(Exception):
    """Raised for what must not be after any act."""


def run(script: Script, first: int, ground: Path) -> int:
    """Be a host in this folder that goes on with the act number `first`; return how it ends."""
    host = _Host(script, ground)
    try:
        return asyncio.run(host.run(first))
    except BrokenError as error:
        print(error, flush=True)
        return FAILED


class _Host:
    """A host, from its start until its acts are done or one ends it."""

    def __init__(self, script: Script, ground: Path) -> None:
        self._script = script
        self._ground = ground
        self._journals = Journals()
        self._act: Act | None = None  # waits for its moment
        self._left = 0  # so many of these moments
        self._done: Act | None = None
        self._kills_tool = False  # at each of its calls
        self._posts: Counter[str] = Counter()  # how often the end of each call was told
        self._ended: set[int] = set()  # processes that may not stay
        self._at_first: dict[str, int] = {}
        self._others: list[asyncio.Task[None]] = []
        self._turn: asyncio.Task[str] | None = None
        self._is_abandoned = False  # whether the latest turn was
        self._disk = resource.getrlimit(resource.RLIMIT_FSIZE)

    async def run(self, first: int) -> int:
        options: dict[str, Any] = {"working_dir": self._ground, "trust_plan": True, "journal": self._journals}
        options["policy"] = Policy.parse("[journal]\nrequired = true\n") if self._script.is_required else None
        options |= {"resume": ID} if ID in self._journals.ids() else {"session_id": ID}
        async with Session(_plan(self._script), **options) as session:
            self._session = session
            for event in _EVENTS:
                session.coordinator.hooks.register(event, self._reached, 900, f"faults:{event}")
            with _reads_told(self._on_read):
                await self._go_on_well()
                self._at_first = self._held()
                for number, act in enumerate(self._script.acts[first:], first):
                    (self._ground / "next").write_text(str(number + 1))
                    await self._step(number, act)
                    if act.name in _LAST_ACTS:
                        return GO_ON
        return OVER

    async def _step(self, number: int, act: Act) -> None:
        self._act, self._left = act, act.count
        await self._run_turn(f"prompt {number} " + "x" * (_LARGE if act.name == "slow" else 0))
        if self._act is not None:
            raise BrokenError("the turn never came to that moment")
        await asyncio.gather(*self._others)
        self._others.clear()
        await _AFTER.get(act.name, _Host._go_on_well)(self)
        await self._see_them_gone()

    # -- turns -----------------------------------------------------------------------------

    async def _run_turn(self, prompt: str) -> str:
        """Run a turn as a chat does; return its answer, which is its error if it fails."""
        self._session.coordinator.cancellation.reset()
        if self._is_abandoned:
            await self._session.close_open_calls()
            self._is_abandoned = False
        self._turn = asyncio.create_task(self._session.execute(f"{prompt} {time.monotonic_ns()}"))
        try:
            return await asyncio.wait_for(self._turn, _TURN_SECONDS)
        except TimeoutError:
            raise BrokenError("the turn is not over") from None
        except asyncio.CancelledError:
            self._is_abandoned = True
            return "abandoned"
        except Exception as error:  # a turn may fail when something is done to it: what it leaves is judged
            return f"{type(error).__name__}: {error}"

    async def _go_on_well(self) -> None:
        """Have a turn to which nothing is done end as it should, and keep what there is then."""
        answer = await self._run_turn("as usual")
        if answer != "done":
            raise BrokenError(f"the next prompt was not answered: {answer}")
        messages = await self._answers("after the next turn")
        if not all(one.startswith("marked ") for one in answers_of(messages)[-_CALLS:]):
            raise BrokenError("the results of the next turn's calls are not in the conversation")
        self._keep(messages)

    async def _answers(self, when: str) -> list[Message]:
        """Return the conversation, once it is judged."""
        messages: list[Message] = await self._session.coordinator.get("context").get_messages()
        for problem in problems_of(self._before(), messages, self._marks()):
            raise BrokenError(f"{problem}, {when}")
        if twice := [call for call, times in self._posts.items() if times > 1]:
            raise BrokenError(f"the end of calls was told twice: {twice}, {when}")
        return messages

    def _before(self) -> list[Message]:
        seen = self._ground / "seen.json"
        return json.loads(seen.read_text()) if seen.exists() else []

    def _keep(self, messages: list[Message]) -> None:
        (self._ground / "seen.json").write_text(json.dumps(messages))

    def _marks(self) -> list[str]:
        marks = self._ground / "marks.txt"
        return marks.read_text().split() if marks.exists() else []

    # -- after some acts -------------------------------------------------------------------

    async def _after_quarantine(self) -> None:
        tool = self._module("tool").supervisor
        for _ in range(_DEATHS):
            if not tool.quarantined:
                await self._run_turn("while the tool is killed")
        self._kills_tool = False
        if not tool.quarantined:
            raise BrokenError("a tool that died at each call is not quarantined")
        answer = await self._run_turn("while the tool is quarantined")
        if answer != "done":
            raise BrokenError(f"a turn whose tool is quarantined does not end well: {answer}")
        self._session.lift_quarantine("tool-mark")
        await self._go_on_well()

    async def _after_revoked_tool(self) -> None:
        marked = len(self._marks())
        answer = await self._run_turn("while the tool is revoked")
        if answer != "done" or len(self._marks()) != marked:
            raise BrokenError(f"a revoked tool ran, or the turn did not end well: {answer}")
        self._keep(await self._answers("with a revoked tool"))

    async def _after_revoked(self) -> None:
        assert self._done is not None
        await (self._after_revoked_tool() if self._done.target == "tool" else self._go_on_well())

    async def _after_full_disk(self) -> None:
        """Judge what goes on while nothing can be kept: it does, unless the journal is required.

        What is kept for the next host is the conversation before that: it may have more, and nothing else.
        """
        answer = await self._run_turn("while the disk is full")
        problem = self._session._journal.problem if self._session._journal is not None else None
        resource.setrlimit(resource.RLIMIT_FSIZE, self._disk)
        if problem is None or not self._script.is_required:
            messages = await self._answers("with a full disk")
            if problem is None:
                self._keep(messages)
        if (answer == "done") == (self._script.is_required and problem is not None):
            raise BrokenError(f"with a full disk ({problem}), the turn ended so: {answer}")

    def _held(self) -> dict[str, int]:
        """Return how many processes, control groups, temporary files and descriptors this host has."""
        temporary = sum(len(folders) + len(files) for _, folders, files in os.walk(os.environ["TMPDIR"]))
        return {
            "processes": len(descendants_of(os.getpid())),
            "control groups": len(groups_of(os.getpid())),
            "temporary files": temporary,
            "descriptors": len(os.listdir("/proc/self/fd")),
        }

    async def _see_them_gone(self) -> None:
        """Wait until nothing is left of modules that ended, and this host has no more than at its first act."""
        deadline = time.monotonic() + _ENDING_SECONDS
        while True:
            left = self._ended & descendants_of(os.getpid())
            more = [name for name, number in self._held().items() if number > self._at_first[name]]
            if not left and not more:
                return
            if time.monotonic() > deadline:
                raise BrokenError(f"of modules that ended are left: {sorted(left)}; {self._at_first} is {self._held()}")
            await asyncio.sleep(0.005)

    # -- the acts --------------------------------------------------------------------------

    async def _reached(self, event: str, data: dict[str, Any]) -> None:
        if event == "tool:pre" and self._kills_tool:
            self._kill("tool")
        if event == "tool:post":
            self._posts[str(data["tool_call_id"])] += 1
        self._at(event)

    def _on_read(self) -> None:
        self._at(FRAME)

    def _at(self, moment: str) -> None:
        if self._act is not None and self._act.moment == moment:
            self._left -= 1
            if self._left == 0:
                self._done, self._act = self._act, None
                # Not within the host's own work on a frame.
                self._others.append(asyncio.create_task(self._do(self._done)))

    async def _do(self, act: Act) -> None:
        match act.name, act.target:
            case "kill", "host":
                os.kill(os.getpid(), signal.SIGKILL)
            case "kill", kind:
                self._kill(kind)
            case "stop", kind:
                await self._stop(kind, 1, _STOPPED_SECONDS)
            case "slow", kind:
                await self._stop(kind, _PULSES, _PULSE_SECONDS)
            case "garbage", kind:
                await self._send_garbage(kind, _GARBAGE[act.amount % len(_GARBAGE)])
            case "cancel", _:
                self._session.cancel()
            case "cancel at once", _:
                self._session.cancel(immediate=True)
            case "abandon", _:
                assert self._turn is not None
                self._turn.cancel()
            case "second", _:
                await self._begin_second()
            case "jump", _:
                _jump(_JUMPS[act.amount % len(_JUMPS)])
            case "quarantine and lift", _:
                self._kill("tool")
                self._kills_tool = True
            case "revoke", kind:
                self._ended |= self._processes(kind)
                self._session.revoke(self._module(kind).name)
            case "fill the disk", file:
                self._fill(file, act.amount % 200)
            case _:
                raise AssertionError(act)

    def _kill(self, kind: str) -> None:
        self._ended |= self._processes(kind)
        self._signal(kind, signal.SIGKILL)

    async def _stop(self, kind: str, times: int, seconds: float) -> None:
        for _ in range(times):
            self._signal(kind, signal.SIGSTOP)
            await asyncio.sleep(seconds)
            self._signal(kind, signal.SIGCONT)
            await asyncio.sleep(seconds / 4)

    async def _send_garbage(self, kind: str, garbage: bytes) -> None:
        """Have the host read garbage where it expects a frame of a module."""
        self._ended |= self._processes(kind)
        channel = self._module(kind).peer.channel
        while channel._transport is not None:
            if channel._transport.is_reading() and channel.connection._decoder.is_empty:
                channel.get_buffer(-1)[: len(garbage)] = garbage
                channel.buffer_updated(len(garbage))
                return
            await asyncio.sleep(0)

    async def _begin_second(self) -> None:
        try:
            async with Session(_plan(self._script), working_dir=self._ground, trust_plan=True, resume=ID):
                pass
        except SessionInUseError as error:
            if str(os.getpid()) in error.summary:
                return
        raise BrokenError("a second host had the session, or was not told which host has it")

    def _fill(self, file: str, room: int) -> None:
        """Have files of the host grow by so many bytes more than the journal, or the audit log, has now."""
        journal = self._session.journal
        assert journal is not None
        path = journal if file == "journal" else journal.parents[1] / "audit.jsonl"
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + room, self._disk[1]))

    def _module(self, kind: str) -> HostedModule:
        kernel = self._session._kernel
        assert isinstance(kernel, HostedSession)
        return next(module for module in kernel.runtime.modules.all if module.kind == kind)

    def _processes(self, kind: str) -> set[int]:
        process = self._module(kind).supervisor.process
        return set() if process is None else {process.pid, *descendants_of(process.pid)}

    def _signal(self, kind: str, number: signal.Signals) -> None:
        for pid in self._processes(kind):
            with suppress(ProcessLookupError):
                os.kill(pid, number)


_AFTER: Final = {
    "quarantine and lift": _Host._after_quarantine,
    "revoke": _Host._after_revoked,
    "fill the disk": _Host._after_full_disk,
}
_LAST_ACTS: Final = ("revoke", "fill the disk")  # of a host: what they did cannot be taken back in its session


def _plan(script: Script) -> dict[str, Any]:
    context: dict[str, Any] = {"module": script.context}
    if script.context == "context-persistent":
        context["state"] = "keep"
    return {
        "session": {"orchestrator": script.loop, "context": context},
        "providers": [{"module": "provider-stateless", "source": str(_MODULES / "provider-stateless")}],
        "tools": [{"module": "tool-mark", "source": str(_MODULES / "tool-mark"), "permissions": {"write": ["."]}}],
        "hooks": [
            {"module": "hooks-quiet", "source": str(_MODULES / "hooks-quiet"), "on_failure": "continue"},
        ],
    }


def _jump(seconds: float) -> None:
    now = time.time
    patch.object(time, "time", lambda: max(0.0, now() + seconds)).start()


@contextmanager
def _reads_told(tell: Callable[[], None]) -> Iterator[None]:
    """Tell of each time that the host reads from a module."""
    read = Channel.buffer_updated

    def told(channel: Channel, nbytes: int) -> None:
        tell()
        read(channel, nbytes)

    with patch.object(Channel, "buffer_updated", told):
        yield
