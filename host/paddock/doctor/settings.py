"""Kernel settings that matter: some make a level unavailable, some leave open what only isolation closes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from paddock.isolation.machine import Machine

_FEW: Final = 100  # user namespaces; every module takes one, and root's a further one for each owner of granted files

_ONLY_AT_NONE: Final = {
    ("kernel.yama.ptrace_scope", "0"): "programs can read the memory of other programs of the same user",
    ("kernel.io_uring_disabled", "0"): "every program can use io_uring",
    ("dev.tty.legacy_tiocsti", "1"): "a program can type into the terminal that it is on",
}


@dataclass(frozen=True, slots=True)
class SettingFinding:
    """A setting, its value, and the consequence."""

    name: str
    value: str
    meaning: str

    def as_dict(self) -> dict[str, object]:
        """Return it as data for JSON."""
        return {"name": self.name, "value": self.value, "meaning": self.meaning}


def settings_that_matter(machine: Machine) -> tuple[SettingFinding, ...]:
    """Return the settings that matter on this machine."""
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
