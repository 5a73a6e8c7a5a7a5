"""Attacks on files: secrets, read-only files, files that are run later, devices."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from paddock.selftest.attack import REFUSALS, Attack, Outside
from paddock.selftest.attacks.grants import (
    a_folder_where_others_save,
    all_but_one_file,
    the_users_home,
    what_is_around_paddocks_own,
    workspace,
)
from paddock.selftest.expected_failures import may_lack, needs
from paddock.selftest.testbed.target import VARIABLE
from paddock.selftest.testbed.testbed import AttackTestbed


def _forgotten_places(testbed: AttackTestbed) -> Mapping[str, Any]:
    candidates = (
        ("/dev/mem", "read"),
        ("/dev/kmsg", "read"),
        ("/dev/fuse", "both"),
        ("/dev/kvm", "both"),
        ("/dev/loop-control", "both"),
        ("/dev/net/tun", "both"),
        ("/dev/dri/card0", "both"),
        ("/dev/input/event0", "read"),
        ("/dev/tty", "both"),
        ("/dev/ptmx", "both"),
        ("/dev/userfaultfd", "both"),
        ("/proc/kcore", "read"),
        ("/proc/kallsyms", "read"),
        ("/proc/sysrq-trigger", "write"),
        ("/proc/sys/kernel/core_pattern", "write"),
        ("/proc/sys/kernel/hostname", "read"),
        ("/sys/class", "list"),
        ("/sys/devices/virtual", "list"),
        ("/sys/fs/cgroup", "list"),
        ("/sys/kernel", "list"),
    )
    return {"places": [place for place in candidates if os.path.exists(place[0])]}


def _others_code(testbed: AttackTestbed) -> Mapping[str, Any]:
    return {"others": sorted({str(Path(folder).resolve()) for folder in sys.path if os.path.isdir(folder)})}


_WITHOUT_HANDLES: Final = (
    needs("CAP_DAC_READ_SEARCH"),
    may_lack("file system with such numbers", "EOPNOTSUPP", "EOVERFLOW"),
)
_attack = partial(Attack, family="files")
_attack_on_starts = partial(
    _attack,
    grants=workspace,
    refusals=REFUSALS | {"EBUSY"},
    known={"landlock": "Landlock cannot keep a part of a granted folder; what changed is reported afterwards"},
    marks=True,
)

FILES: Final = (
    _attack(
        "files.read_ssh_key",
        "reads a private SSH key",
        arguments=lambda testbed: {"path": str(testbed.files.key)},
    ),
    _attack(
        "files.read_every_file_of_the_home",
        "walks through the home folder for credentials",
        arguments=lambda testbed: {"home": str(testbed.files.home), "secret": testbed.secret},
    ),
    _attack(
        "files.read_a_secret_of_the_environment",
        "looks for a secret in its environment",
        arguments=lambda testbed: {"name": VARIABLE},
    ),
    _attack(
        "files.find_out_what_exists",
        "asks whether a file exists that it was not granted",
        arguments=lambda testbed: {"path": str(testbed.files.key)},
        known={"landlock": "Landlock guards what files hold, not whether they exist"},
    ),
    _attack(
        "files.watch_what_others_touch",
        "has the kernel report every file that is opened in a folder it was not granted",
        arguments=lambda testbed: {"folder": str(testbed.files.key.parent)},
    ),
    _attack(
        "files.climb_out_of_the_root",
        "leaves its root through parents, other processes and open folders",
        arguments=lambda testbed: {
            "path": str(testbed.files.key),
            "pids": [1, os.getpid(), testbed.target_process.pid],
        },
        outside_arguments=lambda testbed: {"pids": [os.getpid(), testbed.target_process.pid]},
        outside=Outside.ANSWERS_ONCE,
    ),
    _attack("files.use_inherited_descriptors", "uses open files, folders and sockets that were left to it"),
    _attack(
        "files.open_by_handle",
        "opens a file by its number in the file system",
        arguments=lambda testbed: {"path": str(testbed.files.key)},
        expected_failures=_WITHOUT_HANDLES,
    ),
    _attack(
        "files.pull_in_by_a_link",
        "links a file from outside into a folder it may write to",
        arguments=lambda testbed: {"folder": str(testbed.files.workspace), "path": str(testbed.files.notes)},
        grants=workspace,
        marks=True,
    ),
    _attack(
        "files.change_what_may_only_be_read",
        "changes a file that it may only read",
        arguments=lambda testbed: {"path": str(testbed.files.document)},
        grants=workspace,
        marks=True,
    ),
    _attack(
        "files.change_metadata",
        "changes mode, owner, times and attributes of a file it was not granted",
        own_name="change_metadata_outside",
        arguments=lambda testbed: {"path": str(testbed.files.notes)},
        refusals=REFUSALS | {"ENOTSUP"},  # attributes, where no control group counts their memory
        expected_failures=(may_lack("file system with such attributes", "ENOTSUP", "EOPNOTSUPP"),),
        marks=True,
    ),
    _attack(
        "files.change_metadata",
        "changes mode, owner, times and attributes of a file it may only read",
        own_name="change_metadata_of_what_may_only_be_read",
        arguments=lambda testbed: {"path": str(testbed.files.document)},
        grants=workspace,
        refusals=REFUSALS | {"ENOTSUP"},  # attributes, where no control group counts their memory
        expected_failures=(may_lack("file system with such attributes", "ENOTSUP", "EOPNOTSUPP"),),
        marks=True,
    ),
    _attack(
        "files.rewrite_its_own_code",
        "changes its own code, and what other modules import",
        arguments=_others_code,
        outside_arguments=lambda testbed: {"others": []},
        marks=True,
    ),
    _attack_on_starts(
        "files.plant_what_runs_later",
        "leaves a git hook and a shell start-up file in a granted folder",
        arguments=lambda testbed: {"folder": str(testbed.files.workspace)},
    ),
    _attack_on_starts(
        "files.change_what_programs_start_with",
        "changes further start-up files in a granted folder, of editors, agents, shells and pipelines",
        arguments=lambda testbed: {"paths": [str(path) for path in testbed.files.started]},
    ),
    _attack_on_starts(
        "files.change_what_programs_start_with",
        "changes start-up files in the granted home of its user, some of which no table names",
        own_name="change_what_a_home_starts_with",
        arguments=lambda testbed: {"paths": [str(path) for path in testbed.files.started_at_home]},
        grants=the_users_home,
    ),
    _attack_on_starts(
        "files.change_what_programs_start_with",
        "changes a file in a granted folder to which a start-up file of its user's home is a link",
        own_name="change_what_a_link_of_the_home_leads_to",
        arguments=lambda testbed: {"paths": [str(testbed.files.linked)]},
    ),
    _attack_on_starts(
        "files.turn_a_link",
        "leads a link elsewhere that is a start-up file of its user, and changes where it leads",
        own_name="turn_a_link_to_what_a_shell_starts_with",
        arguments=lambda testbed: {"link": str(testbed.files.link)},
        grants=the_users_home,
    ),
    _attack(
        "files.write_what_was_saved_meanwhile",
        "writes to a guarded file that somebody outside has saved by renaming while it runs",
        arguments=lambda testbed: {"path": str(testbed.files.saved)},
        grants=a_folder_where_others_save,
        saves=lambda testbed: testbed.files.saved,
        refusals=REFUSALS | {"EBUSY"},
        only_at=("ns", "bwrap"),
        marks=True,
    ),
    _attack(
        "files.open_what_is_excluded",
        "opens a file that is excluded from a granted folder, by other names, places and modes",
        arguments=lambda testbed: {"path": str(testbed.files.excluded)},
        grants=all_but_one_file,
        refusals=REFUSALS | {"EBUSY"},
        only_at=("ns", "bwrap"),
        marks=True,
    ),
    _attack(
        "files.open_by_handle",
        "opens a file that is excluded from a granted folder by its number in the file system",
        own_name="open_what_is_excluded_by_handle",
        arguments=lambda testbed: {"path": str(testbed.files.excluded)},
        grants=all_but_one_file,
        only_at=("ns", "bwrap"),
        expected_failures=_WITHOUT_HANDLES,
    ),
    _attack(
        "files.open_what_paddock_keeps",
        "opens the journal of another session below a granted folder, by other names and places, and puts one there",
        arguments=lambda testbed: {"path": str(testbed.files.journal)},
        grants=what_is_around_paddocks_own,
        refusals=REFUSALS | {"EBUSY"},
        only_at=("ns", "bwrap"),
        marks=True,
    ),
    _attack(
        "files.open_by_handle",
        "opens the journal of another session below a granted folder by its number in the file system",
        own_name="open_what_paddock_keeps_by_handle",
        arguments=lambda testbed: {"path": str(testbed.files.journal)},
        grants=what_is_around_paddocks_own,
        only_at=("ns", "bwrap"),
        expected_failures=_WITHOUT_HANDLES,
    ),
    _attack(
        "files.leave_a_set_user_id_program",
        "leaves a program in a granted folder that runs with its owner's rights",
        arguments=lambda testbed: {"folder": str(testbed.files.workspace)},
        grants=workspace,
        marks=True,
    ),
    _attack(
        "files.hold_up_whoever_opens_a_file",
        "takes a lease on a granted file, so that others wait to open it",
        arguments=lambda testbed: {"path": str(testbed.files.workspace / "notes.txt")},
        grants=workspace,
        expected_failures=(may_lack("file system with leases", "EINVAL", "EAGAIN"),),
    ),
    _attack(
        "files.change_devices",
        "changes the modes of devices that it may use",
        arguments=lambda testbed: {"paths": ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"]},
        expected_failures=(needs("CAP_FOWNER"),),
    ),
    _attack(
        "files.reach_devices",
        "opens devices, kernel memory and settings of the machine",
        arguments=_forgotten_places,
        outside=Outside.ANSWERS_ONCE,
        refusals=REFUSALS | {"ENXIO", "ENODEV"},
    ),
)
