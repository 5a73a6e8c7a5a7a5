"""A plan entry becomes a profile that shows what was granted and nothing else, and keeps what must stay as it is."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from failures import failing
from paddock.isolation import compile as confining
from paddock.isolation.compile import Confinement, confine
from paddock.policy.guarded_paths import when_made
from paddock.policy.limits import ResourceLimits
from paddock_sandbox.profile import IsolationLevel, Mount, SandboxProfile
from paddock_sources import Resolution
from paddock_sources.resolution import ServerProgram

from ..policy.entries import entry, module_at, owner, problems_of, runtime_of
from ..policy.test_guarded_paths import make_repository

SCRATCH = Path("/scratch")


class Scene:
    """A runtime, a module and a folder of work, apart from one another."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.work = root / "work"
        self.work.mkdir()
        self.home = root / "home"
        self.home.mkdir()
        self.module = module_at(root / "modules" / "tool-x")
        self.python = root / "runtime" / "python"
        self.stdlib = root / "runtime" / "lib"
        self.stdlib.mkdir(parents=True)
        self.python.touch()
        self.runtime = runtime_of(self.python, self.stdlib)

    def confine(
        self,
        permissions: object = None,
        *,
        level: IsolationLevel = "ns",
        module: Resolution | None = None,
        working_dir: Path | None = None,
        modules: tuple[Resolution, ...] = (),
        kept: tuple[Path, ...] = (),
        limits: dict[str, object] | None = None,
        holds_links: bool = True,
    ) -> Confinement:
        one = entry(permissions=permissions, limits=limits)
        return confine(
            one,
            level=level,
            holds_links=holds_links,
            resolution=module or self.module,
            working_dir=working_dir or self.work,
            runtime_paths=self.runtime,
            limits=ResourceLimits.of(one),
            owner=owner(self.home),
            scratch=SCRATCH,
            modules=modules,
            kept=kept,
        )

    def granted(self, confinement: Confinement) -> list[str]:
        """Return the mounts that are neither the runtime's nor the system's, with `w` for those that may be written."""
        return [
            f"{self._short(mount)}{' w' if mount.writable else ''}{' x' if mount.mappable else ''}"
            for mount in confinement.profile.mounts
            if Path(mount.target).is_relative_to(self.root)
            and not Path(mount.target).is_relative_to(self.python.parent)
        ]

    def _short(self, mount: Mount) -> str:
        target = str(Path(mount.target).relative_to(self.root))
        if mount.source == mount.target:
            return target
        return f"{target} <- {Path(mount.source).relative_to(self.root)}"


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


CODE = "modules/tool-x x"


def test_a_module_without_grants_sees_only_code_and_runtime(scene: Scene) -> None:
    confinement = scene.confine()
    assert {mount.target for mount in confinement.profile.mounts} == {
        str(path) for path in (scene.python, scene.stdlib, scene.module.root)
    }
    assert not any(mount.writable for mount in confinement.profile.mounts)
    assert (confinement.profile.programs, confinement.profile.scratch) == ((), "/scratch")
    assert confinement.folder == SCRATCH
    assert confinement.lines() == ()


def test_granted_paths_are_seen_at_their_own_place_and_hold_no_code(scene: Scene) -> None:
    (scene.work / "out").mkdir()
    (scene.work / "note.txt").touch()
    confinement = scene.confine({"read": ["note.txt"], "write": ["out"]})
    assert scene.granted(confinement) == [CODE, "work/note.txt", "work/out w"]
    assert confinement.folder == scene.work


def test_without_any_isolation_there_is_a_profile_of_no_more_than_that(scene: Scene) -> None:
    confinement = scene.confine("shell", level="none")
    assert confinement.profile == SandboxProfile(level="none", scratch="/scratch")
    assert confinement.folder == scene.work
    with failing("GrantError"):
        scene.confine({"read": ["missing"]}, level="none")


def test_without_a_root_of_its_own_only_the_package_folder_is_seen(scene: Scene) -> None:
    package = scene.module.package_dir
    module = replace(scene.module, root=package, import_root=package.parent)
    assert scene.granted(scene.confine(module=module)) == ["modules/tool-x/amplifier_module_tool_x x"]


# -- what a path is called -----------------------------------------------------------------


def test_a_path_granted_by_a_link_is_seen_under_both_names(scene: Scene) -> None:
    (scene.root / "data").mkdir()
    (scene.work / "link").symlink_to(scene.root / "data")
    confinement = scene.confine({"write": ["link"]})
    assert scene.granted(confinement) == ["data w", CODE, "work/link <- data w"]
    (line,) = confinement.lines()
    assert line == f"write {scene.root}/data (by way of {scene.work}/link -> {scene.root}/data)"


@pytest.mark.parametrize(
    ("read", "seen"),
    [
        ([".", "link"], ["data", CODE, "work"]),  # a link that is itself seen needs no second name
        (["link/inner", "link"], ["data", CODE, "work/link <- data"]),  # nor a name below another one's link
        (["sub/../link"], ["data", CODE, "work/link <- data"]),  # one that goes back up is where it goes
    ],
)
def test_a_name_that_a_link_leads_to_is_seen_once(scene: Scene, read: list[str], seen: list[str]) -> None:
    (scene.root / "data" / "inner").mkdir(parents=True)
    (scene.work / "sub").mkdir()
    (scene.work / "link").symlink_to(scene.root / "data")
    assert scene.granted(scene.confine({"read": read})) == seen


# -- what stays as it is -------------------------------------------------------------------


def test_code_inside_a_folder_that_may_be_written_stays_as_it_is(scene: Scene) -> None:
    confinement = scene.confine({"write": ["."]}, working_dir=scene.root)
    assert scene.granted(confinement) == [". w", "modules w", CODE]
    runtime = [mount for mount in confinement.profile.mounts if "/runtime" in mount.target]
    assert [(Path(mount.target).name, mount.writable) for mount in runtime] == [
        ("runtime", True),
        ("lib", False),
        ("python", False),
    ]


def test_so_do_other_modules_code_and_what_the_session_needs(scene: Scene) -> None:
    other = module_at(scene.work / "plugins" / "other")
    (scene.work / "plan.yaml").touch()
    confinement = scene.confine("workspace", modules=(scene.module, other), kept=(scene.work / "plan.yaml",))
    assert scene.granted(confinement) == [CODE, "work w", "work/plan.yaml", "work/plugins w", "work/plugins/other"]


def test_a_folder_of_results_beside_the_code_may_be_granted(scene: Scene) -> None:
    (scene.module.root / "out").mkdir()
    confinement = scene.confine({"write": ["out"]}, working_dir=scene.module.root)
    assert scene.granted(confinement) == [CODE, "modules/tool-x/out w"]


@pytest.mark.parametrize("level", ["ns", "bwrap", "landlock"])
def test_the_code_itself_is_refused_at_its_place_in_the_plan(scene: Scene, level: IsolationLevel) -> None:
    problems = problems_of(lambda: scene.confine("workspace", working_dir=scene.module.root, level=level))
    assert list(problems) == ["tools[0].permissions"]
    assert "is the code of module `tool-x`" in problems["tools[0].permissions"]


def test_a_folder_around_code_is_refused_without_mounts(scene: Scene) -> None:
    problems = problems_of(lambda: scene.confine({"write": ["."]}, working_dir=scene.root, level="landlock"))
    assert "without mounts nothing keeps that from being changed" in problems["tools[0].permissions.write[0]"]


def test_a_server_brings_its_files_and_no_module_changes_them(scene: Scene) -> None:
    tree, beside = scene.work / "site", scene.root / "beside"
    tree.mkdir()
    beside.mkdir()
    program = scene.root / "bin" / "serve"
    program.parent.mkdir()
    shutil.copy("/bin/true", program)
    server = replace(
        scene.module, source="mcp+pypi:x==1", server=ServerProgram((str(program),), (program,), (tree,), (beside,))
    )
    without, brought = scene.confine(), scene.confine(module=server)
    assert without.profile.programs == () and str(program) in brought.profile.programs
    assert scene.granted(brought) == ["beside", "bin/serve x", CODE, "work/site x"]
    assert brought.lines() == (f"runs {program}, reads its own files and {beside} (from mcp+pypi:x==1)",)
    assert "work/site" in scene.granted(scene.confine({"write": ["."]}, modules=(server,)))
    problems = problems_of(lambda: scene.confine({"write": ["site"]}, modules=(server,)))
    assert "is the code of module `tool-x`, which no module may change" in problems["tools[0].permissions.write[0]"]
    program.unlink()
    problems = problems_of(lambda: scene.confine(module=server))
    assert str(program) in problems["tools[0].source"]


def test_hooks_and_start_up_files_open_only_by_a_grant_of_their_own(scene: Scene) -> None:
    make_repository(scene.work)
    (scene.work / ".bashrc").touch()
    confinement = scene.confine("workspace")
    assert scene.granted(confinement) == [CODE, "work w", "work/.bashrc", "work/.git"]
    assert f"not write {scene.work}/.git" in confinement.lines()
    confinement = scene.confine({"write": [".", ".git", ".bashrc"]})
    assert scene.granted(confinement) == [CODE, "work w"]
    assert not any("nothing keeps" in line for line in confinement.lines())


def test_a_guarded_path_is_guarded_under_every_name(scene: Scene) -> None:
    make_repository(scene.root / "data")
    other = module_at(scene.root / "data" / "plugins" / "other")
    (scene.work / "link").symlink_to(scene.root / "data")
    confinement = scene.confine({"write": ["link"]}, modules=(other,))
    kept = [".git", "plugins w", "plugins/other"]
    aliases = [f"work/link/{name.split()[0]} <- data/{name}" for name in kept]
    assert scene.granted(confinement) == [
        *("data w", *(f"data/{name}" for name in kept), CODE, "work/link <- data w", *aliases),
    ]


def test_one_file_in_a_guarded_folder_may_be_granted(scene: Scene) -> None:
    (scene.work / ".ssh").mkdir()
    (scene.work / ".ssh" / "known_hosts").touch()
    confinement = scene.confine({"write": [".", ".ssh/known_hosts"]})
    assert scene.granted(confinement) == [CODE, "work w", "work/.ssh", "work/.ssh/known_hosts w"]


def test_unprotected_files_are_named_and_watched(scene: Scene) -> None:
    make_repository(scene.work)
    confinement = scene.confine("workspace", level="landlock")
    assert confinement.protected == ()
    assert sum("nothing keeps it from being written" in line for line in confinement.lines()) == 1
    watchlist = confinement.watchlist()
    (scene.work / ".git" / "hooks" / "post-commit").touch()
    assert [change.what for change in watchlist.report().changes] == ["changed"]


def test_what_is_protected_is_watched_for_new_files_only(scene: Scene) -> None:
    git = make_repository(scene.work)
    watchlist = scene.confine("workspace").watchlist()
    (git / "config").write_text("somebody else's change")
    (scene.work / ".envrc").touch()
    assert [change.path.name for change in watchlist.report().changes] == [".envrc"]


def test_more_than_can_be_protected_is_said(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confining, "_MAX_PROTECTED", 2)
    for name in (".bashrc", ".profile", ".zshrc"):
        (scene.work / name).touch()
    confinement = scene.confine("workspace")
    assert len(confinement.protected) == 2
    assert sum("nothing keeps it" in line for line in confinement.lines()) == 1
    assert "only 2 places that other programs run are kept as they are, 1 are not:" in confinement.remarks()


def test_what_is_made_later_takes_no_mount_from_what_was_there(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each folder on the way counts, as it is a mount too."""
    monkeypatch.setattr(confining, "_MAX_PROTECTED", 5)
    monkeypatch.setattr(confining, "_MAX_HELD", 0)
    for name in (".olderrc", "a/b/.envrc", ".profile"):
        (scene.work / name).parent.mkdir(parents=True, exist_ok=True)
        (scene.work / name).touch()
    later = scene.work / ".zshrc"
    later.touch()
    while when_made(later) <= when_made(scene.work / ".profile"):  # within one tick of the file system's clock
        later.unlink()
        later.touch()
    confinement = scene.confine("workspace")
    assert {path.name for path in confinement.protected} == {".olderrc", ".envrc", ".profile"}
    assert any(".zshrc" in line for line in confinement.remarks())


def test_a_part_of_a_guarded_folder_stays_open(scene: Scene) -> None:
    for name in (".cargo/registry", ".cargo/bin"):
        (scene.home / name).mkdir(parents=True)
    mounts = scene.confine({"write": [str(scene.home)]}).profile.mounts
    writable = {
        str(Path(mount.target).relative_to(scene.home)): mount.writable
        for mount in mounts
        if Path(mount.target).is_relative_to(scene.home)
    }
    assert writable == {".": True, ".cargo": False, ".cargo/registry": True}


def test_a_long_list_of_what_is_not_protected_is_cut_short(scene: Scene) -> None:
    for name in range(8):
        make_repository(scene.work / str(name))
    lines = scene.confine("workspace", level="landlock").lines()
    assert lines[-1] == "note: so it is with 3 more"


# -- programs ------------------------------------------------------------------------------


def test_with_a_program_the_system_is_visible_and_only_it_runs(scene: Scene) -> None:
    profile = scene.confine({"run": ["sh"]}).profile
    targets = {mount.target for mount in profile.mounts}
    assert {"/usr", "/bin"} <= targets
    assert "/etc/passwd" not in targets
    assert len(profile.programs) >= 1 and "*" not in profile.programs
    assert set(profile.programs) <= {str(Path(program).resolve()) for program in profile.programs}


def test_with_all_programs_all_that_is_seen_may_be_executed(scene: Scene) -> None:
    profile = scene.confine("shell").profile
    assert profile.programs == ("*",)
    assert next(mount for mount in profile.mounts if mount.target == "/usr").mappable
    assert next(mount for mount in profile.mounts if mount.target == str(scene.work)).mappable


def test_without_mounts_each_place_is_named_once_by_its_real_name(scene: Scene) -> None:
    (scene.root / "data").mkdir()
    (scene.work / "link").symlink_to(scene.root / "data")
    mounts = scene.confine({"run": ["sh"], "write": ["link"]}, level="landlock").profile.mounts
    assert all(mount.source == mount.target == str(Path(mount.source).resolve()) for mount in mounts)
    assert len({mount.source for mount in mounts}) == len(mounts)
    assert "/etc/passwd" in {mount.source for mount in mounts}


# -- limits --------------------------------------------------------------------------------


def test_limits_that_the_kernel_keeps_for_a_process_are_in_the_profile(scene: Scene) -> None:
    limits = {"memory_max": "64M", "tasks_max": 4, "open_files_max": 99, "file_size_max": "5M", "tmp_max": "7M"}
    profile = scene.confine(limits=limits).profile
    assert {limit.name: limit.value for limit in profile.rlimits} == {
        "NOFILE": 99,
        "FSIZE": 5 << 20,
        "NPROC": 6,
        "MSGQUEUE": 0,
        "SIGPENDING": 1024,
        "MEMLOCK": 64 << 10,
        "AS": 4 * (64 << 20) + (1 << 30) + 4 * (72 << 20),
    }
    assert profile.tmp_bytes == 7 << 20


def test_tasks_are_limited_by_user_only_for_a_user_of_the_modules_own(scene: Scene) -> None:
    names = {limit.name for limit in scene.confine(level="landlock").profile.rlimits}
    assert "NPROC" not in names and "NOFILE" in names


def test_the_largest_limit_that_a_plan_can_write_is_still_a_limit(scene: Scene) -> None:
    profile = scene.confine(limits={"memory_max": 2**63 - 1, "file_size_max": 2**63 - 1}).profile
    assert max(limit.value for limit in profile.rlimits) == 2**63 - 1


@pytest.mark.parametrize(
    ("level", "holds_links", "held"),
    [("ns", True, True), ("bwrap", True, True), ("ns", False, False), ("landlock", True, False)],
)
def test_a_link_is_held_or_said_to_be_open(level: IsolationLevel, holds_links: bool, held: bool, scene: Scene) -> None:
    (scene.work / "app" / "idea").mkdir(parents=True)
    (scene.work / "app" / ".git").mkdir()
    (scene.work / "app" / ".idea").symlink_to("idea")
    (scene.work / ".envrc").symlink_to("/etc/profile")
    found = scene.confine({"write": ["."]}, level=level, holds_links=holds_links)
    links = [scene.work / ".envrc", scene.work / "app/.idea"]
    assert sorted(link.source for link in found.profile.links) == [str(link) for link in links if held]
    assert [f"not replace {link}" in found.lines() for link in links] == [held] * 2
    said = [any(f"may run {link}, and nothing keeps it" in line for line in found.remarks()) for link in links]
    assert said == [not held] * 2
    if held:  # or it could be renamed with the folder around it
        assert str(scene.work / "app") in [mount.target for mount in found.profile.mounts]


def test_a_held_link_is_held_under_each_name_of_its_folder(scene: Scene) -> None:
    (scene.root / "data" / "idea").mkdir(parents=True)
    (scene.root / "data" / ".idea").symlink_to("idea")
    (scene.work / "link").symlink_to(scene.root / "data")
    found = scene.confine({"write": ["link"]})
    assert {link.target for link in found.profile.links} == {f"{scene.root}/data/.idea", f"{scene.work}/link/.idea"}


def test_what_a_held_link_leads_to_is_said_to_be_open_where_it_is(scene: Scene) -> None:
    (scene.work / ".envrc").symlink_to("not-yet")
    found = scene.confine({"write": ["."]})
    assert any(f"may run {scene.work}/.envrc, and nothing keeps it" in line for line in found.remarks())
