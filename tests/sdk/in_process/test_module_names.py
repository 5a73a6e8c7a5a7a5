"""What an id says of its module: the same in a plain process and under the host, which do not share the code."""

from __future__ import annotations

from paddock_sdk.in_process.module_package import PACKAGE_PREFIX, kind_by_id, package_name
from paddock_sources import module_id as under_the_host
from support.rows import each_row


@each_row(
    ("module_id", "package", "kind"),
    [
        ("tool-bash", "tool_bash", "tool"),
        ("tool-a.b", "tool_a_b", "tool"),
        ("provider_open.ai-v2", "provider_open_ai_v2", "provider"),
        ("provider-tool", "provider_tool", "provider"),
        ("hooks-context", "hooks_context", "hook"),
        ("context-simple", "context_simple", "context"),
        ("loop-tool-hook", "loop_tool_hook", "orchestrator"),
        ("Orchestrator-X", "Orchestrator_X", "tool"),
        ("my-orchestration", "my_orchestration", "orchestrator"),
        ("anything", "anything", "tool"),
    ],
)
def test_an_id_says_the_same_in_a_plain_process_and_under_the_host(module_id: str, package: str, kind: str) -> None:
    assert package_name(module_id) == under_the_host.package_of_id(module_id) == PACKAGE_PREFIX + package
    assert kind_by_id(module_id) == under_the_host.kind_of_id(module_id) == kind
