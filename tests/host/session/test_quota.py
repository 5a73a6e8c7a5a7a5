"""What a module leaves is counted as long as it is there, and charged to whoever put it there."""

from __future__ import annotations

import pytest

from paddock.session import quota as quotas
from paddock.session.quota import MAX_THINGS, MAX_WEIGHT, RegistrationQuota, SharedStateQuota
from paddock.token_bucket import TokenBucket
from paddock_sdk.contract.boundary_errors import OverLimitError
from paddock_sdk.protocol.methods import HostMethod, MirrorSection
from support.scripted_end import ASYNC

from .conftest import Hosted, changes, tool

_HALF = MAX_WEIGHT // 2
_KEY = ("state", "key")


def test_what_is_replaced_or_given_back_counts_no_more() -> None:
    quota = RegistrationQuota()
    quota.spend(_KEY, MAX_WEIGHT)
    quota.spend(_KEY, _HALF)
    quota.spend(("attribute", "a"), _HALF)
    quota.give_back(_KEY)
    quota.spend(_KEY, _HALF)
    assert quota.spent(_KEY) == _HALF


def test_what_was_refused_is_not_counted() -> None:
    quota = RegistrationQuota()
    with pytest.raises(OverLimitError, match="more left with the host"):
        quota.spend(_KEY, MAX_WEIGHT + 1)
    quota.spend(_KEY, MAX_WEIGHT)
    with pytest.raises(OverLimitError, match=f"1 things that take {MAX_WEIGHT + 1} bytes"):
        quota.check(1)
    quota.check(MAX_WEIGHT, instead_of=[_KEY, _KEY])
    quota.check(MAX_WEIGHT, [_KEY], [_KEY])
    with pytest.raises(OverLimitError):
        quota.check(MAX_WEIGHT + 1, instead_of=[_KEY, _KEY])


def test_things_are_bounded_in_number_whatever_they_weigh() -> None:
    quota = RegistrationQuota()
    for number in range(MAX_THINGS):
        quota.spend(("handler", number), 0)
    with pytest.raises(OverLimitError):
        quota.spend(("handler", "one more"), 0)
    with pytest.raises(OverLimitError):
        quota.check(0, [("handler", 0), ("handler", "one more")])
    quota.check(0, [("handler", 0)])
    quota.check(0, [("handler", "one more")], [("handler", 0)])
    assert quota.number_of("handler") == MAX_THINGS


def test_a_new_life_answers_only_for_objects_that_outlived_the_last() -> None:
    quota, sorts = RegistrationQuota(), ("state", "attribute", "handler", "mount", "running")
    for sort in sorts:
        quota.spend((sort, 1), 10)
    quota.begin_life()
    assert [quota.spent((sort, 1)) for sort in sorts] == [10, 10, 0, 0, 0]


def test_a_module_answers_for_what_it_added_and_not_for_what_another_did() -> None:
    first, second, keys = RegistrationQuota(), RegistrationQuota(), SharedStateQuota("state")
    keys.written(first, "key", 0, _HALF)
    keys.written(second, "key", _HALF, _HALF + 10)
    keys.written(second, "key", _HALF + 10, _HALF + 5)
    assert (first.spent(_KEY), second.spent(_KEY)) == (_HALF, 10)


def test_what_another_takes_away_is_given_back() -> None:
    first, second, keys = RegistrationQuota(), RegistrationQuota(), SharedStateQuota("state")
    keys.written(first, "key", 0, 1000)
    keys.written(second, "key", 1000, 10)
    assert (first.spent(_KEY), second.spent(_KEY)) == (10, 0)
    keys.written(first, "key", 10, 1000)
    keys.written(None, "key", 1000, 2000)  # the application's own
    assert (first.spent(_KEY), second.spent(_KEY)) == (1000, 0)
    keys.written(None, "key", 2000, 0)
    assert (first.spent(_KEY), first.number_of("state")) == (0, 0)


async def test_who_changes_a_little_of_much_is_not_charged_for_what_another_left(hosted: Hosted) -> None:
    leaving, leaver = await hosted.start("tool", "tool-leaver")
    counting, counter = await hosted.start("tool", "tool-counter")
    await leaver.tell(HostMethod.PATCH_STATE, [[["shared"], [{"large": "x" * 1_000_000, "count": 0}]]])
    await counter.tell(HostMethod.PATCH_STATE, [[["shared", "count"], [1]]])
    assert leaving.quota.spent(("state", "shared")) > 1_000_000
    assert counting.quota.spent(("state", "shared")) < 100


async def test_no_module_keeps_more_than_the_bound(hosted: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas, "MAX_WEIGHT", MAX_WEIGHT // 100)
    module, worker = await hosted.start("tool", "tool-hoarder")
    _, other = await hosted.start("tool", "tool-other")
    other.frames.clear()
    for number in range(3):
        worker.notify(HostMethod.PATCH_STATE, [[["all", str(number)] if number else ["all"], [[[]] * 1_200]]])
    worker.notify(HostMethod.PATCH_STATE, [[["more"], [[[]] * 1_200]]])
    await worker.tell(HostMethod.PATCH_STATE, [[["yet more"], [[[]] * 1_200]]])
    assert not module.reports
    denials = [(denial.operation, denial.target, denial.times) for denial in module.denials]
    assert denials == [("leave", "session_state['yet more']", 1)]
    assert "more left with the host" in module.denials[0].reason
    assert set(hosted.coordinator.session_state) == {"all", "more"}
    assert changes(worker, MirrorSection.STATE) == [[[["yet more"], []]]], "the module gets what is there"
    await other.round_trip()
    told = [change for frame in other.frames for change in other.value(frame)]
    assert "yet more" not in {path[0] for path, _ in told}


async def test_endless_new_descriptions_are_ignored_and_noted_once(hosted: Hosted) -> None:
    module, worker = await hosted.start("tool", "tool-restless", tool("restless"))
    members = {"execute": ASYNC}

    async def say(what: str) -> str:
        await worker.tell(HostMethod.DESCRIBE, [5, worker.describe(members, name="restless", description=what)])
        return str(hosted.coordinator.get("tools", "restless").description)

    assert await say("first") == "first"
    assert not module.denials
    module.rate_limits.descriptions = TokenBucket(per_second=0, at_once=4000)
    said = [await say(f"{number}") for number in range(20)]
    assert said[:2] == ["0", "1"] and said[-1] == said[-2] != "19"
    assert [(denial.operation, denial.times) for denial in module.denials] == [("describe", 1)]


async def test_handlers_that_are_removed_by_name_or_number_leave_nothing_behind(hosted: Hosted) -> None:
    module, worker = await hosted.start("hook", "hooks-passing")
    for number in range(3):
        registered = await worker.ask(0, HostMethod.REGISTER, ["tool:post", 0, "passing", worker.function(number)])
        assert module.quota.number_of("handler") == 1
        removed = (HostMethod.UNREGISTER_NAME, "passing") if number else (HostMethod.UNREGISTER, registered)
        await worker.ask(0, removed[0], [removed[1]])
        assert module.quota.number_of("handler") == 0
    assert not hosted.coordinator.hooks.has_handlers("tool:post")
    with pytest.raises(ValueError, match="at most 200 characters"):
        await worker.ask(0, HostMethod.REGISTER, ["tool:post", 0, "x" * 201, worker.function(9)])
    with pytest.raises(ValueError, match="at most 200 characters"):
        await worker.ask(0, HostMethod.MOUNT, ["tools", "x" * 201, worker.own(10)])
    assert module.quota.number_of("handler") == module.quota.number_of("mount") == 0
