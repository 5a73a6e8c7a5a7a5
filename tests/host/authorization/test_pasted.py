"""What a line to paste adds, also if a stranger chose its words: no key by its value, nor with a host of theirs."""

from __future__ import annotations

from typing import Any

from paddock.authorization.suggestions.pasted import line_for, merged, pasted
from paddock.plan.permissions import Permissions
from support.rows import each_row

KEY = {"name": "OPENAI_API_KEY", "inject": "api.openai.com:443"}


@each_row(
    ("has", "asked", "line", "left"),
    [
        ({}, {"net": ["a.example"]}, {"net": ["a.example"]}, ()),
        ({}, {"net": ["public"]}, {}, ("net public",)),
        ({}, {"secrets": ["OPENAI_API_KEY"]}, {"net": ["api.openai.com:443"], "secrets": [KEY]}, ()),
        ({}, {"secrets": ["MINE"]}, {}, ("the value of MINE",)),
        (
            {},
            {"net": ["evil.example"], "secrets": [{"name": "OPENAI_API_KEY", "inject": "evil.example"}]},
            {"net": ["api.openai.com:443"], "secrets": [KEY]},
            ("net evil.example",),
        ),
        ({"secrets": ["MINE"]}, {"net": ["a.example"]}, {"secrets": ["MINE"], "net": ["a.example"]}, ()),
        (
            {},
            {"env": ["OPENAI_API_KEY", "A=${MINE}", "EDITOR", "B=c"]},
            {"env": ["EDITOR", "B=c"]},
            ("env OPENAI_API_KEY", "env A"),
        ),
        (
            {},
            {"net": ["a.example"], "env": ["HARMLESS", "TZ"]},
            {"net": ["a.example"], "env": ["TZ"]},
            ("env HARMLESS",),
        ),
        ({"net": ["a.example"]}, {"env": ["HARMLESS"]}, {"net": ["a.example"], "env": ["HARMLESS"]}, ()),
        (
            {},
            {"secrets": [{"name": "OPENAI_API_KEY", "inject": "127.0.0.1:9999"}]},
            {"net": ["api.openai.com:443"], "secrets": [KEY]},
            (),
        ),
        ({}, {"write": ["guarded", "src"]}, {"write": ["src"]}, ("write guarded",)),
        ({"write": ["guarded"]}, {"write": ["guarded"]}, {"write": ["guarded"]}, ()),
    ],
)
def test_a_line_gives_no_key_to_a_host_of_somebody_else(
    has: dict[str, Any], asked: dict[str, Any], line: dict[str, Any], left: tuple[str, ...]
) -> None:
    found = pasted(Permissions.parse(has), Permissions.parse(asked), lambda path: path != "guarded")
    assert found == (Permissions.parse(line), left)


def test_lines_of_one_entry_are_merged_by_the_same_rules() -> None:
    own = {"secrets": ["MINE"]}
    lines = [Permissions.parse({**own, "net": ["evil.example"]}), Permissions.parse({"secrets": ["MINE", KEY]})]
    together, left = merged(lines)
    assert together == Permissions.parse({"secrets": ["MINE", KEY], "net": ["api.openai.com:443"]})
    assert left == ("net evil.example",)
    of_preset = [Permissions.parse({"preset": "shell", **more}) for more in ({"read": ["/a"]}, {"net": ["a.example"]})]
    assert merged(of_preset)[0].as_written() == {"preset": "shell", "read": ["/a"], "net": ["a.example"]}


def test_lines_together_open_nothing_that_programs_run_by_themselves() -> None:
    together, left = merged([Permissions(write=("./notes",)), Permissions(write=("./.git/hooks",))])
    assert (together, left) == (Permissions(write=("./notes",)), ("write ./.git/hooks",))
    assert merged([Permissions(write=("./.git/hooks",))]) == (Permissions(write=("./.git/hooks",)), ())


@each_row(
    ("family", "grants", "line"),
    [
        ("call", ["tools:x"], 'permissions: {read: ["."], env: ["A=…"], call: ["tools:x"]}'),
        ("net", ["a.example:443", "10.0.0.1:443"], None),
        ("net", ["HOST:PORT"], 'permissions: {read: ["."], net: ["HOST:PORT"], env: ["A=…"]}'),
        ("net", ["public"], ""),
        ("mount", ["a\nb"], ""),
    ],
)
def test_the_line_of_a_refusal_follows_the_same_rules(family: str, grants: list[str], line: str | None) -> None:
    both = 'permissions: {read: ["."], net: ["a.example:443", "10.0.0.1:443"], env: ["A=…"]}'
    assert line_for(Permissions(read=(".",), env=("A=secret",)), family, *grants) == (both if line is None else line)
