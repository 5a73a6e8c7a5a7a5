"""What modules do in a session comes out in the published kernel as it does in ours.

The scenarios, and what is expected of them, are those that `tests/integration/semantics` has acted out in a plain
process and in sandboxed workers.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from integration.semantics import test_differences, test_event_answers, test_event_delivery, test_event_values
from integration.semantics.places import FOLDER, SESSION_ID, plan_of
from twins.published import OURS, Python

pytestmark = pytest.mark.timeout(900)

_WHERE = "in another module"
# Which end the process of the published kernel.
_ENDING = ("a SystemExit", "a KeyboardInterrupt")
_FUNCTION, _CONVERTED = "a result with a function in its data", "modified data is converted like any"
_SAME_ANSWERS = [case for case in test_event_answers.ANSWERS if case not in (*_ENDING, _FUNCTION, _CONVERTED)]
_ANSWERS = {
    f"answer: {case}": ("events.chain", {"where": _WHERE, "handlers": handlers})
    for case, (handlers, _, _) in test_event_answers.ANSWERS.items()
}
_VALUES = {
    f"value: {case}": ("event_values.converted", {"where": _WHERE, "case": case})
    for case in test_event_values.CONVERTED
}
_CALLS = {
    f"call: {case}": ("events.correlated", {"where": _WHERE, "emitted": emitted})
    for case, (emitted, _) in test_event_delivery.CORRELATED.items()
}
_DIFFERENCES = {
    f"difference: {case}": (difference.scenario, difference.given)
    for case, difference in test_differences.DIFFERENCES.items()
}


@pytest.fixture(scope="module")
def outcomes(kernel: Python, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    file = tmp_path_factory.mktemp("scenarios") / "asked.json"
    scenarios = {**_ANSWERS, **_VALUES, **_CALLS, **_DIFFERENCES}
    if kernel is not OURS:
        scenarios = {name: asked for name, asked in scenarios.items() if name.removeprefix("answer: ") not in _ENDING}
    file.write_text(json.dumps({"plan": plan_of(), "session_id": SESSION_ID, "scenarios": scenarios}))
    return dict(kernel.outcomes("scenarios.py", str(FOLDER), str(file)))


def is_as_expected(outcome: dict[str, Any], case: str) -> bool:
    _, expected, heard = test_event_answers.ANSWERS[case]
    outcome["result"].get("data", {}).pop("timestamp", None)
    return outcome["result"] == expected and [name for name, _ in outcome["heard"]] == heard


@pytest.mark.exhaustive("published")
def test_answers_come_to_the_same_result(outcomes: dict[str, Any]) -> None:
    assert not [case for case in _SAME_ANSWERS if not is_as_expected(outcomes[f"answer: {case}"], case)]


@pytest.mark.difference("a handler's answer with a function in it counts as `deny`")
def test_only_elsewhere_a_function_in_an_answer_is_its_text(outcomes: dict[str, Any], kernel: Python) -> None:
    outcome = outcomes[f"answer: {_FUNCTION}"]
    assert is_as_expected(outcome, _FUNCTION) is (kernel is OURS)
    assert outcome["result"]["action"] == ("deny" if kernel is OURS else "continue")


@pytest.mark.difference("sets and bytes in data that a handler modified become text")
def test_only_elsewhere_modified_data_has_a_form_of_its_own(outcomes: dict[str, Any], kernel: Python) -> None:
    outcome = outcomes[f"answer: {_CONVERTED}"]
    assert is_as_expected(outcome, _CONVERTED) is (kernel is OURS)
    assert outcome["result"]["data"]["tuple"] == [1, 2]


@pytest.mark.difference("a handler that raises SystemExit or KeyboardInterrupt is skipped")
def test_here_no_handler_ends_the_process(outcomes: dict[str, Any], kernel: Python) -> None:
    for case in _ENDING:
        if kernel is OURS:
            assert is_as_expected(outcomes[f"answer: {case}"], case), case
        else:
            assert f"answer: {case}" not in outcomes


def test_values_become_the_same_json(outcomes: dict[str, Any]) -> None:
    for case, expected in test_event_values.CONVERTED.items():
        assert outcomes[f"value: {case}"] == {"seen": [expected], "returned": [expected, expected]}, case


def test_events_of_one_call_carry_one_request_id(outcomes: dict[str, Any]) -> None:
    for case, (_, expected) in test_event_delivery.CORRELATED.items():
        assert outcomes[f"call: {case}"] == expected, case


def test_what_differs_between_workers_differs_from_the_published_kernel(outcomes: dict[str, Any]) -> None:
    for case, difference in test_differences.DIFFERENCES.items():
        assert outcomes[f"difference: {case}"] == difference.plain, case
