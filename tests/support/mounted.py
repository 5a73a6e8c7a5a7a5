"""Where something is mounted on the machine, for tests that prove that they left nothing mounted."""

from __future__ import annotations

from pathlib import Path


def mounted(folder: Path) -> set[str]:
    """Return every mount point, but for those of tests that run at the same time.

    `folder` is the base of the temporary folders of this process of tests; in each other's lie theirs.
    """
    points = {line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()}
    others = ("/pytest-of-", f"{folder.parent}/popen-")  # the second, where somebody chose the base for all processes
    return {one for one in points if one.startswith(f"{folder}/") or not any(other in one for other in others)}
