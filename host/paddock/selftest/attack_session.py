"""One session at one level of isolation, with as many attackers in it as the attacks need.

Attacks with the same grants and limits share one process, unless they are to end it or to outlive it. Grants and limits
that the level does not support are left out, and reported for each attack that needs them. Leaving the context ends
everything.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Self

import anyio

from paddock.errors import PaddockError, PlanError
from paddock.selftest.attack import Attack, Sign
from paddock.selftest.outcome import AttackOutcome, Evidence, Verdict, judge
from paddock.selftest.testbed.observers import SessionObservers, SimulatedUser
from paddock.selftest.testbed.testbed import CONFIDENCE, KEY, AttackTestbed
from paddock.session.session import ModuleStatus, Session
from paddock_sandbox.profile import IsolationLevel

_RUNTIME_MAX: Final = "20s"  # for an attack that has no limit of its own; the longest wait for seconds
_HONEST_RUNTIME_MAX: Final = "4s"  # less than an honest module needs for all that it is flooded with
_GONE_SECONDS: Final = 10.0  # at most, from the end of a module to the end of all that it started
_SAID_SECONDS: Final = 30.0  # at most, until the host reports a replaced file as guarded; reached only where it is not
_LOOK_SECONDS: Final = 0.02
_FIRST: Final = 1  # place of the first attacker in the plan's list of tools
_TOOLS: Final = re.compile(r"tools\[(?P<index>\d+)\]")
_PERIOD: Final = 0.005  # seconds between two readings of the clock
_WAITED: Final = "/proc/thread-self/schedstat"  # nanoseconds it ran, and waited for a processor; number of turns


@dataclass(slots=True)
class _Entry:
    """An entry of the plan, and the attacks that its process performs."""

    grants: dict[str, list[Any]]
    limits: dict[str, str | int]
    takes_more: bool
    attacks: list[Attack] = field(default_factory=list)


class AttackSession:
    """The attackers at one level of isolation, ready for `attacks`."""

    def __init__(self, level: IsolationLevel, testbed: AttackTestbed, attacks: Iterable[Attack]) -> None:
        self._level = level
        self._testbed = testbed
        self._entries: list[_Entry] = []
        self._refused: dict[str, str] = {}
        for attack in attacks:
            self._place(attack)

    async def __aenter__(self) -> Self:
        """Start the attackers.

        Raises:
            IsolationUnavailableError: the level is unavailable here.
            PaddockError: something else is wrong, apart from the needs of one attack.
        """
        self._testbed.renew()
        async with AsyncExitStack() as stack:
            self._session = await self._opened(stack)
            self._observers = SessionObservers(self._session)
            confidant = self._session.coordinator.get("tools")["confidant"]
            await confidant.execute({"body": "identity.listen_honestly"})
            self._testbed.network.give_away(await self._proxy_of_the_confidant())
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()
        self._testbed.renew()

    async def perform(self, attack: Attack) -> AttackOutcome:
        """Perform the attack inside and return its outcome; the stage is as before afterwards."""
        if attack.name in self._refused:
            return AttackOutcome(Verdict.UNTRIED, self._refused[attack.name])
        index = next(index for index, entry in enumerate(self._entries) if attack in entry.attacks)
        modules = self._session.modules
        before = _status(modules, index)
        if before.problem is not None:
            return AttackOutcome(Verdict.UNCLEAR, before.problem.summary)
        around = self._observers.look(modules)
        if attack.saves is not None:
            await self._save(attack.saves(self._testbed))
        if attack.before:
            lent = self._session.coordinator.get("providers")["mock"]
            await self._tool(index).execute({"body": attack.before, "arguments": {"lent": lent}})
        with Responsiveness() as responsiveness:
            answer, error = await self._call(index, attack)
        modules = self._session.modules
        after = _status(modules, index)
        ended = after.exit_reports[len(before.exit_reports) :]
        evidence = Evidence(
            answer,
            error,
            ended[-1] if ended else None,
            (*self._testbed.marks(), *self._observers.changes(around, modules)),
            responsiveness.lag,
            after.printed_bytes - before.printed_bytes,
            after.kept_bytes,
        )
        if evidence.marks:
            self._testbed.renew()
        return judge(attack, self._level, evidence)

    # -- in a session ----------------------------------------------------------------------

    def _place(self, attack: Attack) -> None:
        grants = {family: list(values) for family, values in attack.grants(self._testbed).items()}
        limits = {"runtime_max": _RUNTIME_MAX, **attack.limits}
        takes_more = not attack.ends and attack.sign is not Sign.LIFE
        for entry in self._entries:
            if takes_more and entry.takes_more and (entry.grants, entry.limits) == (grants, limits):
                entry.attacks.append(attack)
                return
        self._entries.append(_Entry(grants, limits, takes_more=takes_more, attacks=[attack]))

    async def _opened(self, stack: AsyncExitStack) -> Session:
        """Return the session, without the entries that the level does not support."""
        while True:
            try:
                session = Session(
                    self._plan(),
                    working_dir=self._testbed.files.workspace,
                    environ={**os.environ, **self._testbed.environ, **self._testbed.kept_here},
                    approval=SimulatedUser(),
                    trust_plan=True,  # the attacker is Paddock's own, and levels below the floor are attacked as well
                )
                return await stack.enter_async_context(session)
            except PlanError as error:
                if not self._leave_out(error):
                    raise

    def _leave_out(self, error: PlanError) -> bool:
        problems: dict[int, str] = {}
        for problem in error.problems:
            place = _TOOLS.match(problem.path)
            if place is None:
                return False
            index = int(place["index"]) - _FIRST
            if index < 0:
                return False
            problems.setdefault(index, problem.message)
        for index in sorted(problems, reverse=True):
            for attack in self._entries.pop(index).attacks:
                self._refused[attack.name] = problems[index]
        return bool(problems)

    def _plan(self) -> dict[str, Any]:
        level = {"isolation": self._level}
        return {
            "session": {
                "orchestrator": {"module": "loop-basic", **level},
                "context": {"module": "context-simple", **level},
            },
            "providers": [{"module": "provider-mock", **level}],
            "tools": [
                # Before every attacker comes a module that gets a secret unknown to all of them.
                self._entry("confidant", self._confidences(), limits={"runtime_max": _HONEST_RUNTIME_MAX}),
                *(
                    self._entry(_name_of(index), entry.grants, limits=entry.limits)
                    for index, entry in enumerate(self._entries)
                ),
            ],
        }

    def _confidences(self) -> dict[str, list[Any]]:
        grants: dict[str, list[Any]] = {"env": [CONFIDENCE], "hooks": ["attack:*"]}
        if self._level == "none":
            return grants  # the level has no network of its own, and no place to inject keys
        vault = self._testbed.network.vault.authority
        return {**grants, "net": [vault], "secrets": [{"name": KEY, "inject": vault}]}

    def _entry(self, name: str, grants: Mapping[str, list[Any]], **more: object) -> dict[str, Any]:
        return {
            "module": "tool-attacker",
            "source": os.fspath(self._testbed.files.module),
            "config": {"name": name},
            "permissions": dict(grants),
            "isolation": self._level,
            **more,
        }

    def _tool(self, index: int) -> Any:
        return self._session.coordinator.get("tools")[_name_of(index)]

    async def _proxy_of_the_confidant(self) -> str:
        """Return the address and credentials of its proxy; empty if it has none."""
        confidant = self._session.coordinator.get("tools")["confidant"]
        report = (await confidant.execute({"body": "ways_out.tell_its_proxy"})).output
        return str(report["how"]).removeprefix("proxy: ") if report["succeeded"] else ""

    async def _save(self, path: Path) -> None:
        """Replace a guarded file as its user would, and wait until the host has reported its reaction.

        An earlier act of the module is a race, which nothing prevents. Without a report the attack goes on.
        """
        self._testbed.files.save(path)
        is_said = False
        with anyio.move_on_after(_SAID_SECONDS):
            while not is_said:
                await anyio.sleep(_LOOK_SECONDS)
                is_said = any(line.startswith(f"{path} was replaced") for line in self._session.changes)

    async def _call(self, index: int, attack: Attack) -> tuple[object, str]:
        """Return the attacker's answer, or the host's error in its place."""
        try:
            result = await self._tool(index).execute(attack.order(self._testbed))
        except PaddockError as error:
            return None, error.summary
        if result.success:
            return result.output, ""
        return None, str((result.error or {}).get("message", "the call failed"))


async def perform_to_the_end(
    attacks: Sequence[Attack], level: IsolationLevel, testbed: AttackTestbed
) -> Mapping[str, AttackOutcome]:
    """Perform attacks in a session of their own, and examine what is left of each when the session has ended.

    Raises:
        PaddockError: the level is unavailable.
    """
    if not attacks:
        return {}
    async with AttackSession(level, testbed, attacks) as attack_session:
        outcomes = {attack.name: await attack_session.perform(attack) for attack in attacks}
    surviving = [attack for attack in attacks if testbed.is_lock_held(attack.name)]
    with anyio.move_on_after(_GONE_SECONDS):
        while surviving:
            await anyio.sleep(_LOOK_SECONDS)
            surviving = [attack for attack in surviving if testbed.is_lock_held(attack.name)]
    return {
        attack.name: judge(attack, level, replace(outcomes[attack.name].evidence, lives_on=attack in surviving))
        for attack in attacks
    }


def _status(modules: Iterable[ModuleStatus], index: int) -> ModuleStatus:
    return [status for status in modules if status.kind == "tool"][index + _FIRST]


def _name_of(index: int) -> str:
    return f"attack_{index}"


class Responsiveness:
    """Measures while it is entered; `lag` is the longest delay of a timer so far, in seconds.

    Time in which the thread was ready but had no processor is left out, where the kernel counts it: that is the delay
    of a busy machine.
    """

    def __init__(self) -> None:
        self.lag = 0.0

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        try:
            self._counter: int | None = os.open(_WAITED, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # a kernel that does not count it
            self._counter = None
        self._wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._note()
        if self._counter is not None:
            os.close(self._counter)

    def _wait(self) -> None:
        self._due = self._now() + _PERIOD
        self._timer = self._loop.call_later(_PERIOD, self._ring)

    def _ring(self) -> None:
        self._note()
        self._wait()

    def _note(self) -> None:
        self.lag = max(self.lag, self._now() - self._due)

    def _now(self) -> float:
        """Return the time, without that in which this thread waited for a processor."""
        waited = 0 if self._counter is None else int(os.pread(self._counter, 128, 0).split()[1])
        return time.monotonic() - waited / 1e9
