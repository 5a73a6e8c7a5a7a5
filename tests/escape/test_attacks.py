"""Each attack at each level: it works outside, and inside it comes to nothing.

Where it does not work outside, nothing is shown by its being refused; then the test is skipped with what a look at the
machine says, and fails where that says nothing.
"""

from __future__ import annotations

import fcntl

import pytest

from escape.conftest import AttackSessions, Shown, attacks_at
from escape.reachable import skip_or_fail
from paddock.errors import IsolationUnavailableError
from paddock.rpc import router
from paddock.selftest import CATALOGUE, LEVELS, Attack, AttackOutcome, Verdict
from paddock.selftest.attack import Sign
from paddock.selftest.attack_session import AttackSession, perform_to_the_end
from paddock.selftest.testbed.testbed import AttackTestbed
from paddock_sandbox.profile import IsolationLevel


def _require_possible(attack: Attack, shown: Shown) -> None:
    control = shown(attack)
    assert not control.problem, f"it fails outside as well: {control.problem}"
    if not control.proves_something:
        pytest.skip("; ".join(control.expected_failures))


def _require_contained(attack: Attack, level: IsolationLevel, outcome: AttackOutcome) -> None:
    if outcome.verdict is Verdict.UNTRIED:
        pytest.skip(outcome.by)
    assert outcome.verdict.is_fine, f"{outcome.verdict}: {outcome.by}"
    assert outcome.verdict is not Verdict.LEAKS or level in attack.known


@pytest.mark.parametrize(
    ("level", "attack"),
    [pytest.param(level, attack, id=f"{attack.name}-{level}") for level in LEVELS for attack in attacks_at(level)],
)
async def test_what_can_be_done_outside_cannot_be_done_inside(
    level: IsolationLevel, attack: Attack, attack_sessions: AttackSessions, shown: Shown
) -> None:
    _require_possible(attack, shown)
    _require_contained(attack, level, await attack_sessions.perform(attack, level))


@pytest.mark.parametrize("level", LEVELS)
async def test_what_lives_on_outside_is_gone_with_its_module(
    level: IsolationLevel, stage: AttackTestbed, shown: Shown
) -> None:
    attacks = [attack for attack in CATALOGUE if level in attack.only_at and attack.sign is Sign.LIFE]
    try:
        outcomes = await perform_to_the_end(attacks, level, stage)
    except IsolationUnavailableError as error:
        skip_or_fail(level, error)
    for attack in attacks:
        _require_possible(attack, shown)
        _require_contained(attack, level, outcomes[attack.name])


async def test_what_is_left_of_an_attack_after_its_session_is_noticed(
    stage: AttackTestbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paddock.selftest.attack_session._GONE_SECONDS", 0.0)
    path = {"path": str(stage.files.key)}
    attack = Attack("files.read_ssh_key", "reads", "files", arguments=lambda stage: path, sign=Sign.LIFE)
    with stage.lock(attack.name).open() as survivor:
        fcntl.flock(survivor, fcntl.LOCK_EX)
        outcomes = await perform_to_the_end([attack], "none", stage)
    assert outcomes[attack.name].by == "something of it lives on"


# -- without isolation, the same attackers do succeed ---------------------------------------


async def test_a_flood_ends_an_honest_hook_where_no_event_waits_for_its_turn(
    stage: AttackTestbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(router, "MAX_HANDED", 1_000_000)
    attack = next(attack for attack in CATALOGUE if attack.name == "flood_an_honest_hook")
    async with AttackSession("none", stage, [attack]) as attack_session:
        outcome = await attack_session.perform(attack)
    assert outcome.verdict is Verdict.SUCCEEDED
    assert "the process of the honest tool" in outcome.by


_HARMLESS = (
    "read_ssh_key",
    "use_io_uring",
    "run_a_shell",
    "open_sockets",
    "kill_the_host",
    "pull_in_by_a_link",
    "send_datagrams_beside_a_granted_service",
)


async def test_the_attacker_does_succeed_as_a_module_that_nothing_shuts_in(stage: AttackTestbed) -> None:
    attacks = [attack for attack in CATALOGUE if attack.name in _HARMLESS]
    assert len(attacks) == len(_HARMLESS)
    async with AttackSession("none", stage, attacks) as attack_session:
        for attack in attacks:
            outcome = await attack_session.perform(attack)
            assert outcome.verdict is Verdict.SUCCEEDED, f"{attack.name}: {outcome.verdict}: {outcome.by}"
    assert stage.marks() == ()
