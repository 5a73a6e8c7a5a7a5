"""Attacks on shared resources. Outside, each takes no more than a machine has to spare."""

from __future__ import annotations

from functools import partial
from typing import Final

from paddock.selftest.attack import Attack, Outside, Sign
from paddock.selftest.attacks.grants import workspace
from paddock.workers.exit_report import ExitReason

_ENDED_IN_TIME: Final = frozenset((ExitReason.TIMEOUT,))
_OUT_OF_MEMORY: Final = frozenset((ExitReason.MEMORY,))
_OUT_OF_TASKS: Final = frozenset((ExitReason.TASKS,))
_NO_MORE: Final = frozenset(("EAGAIN", "ENOMEM"))

_attack = partial(Attack, family="resources")

RESOURCES: Final = (
    _attack(
        "resources.eat_memory",
        "takes memory without end",
        arguments=lambda testbed: {"mebibytes": 1024},
        outside_arguments=lambda testbed: {"mebibytes": 256},
        limits={"memory_max": "128M"},
        refusals=frozenset(("ENOMEM",)),
        ends=_OUT_OF_MEMORY,
    ),
    _attack(
        "resources.eat_memory_in_several_processes",
        "takes memory in several processes, none of them too large",
        arguments=lambda testbed: {"mebibytes": 512, "processes": 8, "seconds": 2.0},
        outside_arguments=lambda testbed: {"mebibytes": 256, "seconds": 0.0},
        limits={"memory_max": "128M"},
        refusals=frozenset(("ENOMEM", "SIGKILL")),
        ends=_OUT_OF_MEMORY,
    ),
    _attack(
        "resources.fill_the_scratch_folder",
        "fills the private folder without end",
        arguments=lambda testbed: {"mebibytes": 128},
        outside_arguments=lambda testbed: {"mebibytes": 32},
        limits={"tmp_max": "16M"},
        refusals=frozenset(("ENOSPC", "EDQUOT")),
        ends=frozenset((ExitReason.DISK,)),
    ),
    _attack(
        "resources.write_a_huge_file",
        "writes a file without end into a granted folder",
        arguments=lambda testbed: {"folder": str(testbed.files.workspace), "mebibytes": 64},
        outside_arguments=lambda testbed: {"mebibytes": 32},
        grants=workspace,
        limits={"file_size_max": "4M"},
        refusals=frozenset(("EFBIG",)),
        ends=frozenset((ExitReason.DISK,)),
    ),
    _attack(
        "resources.start_a_fork_bomb",
        "starts processes without end",
        arguments=lambda testbed: {"processes": 400, "seconds": 2.0},
        outside_arguments=lambda testbed: {"processes": 50, "seconds": 0.0},
        limits={"tasks_max": 16},
        refusals=_NO_MORE,
        ends=_OUT_OF_TASKS,
    ),
    _attack(
        "resources.start_many_threads",
        "starts threads without end",
        arguments=lambda testbed: {"threads": 400, "seconds": 2.0},
        outside_arguments=lambda testbed: {"threads": 50, "seconds": 0.0},
        limits={"tasks_max": 16},
        refusals=_NO_MORE,
        ends=_OUT_OF_TASKS,
    ),
    _attack(
        "resources.open_many_files",
        "opens files without end",
        arguments=lambda testbed: {"files": 1024},
        outside_arguments=lambda testbed: {"files": 200},
        limits={"open_files_max": 64},
        refusals=frozenset(("EMFILE",)),
    ),
    _attack(
        "resources.spin",
        "runs in a circle for good",
        limits={"runtime_max": "500ms"},
        outside=Outside.RUNS_ON,
        ends=_ENDED_IN_TIME,
    ),
    _attack(
        "resources.hold_the_interpreter_lock",
        "stays in one instruction for good",
        limits={"runtime_max": "500ms"},
        outside=Outside.RUNS_ON,
        ends=_ENDED_IN_TIME,
    ),
    _attack(
        "resources.never_answer",
        "sleeps where it should answer",
        limits={"runtime_max": "500ms"},
        outside=Outside.RUNS_ON,
        ends=_ENDED_IN_TIME,
    ),
    _attack(
        "resources.burn_processor_time",
        "takes all of a processor, in several processes",
        arguments=lambda testbed: {"seconds": 0.5, "share": 0.25, "processes": 4, "tries": 3},  # within `tasks_max`
        outside_arguments=lambda testbed: {"tries": 5},
        limits={"cpu_quota": "10%"},
        refusals=frozenset(("EAGAIN",)),
        ends=frozenset((ExitReason.CPU,)),
    ),
    _attack(
        "resources.flood_the_output",
        "prints without end, in one line and in many",
        arguments=lambda testbed: {"mebibytes": 32},
        limits={"runtime_max": "60s"},  # a busy host reads its output slowly
        sign=Sign.KEPT,
        ends=frozenset((ExitReason.OUTPUT,)),
    ),
)
