"""The files of the stand-in that only pass names on: one table, and what it writes.

`python tests/sdk/stand_in/reexports.py` writes the files. They are committed, since type checkers and `find_spec` look
for them. Packages that look names up when they are first asked for are written by hand: see `BY_HAND`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

SDK: Final = Path(__file__).parents[3] / "sdk" / "paddock_sdk"
STAND_IN: Final = SDK / "stand_in"
BY_HAND: Final = frozenset(
    f"{path}.py"
    for path in (
        "amplifier_core/__init__",
        "amplifier_core/_engine/__init__",
        "amplifier_core/hooks",
        "amplifier_foundation/__init__",
    )
)

_WIDTH: Final = 120
_MARK: Final = "# Written from the table in tests/sdk/stand_in/reexports.py."
_ALL: Final = "*"  # all that the origin offers, in its order
_TO_SHOW: Final = {"kernel.redaction": "SENSITIVE_KEYS redact_secrets", "kernel.truncation": "truncate_values"}
_RETRIES: Final = {"kernel.retry": "RetryConfig classify_error_message retry_with_backoff"}
_CHECKS: Final = {
    "validation.package_import": "import_module_from_path",
    "validation.members": "check_on_session_ready",
    "validation.result": "ValidationCheck ValidationResult",
}


@dataclass(frozen=True)
class Reexport:
    """A file: its docstring, and names by the module below `paddock_sdk` they come from, as in `name as other`.

    `unlisted` can be imported by name and is not in `__all__`; `main` is called where the file runs as a program.
    """

    doc: str
    names: Mapping[str, str]
    unlisted: Mapping[str, str] = field(default_factory=dict)
    main: str = ""


def table() -> dict[str, Reexport]:
    """Return each file that is written, by its path in the stand-in."""
    files = {f"amplifier_core/{path}.py": one for path, one in _CORE.items()}
    for path, one in _of_kinds():
        files[f"amplifier_core/validation/{path}.py"] = one
    files["amplifier_foundation/tracing.py"] = Reexport("Ids of sub-sessions.", {"contract.tracing": _ALL})
    files["amplifier_foundation/spawn_utils.py"] = Reexport(
        "The models that sub-sessions are to use.",
        {"contract.model_pattern": _ALL},
    )
    return files


_CORE: Final = {
    "_async_compat": Reexport("A coroutine for any awaitable.", {"kernel.settle": "settled as _wrap"}),
    "_collect_helper": Reexport(
        "How contributions to a channel are gathered.", {"kernel.coordinator": "collect_contributions"}
    ),
    "_session_exec": Reexport(
        "How a turn is run, for code that calls it without a session.",
        {"kernel.execution": "emit_raw_field_if_configured run_orchestrator"},
    ),
    "_session_init": Reexport(
        "How a session's modules are brought up, for code that calls it without a session.",
        {
            "in_process.session": "initialize_session",
            "kernel.settle": "safe_exception_str as _safe_exception_str",
        },
    ),
    "approval": Reexport("How the kernel asks a person for permission.", {"contract.approval": _ALL}),
    "cancellation": Reexport("How a running session is asked to stop.", {"kernel.cancellation": _ALL}),
    "capabilities": Reexport("What a model may be able to do.", {"contract.capabilities": _ALL}),
    "cli": Reexport(
        "The command `amplifier-core`.",
        {
            "validation": "VALIDATORS ContextValidator HookValidator OrchestratorValidator ProviderValidator "
            "ToolValidator ValidationResult",
            "validation.command_line": "list_types main print_result validate main as cli",
        },
        main="main",
    ),
    "content_models": Reexport("Typed content for streaming interfaces.", {"contract.content_models": _ALL}),
    "coordinator": Reexport("What a module is given when it is mounted.", {"kernel.coordinator": "ModuleCoordinator"}),
    "correlation": Reexport(
        "Which events belong to one call of a language model.",
        {
            "kernel.correlation": "REQUEST_ID_FIELD REQUEST_EVENTS TERMINAL_EVENTS INTERIM_EVENTS new_request_id "
            "current_request_id resolve_request_id reset_request_id"
        },
    ),
    "display": Reexport("How the kernel shows a message to a person.", {"contract.display": _ALL}),
    "events": Reexport("The names of the events modules agree on.", {"contract.events": _ALL}),
    "interfaces": Reexport(
        "What each kind of module offers, and what it is given and gives back.",
        {
            "contract.interfaces": _ALL,
            "contract.message_models": "ChatRequest ChatResponse ToolCall",
            "contract.models": "HookResult ModelInfo ProviderInfo ToolResult",
        },
    ),
    "llm_errors": Reexport("Why a completion failed.", {"contract.llm_errors": _ALL}),
    "loader": Reexport(
        "How a plain process loads modules.",
        {
            "contract.models": "ModuleInfo",
            "contract.module_sources": "ModuleLoadError",
            "in_process.module_loader": "ModuleLoader ModuleLoader as AmplifierModuleLoader",
            "kernel.coordinator": "ModuleCoordinator",
            "kernel.loading": "REASON_CODES as MODULE_FAILURE_REASONS TYPE_TO_MOUNT_POINT ModuleValidationError "
            "module_failure_reason",
        },
    ),
    "message_models": Reexport(
        "The provider-independent envelope: messages, blocks, requests and responses.",
        {"contract.message_models": _ALL},
    ),
    "models": Reexport(
        "Results of tools and hooks, and what providers, modules and sessions say of themselves.",
        {"contract.message_models": "ImageBlock TextBlock", "contract.models": _ALL},
        unlisted={"contract.models": "_sanitize_for_llm"},
    ),
    "module_sources": Reexport("Where a module's code is.", {"contract.module_sources": _ALL}),
    "pytest_plugin": Reexport(
        "The pytest plugin for modules, under the name its entry point has.", {"validation.pytest_plugin": _ALL}
    ),
    "retry": Reexport("Retries with pauses that grow, by their shorter name.", _RETRIES),
    "session": Reexport(
        "The session class code gets when it names this module, and what is imported along with it.\n\n"
        "The class is not the one at the top level of the package: this one raises what the orchestrator raised, keeps "
        "a status\nand takes a loader.\n",
        {
            "contract.models": "SessionStatus",
            "in_process.module_loader": "ModuleLoader",
            "in_process.session": "PlainAmplifierSession as AmplifierSession initialize_session",
            "kernel.coordinator": "ModuleCoordinator",
            "kernel.redaction": "redact_secrets",
        },
    ),
    "testing/__init__": Reexport(
        "What an author needs to test a module without a host.",
        {
            "contract.models": "HookResult ToolResult",
            "kernel.coordinator": "ModuleCoordinator",
            "testing": "EventRecorder MockContextManager MockCoordinator MockProvider MockTool ScriptedOrchestrator "
            "TestCoordinator create_test_coordinator wait_for",
        },
    ),
    "truncate": Reexport(
        "Long texts inside data, shortened, and secrets in it, replaced; by the shorter name.", _TO_SHOW
    ),
    "utils/__init__": Reexport(
        "Small things that modules share: retries, and data made fit to be shown.", _TO_SHOW | _RETRIES
    ),
    "utils/retry": Reexport("Retries with pauses that grow.", {"contract.llm_errors": "LLMError"} | _RETRIES),
    "utils/truncate": Reexport("Long texts inside data, shortened, and secrets in it, replaced.", _TO_SHOW),
    "validation/__init__": Reexport(
        "What a module of each kind has to have, and the checks that tell.",
        {
            "validation": "ContextValidator HookValidator MountPlanValidationResult MountPlanValidator "
            "OrchestratorValidator ProviderValidator ToolValidator ValidationCheck ValidationResult"
        },
    ),
    "validation/base": Reexport("What validation found out, and the steps that validators share.", _CHECKS),
    "validation/mount_plan": Reexport(
        "What shape a mount plan has to have.",
        {
            "validation.mount_plan": "MountPlanValidationResult MountPlanValidator",
            "validation.result": "ValidationCheck",
        },
    ),
    "validation/behavioral/__init__": Reexport(
        "What every module of a kind does, as tests to inherit from.",
        {
            "validation.behavioral": "ContextBehaviorTests HookBehaviorTests OrchestratorBehaviorTests "
            "ProviderBehaviorTests ToolBehaviorTests"
        },
    ),
    "validation/structural/__init__": Reexport(
        "The validators' checks, as tests to inherit from.",
        {"validation.members": "check_on_session_ready", "validation.structural": _ALL},
    ),
}


def _of_kinds() -> Iterator[tuple[str, Reexport]]:
    """Yield the files that there is one of for each kind of module."""
    beside = {"hook": "HookResult", "provider": "ProviderInfo", "tool": "ToolResult"}
    for kind in ("context", "hook", "orchestrator", "provider", "tool"):
        name = kind.title()
        own = {"validation.validators": f"{name}Validator"} | _CHECKS
        if kind == "provider":
            own["contract.models"] = "ProviderInfo"
        who = f"{'an' if kind == 'orchestrator' else 'a'} {kind}"
        yield kind, Reexport(f"What {who}{' manager' if kind == 'context' else ''} has to have.", own)
        behaviour = {"contract.models": beside[kind]} if kind in beside else {}
        # pytest collects by names: what a file there runs is called `Test…`.
        yield (
            f"behavioral/test_{kind}",
            Reexport(
                f"What every {kind} does, as tests to inherit from and to run with `--module-path`.",
                behaviour | {"validation.behavioral": f"{name}BehaviorTests {name}BehaviorTests as Test{name}"},
            ),
        )
        yield (
            f"structural/test_{kind}",
            Reexport(
                f"What {who} has to have, as a test to inherit from and to run with `--module-path`.",
                {"validation.structural": f"{name}StructuralTests {name}StructuralTests as Test{name}"},
            ),
        )


def rendered(one: Reexport) -> str:
    """Return the text of a file."""
    listed = {module: _imports(module, names) for module, names in sorted(one.names.items())}
    names = [name.rpartition(" as ")[2] for imports in listed.values() for name in imports]
    unlisted = {module: _imports(module, names) for module, names in one.unlisted.items()}
    lines = [f'"""{one.doc}"""', "", _MARK, "", *_import_lines(listed, unlisted), "", *_all_lines(names)]
    if one.main:
        lines += ["", 'if __name__ == "__main__":', f"    {one.main}()"]
    return "\n".join(lines) + "\n"


def _imports(module: str, names: str) -> list[str]:
    if names != _ALL:
        return re.findall(r"\S+(?: as \S+)?", names)
    # Read, not imported: the plugin for pytest cannot be imported twice.
    tree = ast.parse((SDK / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
    assigned = {ast.unparse(one.targets[0]): one.value for one in tree.body if isinstance(one, ast.Assign)}
    if "__all__" in assigned:
        return list(ast.literal_eval(assigned["__all__"]))
    return [name for name in assigned if name.isupper()]


def _import_lines(listed: Mapping[str, list[str]], unlisted: Mapping[str, list[str]]) -> Iterator[str]:
    groups: list[tuple[str, list[str]]] = []
    for module, names in listed.items():
        groups += [(module, [name]) for name in names if " as " in name]
        groups.append((module, [*(name for name in names if " as " not in name), *unlisted.get(module, ())]))
    sortable = [(module, sorted(names, key=_sort_key)) for module, names in groups if names]
    for module, names in sorted(sortable, key=lambda group: (group[0], _sort_key(group[1][0]))):
        line = f"from paddock_sdk.{module} import {', '.join(names)}"
        private = [name for name in unlisted.get(module, ()) if name in names]
        if len(line) <= _WIDTH and not private:
            yield line
            continue
        yield f"from paddock_sdk.{module} import ("
        for name in names:
            yield f"    {name},{'  # noqa: F401 - private, yet imported by name' if name in private else ''}"
        yield ")"


def _all_lines(names: list[str]) -> Iterator[str]:
    quoted = [f'"{name}"' for name in names]
    line = f"__all__ = [{', '.join(quoted)}]"
    if len(line) <= _WIDTH:
        yield line
        return
    yield "__all__ = ["
    yield from (f"    {name}," for name in quoted)
    yield "]"


def _sort_key(name: str) -> tuple[int, str]:
    """Order names as the linter does: constants, classes, then all else."""
    own = name.partition(" ")[0]
    return 0 if own.isupper() else 1 if own[0].isupper() else 2, name


if __name__ == "__main__":
    for path, one in table().items():
        (STAND_IN / path).write_text(rendered(one), encoding="utf-8")
