"""Remedies for a failed step on the way to an isolation level, for control groups, and for a masked /proc.

The functions are pure: from the failure and the facts about the machine to one text for a person, with the exact
command where there is one. Errors of the kernel name neither a security module nor a container's filter, so the facts
decide between the causes of one error. Where nothing is known, the text is empty.
"""

from __future__ import annotations

import re
from errno import EACCES, EAGAIN, EINVAL, ENOSPC, ENOSYS, EOPNOTSUPP, EPERM, EUSERS
from typing import Final

from paddock.errors import LevelFailure
from paddock.isolation.machine import Machine
from paddock_sandbox.cgroup import CgroupProblem
from paddock_sandbox.profile import IsolationLevel

_REFUSED: Final = (EPERM, EACCES)
_NOT_MAPPED: Final = "map the owner of "
_FIRST_STEP: Final = "namespaces"
CALLS_FOR_NAMESPACES: Final = (
    *("clone", "mount", "umount2", "pivot_root", "open_tree", "move_mount"),
    *("fsopen", "fsconfig", "fsmount", "mount_setattr", "sethostname"),
)
"""System calls that making a worker's namespaces takes and that filters of containers refuse."""
_CALLS: Final = f"{', '.join(CALLS_FOR_NAMESPACES[:-1])} and {CALLS_FOR_NAMESPACES[-1]}"
_OLDEST_KERNEL: Final = "5.13"  # the first with Landlock
_GROUP_OF_VERSION_1: Final = re.compile(r"/cgroup/(?:memory|pids|cpu[^/]*)(?:/|$)")
_TO_KEEP_IT: Final = "(to keep it: in a file in /etc/sysctl.d)"

_INSTALL_BUBBLEWRAP: Final = (
    "install bubblewrap, as with `sudo apt install bubblewrap` or `sudo dnf install bubblewrap`, for level `bwrap`"
)
_UPDATE_BUBBLEWRAP: Final = (
    "update bubblewrap, as with `sudo apt install --only-upgrade bubblewrap`: 0.10 and newer can mount what the host "
    "has opened, and so can Debian's security update of 0.8.0"
)
_PROFILE_OF_BUBBLEWRAP: Final = (
    "load the AppArmor profile for bubblewrap: `sudo apt install apparmor-profiles`, then `sudo cp "
    "/usr/share/apparmor/extra-profiles/bwrap-userns-restrict /etc/apparmor.d/` and `sudo apparmor_parser -r "
    "/etc/apparmor.d/bwrap-userns-restrict` (on Ubuntu 25.04 and later it is loaded already)"
)
_ALLOW_EVERYBODY: Final = (
    f"allow every program namespaces: `sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0` {_TO_KEEP_IT}"
)
_DELEGATE_TO_USERS: Final = (
    "have systemd pass the controllers on to users: `sudo systemctl edit user@.service`, with `[Service]` and "
    "`Delegate=cpu memory pids`; then log in again"
)
_AS_A_USER: Final = "run Paddock as an ordinary user"


def remedy(level: IsolationLevel, failure: LevelFailure, machine: Machine) -> str:
    """Return what would make the level work, as far as that is known; else nothing."""
    if failure.errno == EAGAIN:
        return (
            "the user, or the control group that Paddock runs in, may start no more processes: raise `ulimit -u`, "
            "`LimitNPROC=` or `TasksMax=`"
        )
    if failure.step == "self-check":
        return "this is a defect, of Paddock or of the kernel; please report it with what `paddock doctor --json` says"
    if failure.step == "Landlock":
        return _landlock(failure, machine)
    if failure.step == "seccomp" and failure.errno in (ENOSYS, EINVAL):
        return (
            f"a kernel with CONFIG_SECCOMP_FILTER on x86_64 or aarch64 is needed; this is {machine.kernel} on "
            f"{machine.architecture}"
        )
    if level == "bwrap":
        return _bubblewrap(failure, machine)
    return _namespaces(failure, machine) if level == "ns" else ""


def cgroup_remedy(problem: CgroupProblem, machine: Machine) -> str:
    """Return what would make a controller of control groups usable here."""
    match problem.advice:
        case "read-only" | "not visible" if machine.engine:
            return _writable_groups(machine)
        case "no permission" | "read-only" | "not visible":
            return _delegate(problem, machine)
        case "not mounted":
            return (
                _writable_groups(machine)
                if machine.engine
                else "mount control groups: `sudo mount -t cgroup2 none /sys/fs/cgroup`"
            )
        case "not passed on":
            return _DELEGATE_TO_USERS if not machine.engine else "limit the container itself"
        case "processes beside":
            return (
                f"start Paddock in a group of its own: `{_own_scope(machine)}`, or as the only process of a container"
            )
    return ""


def proc_remedy(machine: Machine) -> str:
    """Return what would let workers have a /proc of their own, where parts of the host's are covered."""
    match machine.engine:
        case "docker":
            return "uncover it: `docker run --security-opt systempaths=unconfined …`"
        case "podman":
            return "uncover it: `podman run --security-opt unmask=ALL …`"
        case "kubernetes":
            return "uncover it: `procMount: Unmasked` in the container's securityContext; that takes `hostUsers: false`"
    return "uncover /proc: the program that started Paddock has mounted something over parts of it"


# -- levels --------------------------------------------------------------------------------


def _namespaces(failure: LevelFailure, machine: Machine) -> str:
    if failure.step.startswith(_NOT_MAPPED) and failure.errno == EINVAL:
        path = failure.step.removeprefix(_NOT_MAPPED)
        return (
            f"{_AS_A_USER}{_how_in(machine)}: root's workers have a user of their own, and the file system of {path} "
            "cannot show files under another owner, which in containers is usual"
        )
    if failure.errno in (ENOSPC, EUSERS):
        return _too_many(failure, machine)
    if failure.errno == ENOSYS:
        if machine.is_filtered:
            return _filter(machine)
        return f"a kernel from {_OLDEST_KERNEL} on is needed; this is {machine.kernel}"
    is_at_clone = failure.step == _FIRST_STEP and "clone" in failure.reason
    if failure.errno == EINVAL and is_at_clone:
        return f"a kernel with CONFIG_USER_NS and CONFIG_PID_NS is needed; {machine.kernel} seems to lack one"
    if failure.errno not in _REFUSED:
        return ""
    if "ids to spare" in failure.reason:
        return f"{_AS_A_USER}, or give the container's users a larger range of ids (65536 and more)"
    if machine.is_filtered and is_at_clone:
        return _filter(machine)
    if machine.settings.get("kernel.unprivileged_userns_clone") == "0" and not machine.may_mount:
        return f"allow users namespaces: `sudo sysctl -w kernel.unprivileged_userns_clone=1` {_TO_KEEP_IT}"
    if machine.restricts_namespaces and not machine.apparmor_profile:
        other = _PROFILE_OF_BUBBLEWRAP if machine.has_bubblewrap else _INSTALL_BUBBLEWRAP
        return f"AppArmor lets ordinary users have no namespaces here: {other}; or {_ALLOW_EVERYBODY}"
    if machine.uid == 0 and not machine.may_mount:
        return (
            f"{_AS_A_USER}{_how_in(machine)}: root without CAP_SYS_ADMIN can make no mounts for a worker of another "
            "user"
        )
    if machine.apparmor_profile and not is_at_clone:
        return _apparmor(machine)
    if machine.is_filtered:
        return _filter(machine)
    return "a security module of the kernel may refuse it: `sudo journalctl -k -g 'DENIED|denied'` shows which"


def _bubblewrap(failure: LevelFailure, machine: Machine) -> str:
    if machine.uid == 0:
        return f"{_AS_A_USER}; as root, `ns` is the level to have"
    if not machine.has_bubblewrap:
        return _INSTALL_BUBBLEWRAP
    if "Unknown option" in failure.reason:
        return _UPDATE_BUBBLEWRAP
    if failure.step != "start":
        return ""
    # Bubblewrap meets the same obstacles as the host, and reports them in words of its own.
    if machine.is_filtered:
        return _filter(machine)
    if machine.restricts_namespaces and not machine.apparmor_profile:
        return f"{_PROFILE_OF_BUBBLEWRAP}; or {_ALLOW_EVERYBODY}"
    if machine.settings.get("user.max_user_namespaces") == "0":
        return _too_many(failure, machine)
    return _apparmor(machine) if machine.apparmor_profile else ""


def _landlock(failure: LevelFailure, machine: Machine) -> str:
    if failure.errno == EOPNOTSUPP:
        return (
            "switch Landlock on: add `landlock` to the list after `lsm=` on the kernel's command line (the list now is "
            "in /sys/kernel/security/lsm), and start the machine again"
        )
    if failure.errno in (ENOSYS, *_REFUSED) and machine.is_filtered:
        return (
            "a filter of system calls may hide Landlock: have it allow landlock_create_ruleset, landlock_add_rule and "
            "landlock_restrict_self"
        )
    if failure.errno == ENOSYS:
        return f"a kernel from {_OLDEST_KERNEL} on with CONFIG_SECURITY_LANDLOCK is needed; this is {machine.kernel}"
    return ""


# -- causes --------------------------------------------------------------------------------


def _too_many(failure: LevelFailure, machine: Machine) -> str:
    if failure.errno == EUSERS:
        return "user namespaces are nested too deeply: start Paddock in fewer containers inside one another"
    allowed = machine.settings.get("user.max_user_namespaces", "")
    instead = f", instead of {allowed}" if allowed else ""
    return f"allow more namespaces{instead}: `sudo sysctl -w user.max_user_namespaces=15000` {_TO_KEEP_IT}"


def _filter(machine: Machine) -> str:
    """Return how the owner of a filter of system calls can make it allow namespaces."""
    user = f", and {_AS_A_USER}{_how_in(machine)}" if machine.uid == 0 and not machine.may_mount else ""
    match machine.engine:
        case "docker":
            how = (
                "Docker's filter of system calls refuses namespaces: start the container with `docker run "
                "--security-opt seccomp=PROFILE.json …`, where that is Docker's default profile which also allows "
                f"{_CALLS}; or with `--security-opt seccomp=unconfined`, which filters nothing"
            )
        case "podman":
            how = (
                "the container's filter of system calls refuses namespaces: start it with `podman run --security-opt "
                f"seccomp=PROFILE.json …`, with a profile that allows {_CALLS}"
            )
        case "kubernetes":
            how = (
                "the pod's filter of system calls refuses namespaces: in its securityContext, `seccompProfile: {type: "
                f"Localhost, localhostProfile: …}}` with a profile that allows {_CALLS}; or `{{type: Unconfined}}`"
            )
        case _:
            how = (
                "a filter of system calls, set up by the program that started Paddock, refuses namespaces: have it "
                f"allow {_CALLS}"
            )
    return how + user


def _apparmor(machine: Machine) -> str:
    option = {
        "docker": "`docker run --security-opt apparmor=unconfined …`",
        "podman": "`podman run --security-opt apparmor=unconfined …`",
        "kubernetes": "`appArmorProfile: {type: Unconfined}` in the container's securityContext",
    }.get(machine.engine, "one that allows `userns` and `mount`")
    return f"the AppArmor profile `{machine.apparmor_profile}` refuses it: use another, {option}"


def _how_in(machine: Machine) -> str:
    return {
        "docker": " (`docker run --user 1000:1000 …`)",
        "podman": " (`podman run --user 1000:1000 …`)",
        "kubernetes": " (`runAsUser: 1000` in the securityContext)",
    }.get(machine.engine, "")


# -- control groups ------------------------------------------------------------------------


def _writable_groups(machine: Machine) -> str:
    match machine.engine:
        case "docker":
            return (
                "make them writable, on version 2: `docker run --security-opt writable-cgroups=true …` (from Docker 28 "
                "on)"
            )
        case "podman":
            return "make them writable, on version 2: `podman run --security-opt unmask=/sys/fs/cgroup …`"
        case "kubernetes":
            return "limit the container itself, by its `resources.limits`; control groups in it stay read-only"
    return "limit the container itself, or start it with writable control groups"


def _delegate(problem: CgroupProblem, machine: Machine) -> str:
    if machine.engine:
        return "limit the container itself: its control groups belong to its root"
    if machine.uid == 0:
        return f"start Paddock with {problem.tried or '/sys/fs/cgroup'} writable"
    text = f"have a group delegated: `{_own_scope(machine)}`"
    if problem.controller == "cpu":
        text += f"; where cpu is missing then, {_DELEGATE_TO_USERS}"
    if _GROUP_OF_VERSION_1.search(problem.tried):
        text = (
            "use version 2, of which systemd delegates groups to users: `systemd.unified_cgroup_hierarchy=1` on the "
            f"kernel's command line; then {text}"
        )
    return text


def _own_scope(machine: Machine) -> str:
    return f"systemd-run {'' if machine.uid == 0 else '--user '}--scope -p Delegate=yes paddock …"
