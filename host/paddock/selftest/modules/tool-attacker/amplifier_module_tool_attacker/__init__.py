"""Mount a tool that performs one attack per call, in its own process, and reports the result of each way it tried.

The attacks are functions of the standard library alone, one file for each family, so that the same code can also run
outside of any module (`outside.py`): an act that is refused here must be possible there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["mount"]
__amplifier_module_type__ = "tool"


async def mount(coordinator: Any, config: Mapping[str, Any] | None = None) -> None:
    """Mount the tool under the name in the setting `name`, `attack` by default."""
    from .tool import AttackTool  # here, since the attacks' shared code must not need `amplifier_core`

    await coordinator.mount("tools", AttackTool(str((config or {}).get("name", "attack")), coordinator))
