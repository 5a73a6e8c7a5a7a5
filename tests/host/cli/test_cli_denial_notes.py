from __future__ import annotations

import io
from pathlib import Path

from paddock.cli.terminal.denial_notes import lines_to_paste, tell_denials, tell_lines_to_paste
from paddock.cli.terminal.render import Screen
from paddock.errors import Denial
from paddock.plan.load import load_plan
from paddock.plan.permissions import Permissions
from support.rows import each_row


def _told(*denials: Denial) -> list[str]:
    stream = io.StringIO()
    tell_denials(Screen(stream), (denial.as_dict() for denial in denials))
    return stream.getvalue().splitlines()


@each_row(
    ("denial", "line"),
    [
        (
            Denial("read", "/x", "x", "files", "permissions: shell", "why"),
            "module `x` may not read `/x`: why; to allow it, write in the entry of `x` in the plan: permissions: shell",
        ),
        (Denial("emit", "tool:pre", "tool-x"), "module `tool-x` may not emit `tool:pre`; no grant allows this"),
        (Denial("read", "a\x1b[2J\nb", "x"), r"module `x` may not read `a\x1b[2J\nb`; no grant allows this"),
    ],
)
def test_a_denial_is_told_with_the_line_that_allows_it(denial: Denial, line: str) -> None:
    assert _told(denial) == [f"warning: {line}"]


def test_a_call_is_not_told_the_options_that_it_has() -> None:
    stream = io.StringIO()
    line = 'permissions: {read: ["./a", "./b"]}'
    denial = Denial("read", "./b", "x", "files", line).as_dict()
    tell_denials(Screen(stream), [denial], given=Permissions(read=("./a",)))
    assert stream.getvalue().endswith("; to allow it, add --allow-read=./b\n")


def test_the_same_is_told_once() -> None:
    assert len(_told(*[Denial("read", "/x", "tool-x")] * 3, Denial("read", "/x", "tool-y"))) == 2


def test_folders_above_a_refused_one_are_left_out() -> None:
    climb = [Denial("write to", path, "tool-x") for path in ("/w/logs/a", "/w/logs", "/w", "/w/other", "/v")]
    shown = [line.split("`")[3] for line in _told(*climb, Denial("write to", "/w", "tool-y"))]
    assert shown == ["/w/logs/a", "/w/other", "/v", "/w"]
    assert len(_told(Denial("read", "/w/a", "tool-x"), Denial("read", "/w", "tool-x"))) == 2


def test_of_very_many_the_first_are_told_and_the_rest_counted() -> None:
    lines = _told(*(Denial("read", f"/{number}", "tool-x") for number in range(1000)))
    assert len(lines) == 21
    assert lines[-1] == "980 more denials are not shown; `--json` has them"


def test_a_line_to_paste_grants_only_what_a_shown_denial_names() -> None:
    paths = [f"./{number}" for number in range(20)]
    harmless = [Denial("read", path, "x", "files", f'permissions: {{read: ["{path}"]}}') for path in paths]
    hidden = Denial("read", "~/.ssh", "x", "files", 'permissions: {read: ["~/.ssh"]}')
    denials = [*harmless, hidden]
    told = [line for line in _told(*denials) if "permissions:" in line]
    assert [line.count("./") for line in told] == [2] * 20, "each line is for one act"
    assert lines_to_paste([one.as_dict() for one in denials], {})["x"].read == tuple(paths)


def test_a_line_to_complete_and_a_modules_own_variable_are_never_pasted() -> None:
    denials = [
        Denial("connect to", "any host", "x", "network", 'permissions: {net: ["HOST:PORT"]}', "not granted"),
        Denial("see the variable", "EDITOR", "x", "launcher", 'permissions: {env: ["EDITOR"]}'),
        Denial("read", "/a", "x", "files", 'permissions: {read: ["/a"]}'),
        Denial("read", "/b", "x", "files", 'permissions: {read: ["/b"]}'),
    ]
    assert _told(*denials)[0].endswith('in the plan: permissions: {net: ["HOST:PORT"]}')
    assert lines_to_paste([one.as_dict() for one in denials], {})["x"] == Permissions(read=("/a", "/b"))


def test_what_was_left_out_is_counted() -> None:
    stream = io.StringIO()
    tell_denials(Screen(stream), (), 7)
    assert stream.getvalue() == "warning: 7 more acts were refused, or may have been: too many to note which\n"


def test_a_target_that_passes_for_another_is_marked() -> None:
    (line,) = _told(Denial("connect to", "\u0430pi.example.org:443", "tool-x"))
    assert line.startswith("warning: [NOT AS IT LOOKS: `\u0430` is U+0430 CYRILLIC SMALL LETTER A] module `tool-x`")


def test_nothing_refused_is_said_only_where_all_refusals_are_known() -> None:
    told = []
    for is_complete in (True, False):
        stream = io.StringIO()
        tell_lines_to_paste(Screen(stream), {}, is_complete=is_complete)
        told.append(stream.getvalue())
    assert "no module was refused anything" in told[0] and "no module was refused" not in told[1]
    assert "not all are reported" in told[1]


def test_a_module_that_only_a_bundle_names_gets_a_whole_entry(tmp_path: Path) -> None:
    session = "session: {orchestrator: loop-basic, context: context-simple}"
    tools = "tools: [{module: tool-a}, {module: tool-b}]"
    (tmp_path / "b.md").write_text(f"---\nbundle: {{name: b}}\n{session}\n{tools}\n---\n")
    (tmp_path / "plan.yaml").write_text("extends: ./b.md\ntools:\n  - module: tool-b\n")
    plan, stream = load_plan(tmp_path / "plan.yaml"), io.StringIO()
    line = 'permissions: {read: ["./x"]}'
    denials = [Denial("read", "./x", name, "files", line).as_dict() for name in ("tool-a", "tool-b")]
    tell_denials(Screen(stream), denials, plan=plan)
    said = [one.partition("; ")[2] for one in stream.getvalue().splitlines()]
    assert said == [
        f"to allow it, write in the plan, in `tools`: - {{module: tool-a, {line}}}",
        f"to allow it, write in the entry of `tool-b` in the plan: {line}",
    ]
