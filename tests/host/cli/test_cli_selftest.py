"""What became of the attacks, as people are told it; the campaign is made up."""

from __future__ import annotations

import pytest

from paddock.cli import selftest_command
from paddock.selftest import CATALOGUE, AttackRunner, AttackTrial, Result
from paddock.selftest.control import OutsideResult
from paddock.selftest.outcome import AttackOutcome, Verdict


def test_known_leaks_are_summed_up_and_names_of_attacks_fit_80_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
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
    assert not [attack.name for attack in CATALOGUE if f"{attack.name}: " not in told.out]
    count = sum("landlock" in attack.known for attack in CATALOGUE)
    summary = " ".join(told.out.partition(f"{len(CATALOGUE)} attacks as ")[2].split())
    assert summary.endswith(f"{count} leaks (known limits of the level, as said above)")
