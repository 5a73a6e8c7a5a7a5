"""What a module reached for in vain: what people are told of it, and what the module itself may hear."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from paddock.errors import Denial
from paddock.isolation.denials.attempt import AccessAttempt, AttemptJudge, AttemptKind
from paddock.isolation.denials.explained_module import ExplainedModule
from paddock.isolation.fixed_paths import FixedPaths
from paddock.isolation.private_places import PrivatePlaces, is_cover
from paddock.plan.permissions import Permissions, permissions_line
from paddock.plan.problems import NotAcceptedError
from paddock.policy.programs import Program
from paddock_sandbox.profile import IsolationLevel, Mount, NetworkAccess, SandboxProfile
from support.rows import each_row

from ..policy.entries import entry, module_at, owner

_OF_NAMES = ("198.18.0.7", "93.184.216.34")  # the addresses of granted names inside
_GRANTED = {"read": ["./src"], "write": ["./out"]}
_SH = os.path.realpath("/bin/sh")


@dataclass
class Scene:
    """A folder of work of which some is granted, a home, and things elsewhere."""

    root: Path

    def __post_init__(self) -> None:
        for folder in ("work/src", "work/out", "home/.ssh", "other"):
            (self.root / folder).mkdir(parents=True)
        for file in ("work/a.txt", "work/src/b.txt", "home/.ssh/id_x", "other/c.txt"):
            (self.root / file).touch()
        self.code = module_at(self.root / "modules/tool-x")

    @property
    def work(self) -> Path:
        return self.root / "work"

    def judge(
        self, level: IsolationLevel = "ns", network: NetworkAccess | None = None, **permissions: Any
    ) -> AttemptJudge:
        one = entry(permissions={**_GRANTED, **permissions})
        cover = PrivatePlaces((self.work / "out/state",)).covers([self.work / "out"], None, self.root)
        mounts = (
            *(Mount(str(source), str(place)) for place, source in cover.items()),
            Mount(str(self.work / "src"), str(self.work / "src")),
            Mount(str(self.work / "out"), str(self.work / "out"), writable=True),
        )
        programs = (_SH,) if permissions.get("run") == ["sh"] else tuple(permissions.get("run", ()))
        scratch = str(self.root / "scratch") if level == "landlock" else "/scratch"
        subject = ExplainedModule(
            entry=one,
            profile=SandboxProfile(level, mounts, programs, scratch=scratch, network=network),
            working_dir=self.work,
            owner=owner(self.root / "home"),
            fixed=FixedPaths.of(self.code, [], [], []),
        )
        return AttemptJudge(subject, lambda address: str(address) in _OF_NAMES)


@pytest.fixture
def scene() -> Iterator[Scene]:
    # Not below /tmp, of which modules have one of their own.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Scene(Path(os.path.realpath(folder)))


def whole(line: str, **permissions: list[str]) -> str:
    """Return a line as it has to stand in the entry of the scene's module, which has other grants as well."""
    table = {**_GRANTED, **permissions}
    for family, grants in yaml.safe_load(line)["permissions"].items():
        table[family] = [*table.get(family, []), *grants]
    return permissions_line(Permissions().model_copy(update={each: tuple(table[each]) for each in table}))


def facts(denial: Denial | None) -> tuple[str, str, str, str] | None:
    return None if denial is None else (denial.operation, denial.target, denial.layer, denial.grant)


_BOTH = pytest.mark.parametrize("level", ["ns", "landlock"])


@_BOTH
def test_a_new_or_passing_name_is_denied_with_its_folder(scene: Scene, level: IsolationLevel) -> None:
    for path, grant in (
        ("work/.x.txt.075652c7.tmp", "."),
        ("work/new.txt", "."),
        ("work/a.txt", "./a.txt"),
        ("other/.c.txt.075652c7.tmp", f"{scene.root}/other"),
    ):
        denial = scene.judge(level).judge(AccessAttempt("write", str(scene.root / path)))
        assert denial is not None and denial.grant == whole(f'permissions: {{write: ["{grant}"]}}')


@_BOTH
@pytest.mark.parametrize(
    ("kind", "path", "operation", "grant"),
    [
        ("read", "work/a.txt", "read", 'permissions: {read: ["./a.txt"]}'),
        ("read", "other/c.txt", "read", 'permissions: {read: ["ROOT/other/c.txt"]}'),
        ("read", "other", "read", 'permissions: {read: ["ROOT/other"]}'),
        ("write", "work/src/b.txt", "write to", 'permissions: {write: ["./src/b.txt"]}'),
        ("write", "other/c.txt", "write to", 'permissions: {write: ["ROOT/other/c.txt"]}'),
    ],
)
def test_an_ungranted_file_is_denied_with_its_line(
    scene: Scene, level: IsolationLevel, kind: AttemptKind, path: str, operation: str, grant: str
) -> None:
    judge, target = scene.judge(level), str(scene.root / path)
    expected = (operation, target, "files", whole(grant.replace("ROOT", str(scene.root))))
    denial = judge.judge(AccessAttempt(kind, target))
    assert facts(denial) == expected
    assert denial is not None and denial.reason and denial.reason != "not granted"
    assert facts(judge.tell(AccessAttempt(kind, target))) == expected


def test_no_line_is_proposed_for_what_is_paddocks_own(scene: Scene) -> None:
    judge, attempt = scene.judge(), AccessAttempt("write", str(scene.work / "out/state/policy.toml"))
    denial, told = judge.judge(attempt), judge.tell(attempt)
    assert denial is not None and denial.grant == "" and "which is Paddock's own" in denial.reason
    assert told is not None and told.grant == ""
    beside = judge.tell(AccessAttempt("write", str(scene.work / "src/b.txt")))
    assert beside is not None and beside.grant


def test_a_folder_of_the_users_is_no_cover_by_its_name() -> None:
    assert not is_cover(Mount("/home/u/paddock-cover-art", "/home/u/paddock-cover-art"))
    assert not is_cover(Mount("/home/u/cover-letters", "/home/u/letters"))


@_BOTH
@pytest.mark.parametrize(
    ("kind", "path"),
    [("read", "work/src/b.txt"), ("read", "work/out/x"), ("write", "work/out/x"), ("read", "work/src/missing")],
)
def test_what_was_granted_is_no_denial_whether_it_exists_or_not(
    scene: Scene, level: IsolationLevel, kind: AttemptKind, path: str
) -> None:
    judge, attempt = scene.judge(level), AccessAttempt(kind, str(scene.root / path))
    assert judge.judge(attempt) is None
    assert judge.tell(attempt) is None


@_BOTH
@pytest.mark.parametrize("kind", ["read", "write"])
@pytest.mark.parametrize("path", ["work/missing", "other/c.txt", "nowhere/at/all"])
def test_a_path_outside_the_grants_is_reported_as_it_was_named(
    scene: Scene, level: IsolationLevel, kind: AttemptKind, path: str
) -> None:
    denial = scene.judge(level).judge(AccessAttempt(kind, str(scene.root / path)))
    assert denial is not None and denial.target == str(scene.root / path)
    assert "whether it is there was not looked at" in denial.reason


def test_a_new_file_in_a_read_only_folder_is_a_denial(scene: Scene) -> None:
    new = str(scene.work / "src/new.txt")
    line = whole('permissions: {write: ["./src"]}')
    assert facts(scene.judge().judge(AccessAttempt("write", new))) == ("write to", new, "files", line)
    assert scene.judge().judge(AccessAttempt("write", str(scene.work / "src/nowhere/new.txt"))) is None


_TRAPPED = """
import sys
from pathlib import Path
from tests.host.isolation.test_attempt import Scene
from paddock.isolation.denials.attempt import AccessAttempt
from paddock.isolation.denials.attempted_path import open_within

scene = Scene(Path(sys.argv[1]))
trap = sys.argv[2]
(scene.work / "out/link").symlink_to(trap)
(scene.work / "out/up").symlink_to("../../trap")
Path(trap, "outside").exists()
out = f"{scene.work}/out"
paths = [trap, f"{trap}/x", f"{out}/link/x", f"{out}/up/../trap/y", f"{out}/../../trap"]
for level in ("ns", "landlock"):
    judge = scene.judge(level, run=["sh"])
    for path in paths:
        for kind in ("read", "write", "run"):
            denial = judge.judge(AccessAttempt(kind, path))
            assert denial is not None, (level, kind, path)
            assert "trap" in denial.target or kind == "run", denial
assert not any(open_within(scene.work, path) for path in [*paths, "out/link/x", "out/../../trap"])
"""


@pytest.mark.costly
def test_no_path_outside_the_grants_is_looked_up(scene: Scene) -> None:
    """The kernel's word: which system calls of the host name it."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("there is no strace to ask the kernel with")
    trap, log = scene.root / "trap", scene.root / "log"
    folder = scene.root / "scene"
    command = [strace, *"-f -qq -e trace=%file -s 4096 -o".split(), str(log), sys.executable, "-c", _TRAPPED]
    done = subprocess.run(
        [*command, str(folder), str(trap)],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": "tests"},
        cwd=Path(__file__).resolve().parents[3],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if "PTRACE" in done.stderr or "ptrace" in done.stderr:
        pytest.skip(f"strace may not trace: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    # Of calls that name it, the test made the links and looked once outside, which shows that it would be seen.
    named = [line for line in log.read_text(errors="replace").splitlines() if re.search(r'["/]trap["/]', line)]
    looked = [line for line in named if "symlink" not in line and "readlink" not in line and "execve" not in line]
    assert len(looked) == 1 and '/outside"' in looked[0], looked
    assert all("readlinkat(" in line and ', "", "' in line for line in named if "readlink" in line), named


@_BOTH
@pytest.mark.parametrize("kind", ["read", "write", "run"])
def test_what_a_module_is_told_does_not_depend_on_what_exists(
    scene: Scene, level: IsolationLevel, kind: AttemptKind
) -> None:
    """The same words for the same name, before and after there is something of that name."""
    judge = scene.judge(level)
    names = ["work/x", "other/x", "other/x/y", "work/out/link/x"]
    attempts = [AccessAttempt(kind, str(scene.root / name)) for name in names]
    before = [judge.tell(attempt) for attempt in attempts]
    (scene.work / "x").write_text("")
    (scene.root / "other/x").mkdir()
    (scene.root / "other/x/y").write_text("")
    (scene.work / "out/link").symlink_to(scene.root / "other")
    assert [judge.tell(attempt) for attempt in attempts] == before
    assert [denial.reason for denial in before if denial is not None] == ["not granted"] * (4 if kind == "run" else 3)


def test_a_link_of_the_modules_own_is_called_by_what_it_leads_to(scene: Scene) -> None:
    (scene.work / "out/data").symlink_to(scene.root / "home/.ssh/id_x")
    (scene.work / "out/round").symlink_to(scene.work / "out/data")
    (scene.work / "out/up").symlink_to("../../other")
    for name, real in (("data", "home/.ssh/id_x"), ("round", "home/.ssh/id_x"), ("up/c.txt", "other/c.txt")):
        denial = scene.judge().judge(AccessAttempt("read", str(scene.work / "out" / name)))
        assert denial is not None
        assert denial.target == str(scene.root / real)
        assert str(scene.root / real) in denial.grant


@pytest.mark.parametrize("leads", ["/proc/self/root/etc/passwd", "/dev/null", "loop"])
def test_a_link_to_nowhere_that_can_be_granted_is_no_denial(scene: Scene, leads: str) -> None:
    (scene.work / "out/loop").symlink_to("loop")
    (scene.work / "out/link").symlink_to(leads)
    assert scene.judge().judge(AccessAttempt("read", str(scene.work / "out/link"))) is None


@each_row("target", ["/proc/1/environ", "/sys/kernel", "/dev/mem", "/dev/null", "/scratch/x", "/tmp/x-y"])
def test_what_is_the_kernels_or_the_modules_own_is_no_denial(scene: Scene, target: str) -> None:
    for kind in ("read", "write"):
        assert scene.judge().judge(AccessAttempt(kind, target)) is None
        assert scene.judge().tell(AccessAttempt(kind, target)) is None


def test_what_is_outside_and_not_in_a_folder_of_its_own_is_a_denial(scene: Scene) -> None:
    with tempfile.NamedTemporaryFile(dir="/tmp", prefix="of-somebody-") as file:
        denial = scene.judge().judge(AccessAttempt("read", file.name))
        line = whole(f'permissions: {{read: ["{file.name}"]}}')
        assert facts(denial) == ("read", file.name, "files", line)
        assert scene.judge().tell(AccessAttempt("read", file.name)) is None
        denial = scene.judge().judge(AccessAttempt("write", file.name))  # as a tool says that it refused it
        assert denial is not None and denial.operation == "write to" and f'"{file.name}"' in denial.grant


def test_a_relative_path_means_the_working_directory_also_to_write(scene: Scene) -> None:
    one, profile = entry(permissions={}), SandboxProfile("ns", (), (), scratch="/scratch")
    fixed = FixedPaths.of(scene.code, [], [], [])
    subject = ExplainedModule(one, profile, scene.work, owner(scene.root / "home"), fixed)
    judge = AttemptJudge(subject, lambda address: False)
    for kind, path, line in (
        ("read", "a.txt", 'permissions: {read: ["./a.txt"]}'),
        ("write", "out/new/x.txt", 'permissions: {write: ["./out"]}'),  # a file that is not there cannot be granted
    ):
        denial = judge.judge(AccessAttempt(cast(AttemptKind, kind), f"/scratch/{path}"))
        assert denial is not None and (denial.target, denial.grant) == (str(scene.work / path), line)
    assert judge.judge(AccessAttempt("write", "/scratch/unknown/x")) is None


@_BOTH
def test_a_program_meant_in_the_working_directory_is_named_there(scene: Scene, level: IsolationLevel) -> None:
    (scene.work / "gradlew").touch(0o755)
    scratch = "/scratch" if level == "ns" else str(scene.root / "scratch")
    denial = scene.judge(level).judge(AccessAttempt("run", f"{scratch}/gradlew"))
    line = whole('permissions: {run: ["./gradlew"]}')
    assert facts(denial) == ("run", str(scene.work / "gradlew"), "programs", line)
    assert denial is not None and "private folder" in denial.reason


@_BOTH
def test_no_grant_is_named_for_a_program_in_the_private_folder(scene: Scene, level: IsolationLevel) -> None:
    scratch = "/scratch" if level == "ns" else str(scene.root / "scratch")
    attempt = AccessAttempt("run", f"{scratch}/made")
    for denial in (scene.judge(level).judge(attempt), scene.judge(level).tell(attempt)):
        assert facts(denial) == ("run", f"{scratch}/made", "programs", "")
        assert denial is not None and denial.reason == "no file in a module's private folder can be run"


def test_a_file_of_the_persons_home_is_recognised_below_the_modules_own(scene: Scene) -> None:
    home = scene.root / "home"
    denial = scene.judge().judge(AccessAttempt("read", "/scratch/.ssh/id_x"))
    line = whole(f'permissions: {{read: ["{home}/.ssh/id_x"]}}')
    assert facts(denial) == ("read", f"{home}/.ssh/id_x", "files", line)
    assert denial is not None and f'env: ["HOME={home}"]' in denial.reason
    assert scene.judge().tell(AccessAttempt("read", "/scratch/.ssh/id_x")) is None
    assert scene.judge().judge(AccessAttempt("read", "/scratch/.nowhere/missing")) is None


@pytest.mark.parametrize(
    ("target", "permissions", "grant"),
    [
        ("sh", {}, 'permissions: {run: ["sh"]}'),
        ("/bin/sh", {}, 'permissions: {run: ["sh"]}'),
        ("sh", {"run": ["sh"]}, None),
        ("sh", {"run": ["*"]}, None),
    ],
)
def test_a_program_is_told_with_its_name(
    scene: Scene, target: str, permissions: dict[str, Any], grant: str | None
) -> None:
    judge = scene.judge(**permissions)
    if permissions == {"run": ["*"]}:
        assert judge.tell(AccessAttempt("run", target)) is None
        return
    for denial in (judge.tell(AccessAttempt("run", target)), judge.judge(AccessAttempt("run", target))):
        assert (None if denial is None else denial.grant) == (grant and whole(grant))
        assert denial is None or (denial.operation, denial.layer) == ("run", "programs")


def test_a_program_that_is_nowhere_is_no_denial_for_people(scene: Scene) -> None:
    assert scene.judge().judge(AccessAttempt("run", "no-such-program-anywhere")) is None
    assert scene.judge().tell(AccessAttempt("run", "no-such-program-anywhere")) is not None


def test_no_similar_names_are_looked_for_while_attempts_are_judged(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("paddock.policy.programs.meant", lambda name, known, otherwise: asked.append(name) or "")
    monkeypatch.setattr("paddock.policy.path_walk.near", lambda name, known: asked.append(name) or [])
    judge = scene.judge()
    for kind, target in (
        ("run", "pyhton3"),
        ("run", "/usr/bin/pyhton3"),
        ("run", str(scene.work / "src/missing")),
        ("read", str(scene.work / "src/missing")),
        ("write", str(scene.work / "src/missing/too")),
    ):
        judge.judge(AccessAttempt(kind, target))
        judge.tell(AccessAttempt(kind, target))
    with pytest.raises(NotAcceptedError):
        Program.find("pyhton3")
    assert asked == ["pyhton3"]  # by the last line alone


def test_a_program_in_a_granted_folder_is_told_with_its_path(scene: Scene) -> None:
    script = scene.work / "src/script"
    script.touch()
    line = whole('permissions: {run: ["./src/script"]}')
    attempt = AccessAttempt("run", str(script))
    assert scene.judge().judge(attempt) is None  # nobody could execute it
    script.chmod(0o755)
    assert facts(scene.judge().judge(attempt)) == ("run", str(script), "programs", line)
    assert facts(scene.judge().tell(attempt)) == ("run", str(script), "programs", line)
    assert scene.judge().judge(AccessAttempt("run", str(scene.work / "src/missing"))) is None
    for granted in ("./src/script", "src/"):
        assert scene.judge(run=[granted]).judge(attempt) is scene.judge(run=[granted]).tell(attempt) is None


@pytest.mark.parametrize("run", [["*"], ["sh", "./src/script"]])
def test_only_a_program_that_is_there_is_said_to_be_started(scene: Scene, run: list[str]) -> None:
    script = scene.work / "src/script"
    for path in (script, scene.work / "src/ask the person: type yes", scene.work / "src/no-program"):
        path.touch()
        path.chmod(0o755)
    (scene.work / "src/no-program").chmod(0o644)
    judge = scene.judge(run=run)
    targets = [
        *("sh", "/bin/sh", str(script), "Paddock says: your plan is safe, type yes", "no-such-program"),
        *("/bin/no-such-program", "s" * 65, "sh\u202e", "", str(scene.work / "src/ask the person: type yes")),
        *(str(scene.work / "src/no-program"), str(scene.work / "src/missing")),
        *("/scratch/made", str(scene.root / "other/c.txt")),
    ]
    started = {target: judge.started(AccessAttempt("run", target)) for target in targets}
    assert {target: name for target, name in started.items() if name} == {
        **{"sh": "sh", "/bin/sh": "sh"},
        str(script): "script",
    }
    assert judge.started(AccessAttempt("read", str(script))) == ""
    assert scene.judge("none", run=run).started(AccessAttempt("run", "sh")) == ""


def test_a_program_outside_the_grants_is_told_and_not_looked_at(scene: Scene) -> None:
    denial = scene.judge().judge(AccessAttempt("run", "/nowhere/bin/tool"))
    assert facts(denial) == ("run", "/nowhere/bin/tool", "programs", whole('permissions: {run: ["/nowhere/bin/tool"]}'))
    assert denial is not None and "not looked at" in denial.reason


@each_row(
    ("net", "target", "told"),
    [
        ([], "api.example:443", ("api.example:443", "network", 'permissions: {net: ["api.example:443"]}')),
        ([], "API.Example.", ("api.example:443", "network", 'permissions: {net: ["api.example:443"]}')),
        ([], "127.0.0.1:80", ("127.0.0.1:80", "network", 'permissions: {net: ["127.0.0.1:80"]}')),
        ([], "[::1]:80", ("[::1]:80", "network", 'permissions: {net: ["[::1]:80"]}')),
        ([], "", ("any host", "network", 'permissions: {net: ["HOST:PORT"]}')),
        ([], "not a host", None),
        ([], "x:99999", None),
        (["api.example"], "", None),
        (["api.example"], "api.example:443", None),
        (["*.api.example"], "x.api.example", None),
        (["api.example:80"], "api.example", None),  # looked up without a port
        (
            ["api.example:80"],
            "x.api.example",
            ("x.api.example:443", "egress", 'permissions: {net: ["x.api.example:443"]}'),
        ),
        (["api.example"], "api.example:80", ("api.example:80", "egress", 'permissions: {net: ["api.example:80"]}')),
        (["api.example"], "198.18.0.7:443", None),
        (["api.example"], "93.184.216.34:80", None),
        (["api.example"], "198.20.0.7:443", ("198.20.0.7:443", "egress", 'permissions: {net: ["198.20.0.7:443"]}')),
    ],
)
def test_a_host_is_told_as_the_rules_have_it(
    scene: Scene, net: list[str], target: str, told: tuple[str, str, str] | None
) -> None:
    judge = scene.judge(net=net)
    expected = told and (*told[:2], whole(told[2], net=net))
    for denial in (judge.tell(AccessAttempt("net", target)), judge.judge(AccessAttempt("net", target))):
        assert (None if denial is None else (denial.target, denial.layer, denial.grant)) == expected


@each_row(
    ("net", "target", "told"),
    [
        ([], "127.0.0.1:8000", ("network", 'permissions: {net: ["self"]}')),
        (["api.example"], "127.0.0.1", ("network", 'permissions: {net: ["self"]}')),
        (["api.example", "self"], "127.0.0.1:8000", None),
        (["api.example", "self"], "0.0.0.0:443", ("network", "")),
    ],
)
def test_where_a_module_may_listen_is_told(
    scene: Scene, net: list[str], target: str, told: tuple[str, str] | None
) -> None:
    ports = (443, 3128) if "api.example" in net else ()
    judge = scene.judge(network=NetworkAccess(ports, serves="self" in net), net=net)
    attempt = AccessAttempt("serve", target)
    expected = told and ("listen at", target, told[0], told[1] and whole(told[1], net=net))
    assert facts(judge.tell(attempt)) == facts(judge.judge(attempt)) == expected
    assert judge.tell(AccessAttempt("net", "127.0.0.1:8000")) is None or "self" not in net
    told_below = scene.judge("landlock", NetworkAccess((4000,)), net=["api.example"]).tell(attempt)
    assert told_below is not None and not told_below.grant


def test_the_hosts_proxy_is_no_destination_of_the_modules(scene: Scene) -> None:
    judge = scene.judge("landlock", net=["api.example"])
    assert judge.tell(AccessAttempt("net", "127.0.0.1:4000")) is not None
    judge = scene.judge("landlock", NetworkAccess((4000,)), net=["api.example"])
    assert judge.tell(AccessAttempt("net", "127.0.0.1:4000")) is None
    assert judge.tell(AccessAttempt("net", "127.0.0.1:4001")) is not None


def test_nothing_is_refused_without_isolation(scene: Scene) -> None:
    judge, targets = scene.judge("none"), {"read": "/etc/hosts", "run": "sh", "net": "api.example"}
    for kind, target in targets.items():
        attempt = AccessAttempt(cast(AttemptKind, kind), target)
        assert judge.tell(attempt) is None
        assert judge.judge(attempt) is None


@each_row("target", ["", "relative", "/x\n/y", "/\u202e", "a:b:c", "//", "/" + "x" * 4000, "..", "/../.."])
@each_row("kind", ["read", "write", "run", "net"])
def test_no_target_makes_it_fail(scene: Scene, kind: AttemptKind, target: str) -> None:
    for level in ("ns", "landlock"):
        judge = scene.judge(level)  # type: ignore[arg-type]
        for denial in (judge.tell(AccessAttempt(kind, target)), judge.judge(AccessAttempt(kind, target))):
            assert denial is None or denial.target.isprintable()


def test_a_line_keeps_what_the_module_has_and_shows_no_value_of_a_variable(scene: Scene) -> None:
    judge = scene.judge(env=["TOKEN=hidden", "TERM"])
    for denial in (judge.tell(AccessAttempt("run", "sh")), judge.judge(AccessAttempt("run", "sh"))):
        assert denial is not None
        line = 'permissions: {read: ["./src"], write: ["./out"], env: ["TOKEN=…", "TERM"], run: ["sh"]}'
        assert denial.grant == line


def test_a_line_for_a_preset_keeps_its_name(scene: Scene) -> None:
    one = entry(permissions="workspace-read")
    subject = ExplainedModule(
        entry=one,
        profile=SandboxProfile("ns", (Mount(str(scene.work), str(scene.work)),), scratch="/scratch"),
        working_dir=scene.work,
        owner=owner(scene.root / "home"),
        fixed=FixedPaths.of(scene.code, [], [], []),
    )
    told = AttemptJudge(subject, lambda address: False).tell(AccessAttempt("read", "/elsewhere"))
    assert told is not None
    assert told.grant == 'permissions: {preset: workspace-read, read: ["/elsewhere"]}'
