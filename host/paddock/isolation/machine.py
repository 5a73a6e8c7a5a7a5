"""Facts about this machine found by looking: the user, the container around the host, the kernel's settings.

Nothing is tried; other code finds out whether an isolation level works, by using it. These facts explain why one does
not, and what would help. They are looked up once; a fact that cannot be read is left out, without an error.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, Self

from paddock_sandbox import capabilities, prctl
from paddock_sdk.worker.immortal import can_make_immortal

Engine = Literal["", "docker", "podman", "kubernetes", "other"]
"""What seems to have made the container that we run in; nothing where none shows."""

CAP_SYS_ADMIN: Final = 21

_SETTINGS: Final = (
    "kernel.apparmor_restrict_unprivileged_userns",
    "kernel.unprivileged_userns_clone",
    "user.max_user_namespaces",
    "kernel.yama.ptrace_scope",
    "kernel.io_uring_disabled",
    "dev.tty.legacy_tiocsti",
)
_LABELS: Final = ("proc/self/attr/apparmor/current", "proc/self/attr/current")
_MAX_CHARACTERS: Final = 4096  # of any file that is looked at

# The first that shows is believed: a pod's container may have been made by Docker as well.
_FILES: Final[tuple[tuple[str, Engine], ...]] = (
    ("run/secrets/kubernetes.io", "kubernetes"),
    ("var/run/secrets/kubernetes.io", "kubernetes"),
    ("run/.containerenv", "podman"),
    (".dockerenv", "docker"),
)
_GROUPS: Final[tuple[tuple[str, Engine], ...]] = (
    ("kubepods", "kubernetes"),
    ("libpod", "podman"),
    ("docker", "docker"),
    ("containerd", "other"),
    ("lxc", "other"),
    ("machine.slice", "other"),
)


@dataclass(frozen=True, slots=True)
class Machine:
    """The kernel, the user, and the signs of a container; `settings` are those of the kernel that can matter.

    `seccomp_mode` is 2 where another program filters the host's system calls; `label` is the security module's label
    for the host. `shares_objects` is whether modules share the memory of what is loaded before they start.
    """

    kernel: str = ""
    architecture: str = ""
    uid: int = 1000
    capabilities: frozenset[int] = frozenset()
    seccomp_mode: int = 0
    label: str = ""
    engine: Engine = ""
    signs: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    has_bubblewrap: bool = False
    python: str = ""
    shares_objects: bool = False

    @classmethod
    def look(cls, environ: Mapping[str, str], root: Path = Path("/")) -> Self:
        """Look up the facts; `root` is where the files of the machine are."""
        found = tuple(_signs_of_a_container(root, environ))
        return cls(
            kernel=platform.release(),
            architecture=platform.machine(),
            uid=os.geteuid(),
            capabilities=capabilities.held().effective,
            seccomp_mode=_seccomp_mode(),
            label=next(filter(None, (_text_of(root / name) for name in _LABELS)), ""),
            engine=next((engine for engine, _ in found), ""),
            signs=tuple(sign for _, sign in found),
            settings={name: text for name in _SETTINGS if (text := _text_of(_place_of(root, name)))},
            has_bubblewrap=shutil.which("bwrap", path="/usr/bin:/bin:/usr/local/bin") is not None,
            python=platform.python_version(),
            shares_objects=can_make_immortal(),
        )

    @property
    def may_mount(self) -> bool:
        """Whether the kernel lets the host do administrators' acts, apart from its own namespaces."""
        return CAP_SYS_ADMIN in self.capabilities

    @property
    def is_filtered(self) -> bool:
        """Whether another program decides which system calls the host can make."""
        return self.seccomp_mode == 2

    @property
    def apparmor_profile(self) -> str:
        """The name of the AppArmor profile that confines the host, if one does."""
        name, space, mode = self.label.rpartition(" ")
        return name if space and mode == "(enforce)" else ""

    @property
    def restricts_namespaces(self) -> bool:
        """Whether AppArmor removes the rights that an ordinary user has in a namespace of his own."""
        return not self.may_mount and self.settings.get("kernel.apparmor_restrict_unprivileged_userns") == "1"


def _signs_of_a_container(root: Path, environ: Mapping[str, str]) -> Iterator[tuple[Engine, str]]:
    if "KUBERNETES_SERVICE_HOST" in environ:
        yield "kubernetes", "the environment variable KUBERNETES_SERVICE_HOST"
    for name, engine in _FILES:
        if (root / name).exists():
            yield engine, f"/{name}"
    container = _text_of(root / "run/systemd/container")
    if container:
        yield _engine_called(container), f"/run/systemd/container says {container}"
    for line in _text_of(root / "proc/self/cgroup").splitlines():
        path = line.rpartition(":")[2]
        engine = next((engine for part, engine in _GROUPS if part in path), "")
        if engine:
            yield engine, f"the control group {path}"
            return


def _engine_called(name: str) -> Engine:
    if name == "docker":
        return "docker"
    return "podman" if name == "podman" else "other"


def _seccomp_mode() -> int:
    try:
        return prctl.seccomp_mode()
    except OSError:
        return 0


def _place_of(root: Path, setting: str) -> Path:
    return root / "proc/sys" / setting.replace(".", "/")


def _text_of(path: Path) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_MAX_CHARACTERS).strip("\0\n ")
    except OSError:
        return ""
