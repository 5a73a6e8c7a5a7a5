"""What people and scripts are told about a module's rights, from records that tests make up."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

from host.policy.entries import entry, module_at
from paddock.cli.chat.slash_commands import Next, SlashCommands
from paddock.cli.terminal.render import Screen
from paddock.cli.why_command import run_why
from paddock.isolation.compile import Confinement
from paddock.isolation.record import ModuleRecord, RuleRecord, SessionRecord, SessionRecords
from paddock.plan.permissions import Permissions
from paddock.policy.limits import ResourceLimits
from paddock_sandbox.profile import Mount, SandboxProfile

RULES = (
    RuleRecord(file="/plans/plan.yaml", line=12, text='read: ["."]', outcome="granted"),
    RuleRecord(file="/etc/paddock/policy.toml", line=3, text='match "builtin:*"', outcome="not \x1b[2J capped"),
    RuleRecord(file="the default", line=None, text="no network", outcome="applies"),
)


class Told:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, module: str, family: Any, target: str, **options: Any) -> tuple[int, str, str]:
        given = {"session": None, "plan": None, "working_dir": None, "as_json": False, **options}
        code = run_why(module, family, target, **given)
        shown = self._capsys.readouterr()
        return code, shown.out, shown.err


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Told:
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return Told(capsys)


@pytest.fixture
def module(tmp_path: Path) -> ModuleRecord:
    written = entry(permissions={"read": ["."], "secrets": ["KEY"]})
    work = str(tmp_path / "work")
    confinement = Confinement(SandboxProfile("ns", (Mount(work, work),)), tmp_path / "work")
    code = module_at(tmp_path / "module")
    record = ModuleRecord.of(written, code, confinement, ResourceLimits.of(written))
    return record.model_copy(update={"consulted": RULES, "line": 11})


def keep(session_id: str, working_dir: Path, *modules: ModuleRecord, plan: Path | None = None) -> SessionRecord:
    record = SessionRecord.begin(session_id, modules, working_dir=working_dir, home=Path.home(), plan=plan)
    SessionRecords().keep(record)
    return record


def test_the_answer_precedes_the_rules_and_the_line(told: Told, module: ModuleRecord, tmp_path: Path) -> None:
    keep("s-1", tmp_path / "work", module, plan=Path("/plans/plan.yaml"))
    code, shown, errors = told("tool-x", "write", "new.txt")
    assert (code, errors) == (4, "")
    lines = shown.splitlines()
    assert lines[0] == "refused: `tool-x` may not write to `new.txt`"
    places = ["/plans/plan.yaml:12", "/etc/paddock/policy.toml:3", "the default", "/plans/plan.yaml:11"]
    where = [next(number for number, line in enumerate(lines) if place in line) for place in places]
    assert where == sorted(where)
    entry = "the entry of `tool-x`, tools[0] at /plans/plan.yaml:11, in place of `permissions`"
    assert lines[-2] == f"to allow it, write in {entry}"
    assert lines[-1] == '  permissions: {read: ["."], write: ["."], secrets: ["KEY"]}'
    assert any("session s-1" in line and "has not ended" in line for line in lines)
    assert "\x1b" not in shown and r"not \x1b[2J capped" in shown


def test_a_call_is_told_an_option_in_place_of_a_line(told: Told, module: ModuleRecord, tmp_path: Path) -> None:
    keep("s-1", tmp_path / "work", module.model_copy(update={"place": "", "line": None}))
    (tmp_path / "a, b").touch()
    for family, target, option in (
        ("net", "example.org", "--allow-net=example.org:443"),
        ("read", "../a, b", f"'--allow-read={tmp_path}/a,, b'"),
        ("secrets", "OTHER", "--allow-net=HOST:PORT '--allow-env=OTHER=${OTHER}' --allow-secrets=OTHER@HOST:PORT"),
    ):
        _, shown, _ = told("tool-x", family, target)
        assert f"to allow it, add to the call\n  {option}\n" in shown
        _, shown, _ = told("tool-x", family, target, as_json=True)
        assert json.loads(shown)["grant"] == option


@pytest.mark.parametrize("place", ["tools[0]", ""])
def test_no_vendors_key_is_suggested_elsewhere(told: Told, module: ModuleRecord, tmp_path: Path, place: str) -> None:
    stranger = module.model_copy(update={"permissions": Permissions(net=("api.evil.example",)), "place": place})
    keep("s-1", tmp_path / "work", stranger)
    _, shown, _ = told("tool-x", "secrets", "OPENAI_API_KEY", as_json=True)
    facts = json.loads(shown)
    assert (facts["grant"], facts["instead"], facts["allowed"]) == (None, None, False)
    assert "OPENAI_API_KEY is for OpenAI, and none of the hosts that it may reach is theirs" in facts["reason"]


def test_a_vendors_key_is_suggested_for_its_host_alone(told: Told, module: ModuleRecord, tmp_path: Path) -> None:
    for index, (net, lines) in enumerate(
        (
            ([], ("api.openai.com:443", '{"name": "OPENAI_API_KEY", "inject": "api.openai.com:443"}')),
            (["api.evil.example", "api.openai.com"], ('{"name": "OPENAI_API_KEY", "inject": "api.openai.com:443"}',)),
            (["public"], ('{"name": "OPENAI_API_KEY", "inject": "api.openai.com:443"}',)),
        )
    ):
        permissions = Permissions(net=tuple(net))
        keep(f"s-{index}", tmp_path / "work", module.model_copy(update={"permissions": permissions}))
        _, shown, _ = told("tool-x", "secrets", "OPENAI_API_KEY", as_json=True, session=f"s-{index}")
        assert all(line in json.loads(shown)["grant"] for line in lines), shown


def test_a_call_gets_a_key_with_its_host_or_one_to_fill_in(told: Told, module: ModuleRecord, tmp_path: Path) -> None:
    keep("s-1", tmp_path / "work", module.model_copy(update={"place": "", "line": None}))
    for key, host in (("OPENAI_API_KEY", "api.openai.com:443"), ("MY_KEY", "HOST:PORT")):
        grant = json.loads(told("tool-x", "secrets", key, as_json=True)[1])["grant"]
        assert f"--allow-net={host}" in grant and f"--allow-secrets={key}@{host}" in grant


def test_what_it_may_is_told_with_the_grant_that_lets_it(told: Told, module: ModuleRecord, tmp_path: Path) -> None:
    keep("s-1", tmp_path / "work", module)
    code, shown, _ = told("tool-x", "read", "new.txt")
    assert code == 0
    assert shown.startswith("allowed: `tool-x` may read `new.txt`\n")
    assert "read: ." in shown and "to allow it" not in shown


def test_scripts_get_the_same_facts(told: Told, module: ModuleRecord, tmp_path: Path) -> None:
    kept = keep("s-1", tmp_path / "work", module, plan=Path("/plans/plan.yaml"))
    code, shown, _ = told("tool-x", "net", "example.org", as_json=True)
    assert code == 4
    facts = json.loads(shown)
    assert facts["rules"][0] == {"file": "/plans/plan.yaml", "line": 12, "text": 'read: ["."]', "outcome": "granted"}
    assert [rule["line"] for rule in facts["rules"]] == [12, 3, None]
    del facts["rules"], facts["reason"]
    assert facts == {
        "module": "tool-x",
        "kind": "net",
        "target": "example.org",
        "allowed": False,
        "layer": "network",
        "granted_by": None,
        "grant": 'permissions: {read: ["."], net: ["example.org:443"], secrets: ["KEY"]}',
        "in_place_of": "permissions",
        "instead": None,
        "policy": [],
        "place": "tools[0]",
        "plan": "/plans/plan.yaml",
        "line": 11,
        "level": "ns",
        "session": {"id": "s-1", "started": kept.started.isoformat(), "ended": None},
        "error": None,
    }


def test_the_newest_session_of_the_folder_with_the_module_is_meant(
    told: Told, module: ModuleRecord, tmp_path: Path
) -> None:
    other = module.model_copy(update={"name": "tool-y", "module": "tool-y"})
    for session_id, folder, one in (
        ("old", "work", module),
        ("new", "work", module),
        ("newer, without it", "work", other),
        ("newest, elsewhere", "elsewhere", module),
    ):
        keep(session_id, tmp_path / folder, one)
    for options, expected in (
        ({}, "new"),
        ({"session": "old"}, "old"),
        ({"working_dir": tmp_path / "elsewhere"}, "newest, elsewhere"),
    ):
        _, shown, _ = told("tool-x", "read", "a", as_json=True, **options)
        assert json.loads(shown)["session"]["id"] == expected


@pytest.mark.parametrize(
    ("name", "options", "problem", "hint"),
    [
        ("tool-x", {"session": "s-7"}, "no session `s-7` is known", "did you mean `s-1`?"),
        ("tool-x", {"session": "zzzzz"}, "no session `zzzzz` is known", "sessions known: s-1"),
        ("tool-z", {"session": "s-1"}, "no module `tool-z` in session `s-1`", "did you mean `tool-x`?"),
        ("tool-z", {}, "there is no module `tool-z`", "did you mean `tool-x`?"),
        ("other", {}, "there is no module `other`", "modules known: tool-x"),
        ("tool-x", {"working_dir": Path("/")}, "no session is known that ran in `/`", "it ran in another folder: `-C"),
    ],
)
def test_where_there_is_no_such_session_or_module_close_ones_are_named(
    told: Told, module: ModuleRecord, tmp_path: Path, name: str, options: dict[str, Any], problem: str, hint: str
) -> None:
    keep("s-1", tmp_path / "work", module)
    code, shown, errors = told(name, "read", "a", **options)
    assert (code, shown) == (1, "") and problem in errors and hint in errors


@pytest.mark.parametrize(
    ("family", "target", "options"),
    [
        ("net", "https://x", {}),
        ("env", "A=B", {}),
        ("read", "a\x1b", {}),
        ("read", "a", {"plan": Path("p"), "session": "s"}),
    ],
)
def test_what_is_not_understood_is_a_question_of_usage(
    told: Told, module: ModuleRecord, tmp_path: Path, family: str, target: str, options: dict[str, Any]
) -> None:
    keep("s-1", tmp_path / "work", module)
    with pytest.raises(click.UsageError) as caught:
        told("tool-x", family, target, **options)
    assert "\x1b" not in caught.value.message


def test_text_in_a_record_cannot_act_on_a_terminal(told: Told, module: ModuleRecord, tmp_path: Path) -> None:
    hostile = "\x1b[2J\u202e\n"
    for_tests = module.model_copy(update={"name": f"tool{hostile}", "place": hostile, "line": None})
    keep("s-1", tmp_path / "work", for_tests, plan=Path(f"/p{hostile}"))
    for family in ("read", "net"):
        _, shown, _ = told("tool-x", family, "a")
        assert "\x1b" not in shown and "\u202e" not in shown


@pytest.mark.parametrize(
    ("line", "told"), [("tool-x net sk-123456.test", "refused: `tool-x` may not connect to"), ("none read .", "error:")]
)
async def test_in_a_chat_the_answer_is_on_its_screen_and_masked(
    capsys: pytest.CaptureFixture[str], module: ModuleRecord, tmp_path: Path, line: str, told: str
) -> None:
    (tmp_path / "work").mkdir()
    keep("s-1", tmp_path / "work", module)
    stream = io.StringIO()
    screen = Screen(stream)
    screen.mask = lambda text: text.replace("sk-123456", "[secret KEY]").replace("none", "[secret NAME]")
    conversation: Any = SimpleNamespace(session=SimpleNamespace(session_id="s-1"))

    async def grant(entry: Any, permissions: Any) -> bool:
        return False

    commands = SlashCommands(conversation, screen, tmp_path / "work", grant)
    assert await commands.run(f"/why {line}") is Next.GO_ON
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "")
    assert told in stream.getvalue() and "[secret" in stream.getvalue() and "sk-" not in stream.getvalue()
