"""A project whose operator and user may have written what bounds it: what a command makes of it, and what is decided.

Decisions that differ only in what is asked for are looked at in this process, with the very files that a command would
read; that a command acts on each kind of them is shown with the command.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any

from integration.command_line import paddock, policed_paddock, python
from integration.policed_machine import SYSTEM_FOLDER, PolicedMachine
from paddock.audit import AuditLog
from paddock.authorization.authorizer import Authorizer, PlanStart
from paddock.authorization.preflight import checked_resolutions
from paddock.cli import failure, plan_options
from paddock.errors import PaddockError, PlanError, PolicyRefusedError
from paddock.module_sources.provisioning import SourceOptions
from paddock.module_sources.resolve import ModuleSources
from paddock.plan.load import load_plan
from paddock.plan.model import EntryPlace, ModuleEntry
from paddock.policy.files.grants import GrantsFile
from paddock.policy.files.policy import Policy
from paddock.policy.owner import Owner
from paddock.policy.secrets.store import SecretSources
from paddock.policy.trust import PlanAcceptance, with_places
from paddock_sandbox.profile import IsolationLevel
from paddock_sources.cache import SourceCache

SYSTEM_FILE = f"{SYSTEM_FOLDER}/policy.toml"
SAID_ON = 5  # the line of what the plan says of its tool
READ = ("call", "tool-filesystem", "read_file", '{"file_path": "file"}', "--allow-read=.")

PLAN = """\
session: {{orchestrator: loop-basic, context: context-simple}}
providers: [{{module: provider-mock}}]
tools:
  - module: tool-filesystem
    {said}
"""
_LEVELS: list[str] = []  # that can be had on the machine with a policy, once that is known


class Ground:
    """A project with a plan, its user's own files, and what the operator of the machine says."""

    def __init__(self, root: Path, machine: PolicedMachine | None) -> None:
        self.root = root
        self.work = root / "work"
        self.config = root / "config/paddock"
        self.state = root / "state"
        self.system = root / "system"
        self.plan = root / "plan.yaml"
        self._machine = machine
        for folder in (self.work / "out", root / "other", self.config, self.state, self.system):
            folder.mkdir(parents=True)
        (self.work / "file").write_text("content")
        (root / "other/file").write_text("another's")
        (self.work / "link").symlink_to("../other")

    @property
    def environ(self) -> dict[str, str]:
        return {
            "XDG_CONFIG_HOME": str(self.config.parent),
            "XDG_STATE_HOME": str(self.state),
            "LANG": "C.UTF-8",
            "PROBE": "a probe",
            "KEPT": "a key that is kept",
            "INJECTED": "a key that is injected",
        }

    def rule(self, text: str) -> Path:
        """Have the operator of the machine write a policy."""
        (self.system / "policy.toml").write_text(text)
        return self.system / "policy.toml"

    def own_rule(self, text: str) -> Path:
        """Have the user write one."""
        path = self.config / "policy.toml"
        path.write_text(text)
        path.chmod(0o600)
        return path

    def write_plan(self, said: str) -> Path:
        self.plan.write_text(PLAN.format(said=said), encoding="utf-8")
        return self.plan

    def accept(self) -> None:
        """Have the user accept the plan as it is."""
        plan = with_places(load_plan(self.plan), self.work, Owner.current(os.environ))
        PlanAcceptance.accepting(plan, GrantsFile.of_user(self.environ))

    # -- with the command

    def paddock(self, *args: str, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command in the project, on a machine with the operator's policy if there is one to be had here."""
        environ = {**self.environ, **(environ or {})}
        if self._machine is None:
            return paddock(*args, cwd=self.work, environ=environ)
        return policed_paddock(self._machine, self.system, *args, cwd=self.work, environ=environ)

    def python(self, code: str, *args: str) -> subprocess.CompletedProcess[str]:
        """Run a program in the project, on a machine with the operator's policy."""
        assert self._machine is not None
        return python(code, *args, cwd=self.work, environ=self.environ, on=(self._machine, self.system))

    def run(self, *options: str, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return self.paddock("run", str(self.plan), "hello", *options, "--json", environ=environ)

    def levels(self) -> list[str]:
        """Return the levels that can be had here, the strongest first."""
        if not _LEVELS:
            told = json.loads(self.paddock("doctor", "--json").stdout)
            _LEVELS.extend(found["level"] for found in told["levels"] if found["reachable"])
        return _LEVELS

    def audited(self) -> list[dict[str, Any]]:
        return [json.loads(line) for log in self.state.rglob("audit.jsonl") for line in log.read_text().splitlines()]

    def is_untouched(self) -> bool:
        """Whether no session ever began, by the account that is kept of them."""
        began = [one for one in self.audited() if one["event"] not in ("plan.refused", "call.refused")]
        return not began and not list(self.state.glob("paddock/sessions/*"))

    # -- in this process

    def judge(
        self, *, environ: Mapping[str, str] | None = None, grants: Mapping[str, str] | None = None, trust: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Return what `run --json` says of the plan if it is refused, and of one that is not that it is well."""
        return self._said(self._judge_plan({**os.environ, **self.environ, **(environ or {})}, grants or {}, trust))

    def judge_call(self, source: str | None = None, **grants: str) -> subprocess.CompletedProcess[str]:
        """Return the same of a `call` with these options, each of the families of grants as `--allow-…` takes it."""
        written: dict[str, object] = {
            "module": "tool-filesystem",
            "permissions": plan_options.read_grants({family: [value] for family, value in grants.items()}),
        }
        if source is not None:
            written["source"] = source
        entry = ModuleEntry.read(written, EntryPlace("tool", "", self.work))
        return self._said(self._judge_call({**os.environ, **self.environ}, entry))

    def authorizer(self, environ: Mapping[str, str]) -> Authorizer:
        """Return what a session decides by, on this machine."""
        owner = Owner.current(environ)
        policy = Policy.load(environ, system_file=self.system / "policy.toml", system_owner=owner)
        return Authorizer(self.work, environ, policy, SecretSources.load(environ))

    async def _judge_plan(self, environ: Mapping[str, str], grants: Mapping[str, str], trust: bool) -> None:
        authorizer = self.authorizer(environ)
        plan = load_plan(self.plan)
        with SourceCache.of_user(environ) as cache:
            sources = ModuleSources(
                cache,
                environ,
                self.root,
                self.root,
                authorizer.policy,
                SourceOptions(offline=True),
                AuditLog.silent(),
                lends_keys=trust,
            )
            found = await sources.resolve(tuple(plan.entries()), plan.positions)
            resolutions = checked_resolutions(plan, found)
            await authorizer.authorize_plan(PlanStart(plan, trust, grants), resolutions, _no_weaker_level)

    async def _judge_call(self, environ: Mapping[str, str], entry: ModuleEntry) -> None:
        authorizer = self.authorizer(environ)
        with SourceCache.of_user(environ) as cache:
            sources = ModuleSources(
                cache, environ, self.work, self.work, authorizer.policy, SourceOptions(offline=True), AuditLog.silent()
            )
            (found,) = (await sources.resolve([entry])).values()
            if isinstance(found, PaddockError):
                raise found
            try:
                await authorizer.authorize_call(entry, found, None)
            except (PlanError, PolicyRefusedError) as error:
                plan_options.retell(error)
                raise

    def _said(self, judging: Coroutine[Any, Any, None]) -> subprocess.CompletedProcess[str]:
        try:
            asyncio.run(judging)
        except PaddockError as error:
            told = json.dumps({"error": failure.as_dict(error), "modules": []})
            return subprocess.CompletedProcess([], failure.exit_code(error), told, failure.text(error))
        return subprocess.CompletedProcess([], 0, json.dumps({"error": None, "modules": []}), "")


async def _no_weaker_level() -> IsolationLevel | None:
    raise AssertionError("no question was expected")


def refusals(done: subprocess.CompletedProcess[str], file: str | Path) -> list[tuple[str, int | None]]:
    """Return place and rule's line of each thing that rules of a file refused; both outputs have to say the same."""
    told = json.loads(done.stdout)
    assert (done.returncode, told["error"]["type"]) == (4, "PolicyRefusedError"), done.stderr
    assert not told.get("modules")
    assert not [line for line in done.stderr.splitlines() if line.startswith("isolation: ") or "started" in line]
    found = []
    for problem in told["error"]["problems"]:
        where = f"{problem['file']}:{problem['line']}: " if problem["line"] else ""
        place = f"{problem['path']}: " if problem["path"] else ""
        assert f"{where}{place}{problem['message']}" in done.stderr
        assert problem["hint"] and problem["hint"] in done.stderr
        if "rule" in problem and problem["rule"]["file"] == str(file):
            rule = problem["rule"]
            assert f"  by {rule['file']}:{rule['line']}: {rule['text']}" in done.stderr
            found.append((problem["path"], rule["line"]))
    return found


def copy_of_a_tool(folder: Path) -> None:
    """Copy the shipped tool that plans here have, as a module of the user's own."""
    shutil.copytree(Path(__file__).parents[2] / "modules/tool-filesystem", folder)
