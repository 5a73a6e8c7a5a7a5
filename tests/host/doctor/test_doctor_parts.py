"""What the doctor says without looking at the machine: defaults, meanings of settings, names of capabilities."""

from __future__ import annotations

from paddock.doctor.diagnosis import NAMES, names_of, settings_that_matter
from paddock.doctor.examination import default_texts, totals
from paddock.isolation.machine import CAP_SYS_ADMIN, Machine
from paddock.plan.limits import Limits
from paddock_sandbox.cgroup import CgroupHome, CgroupPlace
from support.rows import each_row


def test_every_limit_has_a_default_that_a_person_can_read() -> None:
    told = default_texts()
    assert list(told) == list(Limits.model_fields)
    assert told["memory_max"] == "256 MiB, 1 GiB with `run`"
    assert told["cpu_quota"] == "100% of a CPU"
    assert told["tmp_max"] == "64 MiB"
    assert told["open_files_max"] == "256, 1024 with `run`"
    assert told["output_max"] == "1 MiB a second, the rest left out"
    assert "120 s (tool)" in told["runtime_max"] and "none (orchestrator)" in told["runtime_max"]
    assert told["frame_max"].startswith("4 MiB (hook, tool), 16 MiB (")


@each_row(
    ("settings", "names"),
    [
        ({}, []),
        ({"kernel.apparmor_restrict_unprivileged_userns": "1"}, ["kernel.apparmor_restrict_unprivileged_userns"]),
        ({"kernel.apparmor_restrict_unprivileged_userns": "0"}, []),
        ({"kernel.unprivileged_userns_clone": "0"}, ["kernel.unprivileged_userns_clone"]),
        ({"kernel.unprivileged_userns_clone": "1"}, []),
        ({"user.max_user_namespaces": "0"}, ["user.max_user_namespaces"]),
        ({"user.max_user_namespaces": "60000"}, []),
        ({"kernel.yama.ptrace_scope": "0"}, ["kernel.yama.ptrace_scope"]),
        ({"kernel.yama.ptrace_scope": "1"}, []),
        ({"kernel.io_uring_disabled": "2", "dev.tty.legacy_tiocsti": "0"}, []),
        (
            {"kernel.io_uring_disabled": "0", "dev.tty.legacy_tiocsti": "1"},
            ["kernel.io_uring_disabled", "dev.tty.legacy_tiocsti"],
        ),
    ],
)
def test_settings_are_told_where_they_mean_something(settings: dict[str, str], names: list[str]) -> None:
    found = settings_that_matter(Machine(settings=settings))
    assert [setting.name for setting in found] == names
    assert all(setting.meaning and setting.value == settings[setting.name] for setting in found)


def test_what_holds_for_ordinary_users_is_not_told_to_administrators() -> None:
    settings = {"kernel.apparmor_restrict_unprivileged_userns": "1", "kernel.unprivileged_userns_clone": "0"}
    assert settings_that_matter(Machine(settings=settings, capabilities=frozenset({CAP_SYS_ADMIN}))) == ()


def test_capabilities_have_their_names_and_newer_ones_their_numbers() -> None:
    assert NAMES[CAP_SYS_ADMIN] == "SYS_ADMIN"
    assert len(NAMES) == 41
    assert names_of({21, 0, 63}) == ["CHOWN", "SYS_ADMIN", "63"]


def test_the_total_of_a_user_is_told_to_be_shared_as_far_as_it_is() -> None:
    groups = CgroupHome((CgroupPlace(1, "/place", frozenset({"memory"})),))
    found = {one.limit: one for one in totals("ns", groups, {"pids": "have it mounted"})}
    memory, tasks = found["user_limits.memory_total"], found["user_limits.tasks_total"]
    assert (memory.why, memory.fix) == ("counts every host of this user whose control groups are in /place", "")
    assert "each host counts its own sessions alone" in tasks.why and tasks.fix == "have it mounted"
    assert {one.mechanism for one in found.values()} == {"watchdog"}
    assert all("alone" in one.why for one in totals("bwrap", groups, {}) if one.limit.startswith("user"))
