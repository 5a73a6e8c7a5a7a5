"""What the suite has commands do: scenarios, each a few commands in a world of its own, and what they showed.

`SCENARIOS` has them by name; the name is also that of the file in `golden/commands`. `NEEDS_NS` are those that start
modules: their golden values are those of the isolation level `ns`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from blackbox.commands import World

Scenario = Callable[[World], Any]

SCENARIOS: dict[str, Scenario] = {}
NEEDS_NS: set[str] = set()

_ACTS = "./modules/amplifier-module-tool-acts"
_PLAN = """\
session:
  orchestrator: {module: loop-direct, source: ./modules/amplifier-module-loop-direct}
  context: context-simple
tools:
  - module: tool-acts
    source: ./modules/amplifier-module-tool-acts
"""
_SIMPLE = """\
session: {orchestrator: loop-basic, context: context-simple}
providers:
  - module: provider-mock
    config: {responses: ["Hello."]}
"""


def _scenario(*, starts_modules: bool) -> Callable[[Scenario], Scenario]:
    def register(scenario: Scenario) -> Scenario:
        name = scenario.__name__
        SCENARIOS[name] = scenario
        if starts_modules:
            NEEDS_NS.add(name)
        return scenario

    return register


def _calls(*calls: tuple[str, Any]) -> str:
    return json.dumps({"calls": [{"tool": "act", "input": {"do": do, "with": value}} for do, value in calls]})


# -- usage and plans: nothing is started ---------------------------------------------------

#: Commands that cannot be read. What click says of them differs between its versions; the exit code does not.
_USAGE = (
    ["nope"],
    ["run"],
    ["run", "--nope", "plan.yaml"],
    ["run", "--isolation", "vm", "plan.yaml"],
    ["call", "builtin:tool-bash"],
    ["call", "builtin:tool-bash", "bash", "--limit"],
    ["why", "tool-bash", "nope", "x"],
    ["cache", "nope"],
    ["module", "nope"],
    ["module", "new"],
    ["selftest", "--isolation", "none"],
    ["chat", "-C", "/nowhere/at/all"],
)


@_scenario(starts_modules=False)
def usage(world: World) -> Any:
    done = [world.run(*args) for args in _USAGE]
    ours = world.run("run", "plan.yaml", "two", "words").shown()  # its message is Paddock's own
    return [ours, *({"args": [*one.args], "code": one.code, "stdout": one.stdout} for one in done)]


@_scenario(starts_modules=False)
def selftest_of_nothing(world: World) -> Any:
    return [world.run("selftest", "nope").shown(), world.run("selftest", "nope", "--json").shown()]


_BAD_PLANS = {
    "is_no_yaml": "session: [",
    "is_no_table": "- a\n- b\n",
    "is_empty": "",
    "lacks_a_session": "tools: []\n",
    "has_a_misspelt_key": _SIMPLE.replace("module:", "modul:"),
    "has_a_misspelt_top_key": _SIMPLE + "tool:\n  - module: tool-todo\n",
    "has_a_key_twice": _SIMPLE + "session: {}\n",
    "has_wrong_types": _SIMPLE + "tools:\n  - module: 5\n    config: []\n    permissions: {read: {a: b}, net: 3}\n",
    "has_no_such_preset": _SIMPLE + "tools:\n  - {module: tool-todo, permissions: everything}\n",
    "has_a_star_to_read": _SIMPLE + "tools:\n  - {module: tool-todo, permissions: {read: ['*'], net: ['*']}}\n",
    "has_bad_hosts": _SIMPLE + "tools:\n  - {module: tool-todo, permissions: {net: ['a b', 'x:99999', '1.2.3.4/8']}}\n",
    "has_bad_limits": _SIMPLE
    + "tools:\n  - {module: tool-todo, limits: {memory_max: 3 bananas, runtime_max: -1s, speed_max: 1}}\n",
    "has_a_bad_level": _SIMPLE + "tools:\n  - {module: tool-todo, isolation: vm, spawn: fork, on_failure: maybe}\n",
    "has_a_bad_source": _SIMPLE + "tools:\n  - {module: tool-x, source: 'ftp://example.org/x'}\n",
    "has_a_bad_source_table": _SIMPLE + "tools:\n  - {module: tool-x, source: {type: git, uri: x}}\n",
    "has_a_bad_module_id": _SIMPLE + "tools:\n  - {module: ../tool}\n",
    "has_an_id_twice": _SIMPLE.replace("tools", "x")
    + "  - {module: provider-mock, instance_id: a}\n  - {module: provider-mock, instance_id: a}\n",
    "reads_what_is_missing": _SIMPLE + "tools:\n  - {module: tool-todo, permissions: {read: [./missing]}}\n",
    "refers_to_a_secret_without_grant": _SIMPLE + "tools:\n  - {module: tool-todo, config: {key: '${KEY_X}'}}\n",
    "lacks_a_module": _SIMPLE + "tools:\n  - {module: tool-nowhere}\n",
    "lacks_a_folder": _SIMPLE + "tools:\n  - {module: tool-nowhere, source: ./nowhere}\n",
    "lacks_a_package": _SIMPLE + "tools:\n  - {module: tool-nowhere, source: no-such-package-installed}\n",
}


@_scenario(starts_modules=False)
def bad_plans(world: World) -> Any:
    shown = {}
    for name, text in _BAD_PLANS.items():
        world.write("work/plan.yaml", text)
        shown[name] = world.run("run", "plan.yaml", "hi", "--json", "--offline").shown()
    world.write("work/plan.yaml", _BAD_PLANS["has_a_misspelt_key"])
    shown["shown to people"] = world.run("run", "plan.yaml", "hi").shown()
    shown["in a chat"] = world.run("chat", stdin="hi\n").shown()
    world.write("work/plan.json", "{")
    shown["bad json"] = world.run("run", "plan.json", "hi", "--json").shown()
    world.write("work/plan.toml", "a = ")
    shown["bad toml"] = world.run("run", "plan.toml", "hi", "--json").shown()
    world.write("work/plan.txt", "")
    shown["unknown format"] = world.run("run", "plan.txt", "hi", "--json").shown()
    shown["missing"] = world.run("run", "missing.yaml", "hi", "--json").shown()
    shown["missing, to people"] = world.run("run", "missing.yaml", "hi").shown()
    return shown


_UNTRUSTED = {
    "the network": "permissions: {net: [api.example.org]}",
    "a secret": "permissions: {secrets: [KEY_X]}, config: {key: '${KEY_X}'}",
    "the environment": "permissions: {env: [EDITOR]}",
    "a path outside": "permissions: {read: [/etc/hosts]}",
    "a mount point": "permissions: {mount: [providers]}",
    "a weaker level": "isolation: landlock",
    "a kept home": "state: keep",
}


@_scenario(starts_modules=True)
def unaccepted_plans(world: World) -> Any:
    shown = {}
    for name, line in _UNTRUSTED.items():
        world.write("work/plan.yaml", _SIMPLE + f"tools:\n  - {{module: tool-todo, {line}}}\n")
        shown[name] = world.run("run", "plan.yaml", "hi", "--json").shown()
    shown["to people"] = world.run("run", "plan.yaml", "hi").shown()
    return {"commands": shown, "audit": world.audit()}


_POLICIES = {
    "no yaml": "minimum_isolation = ",
    "unknown key": 'minimal_isolation = "ns"\n',
    "grants": '[[module]]\nmatch = "*"\ngrants = {read = []}\n',
    "limits": 'max_limits = {memory_max = "64M"}\n',
    "level": 'minimum_isolation = "ns"\n',
    "pinned": "require_pinned = true\n",
    "hosts": 'git_hosts = ["git.example.org"]\n',
}


@_scenario(starts_modules=True)
def policies(world: World) -> Any:
    world.write("work/notes/a.txt", "a")
    world.write(
        "work/plan.yaml",
        _SIMPLE + "tools:\n  - module: tool-todo\n    isolation: landlock\n    permissions: {read: [./notes]}\n"
        "    limits: {memory_max: 128M}\n"
        "  - module: tool-x\n    source: git+https://other.example.org/x@v1\n",
    )
    shown = {}
    for name, text in _POLICIES.items():
        path = world.write("home/.config/paddock/policy.toml", text)
        path.chmod(0o600)
        shown[name] = world.run("run", "plan.yaml", "hi", "--json", "--trust-plan", "--offline").shown()
    path.chmod(0o666)
    shown["others can write it"] = world.run("run", "plan.yaml", "hi", "--json", "--trust-plan").shown()
    shown["of a call"] = world.run("call", "builtin:tool-todo", "todo", "{}", "--json").shown()
    world.write("home/.config/paddock/policy.toml", _POLICIES["grants"]).chmod(0o600)
    shown["a refused call"] = world.run("call", "builtin:tool-todo", "todo", "{}", "--allow-read=.", "--json").shown()
    shown["a refused call, to people"] = world.run("call", "builtin:tool-todo", "todo", "{}", "--allow-read=.").shown()
    return {"commands": shown, "audit": world.audit()}


@_scenario(starts_modules=False)
def writing_plans_and_modules(world: World) -> Any:
    world.write("work/old.toml", '[session]\norchestrator = "loop-basic"\ncontext = "context-simple"\n')
    steps = [
        world.run("init", "--provider", "provider-mock", "--tool", "tool-filesystem", "--yes", "--json"),
        world.run("init", "--provider", "provider-mock", "--yes", "--json"),
        world.run("init", "--provider", "provider-mock", "--yes"),
        world.run(
            *("init", "b.yaml", "--provider", "openai", "--model", "m", "--key-variable", "MY_KEY", "--yes"),
            environ={"UV_DEFAULT_INDEX": "http://127.0.0.1:9/simple"},  # nothing listens there
        ),
        world.run("init", "c.yaml", "--provider", "nobody", "--yes", "--json"),
        world.run("init", "d.yaml", "--provider", "openai", "--key-variable", "not a name", "--yes", "--json"),
        world.run("init", "e/f/g.yaml", "--provider", "provider-mock", "--yes", "--json"),
        world.run("init", "--from", "old.toml", "--json"),
        world.run("init", "--from", "old.toml", "--force"),
        world.run("init", "--from", "older.toml", "--json"),
        world.run("module", "new", "tool", "word-count"),
        world.run("module", "new", "tool", "word-count"),
        world.run("module", "new", "tool", "../x"),
        world.run("module", "new", "hook", "x"),
        world.run("module", "new", "orchestrator", "x"),
        world.run("module", "new", "resolver", "x"),
        world.run("module", "validate", "nowhere"),
        world.run("module", "validate", "nowhere", "-o", "json"),
        world.run("module", "test", "nowhere"),
    ]
    files = sorted(str(path.relative_to(world.work)) for path in world.work.rglob("*") if path.is_file())
    written = ("plan.yaml", "b.yaml", "old.yaml")
    plans = {name: world.shown((world.work / name).read_text()).splitlines() for name in written}
    return {"commands": [step.shown() for step in steps], "files": files, "plans": plans}


# -- calls ---------------------------------------------------------------------------------


@_scenario(starts_modules=True)
def good_and_failed_calls(world: World) -> Any:
    world.with_modules()

    def call(do: str, value: Any, *options: str) -> Any:
        return world.run("call", _ACTS, "act", json.dumps({"do": do, "with": value}), *options).shown()

    shown = [
        call("answer", {"a": [1, 2.5, None, True], "b": "\x1b[31mred"}, "--json"),
        call("answer", "plain text"),
        call("fail", None, "--json"),
        call("fail", None),
        call("raise", None, "--json"),
        call("raise_rate_limit", None, "--json"),
        call("no_result", None, "--json"),
        call("hang", None, "--limit", "runtime_max=1s", "--json"),
        call("signal", None, "--json"),
        call("signal", None),
        call("exit", None, "--json"),
        call("garbage", None, "--json"),
    ]
    return {"commands": shown, "audit": world.audit()}


@_scenario(starts_modules=True)
def calls_that_do_not_start(world: World) -> Any:
    world.with_modules()
    world.write("work/broken/amplifier_module_tool_broken/__init__.py", "import no_such_module_at_all\n")
    world.write("work/empty/amplifier_module_tool_empty/__init__.py", "\n")
    world.write("work/none/readme.txt", "")
    world.write(
        "work/newer/pyproject.toml",
        '[project]\nname = "amplifier-module-tool-newer"\nversion = "1.0"\ndependencies = ["amplifier-core>=99"]\n'
        '[project.entry-points."amplifier.modules"]\ntool-newer = "amplifier_module_tool_newer:mount"\n',
    )
    world.write("work/newer/amplifier_module_tool_newer/__init__.py", "\n")
    commands = [
        ["call", _ACTS, "nope", "{}", "--json"],
        ["call", _ACTS, "act", "{", "--json"],
        ["call", _ACTS, "act", "[]", "--json"],
        ["call", _ACTS, "act", "{", "--json", "--config", "["],
        ["call", _ACTS, "act", "{}", "--json", "--limit", "speed=3"],
        ["call", _ACTS, "act", "{}", "--json", "--limit", "memory_max"],
        ["call", _ACTS, "act", "{}", "--json", "--allow-net", "*"],
        ["call", _ACTS, "act", "{}", "--json", "--allow-read", "./missing"],
        ["call", _ACTS, "act", "{}", "--json", "--config", '{"mount": "raise"}'],
        ["call", _ACTS, "act", "{}", "--json", "--config", '{"mount": "die"}'],
        ["call", _ACTS, "act", "{}", "--json", "--config", '{"mount": "nothing"}'],
        ["call", _ACTS, "act", "{}", "--json", "--config", '{"key": "${KEY_X}"}'],
        ["call", _ACTS, "act", "{}", "--json", "--config", '{"key": "${KEY_X}"}', "--allow-secrets=KEY_X"],
        ["call", _ACTS, "act", "{}", "--json", "--locked"],
        ["call", "./broken", "act", "{}", "--json"],
        ["call", "./empty", "act", "{}", "--json"],
        ["call", "./none", "act", "{}", "--json"],
        ["call", "./newer", "act", "{}", "--json"],
        ["call", "./nowhere", "act", "{}", "--json"],
        ["call", "./nowhere", "act", "{}"],
        ["call", "builtin:nowhere", "act", "{}", "--json"],
        ["call", "git+https://user:pass@git.example.org/x", "act", "{}", "--json"],
        ["call", "git+https://git.example.org/x@v1", "act", "{}", "--json", "--offline"],
        ["call", "git+file://<root>/nowhere@v1", "act", "{}", "--json"],
    ]
    return {"commands": [world.run(*args).shown() for args in commands], "audit": world.audit()}


@_scenario(starts_modules=True)
def denied_calls(world: World) -> Any:
    world.with_modules()
    world.write("work/secret.txt", "hidden")
    world.write("work/open/a.txt", "shown")

    def call(do: str, value: Any, *options: str) -> Any:
        return world.run("call", _ACTS, "act", world.filled(json.dumps({"do": do, "with": value})), *options).shown()

    shown = [
        call("read", "<root>/work/secret.txt", "--json"),
        call("read", "<root>/work/secret.txt"),
        call("read", "<root>/work/open/a.txt", "--allow-read=./open", "--json"),
        call("write", "<root>/work/open/a.txt", "--allow-read=./open", "--json"),
        call("write", "<root>/work/open/a.txt", "--allow-write=./open", "--json"),
        call("run", ["true"], "--json"),
        call("connect", ["192.0.2.1", 443], "--json"),
        call("context", None, "--json"),
        call("emit", "tool:pre", "--json"),
        call("emit", "mine:event", "--json"),
    ]
    return {"commands": shown, "audit": world.audit()}


# -- sessions ------------------------------------------------------------------------------


@_scenario(starts_modules=True)
def a_batch(world: World) -> Any:
    """Tasks that are done, one that fails, and files of tasks and folders that are refused."""
    world.write("work/plan.yaml", _SIMPLE)
    tasks = [{"id": "good", "prompt": "hello"}, {"id": "bad", "prompt": "hello", "files": {"x": "missing"}}]
    world.write("work/tasks.jsonl", "".join(json.dumps(task) + "\n" for task in tasks))
    world.write("work/good.jsonl", json.dumps(tasks[0]))
    world.write("work/broken.jsonl", '{"id": "a"')
    world.write("work/empty.jsonl", "")
    return [
        world.run("batch", "plan.yaml", *rest).shown()
        for rest in (
            ("good.jsonl", "--out", "one", "--json"),
            ("good.jsonl", "--out", "one", "--json"),
            ("good.jsonl", "--out", "one", "--resume"),
            ("tasks.jsonl", "--out", "two", "--concurrency", "1", "--json"),
            ("broken.jsonl", "--out", "three", "--json"),
            ("empty.jsonl", "--out", "three", "--json"),
            ("missing.jsonl", "--out", "three"),
            ("tasks.jsonl", "--out", "one", "--resume", "--json"),
        )
    ]


@_scenario(starts_modules=True)
def a_session(world: World) -> Any:
    """A session that starts, calls, is denied, grants and ends; then what is explained of it."""
    world.with_modules().write("work/plan.yaml", _PLAN)
    world.write("work/secret.txt", "hidden")
    secret = str(world.work / "secret.txt")
    steps = [
        world.run("run", "plan.yaml", _calls(("answer", 1), ("read", secret)), "--json"),
        world.run("run", "plan.yaml", _calls(("read", secret)), "--grant", "tool-acts=workspace-read", "--json"),
        world.run("run", "plan.yaml", _calls(("read", secret)), "-v"),
        world.run("run", "plan.yaml", '{"answer": "done"}', "--grant", "tool-acts=nope", "--json"),
        world.run("run", "plan.yaml", '{"answer": "done"}', "--grant", "tool-nowhere=workspace", "--json"),
        world.run("run", "plan.yaml", '{"answer": "done"}', "--grant", "tool-acts", "--json"),
        world.run("run", "plan.yaml", stdin='{"answer": "of stdin"}'),
        world.run("run", "plan.yaml", '{"raise": "not this turn"}', "--json"),
        world.run("run", "plan.yaml", '{"raise": "not this turn"}'),
        world.run("run", "plan.yaml", '{"answer": 5}', "--json"),
        world.run("run", "plan.yaml", '{"answer": "x"}', "--locked", "--json"),
        world.run("why", "tool-acts", "read", "secret.txt", "--json"),
        world.run("why", "tool-acts", "read", "secret.txt"),
        world.run("why", "tool-acts", "net", "api.example.org", "--json"),
        world.run("why", "tool-acts", "run", "git", "--plan", "plan.yaml", "--json"),
        world.run("why", "tool-acts", "emit", "mine:event", "--json"),
        world.run("why", "tool-nowhere", "read", ".", "--json"),
        world.run("why", "tool-nowhere", "read", "."),
        world.run("why", "tool-acts", "read", ".", "--session", "nope", "--json"),
    ]
    return {"commands": [step.shown() for step in steps], "audit": world.audit()}


@_scenario(starts_modules=True)
def several_denials(world: World) -> Any:
    """A module that is refused two things in one session is told both at once."""
    world.with_modules().write("work/plan.yaml", _PLAN)
    secret = world.write("work/secret.txt", "hidden")
    return world.run("run", "plan.yaml", _calls(("read", str(secret)), ("run", ["true"])), "--json").shown()


@_scenario(starts_modules=True)
def killed_modules(world: World) -> Any:
    """A tool that dies is started again, overstays, and breaks the protocol; the session goes on."""
    world.with_modules().write("work/plan.yaml", _PLAN + "    limits: {runtime_max: 1s}\n")
    calls = _calls(("signal", None), ("exit", None), ("hang", None), ("garbage", None), ("answer", "still there"))
    steps = [world.run("run", "plan.yaml", calls, "--json"), world.run("run", "plan.yaml", calls)]
    for step in steps:  # how the lines of stderr follow each other differs
        step.stderr = "\n".join(sorted(step.stderr.splitlines()))
    return {"commands": [step.shown() for step in steps], "audit": world.audit()}


@_scenario(starts_modules=True)
def a_chat(world: World) -> Any:
    world.write("work/plan.yaml", _SIMPLE)
    lines = ["hi", "/tools", "/modules", "/why", "/why provider-mock read /etc/hosts", "/cost", "/nope", "/help"]
    return [
        world.run("chat", stdin="\n".join(lines) + "\n").shown(),
        world.run("chat", stdin="/grant provider-mock workspace-read\n/exit\n").shown(),
        world.run("chat", "missing.yaml", stdin="hi\n").shown(),
    ]


@_scenario(starts_modules=True)
def validation(world: World) -> Any:
    world.with_modules()
    return [
        world.run("module", "validate", _ACTS).shown(),
        world.run("module", "validate", _ACTS, "-o", "json").shown(),
        world.run("module", "validate", _ACTS, "--type", "provider", "-o", "json").shown(),
    ]


# -- clients of MCP servers ----------------------------------------------------------------

_CLIENT = """\
{
  "mcpServers": {
    "time": {"command": "uvx", "args": ["mcp-server-time==1.0", "data"], "env": {"TOKEN": "value"}},
    "far": {"type": "http", "url": "https://mcp.example.org"},
    "box": {"command": "docker", "args": ["run", "image"]}
  }
}
"""


@_scenario(starts_modules=True)
def protected_clients(world: World) -> Any:
    world.write("work/data", "")
    world.write("work/own", "#!/bin/sh\n").chmod(0o755)
    world.write("work/.mcp.json", _CLIENT)
    world.write("work/own.json", '{"mcpServers": {"own": {"command": "./own", "args": ["data"]}}}')
    world.write("work/bad.json", "{")
    world.write("work/.vscode/mcp.json", '{"servers": {"far": {"url": "https://mcp.example.org"}}} // mine\n')
    commands = [
        ["mcp", "protect", ".mcp.json", "--json"],
        ["mcp", "protect", ".mcp.json"],
        ["mcp", "protect", ".mcp.json", "--undo", "--json"],
        ["mcp", "protect", "own.json", "--write", "--json"],
        ["mcp", "protect", "own.json", "--write", "--yes"],
        ["mcp", "protect", "own.json", "--json"],
        ["mcp", "protect", "own.json", "--undo", "--json"],
        ["mcp", "protect", ".vscode/mcp.json", "--write", "--yes"],
        ["mcp", "protect", "bad.json", "--json"],
        ["mcp", "protect", "nothing.json", "--json"],
        ["run", "own.json", "hi", "--json"],
        ["chat", "own.json"],
    ]
    return [world.run(*args).shown() for args in commands]


# -- sources -------------------------------------------------------------------------------


@_scenario(starts_modules=False)
def sources_that_are_not_there(world: World) -> Any:
    world.with_modules()
    commands = [
        ["list", "--json"],
        ["lock", "--json"],
        ["sync", "--json"],
        ["update", "--json"],
        ["update", "tool-x", "--json"],
        ["update", "--min-age", "soon", "--json"],
        ["verify", "--json"],
        ["remove", "tool-x", "--json"],
        ["remove", "tool-x"],
        ["add", "./nowhere", "--json"],
        ["add", "./nowhere"],
        ["add", "builtin:tool-todo", "--json"],
        ["add", "git+https://git.example.org/x@v1", "--offline", "--json"],
        ["add", "git+https://user:pass@git.example.org/x@v1", "--json"],
        ["add", "ftp://git.example.org/x", "--json"],
        ["add", "no such==1", "--offline", "--json"],
        ["cache", "dir"],
        ["cache", "list", "--json"],
        ["cache", "size", "--json"],
        ["cache", "prune", "--json"],
        ["cache", "verify", "--json"],
        ["cache", "clean", "--json"],
    ]
    shown = [world.run(*args).shown() for args in commands]
    world.write("work/paddock.lock", "version = 3\n")
    shown.append(world.run("list", "--json").shown())
    world.write("work/paddock.lock", "version = ")
    shown.append(world.run("verify", "--json").shown())
    world.write("home/.config/paddock/sources.toml", "[modules]\nx = 5\n").chmod(0o600)
    shown.append(world.run("list", "--json").shown())
    shown.append(world.run("cache", "list", "--json", environ={"PADDOCK_CACHE_DIR": "/proc/nope"}).shown())
    return shown


@_scenario(starts_modules=True)
def sources_that_are_there(world: World) -> Any:
    """A repository and a folder are added, locked, moved, updated, verified and removed again."""
    world.with_modules().with_repository()
    source = "git+file://<root>/repo@main"
    world.write("work/plan.yaml", _SIMPLE + f"tools:\n  - module: tool-acts\n    source: {source}\n")
    steps = [
        world.run("lock", "--check", "--json"),
        world.run("lock", "--json"),
        world.run("lock", "--check"),
        world.run("list"),
        world.run("list", "--json"),
        world.run("run", "plan.yaml", "hi", "--locked", "--offline", "--trust-plan", "--json"),
        world.run("add", "./modules/amplifier-module-loop-direct", "--json"),
        world.run("add", "./modules/amplifier-module-loop-direct", "--yes"),
        world.run("verify", "--json"),
        world.run("cache", "list", "--json"),
    ]
    (world.repo / "new.txt").write_text("new\n")
    (world.repo / "new.txt").chmod(0o644)
    manifest = world.repo / "pyproject.toml"
    manifest.write_text(manifest.read_text().replace('read = ["."]', 'net = ["api.example.org"]'))
    world.git("add", ".")
    world.git("commit", "-q", "-m", "two")
    steps += [
        world.run("update", "--json"),
        world.run("update", "tool-acts", "--yes", "--json"),
        world.run("verify"),
        world.run("add", "git+file://<root>/repo@nope", "--json"),
        world.run("remove", "tool-acts", "--json"),
        world.run("remove", "tool-acts", "--from", "plan.yaml", "--json"),
        world.run("lock", "--offline", "--json"),
    ]
    for step in steps:  # what is done side by side is reported in any order
        step.stderr = "\n".join(sorted(step.stderr.splitlines()))
    return [step.shown() for step in steps]
