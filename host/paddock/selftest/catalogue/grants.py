"""What attackers are granted that need something to start from."""

from __future__ import annotations

from collections.abc import Mapping

from ..stage import Stage


def workspace(stage: Stage) -> Mapping[str, list[str]]:
    """Grant one folder to read and another to write to."""
    return {"read": [str(stage.files.reading)], "write": [str(stage.files.workspace)]}
