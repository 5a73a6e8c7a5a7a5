"""Write the golden values anew: `PYTHONPATH=tests python -m blackbox.regenerate [NAME]...`, in a checkout.

Nothing runs this but a person who means to change what Paddock promises. No test does. Read the difference before it is
committed: each changed line breaks a script, a file or a module of somebody's.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from blackbox.command_options import all_commands
from blackbox.commands import World
from blackbox.documented_names import documented, in_a_worker
from blackbox.frozen import GOLDEN, text_of
from blackbox.scenarios import SCENARIOS
from blackbox.stored_records import make, packed
from blackbox.wire_transcript import tables, transcript
from integration.warm_commands import WarmCommands
from support.warm_templates import warm_templates

_VALUES: dict[str, Callable[[World], Any]] = {
    **{f"commands/{name}": scenario for name, scenario in SCENARIOS.items()},
    "command_options": all_commands,
    "names_documented": lambda world: documented(),
    "names_in_a_worker": in_a_worker,
    "records": lambda world: packed(make(world)),
    "wire": lambda world: {"conversation": transcript(), "tables": tables()},
}


def main(names: list[str]) -> None:
    """Write the golden values with these names, or all."""
    with warm_templates() as templates, WarmCommands(templates) as commands:
        for name, value_of in _VALUES.items():
            if names and name not in names:
                continue
            with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
                value = value_of(World(commands, Path(folder)))
            path = GOLDEN / f"{name}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text_of(value), encoding="utf-8")
            print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
