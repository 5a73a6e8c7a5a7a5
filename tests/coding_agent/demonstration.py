"""Run the agent over a small repository, and judge what came of it.

The repository is made for the run, in a folder that is gone afterwards. Whether its tests fail before and pass after is
found out by calling the tool that runs programs once more, in a sandbox and apart from the session: nothing of the
agent's runs anywhere else. Around it is what no module is granted: a private key, a server, and this process.
"""

from __future__ import annotations

import difflib
import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol

from coding_agent.mending_model import MendingModel
from paddock.cli.output_file import output_file
from paddock.demo.demonstration import DemoWorkspace
from paddock.demo.story import BEHAVED, ends_of
from paddock.errors import IsolationUnavailableError
from paddock.isolation.levels import guarantees_missing
from paddock.isolation.record import SessionRecords
from paddock.module_sources.provisioning import SourceOptions
from paddock.report.facts import facts_of
from paddock.report.page import page_of
from paddock.session.journals.journal_folder import Journals
from paddock.session.session import ModuleStatus, Session
from paddock.session.tool_call import ToolCallSession
from paddock_sandbox.profile import IsolationLevel
from vendors.openai_dialect import OpenAIDialect
from vendors.script import Fault
from vendors.server import VendorServer

PROGRAM: Final = "discount.py"
STRANGER: Final = "tool-line-count"
KEY: Final = "MENDER_API_KEY"

_HERE: Final = Path(__file__).resolve().parent
_REPOSITORY: Final = _HERE / "repository"

PROMPT: Final = "A test fails. Find out why, and mend the program; leave the tests as they are."
_WORKER_PATH: Final = "/usr/local/bin:/usr/bin:/bin"  # where a worker finds programs by their names
_EVENTS: Final = ("content_block:end", "tool:pre", "tool:post")


class Watcher(Protocol):
    """Shows what goes on, while it does."""

    def event(self, name: str, data: Mapping[str, Any]) -> None:
        """Take note of an event of the loop."""

    def asked(self, prompt: str, answer: str) -> None:
        """Take note of a question, and of the answer that was given for the person."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How the tests ended, judged by the exit code of their program; `line` is the last that it wrote."""

    has_passed: bool
    line: str


@dataclass(frozen=True, slots=True)
class Part:
    """One module's part, from its reports and the conversation."""

    status: ModuleStatus
    did: str
    contained: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it; `problems` are the ways in which it was not what it should have been."""

    answer: str
    before: Verdict
    after: Verdict
    diff: str
    parts: tuple[Part, ...]
    questions: int
    seconds: float
    problems: tuple[str, ...]
    weaker: tuple[str, ...] = ()
    report: Path | None = None


class CodingAgent:
    """One run of it; the plan and what it is locked to are kept in `folder`. `session` is the session while it runs."""

    def __init__(self, folder: Path, watcher: Watcher, sources: SourceOptions | None = None) -> None:
        self.session: Session | None = None
        self._folder = folder
        self._watcher = watcher
        self._sources = sources or SourceOptions()
        self._questions = 0

    async def run(self) -> Outcome:
        """Have the agent do its work, and return what came of it.

        Raises:
            PaddockError: the session could not be started, or its turn failed.
        """
        try:
            return await self._run()
        except IsolationUnavailableError as error:
            # Accepted here, and said: the modules are the demonstration's own, and all it shows is refused there too.
            outcome = await self._run("landlock")
            lacking = (f"not given at isolation landlock: {sentence}" for sentence in guarantees_missing("landlock"))
            return replace(outcome, weaker=(error.summary, *error.detail, *lacking))

    async def request_approval(self, prompt: str, options: list[str], timeout: float, default: str) -> str:
        """Answer as a person would who reads what is asked, and agrees."""
        self._questions += 1
        answer = next(option for option in options if option.lower().startswith("allow"))
        self._watcher.asked(prompt, answer)
        return answer

    async def _run(self, isolation: IsolationLevel | None = None) -> Outcome:
        began = time.monotonic()
        python = find_python()
        command = f"{python} -m unittest -q"
        key = f"sk-{secrets.token_hex(16)}"
        with DemoWorkspace() as scene, model_server(command, key) as server:
            repository = make_repository(scene.folder)
            before = await _tests(command, python, repository, isolation)
            plan = write_plan(self._folder, server, python, json.loads((scene.folder / "targets.json").read_text()))
            # What is fetched for the modules stays where it usually is, for the next time.
            around = {name: path for name, path in scene.environ.items() if name != "XDG_CACHE_HOME"}
            environ = {**os.environ, **around, KEY: key}
            async with Session(
                plan,
                working_dir=repository,
                environ=environ,
                journal=Journals(environ=environ),
                approval=self,
                isolation=isolation,
                trust_plan=True,
                sources=self._sources,
            ) as session:
                self.session = session
                for name in _EVENTS:
                    session.coordinator.hooks.register(name, self._note)
                answer = await session.execute(PROMPT)
                messages = await session.coordinator.get("context").get_messages()
                fared = session.modules
            ended = {status.module: status for status in session.modules}
            after = await _tests(command, python, repository, isolation)
            losses = scene.losses()
            parts = tuple(self._part(status, ended[status.module], messages, server, losses) for status in fared)
            problems = [*_problems(before, after, parts, repository), *server.refusals, *losses]
            diff = _diff(repository)
            report = self._report(session.session_id, repository, environ)
        seconds = time.monotonic() - began
        return Outcome(answer, before, after, diff, parts, self._questions, seconds, tuple(problems), report=report)

    def _report(self, session: str, repository: Path, environ: Mapping[str, str]) -> Path:
        """Write the report of the session, in place of that of an earlier run."""
        path = self._folder / "report.html"
        path.unlink(missing_ok=True)
        with output_file(path) as write:
            write(page_of(facts_of(SessionRecords(environ=environ).find(session, repository), environ)))
        return path

    async def _note(self, event: str, data: Mapping[str, Any]) -> None:
        self._watcher.event(event, data)

    def _part(
        self,
        status: ModuleStatus,
        ended: ModuleStatus,
        messages: Sequence[Mapping[str, Any]],
        server: VendorServer,
        losses: Sequence[str],
    ) -> Part:
        used = Counter(str(message.get("name")) for message in messages if message["role"] == "tool")
        did = {
            "loop-streaming": f"ran {used.total()} tool calls, to the end of the turn",
            "context-simple": f"kept the {len(messages)} messages of the conversation",
            "provider-openai": f"asked the model {len(server.answers)} times, with a key that it never held",
            "tool-filesystem": f"read {used['read_file']} files, made {used['edit_file']} edits",
            "tool-bash": f"ran {used['bash']} commands",
            "hooks-approval": f"asked {self._questions} times; a rule answered for `git diff`",
            STRANGER: "reached for a private key, the tests, this process and the network; read from address 0",
        }[status.module]
        # Of a file its name alone: where the folder of this run is says nothing.
        refused = [f"refused: {denial['operation']} {Path(denial['target']).name}" for denial in ended.denials]
        kept = ["it got neither the key nor through to server and process"] if not losses else []
        facts = [*refused, *(kept if status.module == STRANGER else []), *ends_of(status)]
        return Part(status, did, "; ".join(facts) or BEHAVED)


def find_python() -> str:
    """Return a program that runs the tests: by its name, where workers have it on their path."""
    return "python3" if shutil.which("python3", path=_WORKER_PATH) else sys.executable


def model_server(tests: str, key: str, faults: Mapping[int, Fault] | None = None) -> VendorServer:
    """Return the server of a model that runs its tests by a command; see `MendingModel` of its faults."""
    model = MendingModel(lambda: server.answers[-1].body, tests, key=key, faults=faults)
    server = VendorServer(model, OpenAIDialect())
    return server


def make_repository(folder: Path) -> Path:
    """Return a repository of the program with the mistake, made in a folder."""
    repository = folder / "repository"
    shutil.copytree(_REPOSITORY, repository, ignore=shutil.ignore_patterns("__pycache__"))
    (repository / "gitignore").rename(repository / ".gitignore")
    author = ["-c", "user.name=Demonstration", "-c", "user.email=demonstration@example.org"]
    for command in (["init", "-q"], ["add", "."], [*author, "commit", "-q", "-m", "Begin"]):
        subprocess.run(["git", *command], cwd=repository, check=True, timeout=60)
    return repository


def write_plan(folder: Path, server: VendorServer, python: str, targets: Mapping[str, Any]) -> Path:
    """Write the plan with what is known only now; beside it, a lock file stays from one run to the next."""
    places = {
        "BASE_URL": server.url,
        "SERVER": f"127.0.0.1:{server.port}",
        "PYTHON": python,
        "LINE_COUNT": str(_HERE / "modules" / STRANGER),
        "PLACES": dict(targets),
    }
    text = (_HERE / "plan.yaml").read_text(encoding="utf-8")
    for name, value in places.items():
        text = text.replace(name, json.dumps(value))  # which is YAML too
    folder.mkdir(parents=True, exist_ok=True)
    plan = folder / "plan.yaml"
    plan.write_text(text, encoding="utf-8")
    return plan


async def _tests(command: str, python: str, repository: Path, isolation: IsolationLevel | None) -> Verdict:
    outcome = await ToolCallSession(
        "builtin:tool-bash",
        "bash",
        {"command": command},
        permissions={"read": ["."], "run": ["bash", python]},
        working_dir=repository,
        isolation=isolation,
    ).run()
    if outcome.error is not None:
        raise outcome.error
    output: Any = outcome.result.output or {}
    lines = str(output.get("stderr", "")).split("\n")
    return Verdict(outcome.result.success, next((line for line in reversed(lines) if line), "no output"))


def _problems(before: Verdict, after: Verdict, parts: Sequence[Part], repository: Path) -> list[str]:
    """Return each thing that is not as it should be."""
    stranger = next(part for part in parts if part.status.module == STRANGER)
    signals = [report.signal_name for report in stranger.status.exit_reports]
    checks = {
        "the tests passed before": not before.has_passed,
        "the tests do not pass": after.has_passed,
        f"another file than {PROGRAM} is not what it was": _changed(repository) == [PROGRAM],
        "a module was not mounted": all(part.status.is_mounted for part in parts),
        f"{STRANGER} was not killed by SIGSEGV": signals == ["SIGSEGV"],
        f"{STRANGER} was not refused what it reached for": stranger.contained.count("refused: ") >= 2,
        "a module that did nothing wrong ended early": not any(
            part.status.exit_reports for part in parts if part is not stranger
        ),
    }
    return [problem for problem, is_fine in checks.items() if not is_fine]


def _files(folder: Path) -> dict[str, str]:
    return {
        path.name: path.read_text(encoding="utf-8")
        for path in sorted(folder.iterdir())
        if path.is_file() and not path.name.endswith("gitignore")
    }


def _changed(repository: Path) -> list[str]:
    first, now = _files(_REPOSITORY), _files(repository)
    return [name for name in sorted(first.keys() | now.keys()) if first.get(name) != now.get(name)]


def _diff(repository: Path) -> str:
    first, now = _files(_REPOSITORY), _files(repository)
    changes = (
        difflib.unified_diff(
            first.get(name, "").splitlines(), now.get(name, "").splitlines(), f"a/{name}", f"b/{name}", lineterm="", n=1
        )
        for name in _changed(repository)
    )
    return "\n".join(line for change in changes for line in change)
