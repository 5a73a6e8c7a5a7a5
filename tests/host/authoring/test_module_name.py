"""What authors may call their modules, and all the names that follow."""

from __future__ import annotations

from failures import failing
from paddock.authoring.module_name import ModuleName
from paddock.plan.model import Kind
from support.rows import each_row


@each_row(
    ("kind", "written", "module_id", "class_name"),
    [
        ("tool", "word-count", "tool-word-count", "WordCountTool"),
        ("tool", "tool-word-count", "tool-word-count", "WordCountTool"),
        ("hook", "audit", "hooks-audit", "AuditHook"),
        ("hook", "hooks-audit", "hooks-audit", "AuditHook"),
        ("provider", "acme2", "provider-acme2", "Acme2Provider"),
        ("orchestrator", "careful", "loop-careful", "CarefulOrchestrator"),
        ("context", "short-term", "context-short-term", "ShortTermContext"),
        ("tool", "x" * 55, "tool-" + "x" * 55, "X" + "x" * 54 + "Tool"),
    ],
)
def test_a_name_gives_all_the_others(kind: Kind, written: str, module_id: str, class_name: str) -> None:
    name = ModuleName.of(kind, written)
    assert (name.module_id, name.class_name) == (module_id, class_name)
    assert name.folder == f"amplifier-module-{module_id}"
    assert name.package == f"amplifier_module_{module_id.replace('-', '_')}"
    assert name.package.isidentifier() and name.identifier.isidentifier()


@each_row(
    "written",
    [
        *("", "-", "a-", "-a", "a--b", "Word", "wörd", "a_b", "a.b", "a b", "a/b", "../a", "3d", "a\n", "a\x1b[2J"),
        *("tool-", "tool--a", "x" * 56),
    ],
)
def test_what_is_no_name_is_refused_with_the_rule(written: str) -> None:
    with failing("ModuleNameError") as refused:
        ModuleName.of("tool", written)
    assert refused.value.exit_code == 1 and "begins with a letter" in refused.value.hints[0]
