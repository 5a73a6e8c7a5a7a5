"""What Paddock prints to be pasted is right when it is pasted: for the errors, denials and warnings of all scenarios.

Fixes are read from the golden values, which other tests compare with what is printed. A sample has each sentence once;
`make test-all` pastes all. `NOT_PASTED` has those that no test can judge, and says why; `pytest -rP` prints them.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

import pytest

from blackbox.commands import REPOSITORY, Finished, World
from blackbox.frozen import frozen
from blackbox.pasting import Attempt, paste
from blackbox.printed_fixes import Fix, printed_fixes
from blackbox.scenarios import SCENARIOS
from integration.warm_commands import WarmCommands

#: In scenarios whose commands need what others did before: the numbers of these. No other command is run but to paste.
_STEPS: Final[Mapping[str, tuple[int, ...]]] = {
    "sources_that_are_there": (1, 11),
    "writing_plans_and_modules": (0, 10, 13, 14),
}
_COSTLY: Final = ("runs its tests",)  # seconds each: not in the sample
_NAMES: Final = re.compile(r"`[^`]*`|<root>\S*|(?<=^hint: )\S+: |; `--isolation landlock`.*")

#: By a part of the line that shows it: why no test pastes a fix.
NOT_PASTED: Final[Mapping[str, str]] = {
    "fetch it while there is a network": "nobody is at the addresses of the scenarios, and tests have no network",
    "lock it, with `paddock lock`": "that fetches, from an address where nobody is",
    "`192.0.2.1:443`": "nobody is at this address",
    "adds a model": "it takes the index of packages, and then a vendor's server",
    "`pip install no-such-package-installed`": "there is no such package",
    "`-C DIR` names another folder": "no folder of the scenario has a lock file",
    "init --from plan.toml": "the file of the scenario is no TOML either",
    "write session: {orchestrator": "the plan of the scenario has no provider either, and is then told so",
    "remove the file": "the scenario has no plan that could be locked anew",
    "to allow it more": "the tool sleeps for good: no time is enough",
}


@dataclass(frozen=True, slots=True)
class Case:
    """A fix that a command of a scenario prints: the command by its number there, and all that it printed."""

    scenario: str
    number: int
    text: str
    fix: Fix

    @property
    def sentence(self) -> object:
        """What is the same of it wherever Paddock says the same."""
        return self.fix.act, self.fix.text.partition("=")[0].partition(" ")[0], _NAMES.sub("", self.fix.said)


class _Rehearsal(World):
    """A world in which no command runs: what a scenario returns says which of its commands is which."""

    def __init__(self, folder: Path) -> None:
        super().__init__(cast(WarmCommands, None), folder)
        self._count = -1

    def run(self, *args: str, **options: Any) -> Finished:
        self._count += 1
        return Finished(self, [str(self._count)], 0, "", "")


class _AllPastedError(Exception):
    """Raised where nothing is left to paste: the rest of the scenario is not needed."""


class _Pasting(World):
    """A world in which each case is pasted as its command is at hand, into what was there for it."""

    def __init__(self, world: World, cases: list[Case]) -> None:
        self.__dict__.update(world.__dict__)
        self._world, self._cases = world, cases
        self._count = -1
        self.wrong: list[str] = []

    def run(self, *args: str, stdin: str = "", environ: Mapping[str, str] | None = None) -> Finished:
        """Run a command of the scenario, if the next need what it does, and paste what it prints."""
        self._count += 1
        done = Finished(self, args, 0, "", "")
        if self._count in _STEPS.get(self._cases[0].scenario, ()):
            done = self._world.run(*args, stdin=stdin, environ=environ)
        for case in self._cases:
            if case.number == self._count:
                aside = self.folder.rename(self.folder.with_name(f"{self.folder.name}-aside"))
                shutil.copytree(aside, self.folder, symlinks=True)
                attempt = Attempt(self._world, [*map(self.filled, args)], stdin, {**(environ or {})})
                if wrong := paste(attempt, self._filled_fix(case.fix), self._filled(case.text), _is_out_of_reach):
                    self.wrong.append(f"{case.scenario} {case.number}, `{case.fix.text}`: {wrong}")
                shutil.rmtree(self.folder)
                aside.rename(self.folder)
        if self._count == self._cases[-1].number:
            raise _AllPastedError
        return done

    def _filled(self, text: str) -> str:
        return self.filled(text).replace("<repository>", str(REPOSITORY))

    def _filled_fix(self, fix: Fix) -> Fix:
        return replace(fix, **{one.name: self._filled(getattr(fix, one.name)) for one in fields(fix)})


def _records(value: Any, rehearsed: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield each golden record of a command with the command's number, which the same place of `rehearsed` has."""
    if isinstance(value, Mapping) and "args" in value:
        yield int(rehearsed["args"][0]), value
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from _records(one, rehearsed[key])
    elif isinstance(value, list):
        for one, other in zip(value, rehearsed, strict=False):
            yield from _records(one, other)


def _read(record: Mapping[str, Any]) -> str:
    """Return what a person reads of a command, but for what it would tell a program."""
    lines = [*record.get("stderr", ())]
    if isinstance(record["stdout"], list) and record["args"][0] in ("why", "chat"):
        lines += record["stdout"]
    return "\n".join(lines)


@cache
def _texts() -> Mapping[str, Mapping[int, str]]:
    """Return what each command of each scenario prints, by the command's number."""
    texts = {}
    for name, scenario in SCENARIOS.items():
        golden = frozen(f"commands/{name}")
        if name in _STEPS:
            found = [*enumerate(golden if isinstance(golden, list) else golden["commands"])]
        else:
            with tempfile.TemporaryDirectory() as folder:
                found = [*_records(golden, scenario(_Rehearsal(Path(folder))))]
        texts[name] = {number: _read(record) for number, record in sorted(found, key=lambda one: one[0])}
    return texts


@cache
def _cases() -> tuple[Case, ...]:
    """Return every fix that is printed."""
    return tuple(
        Case(scenario, number, text, fix)
        for scenario, texts in _texts().items()
        for number, text in texts.items()
        for fix in printed_fixes(text).fixes
    )


def _is_out_of_reach(fix: Fix) -> bool:
    return any(part in fix.said for part in NOT_PASTED)


def _paste(world: World, cases: list[Case]) -> None:
    pasting = _Pasting(world, cases)
    with suppress(_AllPastedError):
        SCENARIOS[cases[0].scenario](pasting)
    assert not pasting.wrong, "\n".join(pasting.wrong)


def _sample() -> dict[str, list[Case]]:
    """Return the first case of each sentence, by scenario."""
    tried = [case for case in _cases() if not (_is_out_of_reach(case.fix) or case.fix.said.endswith(_COSTLY))]
    first = {case.sentence: case for case in reversed(tried)}.values()
    return {name: [case for case in tried if case.scenario == name and case in first] for name in SCENARIOS}


@pytest.mark.usefixtures("level_ns")
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_sample_of_printed_fixes_is_right(scenario: str, world: World) -> None:
    if cases := _sample()[scenario]:
        _paste(world, cases)


@pytest.mark.exhaustive
@pytest.mark.usefixtures("level_ns")
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_printed_fix_is_right(scenario: str, world: World) -> None:
    if cases := [case for case in _cases() if case.scenario == scenario and not _is_out_of_reach(case.fix)]:
        _paste(world, cases)


def test_what_could_be_pasted_stands_in_a_known_sentence() -> None:
    unread = [line for texts in _texts().values() for text in texts.values() for line in printed_fixes(text).unread]
    assert not unread, "\n".join(unread)


def test_each_fix_that_is_not_pasted_is_printed_somewhere() -> None:
    for part, reason in NOT_PASTED.items():
        cases = [case for case in _cases() if part in case.fix.said]
        print(f"not pasted: {cases[0].fix.text!r}, {len(cases)} times: {reason}")
