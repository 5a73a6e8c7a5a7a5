from __future__ import annotations

import math
import shlex
from pathlib import Path

import pytest

from paddock.errors import PlanError
from paddock.plan.limits import Limits, limit_option_in_line, limit_text, raised_limit_line
from paddock.plan.model import EntryPlace, ModuleEntry
from paddock.plan.permissions import (
    Permissions,
    SecretGrant,
    allow_option,
    grants_in_line,
    grants_in_word,
    grants_of,
    permissions_in_line,
    permissions_line,
)
from paddock.plan.problems import NotAcceptedError
from support.rows import each_row

PLACE = EntryPlace("tool", "tools[0]", Path("/plans"))


def read(**keys: object) -> ModuleEntry:
    return ModuleEntry.read({"module": "tool-x", **keys}, PLACE)


def problem_of(**keys: object) -> tuple[str, str]:
    with pytest.raises(PlanError) as caught:
        read(**keys)
    (problem,) = caught.value.problems
    return problem.path, f"{problem.message} | {problem.hint}"


@each_row(
    ("family", "grants"),
    [
        ("read", [".", "/etc/hosts", "../other"]),
        ("write", ["./out"]),
        ("net", ["example.org", "*.example.org:80", "::1", "10.0.0.0/8"]),
        ("env", ["HOME", "LANG=C.UTF-8", "EMPTY="]),
        ("run", ["bash", "git", "g++", "*"]),
        ("call", ["tools", "tools:read_file", "providers", "context", "spawn", "*"]),
        ("emit", ["session:*", "*"]),
        ("hooks", ["tool:pre", "*"]),
        ("mount", ["providers", "orchestrator", "context"]),
    ],
)
def test_every_accepted_grant_is_kept_as_written(family: str, grants: list[str]) -> None:
    assert getattr(read(permissions={family: grants}).permissions, family) == tuple(grants)


@each_row(
    ("family", "grant"),
    [
        ("read", "*"),
        ("write", "*"),
        ("read", ""),
        ("read", "a\x1bb"),
        ("net", "*"),
        ("env", "1A"),
        ("env", "=x"),
        ("env", "*"),
        ("run", "two words"),
        ("run", "."),
        ("run", "~"),
        ("run", "bash -c"),
        ("run", ".."),
        ("call", "everything"),
        ("call", "tools:"),
        ("call", "providers:x"),
        ("emit", "a b"),
        ("hooks", " "),
        ("mount", "tools"),
        ("mount", "*"),
        ("mount", "hooks"),
        ("mount", "module-source-resolver"),
        ("mount", "Providers"),
    ],
)
def test_a_grant_outside_the_grammar_is_refused_at_its_family(family: str, grant: str) -> None:
    path, text = problem_of(permissions={family: [grant]})
    assert path == f"tools[0].permissions.{family}"
    assert "empty" in text or grant in text


def test_a_preset_may_be_one_key_of_a_table() -> None:
    permissions = read(permissions={"preset": "workspace", "read": ["/data"], "net": ["h.example"]}).permissions
    whole = grants_of(permissions)
    assert (whole.read, whole.write, whole.net) == ((".", "!@secrets", "/data"), (".",), ("h.example",))
    assert permissions.as_written() == {"preset": "workspace", "read": ["/data"], "net": ["h.example"]}
    assert "did you mean `workspace`?" in problem_of(permissions={"preset": "workspce", "read": ["."]})[1]
    assert problem_of(permissions={"preset": 5})[0] == "tools[0].permissions.preset"


def test_a_secret_is_a_name_or_a_table() -> None:
    permissions = read(permissions={"secrets": ["A_KEY", {"name": "B_KEY", "inject": "host"}]}).permissions
    assert permissions.secret("A_KEY") == SecretGrant(name="A_KEY")
    assert permissions.secret("B_KEY") == SecretGrant(name="B_KEY", inject="host")
    assert permissions.secret("C_KEY") is None


@each_row(
    ("secret", "path"),
    [
        ("not a name", "tools[0].permissions.secrets[0]"),
        (5, "tools[0].permissions.secrets[0]"),
        ({"name": "A", "inject": "*"}, "tools[0].permissions.secrets[0].inject"),
        ({"name": "A", "inject": "*.example.org"}, "tools[0].permissions.secrets[0].inject"),
        ({"name": "A", "inject": "10.0.0.0/8"}, "tools[0].permissions.secrets[0].inject"),
        ({"name": "A", "inject": "https://example.org"}, "tools[0].permissions.secrets[0].inject"),
        ({"name": "A", "inject": True}, "tools[0].permissions.secrets[0].inject"),
        ({"name": "A", "injekt": "host"}, "tools[0].permissions.secrets[0]"),
        ({}, "tools[0].permissions.secrets[0]"),
    ],
)
def test_a_malformed_secret_is_refused_at_its_place(secret: object, path: str) -> None:
    assert problem_of(permissions={"secrets": [secret]})[0] == path


@each_row(
    ("net", "inject", "place"),
    [
        (["api.example.org"], "host", "api.example.org:443"),
        (["api.example.org:8443"], "host", "api.example.org:8443"),
        (["api.example.org", "API.example.org.:443"], "host", "api.example.org:443"),
        (["api.example.org", "other.example.org"], "api.example.org", "api.example.org:443"),
        (["api.example.org", "other.example.org"], "API.EXAMPLE.ORG:443", "api.example.org:443"),
        (["api.example.org:8443", "other.example.org"], "api.example.org", "api.example.org:8443"),
        (["api.example.org:8443", "api.example.org"], "api.example.org", "api.example.org:443"),
        (["*.example.org"], "api.example.org", "api.example.org:443"),
        (["127.0.0.1:11434"], "localhost", "127.0.0.1:11434"),
        (["host:443"], "host:443", "host:443"),
    ],
)
def test_an_injected_secret_has_one_place_where_it_is_used(net: list[str], inject: str, place: str) -> None:
    permissions = read(permissions={"net": net, "secrets": [{"name": "KEY", "inject": inject}]}).permissions
    assert permissions.place_of_injection(permissions.secrets[0]).text == place


@each_row(
    ("net", "inject", "problem", "fix"),
    [
        ([], "host", "that has none", "name the host"),
        (["a.example", "b.example"], "host", "that has several", "inject: api.example.org"),
        (["a.example:443", "a.example:80"], "host", "that has several", "name the host"),
        (["*.example.org"], "host", "a whole range", "name the host"),
        (["10.0.0.0/8"], "host", "a whole range", "name the host"),
        ([], "a.example", "`a.example:443`", 'net: ["a.example:443"]'),
        (["b.example"], "a.example", "`a.example:443`", 'net: ["a.example:443"]'),
        (["a.example:8443"], "a.example:443", "`a.example:443`", 'net: ["a.example:443"]'),
        (["a.example:8443", "a.example:80"], "a.example", "`a.example:443`", 'net: ["a.example:443"]'),
    ],
)
def test_a_secret_without_one_such_place_is_refused_with_what_to_write(
    net: list[str], inject: str, problem: str, fix: str
) -> None:
    permissions = read(permissions={"net": net, "secrets": [{"name": "KEY", "inject": inject}]}).permissions
    with pytest.raises(NotAcceptedError) as caught:
        permissions.place_of_injection(permissions.secrets[0])
    assert "`KEY`" in caught.value.problem and problem in caught.value.problem
    assert fix in caught.value.accepted


@each_row(
    ("written", "place", "said"),
    [
        ({"permissions": {"network": []}}, ".permissions", "unknown key `network` | did you mean `net`?"),
        ({"permissions": {"presets": "shell"}}, ".permissions", "unknown key `presets` | did you mean `preset`?"),
        ({"permissions": ["shell"]}, ".permissions", "is a list | write permissions: shell"),
        ({"permissions": ["./src"]}, ".permissions", "is a list | write a preset, or a table: {read: [.]}"),
        ({"write": ["."]}, "", "unknown key `write` | it belongs under `permissions`"),
        ({"memory_max": "1G"}, "", "unknown key `memory_max` | it belongs under `limits`"),
        ({"permissions": {"inject": "host"}}, ".permissions", "it belongs under `secrets`"),
        ({"limits": {"memory_max": 512}}, ".limits.memory_max", "`512` is too little for a module | write 8M or more"),
        ({"limits": {"open_files_max": 3}}, ".limits.open_files_max", "| write 10 or more"),
        ({"permissions": {"read": "."}}, ".permissions.read", 'must be a list, is text | write ["."]'),
        ({"permissions": {"read": {}}}, ".permissions.read", "is a table"),
        ({"permissions": {"run": ["git", 5]}}, ".permissions.run[1]", "must be text, is a number | "),
        ({"permissions": "everything"}, ".permissions", "workspace-read"),
        ({"permissions": "workspce"}, ".permissions", "did you mean `workspace`?"),
        (
            {"limits": {"runtime_max": 30}},
            ".limits.runtime_max",
            "`30` is not understood | a duration is a number with ",
        ),
        *(
            (
                {"limits": {"frame_max": size}},
                ".limits.frame_max",
                f"`{size}` cannot be the size of a frame | a frame has ",
            )
            for size in ("63K", 65535, 1, "17M", 16 * 1024**2 + 1)
        ),
        *(({key: "sometimes"}, f".{key}", "must be one of") for key in ("isolation", "spawn", "on_failure", "state")),
        ({"name": "tool-a"}, "", "| write `module: tool-a`, and beside it what else"),
        ({"tool-a": {"config": {}}}, "", "| write `module: tool-a`, and beside it what else"),
    ],
)
def test_what_stands_elsewhere_or_is_mistyped_has_its_fix(written: dict[str, object], place: str, said: str) -> None:
    is_named = not {"name", "tool-a"} & {*written}
    with pytest.raises(PlanError) as caught:
        ModuleEntry.read(
            {"module": "tool-a", **written} if is_named else written, EntryPlace("tool", "tools[0]", Path("/"))
        )
    ((path, text),) = ((one.path, f"{one.message} | {one.hint}") for one in caught.value.problems)
    assert path == f"tools[0]{place}" and said in text, text


def test_nothing_written_is_nothing_granted_and_no_limit() -> None:
    assert read().permissions == read(permissions=None).permissions == read(permissions={}).permissions
    assert set(read().limits.model_dump().values()) == {None}
    assert read(limits={"tmp_max": None}).limits == read().limits


def test_limits_become_plain_numbers() -> None:
    written = {
        "memory_max": ("256M", 256 << 20),
        "cpu_quota": ("50%", 0.5),
        "tasks_max": (32, 32),
        "open_files_max": (128, 128),
        "file_size_max": ("1G", 1 << 30),
        "tmp_max": ("64M", 64 << 20),
        "runtime_max": ("30s", 30.0),
        "call_max": ("none", math.inf),
        "start_max": ("1min", 60.0),
        "output_max": ("1M", 1 << 20),
        "frame_max": ("4M", 4 << 20),
        "calls_max": (16, 16),
    }
    limits = read(limits={name: text for name, (text, _) in written.items()}).limits
    assert limits.model_dump() == {name: number for name, (_, number) in written.items()}


@each_row("size", ["64K", "16M", 65536])
def test_frame_max_has_a_smallest_and_a_largest_value(size: object) -> None:
    assert read(limits={"frame_max": size}).limits.frame_max in (64 * 1024, 16 * 1024**2)


def test_every_problem_of_an_entry_is_reported_together() -> None:
    with pytest.raises(PlanError) as caught:
        read(limits={"memory_max": "lots", "runtim_max": "3s"}, isolation="vm", spawn=3, config=[], replaces=[1], x=1)
    assert {problem.path for problem in caught.value.problems} == {
        "tools[0]",
        "tools[0].config",
        "tools[0].limits.memory_max",
        "tools[0].limits",
        "tools[0].isolation",
        "tools[0].spawn",
        "tools[0].replaces[0]",
    }


def test_one_replaced_name_may_be_written_without_a_list() -> None:
    assert read(replaces="bash").replaces == ("bash",)
    assert read(replaces=["bash", "sh"]).replaces == ("bash", "sh")


def test_a_line_and_options_are_read_as_they_were_printed() -> None:
    secrets = ["KEY", {"name": "OTHER", "inject": "host"}]
    granted = {"read": ["./a, b: {c}", "."], "env": ["A=b,,c", "LANG"], "secrets": secrets, "net": ["[::1]:80"]}
    found = list(grants_in_line(permissions_line(Permissions.parse(granted))))
    assert found == [
        *(("read", "./a, b: {c}"), ("read", ".")),
        ("net", "[::1]:80"),
        *(("env", "A=b,,c"), ("env", "LANG"), ("secrets", "KEY"), ("secrets", "OTHER@host")),
    ]
    for family, grant in found:
        (option,) = shlex.split(allow_option(family, grant))
        assert grants_in_word(option.removeprefix(f"--allow-{family}=")) == [grant]
    assert list(grants_in_line(permissions_line(Permissions()))) == []


def test_only_a_line_of_permissions_is_read_as_permissions() -> None:
    table = {"read": ["./a, b: {c}"], "env": ["A=…"], "secrets": ["KEY"]}
    for written in (table, {**table, "preset": "workspace"}, "workspace-read"):
        granted = Permissions.parse(written)
        assert permissions_in_line(permissions_line(granted)) == granted
    assert [*grants_in_line('permissions: {preset: workspace, env: ["A"]}')] == [("env", "A")]
    for other in (
        "",
        "permissions: shells",
        "permissions: {preset: none}",
        "state: session",
        "permissions: {read: [NAME]}",
        'permissions: {read: "a"}',
    ):
        assert permissions_in_line(other) is None


@each_row(
    ("name", "written", "shown", "raised"),
    [
        ("memory_max", "1G", "1 GiB", "2G"),
        ("frame_max", "4M", "4 MiB", "8M"),
        ("cpu_quota", "50%", "50%", "100%"),
        ("tasks_max", 32, "32", "64"),
        ("runtime_max", "1.5s", "1.5 s", "3s"),
    ],
)
def test_a_limit_is_shown_and_raised_in_its_unit(name: str, written: object, shown: str, raised: str) -> None:
    value = getattr(Limits.model_validate({name: written}), name)
    assert limit_text(name, value) == shown
    assert raised_limit_line(name, value) == f"limits: {{{name}: {raised}}}"


def test_a_raised_limit_is_one_that_a_plan_and_a_call_take() -> None:
    for name in Limits.model_fields:
        for reached in (0.5, 1, 7.25, 90, 4096, 3 << 20):
            if (name == "frame_max" and not 1 << 16 <= reached < 16 << 20) or (name == "cpu_quota" and reached > 99):
                continue
            line = raised_limit_line(name, reached)
            written = line.removeprefix(f"limits: {{{name}: ").removesuffix("}")
            assert getattr(Limits.model_validate({name: written}), name) >= reached, line
            assert limit_option_in_line(line, name) == f"--limit {name}={written}"
    assert raised_limit_line("frame_max", 12 << 20) == "limits: {frame_max: 16M}"
    assert raised_limit_line("frame_max", 16 << 20) == ""  # nothing more is to be had


def test_a_raised_limit_keeps_the_others_of_its_entry() -> None:
    written = Limits.model_validate({"runtime_max": "90s", "memory_max": "64M", "call_max": "none"})
    line = raised_limit_line("memory_max", 64 << 20, written)
    assert line == "limits: {memory_max: 128M, runtime_max: 90s, call_max: none}"
    assert limit_option_in_line(line, "memory_max") == "--limit memory_max=128M"
    assert raised_limit_line("tmp_max", 1 << 20, written).endswith("call_max: none, tmp_max: 2M}")
    assert limit_option_in_line("permissions: {read: [.]}", "memory_max") is None
