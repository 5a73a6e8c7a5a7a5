"""The findings about a machine: values, with the same facts for people and for scripts.

They include the consequences for a session: the level it gets, and whether it runs without further consent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Final

from paddock.errors import LevelFailure
from paddock.isolation.levels import guarantees_missing
from paddock.isolation.machine import Machine
from paddock.policy.rule import FLOOR
from paddock_sandbox import landlock
from paddock_sandbox.cgroup import CgroupPlace, CgroupProblem
from paddock_sandbox.profile import IsolationLevel

_NEWEST: int = 1 << 10  # an ABI with every protection that Paddock knows of
_FEW: Final = 100  # user namespaces; every module takes one, and root's a further one for each owner of granted files
_ONLY_AT_NONE: Final = {
    ("kernel.yama.ptrace_scope", "0"): "programs can read the memory of other programs of the same user",
    ("kernel.io_uring_disabled", "0"): "every program can use io_uring",
    ("dev.tty.legacy_tiocsti", "1"): "a program can type into the terminal that it is on",
}


@dataclass(frozen=True, slots=True)
class LevelFinding:
    """A level that was tried: the obstacle, if any, or what its worker's file system lacked."""

    level: IsolationLevel
    failure: LevelFailure | None = None
    protections: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()

    @property
    def is_reachable(self) -> bool:
        """Whether a worker started there, and could not get out again."""
        return self.failure is None

    def as_dict(self) -> dict[str, object]:
        """Return it as data for JSON."""
        nothing = dict.fromkeys(("step", "errno", "reason", "fix"))
        return {
            "level": self.level,
            "reachable": self.is_reachable,
            **(nothing if self.failure is None else {**self.failure.as_dict(), "fix": self.failure.fix}),
            "missing_guarantees": list(guarantees_missing(self.level)),
            "protections": list(self.protections),
            "lacks": list(self.lacks),
        }


@dataclass(frozen=True, slots=True)
class LimitFinding:
    """The mechanism that enforces a limit; without one, or with a weaker one, `why`, and what would help."""

    limit: str
    default: str
    mechanism: str
    why: str = ""
    fix: str = ""

    @property
    def is_best_effort(self) -> bool:
        """Whether a module may exceed the default, so that a plan that requires a limit would be refused."""
        return bool(self.why)

    def as_dict(self) -> dict[str, object]:
        """Return it as data for JSON."""
        return {
            "limit": self.limit,
            "default": self.default,
            "mechanism": self.mechanism or None,
            "best_effort": self.is_best_effort,
            "why": self.why or None,
            "fix": self.fix or None,
        }


@dataclass(frozen=True, slots=True)
class CgroupFinding:
    """A controller of control groups that is unavailable, and what would help."""

    problem: CgroupProblem
    fix: str

    def as_dict(self) -> dict[str, object]:
        """Return it as data for JSON."""
        problem = self.problem
        return {
            "controller": problem.controller,
            "why": problem.advice,
            "tried": problem.tried or None,
            "errno": problem.error or None,
            "fix": self.fix or None,
        }


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All findings; `limits` are those at `limited_level`, `landlock_abi` is 0 without Landlock, None where unknown."""

    machine: Machine
    levels: tuple[LevelFinding, ...]
    limits: tuple[LimitFinding, ...]
    places: tuple[CgroupPlace, ...]
    problems: tuple[CgroupFinding, ...]
    settings: tuple[SettingFinding, ...]
    landlock_abi: int | None
    proc_fix: str = ""

    @property
    def level(self) -> IsolationLevel | None:
        """The level that a session gets by default; None: it is refused."""
        return next((found.level for found in self.levels if found.is_reachable and found.level in FLOOR), None)

    @property
    def ok(self) -> bool:
        """Whether sessions run without a weaker level being accepted."""
        return self.level is not None

    @property
    def limited_level(self) -> IsolationLevel:
        """The strongest available level."""
        return strongest(self.levels)

    @property
    def has_proc(self) -> bool | None:
        """Whether workers in namespaces have a /proc; None where namespaces are unavailable."""
        found = next((found for found in self.levels if found.level == "ns"), None)
        return "/proc" not in found.lacks if found is not None and found.is_reachable else None

    @property
    def later_protections(self) -> tuple[str, ...]:
        """The protections of Landlock in later kernels that this kernel lacks."""
        return tuple(sorted(landlock.protections(_NEWEST) - landlock.protections(self.landlock_abi or 0)))

    def as_dict(self) -> dict[str, object]:
        """Return it as data for JSON."""
        return {
            "ok": self.ok,
            "level": self.level,
            "levels": [found.as_dict() for found in self.levels],
            "landlock": {
                "abi": self.landlock_abi,
                "protections": sorted(landlock.protections(self.landlock_abi or 0)),
                "later_protections": list(self.later_protections),
            },
            "proc": {"reachable": self.has_proc, "fix": self.proc_fix or None},
            "limits_level": self.limited_level,
            "limits": [found.as_dict() for found in self.limits],
            "cgroups": {
                "controllers": sorted(name for place in self.places for name in place.controllers),
                "places": [
                    {
                        "version": place.version,
                        "directory": place.directory,
                        "controllers": sorted(place.controllers),
                    }
                    for place in self.places
                ],
                "problems": [found.as_dict() for found in self.problems],
            },
            "settings": [asdict(found) for found in self.settings],
            "machine": _machine_as_dict(self.machine),
        }


def strongest(levels: tuple[LevelFinding, ...]) -> IsolationLevel:
    """Return the first, and so the strongest, of the available levels."""
    return next((found.level for found in levels if found.is_reachable), "none")


def _machine_as_dict(machine: Machine) -> dict[str, object]:
    return {
        "kernel": machine.kernel,
        "architecture": machine.architecture,
        "uid": machine.uid,
        "capabilities": names_of(machine.capabilities),
        "seccomp_mode": machine.seccomp_mode,
        "security_label": machine.label or None,
        "container": machine.engine or None,
        "container_signs": list(machine.signs),
        "settings": dict(machine.settings),
        "python": machine.python,
        "shares_objects": machine.shares_objects,
    }


NAMES: Final = (
    *("CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP"),
    *("LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER"),
    *("SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE"),
    *("SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP"),
    *("MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF"),
    "CHECKPOINT_RESTORE",
)


def names_of(capabilities: Iterable[int]) -> list[str]:
    """Return the names in the order of the numbers; for a number newer than this list, the number."""
    return [NAMES[number] if number < len(NAMES) else str(number) for number in sorted(capabilities)]


@dataclass(frozen=True, slots=True)
class SettingFinding:
    """A setting, its value, and the consequence."""

    name: str
    value: str
    meaning: str


def settings_that_matter(machine: Machine) -> tuple[SettingFinding, ...]:
    """Return the settings that make a level unavailable here, or leave open what only isolation closes."""
    return tuple(
        SettingFinding(name, machine.settings[name], meaning)
        for name, meaning in _meanings(machine)
        if name in machine.settings
    )


def _meanings(machine: Machine) -> Iterator[tuple[str, str]]:
    settings = machine.settings
    if machine.restricts_namespaces:
        yield (
            "kernel.apparmor_restrict_unprivileged_userns",
            "AppArmor lets ordinary users do nothing in namespaces of their own, but for programs that it knows",
        )
    if settings.get("kernel.unprivileged_userns_clone") == "0" and not machine.may_mount:
        yield "kernel.unprivileged_userns_clone", "ordinary users may make no namespaces"
    most = settings.get("user.max_user_namespaces", "")
    if most.isdigit() and int(most) < _FEW:
        yield "user.max_user_namespaces", "no more user namespaces than this can exist, and each module takes one"
    for (name, value), meaning in _ONLY_AT_NONE.items():
        if settings.get(name) == value:
            yield name, f"{meaning}; refused to modules at every level but none"
