"""Files of shipped modules that would go with a worker's own temporary file system are refused at the start."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.command_line import require_level
from integration.conftest import OpenSession
from support.examples import repeating


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of which a worker has another of the same name."""
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        yield Path(made)


@pytest.mark.parametrize(
    ("kind", "module", "setting"),
    [
        ("hooks", "hooks-logging", "path"),
        ("context", "context-persistent", "path"),
        *repeating(("hooks", "hooks-approval", "audit_path")),
    ],
)
async def test_a_file_that_would_be_lost_stops_the_start(
    kind: str, module: str, setting: str, open_session: OpenSession, folder: Path
) -> None:
    level = require_level("ns")
    file = folder / "made/file.jsonl"
    entry: dict[str, Any] = {"module": module, "config": {setting: str(file)}}

    def parts(**more: Any) -> dict[str, Any]:
        whole = {**entry, **more}
        return {kind: [whole] if kind == "hooks" else whole}

    with pytest.raises(Exception, match=f"{module}.*`{setting}`: {file} cannot be .*grant the module `write`"):
        async with open_session(**parts(permissions={"write": ["."]}), isolation=level):
            pass
    assert not file.parent.exists()
    async with open_session(**parts(permissions={"write": [str(folder)]}), isolation=level):
        pass
    assert file.exists()
