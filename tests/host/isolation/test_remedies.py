"""From the step that failed and what the machine shows, to what a person is told to do."""

from __future__ import annotations

from dataclasses import replace
from errno import EACCES, EINVAL, EIO, ELOOP, ENOSPC, ENOSYS, EOPNOTSUPP, EPERM, EUSERS
from typing import Any

from paddock.errors import LevelFailure
from paddock.isolation.machine import CAP_SYS_ADMIN, Machine
from paddock.isolation.remedies import cgroup_remedy, proc_remedy, remedy
from paddock_sandbox.cgroup import CgroupProblem
from paddock_sandbox.profile import IsolationLevel
from support.rows import each_row

USER = Machine(kernel="6.1", architecture="x86_64")
ROOT = replace(USER, uid=0, capabilities=frozenset({CAP_SYS_ADMIN}))
ROOT_IN_DOCKER = replace(USER, uid=0, engine="docker", seccomp_mode=2)
USER_IN_DOCKER = replace(ROOT_IN_DOCKER, uid=1000)
UBUNTU = replace(USER, settings={"kernel.apparmor_restrict_unprivileged_userns": "1"})
UBUNTU_WITH_BWRAP = replace(UBUNTU, has_bubblewrap=True)
CLONE = "clone: Operation not permitted"


def failed(step: str, number: int, reason: str = "") -> LevelFailure:
    return LevelFailure(step, number, reason)


@each_row(
    ("level", "failure", "machine", "told"),
    [
        # Ubuntu: namespaces can be made, and are good for nothing; or cannot be made where a profile is not loaded.
        ("ns", failed("file system", EACCES, "/proc/self/setgroups"), UBUNTU, ["install bubblewrap", "sysctl -w"]),
        ("ns", failed("namespaces", EACCES, CLONE), UBUNTU, ["AppArmor", "apparmor_restrict_unprivileged_userns=0"]),
        ("ns", failed("new root", EACCES), UBUNTU_WITH_BWRAP, ["bwrap-userns-restrict", "apparmor_parser -r"]),
        ("bwrap", failed("bubblewrap", 0, "not installed"), UBUNTU, ["install bubblewrap"]),
        (
            "bwrap",
            failed("start", 0, "bwrap: setting up uid map"),
            UBUNTU_WITH_BWRAP,
            ["apt install apparmor-profiles"],
        ),
        # An ordinary container: the filter comes first, and root has a second thing in its way.
        (
            "ns",
            failed("namespaces", EPERM, CLONE),
            USER_IN_DOCKER,
            ["docker run --security-opt seccomp=", "mount_setattr"],
        ),
        ("ns", failed("namespaces", EPERM, CLONE), ROOT_IN_DOCKER, ["seccomp=", "docker run --user 1000:1000"]),
        ("bwrap", failed("bubblewrap", 0), ROOT_IN_DOCKER, ["as an ordinary user"]),
        (
            "bwrap",
            failed("start", 0, "bwrap: No permissions"),
            replace(USER_IN_DOCKER, has_bubblewrap=True),
            ["docker run --security-opt seccomp="],
        ),
        ("ns", failed("namespaces", EPERM, CLONE), replace(USER_IN_DOCKER, engine="podman"), ["podman run"]),
        (
            "ns",
            failed("namespaces", EPERM, CLONE),
            replace(USER_IN_DOCKER, engine="kubernetes"),
            ["seccompProfile", "Localhost"],
        ),
        ("ns", failed("namespaces", EPERM, CLONE), replace(USER, seccomp_mode=2), ["the program that started Paddock"]),
        # What is left of a container without a filter.
        (
            "ns",
            failed("open /etc/ld.so.cache", EPERM),
            replace(ROOT_IN_DOCKER, seccomp_mode=0),
            ["docker run --user 1000:1000", "CAP_SYS_ADMIN"],
        ),
        ("ns", failed("map the owner of /etc/hosts", EINVAL), ROOT, ["as an ordinary user", "/etc/hosts"]),
        (
            "ns",
            failed("detach mounts from the host's", EACCES),
            replace(USER_IN_DOCKER, seccomp_mode=0, label="docker-default (enforce)"),
            ["`docker-default`", "apparmor=unconfined"],
        ),
        ("ns", failed("file system", EPERM), USER_IN_DOCKER, ["sethostname"]),
        ("ns", failed("namespaces", EPERM, "this user namespace has no ids to spare"), ROOT, ["range of ids"]),
        # Settings and kernels.
        (
            "ns",
            failed("namespaces", EPERM, CLONE),
            replace(USER, settings={"kernel.unprivileged_userns_clone": "0"}),
            ["sysctl -w kernel.unprivileged_userns_clone=1"],
        ),
        (
            "ns",
            failed("namespaces", ENOSPC, CLONE),
            replace(USER, settings={"user.max_user_namespaces": "0"}),
            ["sysctl -w user.max_user_namespaces=", "instead of 0"],
        ),
        (
            "bwrap",
            failed("start", 0, "bwrap: Creating new namespace failed"),
            replace(USER, has_bubblewrap=True, settings={"user.max_user_namespaces": "0"}),
            ["sysctl -w user.max_user_namespaces="],
        ),
        ("ns", failed("namespaces", EUSERS, CLONE), USER, ["nested"]),
        ("ns", failed("namespaces", EINVAL, CLONE), USER, ["CONFIG_USER_NS"]),
        ("ns", failed("new root", ENOSYS), USER, ["a kernel from 5.13 on", "this is 6.1"]),
        ("ns", failed("new root", ENOSYS), USER_IN_DOCKER, ["seccomp="]),
        ("ns", failed("namespaces", EPERM, CLONE), USER, ["journalctl -k"]),
        ("ns", failed("Landlock", EOPNOTSUPP), USER, ["`lsm=`"]),
        ("landlock", failed("Landlock", EOPNOTSUPP), USER, ["`lsm=`"]),
        ("landlock", failed("Landlock", ENOSYS), USER, ["CONFIG_SECURITY_LANDLOCK"]),
        ("landlock", failed("Landlock", ENOSYS), USER_IN_DOCKER, ["landlock_create_ruleset"]),
        ("landlock", failed("seccomp", ENOSYS), replace(USER, architecture="riscv64"), ["aarch64", "on riscv64"]),
        ("ns", failed("self-check", 0), USER, ["please report it"]),
    ],
)
def test_the_fix_fits_what_failed_and_where(
    level: IsolationLevel, failure: LevelFailure, machine: Machine, told: list[str]
) -> None:
    fix = remedy(level, failure, machine)
    for part in told:
        assert part in fix
    assert fix[-1] not in ".\n"


@each_row(
    ("level", "failure", "machine"),
    [
        ("ns", failed("namespaces", EIO), USER),
        ("ns", failed("Landlock", ELOOP), USER),
        ("bwrap", failed("Landlock", ELOOP), replace(USER, has_bubblewrap=True)),
        ("landlock", failed("capabilities", EPERM), USER),
        ("none", failed("start", 0), USER),
    ],
)
def test_where_nothing_is_known_nothing_is_said(level: IsolationLevel, failure: LevelFailure, machine: Machine) -> None:
    assert remedy(level, failure, machine) == ""


def test_an_administrator_is_not_told_to_lift_what_is_for_users_only() -> None:
    settings = {"kernel.apparmor_restrict_unprivileged_userns": "1", "kernel.unprivileged_userns_clone": "0"}
    fix = remedy("ns", failed("namespaces", EPERM, CLONE), replace(ROOT, settings=settings))
    assert "sysctl" not in fix


def problem(advice: Any, controller: Any = "memory", tried: str = "/sys/fs/cgroup/user.slice") -> CgroupProblem:
    return CgroupProblem(controller, tried, "EACCES", advice)


@each_row(
    ("found", "machine", "told"),
    [
        (problem("no permission"), USER, ["systemd-run --user --scope -p Delegate=yes"]),
        (problem("no permission", "cpu"), USER, ["--user --scope", "systemctl edit user@.service", "Delegate=cpu"]),
        (problem("no permission", tried="/sys/fs/cgroup/memory/user"), USER, ["systemd.unified_cgroup_hierarchy=1"]),
        (problem("no permission"), USER_IN_DOCKER, ["limit the container itself"]),
        (problem("read-only"), ROOT_IN_DOCKER, ["writable-cgroups=true"]),
        (problem("read-only"), replace(ROOT_IN_DOCKER, engine="podman"), ["unmask=/sys/fs/cgroup"]),
        (problem("read-only"), replace(ROOT_IN_DOCKER, engine="kubernetes"), ["resources.limits"]),
        (problem("read-only"), replace(ROOT_IN_DOCKER, engine="other"), ["start it with writable control groups"]),
        (problem("read-only"), ROOT, ["/sys/fs/cgroup/user.slice writable"]),
        (problem("not mounted"), ROOT, ["mount -t cgroup2"]),
        (problem("not mounted"), ROOT_IN_DOCKER, ["writable-cgroups=true"]),
        (problem("not visible"), ROOT_IN_DOCKER, ["writable-cgroups=true"]),
        (problem("not passed on"), USER, ["Delegate=cpu memory pids"]),
        (problem("not passed on"), ROOT_IN_DOCKER, ["limit the container itself"]),
        (problem("processes beside"), USER, ["systemd-run --user --scope"]),
        (problem("processes beside"), ROOT, ["`systemd-run --scope"]),
    ],
)
def test_a_missing_controller_has_a_fix_that_fits_the_machine(
    found: CgroupProblem, machine: Machine, told: list[str]
) -> None:
    fix = cgroup_remedy(found, machine)
    for part in told:
        assert part in fix


def test_of_an_error_that_nothing_is_known_about_nothing_is_said() -> None:
    assert cgroup_remedy(problem("other"), USER) == ""


@each_row(
    ("engine", "told"),
    [
        ("docker", "systempaths=unconfined"),
        ("podman", "unmask=ALL"),
        ("kubernetes", "procMount: Unmasked"),
        ("other", "the program that started Paddock"),
    ],
)
def test_a_masked_proc_is_uncovered_by_who_covered_it(engine: Any, told: str) -> None:
    assert told in proc_remedy(replace(USER, engine=engine))
