"""What became of the attacks, as people are told it; the campaign is made up."""

from __future__ import annotations

import pytest

from paddock.cli import selftest_command
from paddock.selftest import CATALOGUE, AttackRunner, AttackTrial, Result
from paddock.selftest.control import OutsideResult
from paddock.selftest.outcome import AttackOutcome, Verdict


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """What is told at a width of 80 of a campaign in which each attack with a known limit leaks by it."""

    async def run(runner: AttackRunner) -> Result:
        trials = []
        for attack in CATALOGUE:
            limit = attack.known.get("landlock")
            outcome = AttackOutcome(Verdict.LEAKS, limit) if limit else AttackOutcome(Verdict.REFUSED, "EACCES")
            trials.append(AttackTrial(attack, OutsideResult("worked"), {"landlock": outcome}))
        return Result(tuple(trials), ("landlock",))

    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(selftest_command.AttackRunner, "run", run)
    assert selftest_command.selftest.main([], standalone_mode=False) == 0
    told = capsys.readouterr()
    assert "attacks at each level take some minutes; `paddock selftest" in told.err
    return told.out


def test_no_name_of_an_attack_is_broken_at_the_width_of_a_terminal(shown: str) -> None:
    for attack in CATALOGUE:
        assert f"{attack.name}: " in shown


def test_leaks_are_summed_up_as_the_known_limits_that_they_are(shown: str) -> None:
    count = sum("landlock" in attack.known for attack in CATALOGUE)
    summary = " ".join(shown.partition(f"{len(CATALOGUE)} attacks as ")[2].split())
    assert summary.endswith(f"{count} leaks (known limits of the level, as said above)")
