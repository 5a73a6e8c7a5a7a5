"""A policy file says what it says with known words and no contradiction, or nothing starts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import PolicyFileError, render
from paddock.policy.files.policy import Policy
from paddock.policy.files.policy_file import PolicyFile
from paddock.policy.journal_rule import JournalRule
from support.rows import each_row

from .entries import owner

FULL = """\
minimum_isolation = "bwrap"
allow_unenforced = ["cpu_quota"]
git_hosts = ["GitHub.com", "*.example.org", "git.example.net:8443"]
require_pinned = true

[max_limits]
memory_max = "1G"
runtime_max = "5min"

[[module]]
match = "git+https://GitHub.com/org/*"
level = "ns"
limits = { memory_max = "512M" }

[module.grants]
read = [".", "/usr/share"]
write = ["./out"]
net = ["api.example.org:443", "*.example.net"]
env = ["LANG", "LC_*", "MODE=fast"]
secrets = ["API_KEY", { name = "OTHER_*", inject = "host" }]
run = ["git", "py*"]
call = ["tools", "context"]
emit = ["tool:*"]
hooks = []

[[module]]
match = "*"
grants = "workspace-read"
"""


def problems_of(text: str) -> dict[str, tuple[int | None, str]]:
    with pytest.raises(PolicyFileError) as caught:
        PolicyFile.parse(text, "policy.toml")
    assert caught.value.exit_code == 4
    shown = render(caught.value)
    for problem in caught.value.problems:
        assert problem.describe("policy.toml") in shown
    return {problem.path: (problem.line, f"{problem.message} | {problem.hint}") for problem in caught.value.problems}


def test_a_file_may_say_all_this() -> None:
    file = PolicyFile.parse(FULL, "policy.toml")
    assert (file.minimum_isolation, file.allow_unenforced, file.require_pinned) == ("bwrap", ("cpu_quota",), True)
    assert file.git_hosts == ("github.com", "*.example.org", "git.example.net:8443")
    assert (file.max_limits.memory_max, file.max_limits.runtime_max) == (1 << 30, 300.0)
    first, second = file.modules
    assert (first.match.text, first.level, first.limits.memory_max) == ("git+https://github.com/org/*", "ns", 512 << 20)
    assert first.caps is not None and first.caps.write == ("./out",) and "hooks" in first.caps.capped
    assert second.caps is not None and second.caps.read == (".",) and len(second.caps.capped) == 10


def test_an_empty_file_says_nothing() -> None:
    file = PolicyFile.parse("", "policy.toml")
    assert (file.minimum_isolation, file.git_hosts, file.modules, file.judges_sources) == (None, None, (), False)


def test_a_table_caps_the_families_that_it_names_and_no_other() -> None:
    file = PolicyFile.parse('[[module]]\nmatch = "*"\ngrants = {net = [], run = ["git"]}\n', "policy.toml")
    caps = file.modules[0].caps
    assert caps is not None and caps.capped == {"net", "run"}


def test_a_rule_is_told_with_its_line() -> None:
    file = PolicyFile.parse(FULL, "/etc/p.toml")
    assert file.rule("minimum_isolation", "bwrap").describe() == "/etc/p.toml:1: minimum_isolation = bwrap"
    assert file.rule("max_limits.runtime_max", "5 min").location.line == 8
    rule = file.rule_of_cap(file.modules[0], "net")
    assert (rule.location.line, rule.text) == (
        18,
        '[[module]] match = "git+https://github.com/org/*", grants.net = ["api.example.org:443", "*.example.net"]',
    )
    assert file.rule_of_cap(file.modules[1], "net").location.line == 28


@each_row(
    ("text", "path", "line", "said"),
    [
        ("minimum_isolaton = 'ns'", "", 1, "unknown key `minimum_isolaton` | did you mean `minimum_isolation`?"),
        ("\n[[module]]\nmatch = '*'\ngrant = {}", "module[0]", 4, "unknown key `grant` | did you mean `grants`?"),
        ("[[module]]\nmatch = '*'\n[module.grants]\nnets = []", "module[0].grants", 4, "did you mean `net`?"),
        (
            "[[module]]\nmatch = '*'\n[module.grants]\nsecrets = [{nam = 'A'}]",
            "module[0].grants.secrets[0]",
            4,
            "unknown key `nam` | did you mean `name`?",
        ),
        ("[max_limits]\nmemory = '1G'", "max_limits", 2, "unknown key `memory` | did you mean `memory_max`?"),
        ("[max_limits]\nmemory_max = '1X'", "max_limits.memory_max", 2, "a size is bytes"),
        (
            "\nallow_unenforced = ['cpu']",
            "allow_unenforced",
            2,
            "`cpu` is not the name of a limit | limits: memory_max",
        ),
        ("allow_unenforced = 'cpu_quota'", "allow_unenforced", 1, "must be a list, is text"),
        ("minimum_isolation = 'none'", "minimum_isolation", 1, "`none` is no level | `none` is no minimum"),
        ("minimum_isolation = 'nss'", "minimum_isolation", 1, "must be one of 'ns', 'bwrap' or 'landlock'"),
        ("git_hosts = ['*']", "git_hosts", 1, "`*`"),
        ("bind_local_git = true", "bind_local_git", 1, "no git_hosts"),
        ("module = [{match = '*', deny = ''}]", "module[0].deny", 1, "says nothing"),
        ("module = [{match = '*', deny = 'x', level = 'ns'}]", "module[0].deny", 1, "nothing to bound"),
        (f"module = [{{match = 'sha256:{'a' * 64}'}}]", "module[0].match", 1, "can only deny"),
        ("git_hosts = ['https://github.com']", "git_hosts", 1, "`https://github.com`"),
        ("git_hosts = ['127.1']", "git_hosts", 1, "some read it as one"),
        ("require_pinned = 'yes'", "require_pinned", 1, "must be true or false"),
        ("require_pinned = 1", "require_pinned", 1, "must be true or false"),
        ("module = {}", "module", 1, "must be a list, is a table"),
        ("[[module]]\ngrants = {}", "module[0]", 1, "`match` is missing"),
        ("[[module]]\nmatch = '**'", "module[0].match", 2, "names no module"),
        ("[[module]]\nmatch = 'git+https://x.example/a@v1'", "module[0].match", 2, "a rule is for a repository at any"),
        ("[[module]]\nmatch = '*'\ngrants = 'everything'", "module[0].grants", 3, "not a preset | presets: isolated"),
        ("[[module]]\nmatch = '*'\ngrants = {net = ['*']}", "module[0].grants.net", 3, "is every host"),
        ("[[module]]\nmatch = '*'\ngrants = {net = 'a.example'}", "module[0].grants.net", 3, 'write ["a.example"]'),
        ("[[module]]\nmatch = '*'\ngrants = {read = ['/srv/*']}", "module[0].grants.read", 3, "has a star in it"),
        ("[[module]]\nmatch = '*'\ngrants = {call = ['everyone']}", "module[0].grants.call", 3, "`everyone`"),
        ("[[module]]\nmatch = '*'\ngrants = {env = ['A B']}", "module[0].grants.env", 3, "`A B`"),
        ("[[module]]\nmatch = '*'\ngrants = {run = ['./*']}", "module[0].grants.run", 3, "`./*`"),
        ("[[module]]\nmatch = '*'\nlimits = {tasks = 1}", "module[0].limits", 3, "unknown key `tasks`"),
        ("[[module]]\nmatch = '*'\nlevel = 'none'", "module[0].level", 3, "`none` is no level"),
        ("a = [", "", None, "not TOML"),
        ("a = 1\na = 2\n", "", 2, "not TOML"),
        ("a = " + "[" * 5000, "", 1, "nested too deeply"),
        (
            "[[module]]\nmatch = 'git+https://github.com/org/*'\n[[module]]\nmatch = 'git+https://GitHub.com:443/org/*.git'",
            "module[1].match",
            4,
            "has rules on line 2 already",
        ),
        (
            "minimum_isolation = 'ns'\n[[module]]\nmatch = '*'\nlevel = 'landlock'",
            "module[0].level",
            4,
            "`landlock` is weaker than minimum_isolation = `ns` on line 1",
        ),
        (
            "max_limits = {memory_max = '16M'}\n[[module]]\nmatch = '*'\nlimits = {memory_max = '32M'}",
            "module[0].limits.memory_max",
            4,
            "32 MiB is more than max_limits.memory_max = 16 MiB on line 1",
        ),
        *(
            (f"\nrefused_networks = ['{network}']", "refused_networks", 2, "is no network")
            for network in ("10.0.0.1/8", "example.org", "10.0.0.0/33", "")
        ),
        ("[audit]\nforward = 'rsyslog'", "audit.forward", 2, "journald"),
        ("[audit]\nforwards = 'syslog'", "audit", 2, "forward"),
        ("[audit]\nrequired = 'yes'", "audit.required", 2, "true or false"),
        ("[journal]\nkeep = 'never'", "journal.keep", 2, 'an age, as in 30min, 12h, 30d or 8w, "forever" or "off"'),
        ("[journal]\nkeep = 30", "journal.keep", 2, "is not understood"),
        ("[journal]\nkeep = '3m'", "journal.keep", 2, "minutes or months"),
        ("[journal]\nsize = '1X'", "journal.size", 2, "a size is bytes"),
        ("[journal]\ndurability = 'disk'", "journal.durability", 2, "host"),
        ("[journal]\nkepp = '1d'", "journal", 2, "keep"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, str) else "",
)
def test_what_is_not_understood_is_refused_with_its_line(text: str, path: str, line: int | None, said: str) -> None:
    (found_path, (found_line, found)), *others = problems_of(text).items()
    assert (found_path, found_line, others) == (path, line, [])
    for part in said.split(" | "):
        assert part in found


def test_everything_wrong_with_a_file_is_told_at_once() -> None:
    problems = problems_of("foo = 1\nminimum_isolation = 'x'\n[[module]]\nmatch = ''\nlevel = 1\n")
    assert set(problems) == {"", "minimum_isolation", "module[0].match", "module[0].level"}


@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda data: data.decode("utf-8", "replace")))
def test_whatever_is_in_a_file_it_is_a_policy_or_refused(text: str) -> None:
    try:
        PolicyFile.parse(text, "policy.toml")
    except PolicyFileError as error:
        assert error.problems


VALUES = st.recursive(
    st.booleans() | st.integers() | st.sampled_from(["ns", "*", "git", "1M", "host"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["net", "secrets", "name", "inject", "memory_max", "x"]), inner, max_size=2)
    ),
    max_leaves=6,
)
KEYS = ["minimum_isolation", "allow_unenforced", "git_hosts", "bind_local_git", "max_limits", "module", "x"]
MODULE = st.dictionaries(st.sampled_from(["match", "grants", "limits", "level", "deny", "x"]), VALUES, max_size=4)


@given(st.dictionaries(st.sampled_from(KEYS), VALUES | st.lists(MODULE, max_size=2), max_size=4))
def test_whatever_its_keys_hold_a_file_is_a_policy_or_refused(written: dict[str, object]) -> None:
    import tomlkit

    try:
        PolicyFile.parse(tomlkit.dumps(written), "policy.toml")
    except PolicyFileError as error:
        assert error.problems


# -- where they are


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home")}


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o644)
    return path


def load(environ: dict[str, str], tmp_path: Path) -> Policy:
    return Policy.load(environ, system_file=tmp_path / "etc" / "policy.toml", system_owner=owner())


def test_without_any_file_there_is_no_policy(environ: dict[str, str], tmp_path: Path) -> None:
    assert load(environ, tmp_path) == Policy()


def test_the_operators_file_comes_before_the_users(environ: dict[str, str], tmp_path: Path) -> None:
    system = write(tmp_path / "etc" / "policy.toml", "minimum_isolation = 'ns'\n")
    user = write(tmp_path / "home" / ".config" / "paddock" / "policy.toml", "require_pinned = true\n")
    assert [file.name for file in load(environ, tmp_path).files] == [str(system), str(user)]


def test_the_user_may_keep_configuration_elsewhere(environ: dict[str, str], tmp_path: Path) -> None:
    user = write(tmp_path / "cfg" / "paddock" / "policy.toml", "")
    environ["XDG_CONFIG_HOME"] = str(tmp_path / "cfg")
    assert [file.name for file in load(environ, tmp_path).files] == [str(user)]
    environ["XDG_CONFIG_HOME"] = "cfg"  # relative: not to be believed, as the standard has it
    assert load(environ, tmp_path).files == ()


@pytest.mark.parametrize("which", ["system", "user"])
def test_a_file_that_others_may_write_is_not_passed_over(environ: dict[str, str], tmp_path: Path, which: str) -> None:
    places = {
        "system": tmp_path / "etc" / "policy.toml",
        "user": tmp_path / "home" / ".config" / "paddock" / "policy.toml",
    }
    path = write(places[which], "minimum_isolation = 'ns'\n")
    assert load(environ, tmp_path).files
    path.chmod(0o666)
    with pytest.raises(PolicyFileError, match="can be written by others") as caught:
        load(environ, tmp_path)
    assert f"chmod go-w {path}" in render(caught.value)


def test_the_operators_file_belongs_to_root(environ: dict[str, str], tmp_path: Path) -> None:
    system = write(tmp_path / "etc" / "policy.toml", "minimum_isolation = 'ns'\n")
    if os.geteuid() == 0:
        os.chown(system, 54321, -1)
    with pytest.raises(PolicyFileError):
        Policy.load(environ, system_file=system)


def test_the_strictest_rule_about_kept_sessions_counts() -> None:
    def rule(*texts: str) -> JournalRule:
        return JournalRule.strictest(PolicyFile.parse(text, "p").journal for text in texts)

    assert rule() == rule("minimum_isolation = 'ns'") == JournalRule()
    assert rule("[journal]\nkeep = '30d'\nsize = '64M'") == JournalRule(keep=30 * 86_400, size=64 << 20)
    assert rule("journal = {keep = 'forever'}", "journal = {keep = '8w', required = true}") == JournalRule(
        keep=56 * 86_400, required=True
    )
    assert rule("journal = {keep = '30d'}", "journal = {keep = 'off'}").is_off
    both = rule("journal = {durability = 'power'}", "journal = {durability = 'host'}")
    assert (both.outlives_power, rule("journal = {durability = 'host'}")) == (True, JournalRule())


def test_each_file_adds_to_what_is_asked_of_the_audit_log() -> None:
    def rule(*texts: str) -> tuple[frozenset[str], bool]:
        return Policy(tuple(PolicyFile.parse(text, "p") for text in texts)).audit

    assert rule() == rule("require_pinned = true") == (frozenset(), False)
    both = rule("audit = {forward = 'syslog'}", "[audit]\nforward = 'journald'\nrequired = true", "audit = {}")
    assert both == ({"syslog", "journald"}, True)
