"""What can be typed besides prompts: which lines are commands, what a grant comes to, and pastes made harmless."""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner

from paddock.cli.chat.conversation import Spending
from paddock.cli.chat.prompt_input import harmless, matching, open_history
from paddock.cli.chat.slash_commands import Next, SlashCommands, more_permissions
from paddock.cli.commands import paddock
from paddock.cli.terminal.render import Screen
from paddock.plan.permissions import Permissions, by_preset, united
from paddock.policy.secrets.values import SecretValues
from support.rows import each_row


async def _no_grant(entry: Any, permissions: Any, keeps_home: bool) -> bool:
    return False


@each_row(
    ("granted", "words", "expected"),
    [
        ({}, ["workspace"], "workspace"),
        ({}, ["net=example.org,example.com:80"], {"net": ["example.org", "example.com:80"]}),
        ({"read": ["."]}, ["read=/a", "run=git"], {"read": [".", "/a"], "run": ["git"]}),
        ({"read": ["."]}, ["read=."], {"read": ["."]}),
        ({"read": ["."]}, ["workspace"], "workspace"),
        ({"net": ["h"]}, ["workspace-read"], {"preset": "workspace-read", "net": ["h"]}),
        ("workspace", ["run=git"], {"preset": "workspace", "run": ["git"]}),
        ("workspace", ["shell"], "shell"),
        ("shell", ["workspace"], "shell"),
        ({"preset": "shell", "net": ["h"]}, ["net=h2"], {"preset": "shell", "net": ["h", "h2"]}),
    ],
)
def test_a_grant_adds_to_what_is_granted(granted: Any, words: list[str], expected: Any) -> None:
    before = Permissions.parse(granted)
    after = by_preset(more_permissions(united((before,)), words), (before.preset, *words))
    assert after == Permissions.parse(expected) and after.as_written() == Permissions.parse(expected).as_written()


@each_row(
    ("words", "told"),
    [(["wrkspace"], "did you mean `workspace`"), (["reed=."], "did you mean `read`"), (["net=http://x/y"], "")],
)
def test_a_grant_that_is_none_is_told_of(words: list[str], told: str) -> None:
    with pytest.raises(click.UsageError) as error:
        more_permissions(Permissions(), words)
    assert told in error.value.message


async def test_a_tools_description_is_masked_then_cut_where_it_shows() -> None:
    tools = {
        "ask": SimpleNamespace(description="asks with one\ntwo\nof them"),
        "more": SimpleNamespace(description="First.\n\nSecond."),
        "wide": SimpleNamespace(description="word " * 100),
    }
    conversation: Any = SimpleNamespace(session=SimpleNamespace(coordinator={"tools": tools}))
    stream = io.StringIO()
    screen = Screen(stream)
    screen.mask = SecretValues({"LINES": "one\ntwo"}).mask

    assert await SlashCommands(conversation, screen, None, _no_grant).run("/tools") is Next.GO_ON
    ask, more, *wide = stream.getvalue().splitlines()
    assert ask == "  ask   asks with [secret LINES] of them" and more == "  more  First. …"
    assert wide[-1].endswith("word …")


async def test_a_module_of_which_a_plan_has_two_goes_by_its_instance() -> None:
    entries = [
        SimpleNamespace(module="provider-x", instance_id="fast"),
        SimpleNamespace(module="provider-x", instance_id="slow"),
        SimpleNamespace(module="tool-x", instance_id="files"),
    ]
    revoked: list[str] = []
    session = SimpleNamespace(plan=SimpleNamespace(entries=lambda: entries), revoke=revoked.append)
    conversation: Any = SimpleNamespace(session=session)
    stream = io.StringIO()
    commands = SlashCommands(conversation, Screen(stream), None, _no_grant)
    for name in ("fast", "tool-x", "provider-x"):
        await commands.run(f"/revoke {name}")
    assert revoked == ["fast", "files"]
    assert "the plan has `provider-x` several times; name one of them: fast, slow" in stream.getvalue()


@each_row(
    ("line", "asked", "told"),
    [
        ("/model", None, "m answers; a has m, n; b has n, o; `/model NAME` asks another one"),
        ("/model m", "a: m", ""),
        ("/model o", "b: o", ""),
        ("/model n", None, "name a model that one provider has, or with it one of a, b; a has m, n; b has n, o"),
        ("/model nosuch", None, "or with it one of a, b; a has m, n; b has n, o"),
        ("/model nosuch b", "b: nosuch", "b does not list the model nosuch; b has n, o"),
        ("/model m tool-x", None, "or with it one of a, b; no provider lists its models"),
    ],
)
async def test_a_model_of_several_providers_goes_to_one_that_has_it(line: str, asked: str | None, told: str) -> None:
    def provider(*names: str) -> Any:
        async def listed() -> list[Any]:
            return [SimpleNamespace(id=name) for name in names]

        return SimpleNamespace(default_model=names[0], list_models=listed)

    async def set_model(entry: Any, model: str) -> bool:
        chosen.append(f"{entry.instance_id}: {model}")
        return True

    providers = [SimpleNamespace(module="provider-x", instance_id=name, kind="provider") for name in ("a", "b")]
    tool = SimpleNamespace(module="tool-x", instance_id=None, kind="tool")
    plan = SimpleNamespace(providers=providers, entries=lambda: [*providers, tool])
    mounted = {"providers": {"a": provider("m", "n"), "b": provider("n", "o")}}
    conversation: Any = SimpleNamespace(session=SimpleNamespace(plan=plan, coordinator=mounted))
    chosen: list[str] = []
    stream = io.StringIO()
    following = await SlashCommands(conversation, Screen(stream), None, _no_grant, set_model).run(line)
    assert chosen == ([] if asked is None else [asked])
    assert following is (Next.GO_ON if asked is None else Next.RESTART)
    assert told in " ".join(stream.getvalue().split())


def test_what_is_pasted_does_nothing_and_hides_nothing() -> None:
    assert harmless("a\r\nb\rc\td") == "a\nb\nc\td"
    assert harmless("\x1b[31m\x03\x7f\u202e\u2028") == r"\x1b[31m\x03\x7f\u202e\u2028"
    assert harmless("\U0001f469\u200d\U0001f680 \u0646\u200c\u0645") == "\U0001f469\u200d\U0001f680 \u0646\u200c\u0645"


def test_the_history_is_made_for_its_owner_and_bounded(tmp_path: Path) -> None:
    path = tmp_path / "chat_history"
    path.write_bytes(b"\n# old\n+old\n" * 200_000)
    path.chmod(0o644)
    history = open_history(lambda: tmp_path, lambda text: text.replace("sk-1", "[secret]"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and path.stat().st_size <= 1 << 19
    history.store_string("key sk-1")
    assert path.read_text(encoding="utf-8").endswith("+key [secret]\n")


def test_a_history_that_is_no_file_of_ours_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("", encoding="utf-8")
    (tmp_path / "chat_history").symlink_to(tmp_path / "elsewhere")
    open_history(lambda: tmp_path, str).store_string("hello")
    os.remove(tmp_path / "chat_history")
    os.mkfifo(tmp_path / "chat_history")
    open_history(lambda: tmp_path, str).store_string("hello")
    assert (tmp_path / "elsewhere").read_text(encoding="utf-8") == ""


def test_words_that_go_on_are_offered() -> None:
    assert matching(["/why", "/help", "/\x1b"], "/") == ["/why", "/help"]
    assert matching(["tool-a", "tool-b"], "tool-b") == ["tool-b"]


def test_costs_are_added_up_once_and_nonsense_is_none() -> None:
    spending = Spending()
    assert list(spending.lines([])) == ["no model has answered a request yet"]
    usage = {"input_tokens": 1000, "output_tokens": 5, "cost_usd": "0.25"}
    for event in ("llm:response", "provider:response"):  # of the same request
        spending.take(event, {"usage": usage})
    spending.take("provider:response", {"usage": {"input_tokens": -5, "output_tokens": True, "cost_usd": "NaN"}})
    assert list(spending.lines(["x", {"cost_usd": None}])) == [
        "2 requests; tokens: 1,000 in, 5 out",
        "cost: 0.2500 USD, as reported by the providers",
    ]
    assert list(spending.lines([{"cost_usd": "1.5"}, {"cost_usd": "0.5"}]))[1].startswith("cost: 2.0000 USD")


def test_help_cuts_no_command_short() -> None:
    shown = " ".join(CliRunner().invoke(paddock, ["--help"]).output.partition("Commands:")[2].split())
    assert "..." not in shown and "start the modules of PLAN, give them PROMPT, and print the answer." in shown
