"""What a machine shows of itself is read from its files, wherever they are, and what is not there is left out."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest

from paddock.isolation.machine import CAP_SYS_ADMIN, Machine


def write(root: Path, name: str, text: str = "") -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def test_of_an_empty_machine_nothing_is_told_but_who_runs_here(tmp_path: Path) -> None:
    machine = Machine.look({}, tmp_path)
    assert (machine.engine, machine.signs, machine.label, machine.settings) == ("", (), "", {})
    assert (machine.kernel, machine.uid) == (platform.release(), os.geteuid())


@pytest.mark.parametrize(
    ("file", "text", "engine"),
    [
        (".dockerenv", "", "docker"),
        ("run/.containerenv", 'engine="podman-5"', "podman"),
        ("var/run/secrets/kubernetes.io", "", "kubernetes"),
        ("run/systemd/container", "systemd-nspawn\n", "other"),
        ("run/systemd/container", "docker\n", "docker"),
        ("proc/self/cgroup", "0::/system.slice/docker-0123.scope\n", "docker"),
        ("proc/self/cgroup", "4:memory:/kubepods/besteffort/pod1\n", "kubernetes"),
        ("proc/self/cgroup", "0::/machine.slice/libpod-1.scope\n", "podman"),
        ("proc/self/cgroup", "0::/lxc.payload.box\n", "other"),
        ("proc/self/cgroup", "0::/user.slice/user-1000.slice/session-1.scope\n", ""),
    ],
)
def test_a_container_shows_by_files_and_by_control_groups(tmp_path: Path, file: str, text: str, engine: str) -> None:
    write(tmp_path, file, text)
    machine = Machine.look({}, tmp_path)
    assert machine.engine == engine
    assert bool(machine.signs) == bool(engine)


def test_a_pod_is_a_pod_whatever_made_its_container(tmp_path: Path) -> None:
    write(tmp_path, ".dockerenv")
    machine = Machine.look({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, tmp_path)
    assert machine.engine == "kubernetes"
    assert len(machine.signs) == 2


def test_settings_of_the_kernel_are_read_where_they_are(tmp_path: Path) -> None:
    write(tmp_path, "proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n")
    write(tmp_path, "proc/sys/user/max_user_namespaces", "0\n")
    write(tmp_path, "proc/sys/kernel/hostname", "secret\n")
    assert Machine.look({}, tmp_path).settings == {
        "kernel.apparmor_restrict_unprivileged_userns": "1",
        "user.max_user_namespaces": "0",
    }


@pytest.mark.parametrize(
    ("label", "profile"),
    [
        ("docker-default (enforce)\n", "docker-default"),
        ("snap.code.code (enforce)", "snap.code.code"),
        ("docker-default (complain)\n", ""),
        ("unconfined\n", ""),
        ("system_u:system_r:container_t:s0:c1,c2\0", ""),
    ],
)
def test_only_a_profile_that_is_enforced_confines(tmp_path: Path, label: str, profile: str) -> None:
    write(tmp_path, "proc/self/attr/current", label)
    assert Machine.look({}, tmp_path).apparmor_profile == profile


def test_apparmors_restriction_is_not_for_administrators() -> None:
    settings = {"kernel.apparmor_restrict_unprivileged_userns": "1"}
    assert Machine(settings=settings).restricts_namespaces
    assert not Machine(settings=settings, capabilities=frozenset({CAP_SYS_ADMIN})).restricts_namespaces
    assert not Machine(settings={"kernel.apparmor_restrict_unprivileged_userns": "0"}).restricts_namespaces
