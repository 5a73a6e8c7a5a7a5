"""Policies that cannot be relied on, and plans that cannot have what they say: told with place and fix, nothing starts.

What only what is written differs in is decided in this process, from the same files that a command reads.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from integration.policy_ground import READ, SAID_ON, SYSTEM_FILE, Ground, refusals
from support.examples import repeating

pytestmark = pytest.mark.usefixtures("commands_end")


# -- what cannot be relied on --------------------------------------------------------------


def _refused_file(done: subprocess.CompletedProcess[str], file: str | Path) -> Mapping[str, Any]:
    """Return the one thing that is wrong with a file of the operator's, which both outputs have to tell."""
    told = json.loads(done.stdout)
    assert (done.returncode, told["error"]["type"]) == (4, "PolicyFileError"), done.stderr
    (problem,) = told["error"]["problems"]
    assert problem["file"] == str(file) and problem["hint"]
    assert problem["message"] in done.stderr and f"hint: {problem['hint']}" in done.stderr
    found: Mapping[str, Any] = problem
    return found


def _name_of(value: object) -> str:
    return value.__name__.removeprefix("_") if callable(value) else ""


def _be_writable_by_all(file: Path) -> None:
    file.chmod(0o666)


def _be_writable_by_the_group(file: Path) -> None:
    file.chmod(0o664)


def _lie_where_all_may_write(file: Path) -> None:
    file.parent.chmod(0o777)


def _be_a_link_to_what_all_may_write(file: Path) -> None:
    target = file.parent / "target.toml"
    file.rename(target)
    target.chmod(0o666)
    file.symlink_to(target.name)


def _be_a_link_to_nothing(file: Path) -> None:
    file.unlink()
    file.symlink_to("nothing.toml")


def _be_a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def _be_a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o600)


def _be_no_text(file: Path) -> None:
    file.write_bytes(b"\xff\xfe\x00")


_SPOILED = [
    (_be_writable_by_all, "can be written by others: by everybody (mode 0666)", "chmod go-w {file}"),
    (_be_writable_by_the_group, "can be written by others: by its group (mode 0664)", "chmod go-w {file}"),
    (_lie_where_all_may_write, "somebody else could put another `policy.toml`", "chmod go-w {folder}"),
    (_be_a_link_to_what_all_may_write, "can be written by others", "chmod go-w"),
    (_be_a_link_to_nothing, "which does not exist", "mend or remove the link"),
    (_be_a_folder, "is not a regular file", "put a file in its place"),
    (_be_a_pipe, "is not a regular file", "put a file in its place"),
    (_be_no_text, "is not UTF-8 text", "save it as UTF-8"),
]


@pytest.mark.parametrize(("spoil", "said", "fix"), _SPOILED, ids=lambda value: _name_of(value))
@pytest.mark.parametrize("whose", ["the user's", "the machine's"])
def test_a_policy_that_others_may_write_is_refused_with_the_fix(
    ground: Ground, whose: str, spoil: Callable[[Path], None], said: str, fix: str
) -> None:
    ground.write_plan("permissions: {}")
    text = 'git_hosts = ["git.example.org"]\n'
    file = ground.own_rule(text) if whose == "the user's" else ground.rule(text)
    assert (ground.judge().returncode, ground.judge_call().returncode) == (0, 0)
    spoil(file)
    for done in (ground.judge(), ground.judge_call()):
        problem = _refused_file(done, file)
        assert said in problem["message"]
        assert fix.format(file=file, folder=file.parent) in problem["hint"]


@pytest.mark.parametrize(
    ("whose", "spoil", "said", "fix"),
    [
        ("the user's", *_SPOILED[0]),
        ("the machine's", *_SPOILED[2]),
        *repeating(("the user's", *_SPOILED[6]), ("the machine's", *_SPOILED[3])),
    ],
    ids=lambda value: _name_of(value),
)
def test_nothing_starts_under_a_policy_that_others_may_write(
    policed: Ground, whose: str, spoil: Callable[[Path], None], said: str, fix: str
) -> None:
    policed.write_plan("permissions: {}")
    level = policed.levels()[0]
    text = 'git_hosts = ["git.example.org"]\n'
    file = policed.own_rule(text)
    if whose == "the machine's":
        file.unlink()
        policed.rule(text)
        file = policed.system / "policy.toml"
    relied_on = policed.run("--isolation", level)
    assert relied_on.returncode == 0, relied_on.stderr
    shutil.rmtree(policed.state / "paddock")

    spoil(file)
    shown = Path(SYSTEM_FILE) if whose == "the machine's" else file
    for done in (policed.run("--isolation", level), policed.paddock(*READ, "--isolation", level, "--json")):
        problem = _refused_file(done, shown)
        assert said in problem["message"]
        assert fix.format(file=shown, folder=shown.parent) in problem["hint"]
    assert policed.is_untouched()


@pytest.mark.parametrize("name", ["policy.toml", "grants.toml", "secrets.toml"])
def test_each_file_of_the_operators_is_the_operators_alone(ground: Ground, name: str) -> None:
    ground.write_plan("permissions: {}")
    (ground.config / name).write_text("")
    (ground.config / name).chmod(0o646)
    problem = _refused_file(ground.run(), ground.config / name)
    assert "by everybody" in problem["message"] and f"chmod go-w {ground.config / name}" in problem["hint"]


_CONTRADICTORY = [
    ('minimum_isolaton = "ns"', 1, "minimum_isolaton", "did you mean `minimum_isolation`?"),
    ('minimum_isolation = "none"', 1, "`none`", "leave it out"),
    ('\n[[module]]\nmatch = "*"\ngrant = "isolated"', 4, "grant", "did you mean `grants`?"),
    ('\n[[module]]\nmatch = "*"\ngrants = {net = ["*"]}', 4, "`*`", ""),
    ('[max_limits]\nmemory_max = "lots"', 2, "lots", ""),
    ("minimum_isolation = ", 1, "not TOML", ""),
    (
        '[[module]]\nmatch = "*"\ngrants = "isolated"\n[[module]]\nmatch = "*"\ngrants = "shell"',
        5,
        "`*` has rules on line 2 already",
        "put them together",
    ),
    (
        'minimum_isolation = "ns"\n[[module]]\nmatch = "*"\nlevel = "landlock"',
        4,
        "`landlock` is weaker than minimum_isolation = `ns` on line 1",
        "leave it out",
    ),
    (
        '[max_limits]\ntasks_max = 8\n[[module]]\nmatch = "*"\nlimits = {tasks_max = 9}',
        5,
        "is more than max_limits.tasks_max = 8 on line 2",
        "leave it out, or raise that one",
    ),
]


@pytest.mark.parametrize(("text", "line", "said", "fix"), _CONTRADICTORY)
def test_contradictory_rules_are_refused_with_their_lines(
    ground: Ground, text: str, line: int, said: str, fix: str
) -> None:
    file = ground.own_rule(text + "\n")
    ground.write_plan("permissions: {}")
    asked = [ground.judge(), ground.judge_call()]
    if text == _CONTRADICTORY[-1][0]:
        asked += [ground.run("--trust-plan"), ground.paddock(*READ, "--json")]
        assert ground.is_untouched()
    for done in asked:
        told = json.loads(done.stdout)
        assert (done.returncode, told["error"]["type"]) == (4, "PolicyFileError"), done.stderr
        (problem,) = told["error"]["problems"]
        assert (problem["file"], problem["line"]) == (str(file), line)
        assert said in f"{problem['path']}: {problem['message']}" and fix in problem["hint"]
        assert f"{file}:{line}: " in done.stderr and fix in done.stderr


# -- what a plan cannot have ---------------------------------------------------------------


_NOT_TO_BE_HAD = [
    ("permissions: {net: ['*']}", "permissions.net", "`*`", "host"),
    ("permissions: {net: ['https://example.com/']}", "permissions.net", "https://example.com/", ""),
    ("config: {key: '${PROBE}'}", "config.key", "is a secret that this entry is not granted", "secrets: [PROBE]"),
    (
        "{permissions: {secrets: [UNSET]}, config: {a: ['${UNSET}']}}",
        "config.a[0]",
        "environment variable `UNSET` is not set",
        "export UNSET`",
    ),
    (
        "permissions: {net: [example.com], secrets: [{name: UNSET, inject: host}]}",
        "permissions.secrets[0]",
        "secret `UNSET` has no value",
        "export UNSET`",
    ),
    (
        "permissions: {net: [example.com, example.org], secrets: [{name: PROBE, inject: host}]}",
        "permissions.secrets[0]",
        "means the only host of `net`, and that has several",
        "name the host",
    ),
    (
        "permissions: {net: [example.com], secrets: [{name: PROBE, inject: example.org}]}",
        "permissions.secrets[0]",
        "where no `net` grant lets the module connect",
        'net: ["example.org:443"]',
    ),
    (
        "permissions: {net: [example.com], secrets: [PROBE, {name: PROBE, inject: host}]}",
        "permissions.secrets[1]",
        "is granted twice, and not alike",
        "keep one of the two",
    ),
    ("permissions: {env: [A=b, A=c]}", "permissions.env[1]", "is granted twice", "keep one of the two"),
    (
        "permissions: {net: [example.com], env: [PROBE], secrets: [{name: PROBE, inject: host}]}",
        "permissions.env[0]",
        "would show the module the secret `PROBE`",
        "PROBE=${PROBE}",
    ),
    ("permissions: {env: ['A=${PROBE}']}", "permissions.env[0]", "is a secret that this entry is not", "PROBE"),
]


@pytest.mark.parametrize(
    ("said", "place", "message", "fix"), _NOT_TO_BE_HAD, ids=lambda value: value if "{" in value else ""
)
def test_what_a_plan_cannot_have_is_refused_with_line_and_fix(
    ground: Ground, said: str, place: str, message: str, fix: str
) -> None:
    starts = (said, place, message, fix) in (_NOT_TO_BE_HAD[0], _NOT_TO_BE_HAD[2], _NOT_TO_BE_HAD[9])
    if said.startswith("{"):
        said = "permissions: {secrets: [UNSET]}\n    config: {a: ['${UNSET}']}"
    ground.write_plan(said)
    for done in [ground.judge(), *([ground.run("--trust-plan")] if starts else [])]:
        told = json.loads(done.stdout)
        assert done.returncode == 1, done.stderr
        (problem,) = [one for one in told["error"]["problems"] if one["path"] == f"tools[0].{place}"]
        assert problem["file"] == str(ground.plan)
        assert problem["line"] == SAID_ON + said[: said.index(place.split(".")[0])].count("\n")
        assert message in problem["message"] and fix in problem["hint"] and problem["hint"]
        assert f"{ground.plan}:{problem['line']}: tools[0].{place}: {problem['message']}" in done.stderr
        assert problem["hint"] in done.stderr
        assert "a probe" not in done.stdout + done.stderr
        assert not told["modules"]
    assert ground.is_untouched()


def test_a_grant_above_the_users_cap_names_rule_line_and_fix(ground: Ground) -> None:
    policy = ground.own_rule('[[module]]\nmatch = "builtin:*"\n\n[module.grants]\nnet = ["example.org"]\n')
    ground.write_plan("permissions: {net: [example.org, example.com]}")
    done = ground.run("--trust-plan")
    assert refusals(done, policy) == [("tools[0].permissions.net[1]", 5)]
    assert f"{ground.plan}:{SAID_ON}: tools[0].permissions.net[1]: net `example.com` is more than" in done.stderr
    (problem,) = json.loads(done.stdout)["error"]["problems"]
    assert problem["hint"].endswith(str(policy)) and "net" in problem["rule"]["text"]
    assert ground.is_untouched()


def test_mistakes_of_a_plan_are_told_along_with_what_a_policy_refuses(ground: Ground) -> None:
    policy = ground.own_rule('[[module]]\nmatch = "*"\ngrants = {net = []}\n')
    ground.write_plan("permissions: {net: [example.com], env: [A=b, A=c]}")
    done = ground.judge()
    assert refusals(done, policy) == [("tools[0].permissions.net[0]", 3)]
    told = json.loads(done.stdout)["error"]["problems"]
    assert [one["path"] for one in told if "rule" not in one] == ["tools[0].permissions.env[1]"]


@pytest.mark.parametrize(
    ("written", "said", "fix"),
    [
        ('file = "{config}/missing"', "it does not exist", "make it"),
        ('command = ["false"]', "`false`", ""),
        ('env = "UNSET"', "it is not set", "export UNSET`"),
    ],
)
def test_a_missing_secret_is_named_with_its_place_and_fix(ground: Ground, written: str, said: str, fix: str) -> None:
    secrets = ground.config / "secrets.toml"
    secrets.write_text(f"\n[KEY]\n{written.format(config=ground.config)}\n")
    secrets.chmod(0o600)
    ground.write_plan("permissions: {secrets: [KEY]}\n    config: {key: '${KEY}'}")
    for done in [ground.judge(), *([ground.run("--trust-plan")] if "command" in written else [])]:
        told = json.loads(done.stdout)
        assert done.returncode == 1
        assert f"{secrets}:2" in done.stderr and said in done.stderr and fix in done.stderr
        (problem,) = told["error"]["problems"]
        assert f"{secrets}:2" in problem["message"] and said in problem["message"] and fix in problem["hint"]
    assert ground.is_untouched()


def test_a_lookalike_host_is_marked_where_a_policy_refuses_it(ground: Ground) -> None:
    ground.own_rule('[[module]]\nmatch = "*"\ngrants = "workspace-read"\n')
    ground.write_plan("permissions: {net: [xn--pi-6kc.example.com]}")
    done = ground.judge()
    assert done.returncode == 4
    assert "tools[0].permissions.net[0]: [NOT AS IT LOOKS: `xn--pi-6kc` in a host name is `\u0430pi`" in done.stderr
