"""The limits that are recognised in the words of a program's failure."""

from __future__ import annotations

from paddock_sdk.contract.models import ToolResult
from paddock_sdk.worker.attempts.kernel_limits import limits_in
from support.rows import each_row

_NO_SHELL = "make: /bin/sh: Resource temporarily unavailable\nmake: *** [Makefile:3: job2] Error 127\n"


@each_row(
    ("stderr", "limits"),
    [
        ("/bin/sh: 1: Cannot fork\n", ["tasks_max"]),
        ("bash: fork: retry: Resource temporarily unavailable\n", ["tasks_max"]),
        (_NO_SHELL, ["tasks_max"]),
        ("make: write error: Resource temporarily unavailable\n", []),
        ("make: *** [Makefile:3: job2] Error 127\n", []),
        ("", []),
    ],
)
def test_a_program_that_found_no_task_names_the_limit(stderr: str, limits: list[str]) -> None:
    ended = {"returncode": 0, "stdout": "", "stderr": stderr}
    assert limits_in(ToolResult(success=True, output=ended), "") == limits
