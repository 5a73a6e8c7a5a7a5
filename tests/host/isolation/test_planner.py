"""How every module of a session is shut in is decided before any is started, by what this machine was seen to do."""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from failures import failing
from paddock.audit import AuditLog
from paddock.authorization.authorizer import Authorization, AuthorizedModule
from paddock.errors import IsolationUnavailableError, LaunchError, PlanError, PolicyRefusedError
from paddock.isolation.compile import Confinement, confine
from paddock.isolation.machine import Machine
from paddock.isolation.network import Networks
from paddock.isolation.planner import SandboxPlanner, SessionPaths
from paddock.isolation.sandbox_host import SandboxHost, failure_of
from paddock.plan.model import EntryPlace, Kind, ModuleEntry
from paddock.policy.evaluate import EvaluationContext, evaluate
from paddock.policy.files.policy import Policy
from paddock.policy.files.policy_file import PolicyFile
from paddock.policy.grant_request import ModuleRequest
from paddock.policy.owner import Owner
from paddock.policy.secrets.values import NO_SECRETS, SecretValues
from paddock.policy.trust import Trust
from paddock.session.resources import further_sandboxes
from paddock.workers.launcher import LaunchSpec
from paddock.workers.limits.tree_limits import LimitEnforcer
from paddock.workers.limits.watchdog import Watchdog
from paddock.workers.probe import Unavailable
from paddock.workers.process import ModuleProcess
from paddock.workers.runtime import WorkerRuntime
from paddock.workers.worker_host import WorkerHost
from paddock_sandbox.cgroup import CgroupHome
from paddock_sandbox.profile import IsolationLevel, LockdownReport
from paddock_sources import Resolution


class _Process:
    """What came to be at a level, and is ended again at once."""

    def __init__(self, level: IsolationLevel) -> None:
        self.ready = dataclasses.make_dataclass("Ready", ["lockdown", "missing"])(LockdownReport(level, ()), ())
        self.rpc = self
        self.ended: list[str] = []

    async def stop(self, grace: float) -> None:
        self.ended.append("stop")

    def close(self) -> None:
        self.ended.append("close")


class ScriptedMachine:
    """Launches at the levels it has, and says why not at the others."""

    def __init__(self, *levels: IsolationLevel) -> None:
        self.levels = levels
        self.tried: list[LaunchSpec] = []
        self.processes: list[_Process] = []

    async def launch(self, spec: LaunchSpec) -> ModuleProcess:
        self.tried.append(spec)
        level = spec.profile.level
        if level not in self.levels:
            raise LaunchError(spec.name, f"step of {level}", "PermissionError: [Errno 1] it is refused", errno=1)
        self.processes.append(_Process(level))
        return self.processes[-1]  # type: ignore[return-value]

    @property
    def tried_levels(self) -> list[IsolationLevel]:
        return [spec.profile.level for spec in self.tried]


class Scene:
    """A place for a session, with modules."""

    def __init__(self, root: Path) -> None:
        self.root = root = root.resolve()
        for name in ("work", "host", "home"):
            (root / name).mkdir()
        self.place = SessionPaths(root / "work", {"HOME": str(root / "home"), "LANG": "C.UTF-8"})
        self.networks = Networks(root / "host", AuditLog.silent())
        self.confined: list[Sequence[tuple[ModuleEntry, Confinement]]] = []

    def sandbox_planner(
        self, machine: ScriptedMachine, *, groups: CgroupHome | None = None, **how: object
    ) -> SandboxPlanner:
        launchers = dict.fromkeys(("template", "exec", "bubblewrap"), machine)
        enforcer = LimitEnforcer(Watchdog())
        workers = WorkerHost(CgroupHome() if groups is None else groups, self.root / "host", enforcer, launchers)
        return SandboxPlanner(
            self.place,
            SandboxHost(workers, WorkerRuntime.locate()),
            self.networks,
            on_confined=self.confined.append,
            **how,  # type: ignore[arg-type]
        )

    async def planned(
        self,
        *modules: tuple[ModuleEntry, Resolution],
        at: IsolationLevel = "ns",
        accepted: bool = False,
        secrets: SecretValues = NO_SECRETS,
        **how: object,
    ) -> SandboxPlanner:
        """Return what has planned sandboxes for these modules, on a machine with one level."""
        planner = self.sandbox_planner(ScriptedMachine(at), **how)  # type: ignore[arg-type]
        await planner.plan_sandboxes(self.authorized(*modules, accepted=accepted, secrets=secrets))
        return planner

    def module(self, name: str, kind: Kind = "tool", **keys: object) -> tuple[ModuleEntry, Resolution]:
        root = self.root / "modules" / name
        package_dir = root / "package"
        package_dir.mkdir(parents=True)
        (package_dir / "__init__.py").touch()
        number = len(os.listdir(self.root / "modules")) - 1
        entry = ModuleEntry.read({"module": name, **keys}, EntryPlace(kind, f"{kind}s[{number}]", self.root))
        return entry, Resolution(name, str(root), root, "package", package_dir, root, kind)

    def authorized(
        self,
        *modules: tuple[ModuleEntry, Resolution],
        accepted: bool = False,
        policy: Policy = Policy(),  # noqa: B008 - frozen
        secrets: SecretValues = NO_SECRETS,
    ) -> Authorization:
        """Return what clears these modules; nothing they ask for is refused for want of an accepted plan."""
        owner = Owner.current(self.place.environ)
        situation = EvaluationContext(policy, Trust(True), self.place.working_dir, owner, secrets)
        decisions = evaluate([ModuleRequest(entry, code.source) for entry, code in modules], situation)
        authorized = tuple(map(AuthorizedModule, decisions, (code for _, code in modules)))
        return Authorization(authorized, Trust(accepted), secrets, accepts_weaker=accepted)


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    scene = Scene(tmp_path)
    yield scene
    await scene.networks.aclose()


@pytest.mark.parametrize(
    ("there", "operators", "is_accepted", "level", "tried"),
    [
        (["ns", "bwrap", "landlock"], None, False, "ns", ["ns"]),
        (["bwrap", "landlock"], None, False, "bwrap", ["ns", "bwrap"]),
        (["landlock"], None, True, "landlock", ["ns", "bwrap", "landlock"]),
        (["ns", "landlock"], "landlock", False, "landlock", ["landlock"]),
        ([], "none", False, "none", []),
    ],
)
async def test_the_strongest_level_or_the_operators_is_taken_and_no_other_tried(
    scene: Scene,
    there: list[IsolationLevel],
    operators: IsolationLevel | None,
    is_accepted: bool,
    level: IsolationLevel,
    tried: list[IsolationLevel],
) -> None:
    machine = ScriptedMachine(*there)
    sandbox_planner = scene.sandbox_planner(machine, isolation=operators)
    entry, code = scene.module("tool-x")
    await sandbox_planner.plan_sandboxes(scene.authorized((entry, code), accepted=is_accepted))
    assert sandbox_planner.of(entry).level == level
    assert machine.tried_levels == tried


async def test_what_was_tried_is_ended_again(scene: Scene) -> None:
    machine = ScriptedMachine("ns")
    await scene.sandbox_planner(machine).plan_sandboxes(scene.authorized(scene.module("tool-x")))
    assert [process.ended for process in machine.processes] == [["stop", "close"]]


async def test_a_level_below_the_floor_is_not_taken_without_acceptance(scene: Scene) -> None:
    with pytest.raises(IsolationUnavailableError) as refused:
        await scene.planned(scene.module("tool-x"), at="landlock")
    assert "step of ns" in str(refused.value) and "step of bwrap" in str(refused.value)
    assert any("--isolation landlock" in hint for hint in refused.value.hints)
    assert scene.confined == []


async def test_a_level_that_an_entry_names_is_had_exactly(scene: Scene) -> None:
    machine = ScriptedMachine("ns", "bwrap", "landlock")
    sandbox_planner = scene.sandbox_planner(machine)
    named, other = scene.module("tool-x", isolation="landlock"), scene.module("tool-y")
    await sandbox_planner.plan_sandboxes(scene.authorized(named, other, accepted=True))
    assert (sandbox_planner.of(named[0]).level, sandbox_planner.of(other[0]).level) == ("landlock", "ns")
    assert sorted(machine.tried_levels) == ["landlock", "ns"]


async def test_a_named_level_that_was_not_accepted_is_refused(scene: Scene) -> None:
    with failing("IsolationRefusedError"):
        await scene.sandbox_planner(ScriptedMachine("ns", "landlock")).plan_sandboxes(
            scene.authorized(scene.module("tool-x", isolation="landlock"))
        )


async def test_each_level_is_tried_once_for_a_session(scene: Scene) -> None:
    machine = ScriptedMachine("bwrap")
    sandbox_planner = scene.sandbox_planner(machine)
    for name in ("tool-x", "tool-y"):
        await sandbox_planner.plan_sandboxes(scene.authorized(scene.module(name)))
    reach = await sandbox_planner.host.try_levels(["ns", "bwrap", "landlock"])
    assert machine.tried_levels == ["ns", "bwrap", "landlock"]
    assert reach.reachable == {"bwrap"}


async def test_what_is_tried_is_granted_nothing_but_the_runtime(scene: Scene) -> None:
    machine = ScriptedMachine("ns", "bwrap", "landlock")
    sandbox_planner = scene.sandbox_planner(machine)
    await sandbox_planner.host.try_levels(["ns", "bwrap", "landlock"])
    homes: Mapping[str, str] = {spec.profile.level: spec.profile.scratch for spec in machine.tried}
    assert (homes["ns"], homes["bwrap"]) == ("/scratch", "/tmp")
    assert Path(homes["landlock"]).is_relative_to(scene.root / "host")
    for spec in machine.tried:
        assert not [mount for mount in spec.profile.mounts if mount.writable]
        assert spec.profile.programs == ()
        assert dict(spec.environ) == {"HOME": spec.profile.scratch}
        if spec.profile.level != "landlock":
            assert spec.profile.mounts == sandbox_planner.host.runtime.mounts


async def test_without_a_root_each_module_has_its_own_private_folder(scene: Scene) -> None:
    modules = [scene.module("tool-x"), scene.module("tool-y")]
    sandbox_planner = await scene.planned(*modules, at="landlock", accepted=True)
    folders = [Path(sandbox_planner.of(entry).confinement.profile.scratch) for entry, _ in modules]
    assert len({*folders}) == 2
    for folder, (entry, _) in zip(folders, modules, strict=True):
        assert folder.is_relative_to(scene.root / "host")
        assert folder.stat().st_mode & 0o777 == 0o700
        assert sandbox_planner.of(entry).environ["HOME"] == str(folder)


@pytest.mark.parametrize("level", ["ns", "landlock"])
async def test_a_further_worker_of_an_entry_shares_only_the_kept_home(
    scene: Scene, level: IsolationLevel, tmp_path: Path
) -> None:
    kept, code = scene.module("tool-x", state="keep")
    second, _ = scene.module("tool-y", state="keep", instance_id="second")
    plain = scene.module("tool-z")
    modules = ((kept, code), (second, code), plain)
    sandbox_planner = await scene.planned(*modules, at=level, accepted=True, isolation=level)
    async with further_sandboxes(sandbox_planner, tmp_path, AuditLog.silent()) as sandboxes:
        first, further = sandbox_planner.of(kept), sandboxes.of(kept)
        assert further.home is not None and further.home == first.home
        assert further.environ["HOME"] == str(first.home)
        assert sandbox_planner.of(second).home not in (None, first.home)
        for entry in (kept, plain[0]):
            scratches = [
                where.confinement.profile.scratch for where in (sandbox_planner.of(entry), sandboxes.of(entry))
            ]
            assert len({*scratches}) == (1 if level == "ns" else 2), "the same path, in a root of each worker's own"
    assert first.home is not None and first.home.is_dir()


async def test_the_files_that_a_worker_left_are_found_in_its_own_folder(scene: Scene, tmp_path: Path) -> None:
    entry, code = scene.module("tool-x")
    sandbox_planner = await scene.planned((entry, code), at="landlock", accepted=True)
    async with further_sandboxes(sandbox_planner, tmp_path, AuditLog.silent()) as sandboxes:
        workers = [sandbox_planner.of(entry), sandboxes.of(entry)]
        for number, worker in enumerate(workers):
            (Path(worker.confinement.profile.scratch) / f"{number}.txt").touch()
        for number, worker in enumerate(workers):
            judge = sandbox_planner.judge_of(entry, worker, scene.networks)
            (left,) = judge.left()
            denial = judge.judge(left)
            assert denial is not None and denial.target == str(scene.place.working_dir / f"{number}.txt")


async def test_problems_of_all_entries_are_reported_at_once(scene: Scene) -> None:
    wanted = [
        scene.module("tool-x", permissions={"read": ["./missing"]}, limits={"cpu_quota": "50%"}),
        scene.module("tool-y", limits={"cpu_quota": "50%"}),
        scene.module("tool-z"),
    ]
    with pytest.raises(PlanError) as refused:
        await scene.planned(*wanted)
    assert {problem.path for problem in refused.value.problems} == {
        *("tools[0].permissions.read[0]", "tools[0].limits.cpu_quota", "tools[1].limits.cpu_quota"),
    }
    assert scene.confined == []


async def test_a_limit_of_control_groups_is_accepted_where_they_exist(scene: Scene) -> None:
    groups = CgroupHome.find()
    if "cpu" not in groups.controllers:
        pytest.skip(str([str(problem) for problem in groups.problems]))
    entry, code = scene.module("tool-x", limits={"cpu_quota": "50%", "memory_max": "64M", "tasks_max": 7})
    sandbox_planner = await scene.planned((entry, code), groups=groups)
    tree_limits = sandbox_planner.of(entry).tree_limits
    assert (tree_limits.cpu_quota, tree_limits.memory_max, tree_limits.tasks_max) == (0.5, 64 << 20, 7)


@pytest.mark.parametrize(("level", "watched"), [("ns", False), ("bwrap", False), ("landlock", True), ("none", True)])
async def test_tasks_are_watched_where_no_namespace_counts_them(
    scene: Scene, level: IsolationLevel, watched: bool
) -> None:
    entry, code = scene.module("tool-x")
    sandbox_planner = await scene.planned((entry, code), at=level, isolation=level)
    assert sandbox_planner.of(entry).tree_limits.watches_tasks is watched


async def test_no_module_may_change_the_code_of_another(scene: Scene) -> None:
    modules = scene.root / "modules"
    greedy = scene.module("tool-x", permissions={"write": [str(modules)]})
    sandbox_planner = await scene.planned(greedy, scene.module("tool-y"))
    mounts = {mount.target: mount.writable for mount in sandbox_planner.of(greedy[0]).confinement.profile.mounts}
    assert mounts[str(modules)] is True
    assert mounts[str(modules / "tool-y")] is mounts[str(modules / "tool-x")] is False


async def test_the_hosts_private_folder_is_out_of_every_modules_reach(scene: Scene) -> None:
    greedy = scene.module("tool-x", permissions={"write": [str(scene.root / "host")]})
    with pytest.raises(PlanError) as refused:
        await scene.planned(greedy)
    assert [problem.path for problem in refused.value.problems] == ["tools[0].permissions.write[0]"]


async def test_what_was_decided_is_told_once_it_is_complete(scene: Scene) -> None:
    modules = [scene.module("tool-x"), scene.module("tool-y")]
    sandbox_planner = await scene.planned(*modules)
    ((told),) = scene.confined
    assert [entry for entry, _ in told] == [entry for entry, _ in modules]
    assert [confinement for _, confinement in told] == [sandbox_planner.of(entry).confinement for entry, _ in modules]


async def test_a_change_to_a_file_that_programs_run_is_reported_at_the_end(scene: Scene) -> None:
    hooks = scene.place.working_dir / ".git" / "hooks"
    hooks.mkdir(parents=True)
    (hooks.parent / "config").touch()
    (hooks.parent / "HEAD").write_text("ref: refs/heads/main\n")
    writes = scene.module("tool-x", permissions={"write": ["."]})
    sandbox_planner = await scene.planned(writes, at="landlock", accepted=True)
    assert sandbox_planner.changes() == ()
    (hooks / "post-checkout").touch(0o755)
    (change,) = sandbox_planner.changes()
    assert change == (f"{hooks} changed during the run; programs of yours may run what is in it: look at it first")


# -- policies ------------------------------------------------------------------------------


def _policy(text: str) -> Policy:
    return Policy((PolicyFile.parse(text, "policy.toml"),))


async def test_a_minimum_of_the_policy_holds_where_the_plan_was_accepted(scene: Scene) -> None:
    accepted = scene.authorized(scene.module("tool-x"), accepted=True, policy=_policy('minimum_isolation = "bwrap"\n'))
    machine = ScriptedMachine("landlock")
    with pytest.raises(IsolationUnavailableError) as refused:
        await scene.sandbox_planner(machine).plan_sandboxes(accepted)
    assert "the minimum is set by policy.toml:1: minimum_isolation = bwrap" in refused.value.hints
    assert not any("--isolation" in hint for hint in refused.value.hints)
    assert machine.tried_levels == ["ns", "bwrap", "landlock"]


async def test_limits_are_those_that_the_policy_lets_be(scene: Scene) -> None:
    entry, code = scene.module("tool-x", limits={"runtime_max": "5s"})
    authorized = scene.authorized((entry, code), policy=_policy('[max_limits]\nmemory_max = "32M"\ntasks_max = 3\n'))
    sandbox_planner = scene.sandbox_planner(ScriptedMachine("ns"))
    await sandbox_planner.plan_sandboxes(authorized)
    shelter = sandbox_planner.of(entry)
    assert (shelter.tree_limits.memory_max, shelter.tree_limits.tasks_max) == (32 << 20, 3)
    assert shelter.limits.runtime_max == 5


async def test_a_path_that_leads_elsewhere_at_confinement_is_refused(scene: Scene) -> None:
    link = scene.place.working_dir / "link"
    (scene.place.working_dir / "inside").mkdir()
    (scene.root / "outside").mkdir()
    link.symlink_to("inside")
    policy = _policy(f'[[module]]\nmatch = "*"\ngrants = {{read = ["{scene.place.working_dir}"]}}\n')
    authorized = scene.authorized(scene.module("tool-x", permissions={"read": ["link"]}), policy=policy)
    sandbox_planner = scene.sandbox_planner(ScriptedMachine("ns"))
    await sandbox_planner.plan_sandboxes(authorized)
    scene.confined.clear()
    link.unlink()
    link.symlink_to("../outside")
    with pytest.raises(PolicyRefusedError) as refused:
        await sandbox_planner.plan_sandboxes(authorized)
    (refusal,) = refused.value.refusals
    assert (refusal.path, refusal.rule_file, refusal.rule_line) == ("tools[0].permissions.read[0]", "policy.toml", 3)
    assert scene.confined == []


# -- networks and secrets ------------------------------------------------------------------


async def test_only_a_module_that_was_granted_hosts_is_given_a_network(scene: Scene) -> None:
    with_net, code = scene.module("tool-x", permissions={"net": ["example.com:8443", "127.0.0.1:80"]})
    without = scene.module("tool-y")
    sandbox_planner = await scene.planned((with_net, code), without)
    network = sandbox_planner.of(with_net).confinement.profile.network
    assert network is not None and {80, 8443} < {*network.ports}
    assert "HTTPS_PROXY" in sandbox_planner.of(with_net).environ
    assert scene.networks.gate_of(with_net) is not None
    assert sandbox_planner.of(without[0]).confinement.profile.network is None
    assert not [name for name in sandbox_planner.of(without[0]).environ if "proxy" in name.lower()]
    assert scene.networks.gate_of(without[0]) is None


async def test_without_namespaces_a_network_is_one_port_of_the_host_with_a_token(scene: Scene) -> None:
    modules = [scene.module(name, permissions={"net": ["example.com"]}) for name in ("tool-x", "tool-y")]
    sandbox_planner = await scene.planned(*modules, at="landlock", accepted=True)
    proxies = []
    for entry, _ in modules:
        network = sandbox_planner.of(entry).confinement.profile.network
        assert network is not None
        proxies.append(sandbox_planner.of(entry).environ["HTTPS_PROXY"])
        assert proxies[-1].endswith(f"@127.0.0.1:{network.ports[0]}") and len(network.ports) == 1
    assert len({*proxies}) == 2


async def test_without_isolation_a_module_has_the_hosts_network_and_no_gate(scene: Scene) -> None:
    entry, code = scene.module("tool-x", permissions={"net": ["example.com"]})
    sandbox_planner = await scene.planned((entry, code), isolation="none")
    assert sandbox_planner.of(entry).confinement.profile.network is None
    assert scene.networks.gate_of(entry) is None


async def test_a_secret_is_in_the_environment_of_the_module_that_names_it_alone(scene: Scene) -> None:
    secrets = SecretValues({"KEY": "the value of it", "OTHER": "another value"})
    permissions = {
        "net": ["example.com"],
        "secrets": ["KEY", {"name": "OTHER", "inject": "host"}],
        "env": ["A=${KEY}", "B=${OTHER}"],
    }
    entry, code = scene.module("tool-x", permissions=permissions)
    other = scene.module("tool-y", permissions={"secrets": ["KEY"]})
    sandbox_planner = await scene.planned((entry, code), other, secrets=secrets)
    environ = sandbox_planner.of(entry).environ
    assert (environ["A"], environ["B"]) == ("the value of it", secrets.placeholder("OTHER"))
    assert "another value" not in str(environ)
    assert "the value of it" not in str(sandbox_planner.of(other[0]).environ)


async def test_a_key_that_cannot_be_injected_is_named_without_its_value(scene: Scene) -> None:
    permissions = {"net": ["example.com"], "secrets": [{"name": "KEY", "inject": "host"}]}
    with pytest.raises(PlanError) as refused:
        secrets = SecretValues({"KEY": "two\nlines of it"})
        await scene.planned(scene.module("tool-x", permissions=permissions), secrets=secrets)
    assert [problem.path for problem in refused.value.problems] == ["tools[0].permissions.secrets[0]"]
    assert "lines of it" not in str(refused.value)
    assert scene.confined == []


def test_why_a_level_cannot_be_had_is_told_without_pythons_words() -> None:
    found = Unavailable("ns", "namespaces", 1, "PermissionError: [Errno 1] clone: Operation not permitted (EPERM)")
    failure = failure_of(found, Machine.look({}))
    assert (failure.step, failure.reason) == ("namespaces", "clone: Operation not permitted (EPERM)")


async def test_the_loop_goes_on_while_paths_are_followed(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    loop_went_on = threading.Event()

    def confined(*args: Any, **options: Any) -> Confinement:
        assert loop_went_on.wait(60), "nothing else ran meanwhile"
        return confine(*args, **options)

    monkeypatch.setattr("paddock.isolation.planner.confine", confined)
    sandbox_planner = scene.sandbox_planner(ScriptedMachine("ns"))
    entry, code = scene.module("tool-x")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(sandbox_planner.plan_sandboxes, scene.authorized((entry, code)))
        await anyio.wait_all_tasks_blocked()
        loop_went_on.set()
    assert sandbox_planner.of(entry).level == "ns"


def test_a_key_too_short_to_inject_names_the_way_that_works(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    granted = {"net": ["127.0.0.1:8000"], "secrets": [{"name": "KEY", "inject": "127.0.0.1:8000"}]}
    entry, _ = scene.module("provider-x", "provider", permissions=granted)
    with pytest.raises(PlanError) as refused:
        scene.networks.open(entry, "ns", SecretValues({"KEY": "EMPTY"}))
    assert "secrets: [KEY]" in refused.value.hints[0]
