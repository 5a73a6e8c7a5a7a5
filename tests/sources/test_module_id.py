from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock_sources import ModuleIdError, checked_module_id, kind_of_id
from paddock_sources.module_id import environment_variable_of_id, package_of_id
from support.rows import each_row


@each_row("module_id", ["tool-bash", "hooks-logging", "my_tool", "a", "3d-tool", "x.y", "A" * 128])
def test_a_plain_name_is_an_id(module_id: str) -> None:
    assert checked_module_id(module_id) == module_id


@each_row(
    "module_id",
    [
        "",
        " ",
        "-x",
        ".x",
        "..",
        "a/b",
        "../a",
        "a b",
        "a\n",
        "a\x1b[2J",
        "a\u202eb",
        "ü",
        "A" * 129,
        None,
        5,
        b"a",
        ["a"],
    ],
    ids=lambda value: ascii(value)[:20],
)
def test_anything_else_is_refused_legibly(module_id: object) -> None:
    with pytest.raises(ModuleIdError) as caught:
        checked_module_id(module_id)
    assert str(caught.value).isprintable()


@each_row(
    ("module_id", "kind"),
    [
        ("tool-bash", "tool"),
        ("provider-openai", "provider"),
        ("hooks-logging", "hook"),
        ("context-simple", "context"),
        ("loop-basic", "orchestrator"),
        ("my-orchestrator", "orchestrator"),
        ("loop-tool-hook", "orchestrator"),
        ("provider-tool", "provider"),
        ("tool-context-hook", "tool"),
        ("hook-context", "hook"),
        ("anything", "tool"),
    ],
)
def test_the_kind_is_read_off_the_id_in_the_contracts_order(module_id: str, kind: str) -> None:
    assert kind_of_id(module_id) == kind


def test_names_are_derived_from_the_id() -> None:
    assert package_of_id("tool-bash.v2") == "amplifier_module_tool_bash_v2"
    assert environment_variable_of_id("tool-bash.v2") == "AMPLIFIER_MODULE_TOOL_BASH_V2"


@given(st.text(st.characters()))
def test_every_accepted_id_derives_a_name_that_can_be_imported(text: str) -> None:
    try:
        module_id = checked_module_id(text)
    except ModuleIdError:
        return
    assert package_of_id(module_id).isidentifier()
