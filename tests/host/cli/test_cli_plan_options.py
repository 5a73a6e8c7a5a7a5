"""Options for limits and grants come to what a plan would say, and are told of in their own words."""

from __future__ import annotations

import re
from typing import Any

import click
import pytest

from paddock.cli.call_command import call
from paddock.cli.options import ISOLATING, plan_and_prompt
from paddock.cli.options import LEVELS as LEVEL_CHOICE
from paddock.cli.plan_options import read_grants, read_limits, read_object, read_presets, retell
from paddock.errors import PlanError, PlanProblem, render
from paddock.plan import USUAL_PLAN
from paddock.plan.permissions import FAMILIES
from paddock.selftest import LEVELS
from paddock_sandbox.profile import ISOLATION_LEVELS
from support.rows import each_row


def test_there_is_an_option_for_every_family_of_grants() -> None:
    options = [option for each in call.params for option in each.opts]
    assert {option.removeprefix("--allow-") for option in options if option.startswith("--allow-")} == set(FAMILIES)


def test_every_level_can_be_named_and_every_isolating_one_attacked() -> None:
    assert tuple(LEVEL_CHOICE.choices) == ISOLATION_LEVELS
    assert ISOLATING == LEVELS


@each_row(
    ("written", "values"),
    [
        (["a"], ["a"]),
        (["a", "b"], ["a", "b"]),
        (["a,b", "c"], ["a", "b", "c"]),
        (["a,,b"], ["a,b"]),
        (["a,,b,c,,"], ["a,b", "c,"]),
        (["a,,,b"], ["a,", "b"]),
    ],
)
def test_commas_separate_values_and_two_commas_are_one(written: list[str], values: list[str]) -> None:
    assert read_grants({"read": written, "write": []}) == {"read": values}


def test_every_family_reads_what_a_plan_accepts() -> None:
    written = {
        "read": ["."],
        "write": ["./out"],
        "net": ["example.com:443"],
        "env": ["LANG,A=b"],
        "secrets": ["KEY"],
        "run": ["git,bash"],
        "call": ["tools:x"],
        "emit": ["artifact:*"],
        "hooks": ["tool:*"],
        "mount": ["providers"],
    }
    assert set(written) == set(FAMILIES)
    assert read_grants(written)["env"] == ["LANG", "A=b"]


@each_row(
    ("family", "value", "told"),
    [
        ("read", "", "--allow-read: holds an empty grant"),
        ("read", "a,", "--allow-read: holds an empty grant"),
        ("read", "*", "--allow-read: `*` is not a path"),
        ("env", "1A", "--allow-env: `1A` is not understood (env takes `NAME` or `NAME=VALUE`"),
        (
            "run",
            "bash -c",
            "--allow-run: `bash -c` is not the name of a program (run takes names such as `git`, paths such as",
        ),
        ("net", "http://x", "--allow-net: `http://x` is an address with a scheme"),
        ("secrets", "A@", "--allow-secrets[0]"),
        ("secrets", "A@http://x", "--allow-secrets[0].inject: `http://x` is an address with a scheme"),
        ("secrets", "A B", "--allow-secrets[0]: `A B` is not the name of an environment variable"),
        ("call", "everything", "--allow-call: `everything` is not understood"),
    ],
)
def test_a_grant_of_unknown_form_is_a_usage_error(family: str, value: str, told: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        read_grants({family: [value]})
    assert told in caught.value.message


@each_row(
    ("word", "told"),
    [("*", "--deny-read: `*` excludes everything"), ("@x", "--deny-read: `@x` is not known (`@secrets`, or a file of")],
)
def test_an_exclusion_is_told_of_by_its_own_option(word: str, told: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        read_grants({"read": ["."]}, [word])
    assert told in caught.value.message
    assert read_grants({"read": ["."]}, ["!.env,a"]) == {"read": [".", "!.env", "!a"]}
    error = PlanError([PlanProblem("permissions.read[1]", "`!./l` is a link", "exclude its target: !/x")])
    retell(error)
    assert error.problems == (PlanProblem("--deny-read", "`./l` is a link", "exclude its target: /x"),)


@each_row(
    ("written", "told"),
    [
        ("memory_max", "takes K=V"),
        ("=1M", "takes K=V"),
        ("memroy_max=1M", "did you mean `memory_max`?"),
        ("memory_max=lots", "--limit memory_max: `lots` is not understood (a size is bytes"),
        ("cpu_quota=50", "as in 50% or 200%"),
    ],
)
def test_a_limit_that_is_not_understood_is_a_usage_error(written: str, told: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        read_limits([written])
    assert told in caught.value.message


@each_row(
    ("place", "option"),
    [
        ("permissions.read[1]", "--allow-read"),
        ("permissions.net", "--allow-net"),
        ("limits.memory_max", "--limit memory_max"),
        ("config.api.key[0]", "--config api.key[0]"),
        ('config["a key"].x', '--config ["a key"].x'),
        ("isolation", "--isolation"),
        ("", ""),
    ],
)
def test_a_place_in_a_plan_is_told_as_the_option_it_came_from(place: str, option: str) -> None:
    error = PlanError([PlanProblem(place, "is wrong", "mend it")], code="GrantError")
    retell(error)
    assert [problem.path for problem in error.problems] == [option]
    assert error.code == "GrantError"
    shown = render(error)
    assert shown.startswith("error: the call has a problem\n")
    assert "plan" not in shown
    assert f"{option}: mend it" in shown if option else "hint: mend it" in shown


def test_what_to_grant_in_a_plan_is_told_as_an_option() -> None:
    hint: Any = "grant it where the module is listed as a table: permissions: {secrets: [API_KEY]}"
    error = PlanError([PlanProblem("config.key", "`${API_KEY}` is a secret that this entry is not granted", hint)])
    retell(error)
    assert error.hints == ("--config key: add `--allow-secrets=API_KEY`",)


@each_row(
    ("written", "presets"),
    [
        ([], {}),
        (["tool-bash=shell"], {"tool-bash": "shell"}),
        (["a=shell,b=workspace", "c = isolated"], {"a": "shell", "b": "workspace", "c": "isolated"}),
        (["a=shell", "a=shell"], {"a": "shell"}),
    ],
)
def test_presets_are_given_by_module_and_commas_stand_between_them(written: list[str], presets: dict[str, str]) -> None:
    assert read_presets(written) == presets


@each_row(
    ("written", "said"),
    [
        (["tool-bash"], "--grant takes MODULE=PRESET"),
        (["=shell"], "--grant takes MODULE=PRESET"),
        (["tool-bash="], "--grant takes MODULE=PRESET"),
        (["a=shell,"], "--grant takes MODULE=PRESET"),
        (["a=all"], "presets: isolated, workspace-read, workspace, shell"),
        (["a=shell", "a=workspace"], "--grant gives a both shell and workspace"),
    ],
)
def test_what_is_no_preset_for_a_module_is_told_in_the_words_of_the_option(written: list[str], said: str) -> None:
    with pytest.raises(click.UsageError, match=said):
        read_presets(written)


@each_row(
    ("written", "said"),
    [
        ("{a: 1}", """write '{"a": 1}'"""),
        ("a=b=c", """write '{"a": "b=c"}'"""),
        ("2020-01-01: x", "write an object"),
        ("&a {x: *a}", "write an object"),
        ("{a: .nan}", "write an object"),
    ],
)
def test_text_that_is_no_json_is_answered_with_json_to_paste(written: str, said: str) -> None:
    with pytest.raises(click.UsageError, match=re.escape(said)):
        read_object(written, "--config")


@each_row("prompt", ["a word " * 60, "summarize README.md"])
def test_a_prompt_may_be_long_or_end_in_the_name_of_a_file(prompt: str) -> None:
    meant = plan_and_prompt([prompt])
    assert (meant.plan, meant.prompt) == (USUAL_PLAN, prompt)
