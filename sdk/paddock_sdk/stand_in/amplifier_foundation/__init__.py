"""What modules import from the application library beside the contracts: what passing work on to sub-sessions takes.

Nothing else of that library is here; a module that needs more of it has to depend on it.
"""

from paddock_sdk.contract.model_pattern import *
from paddock_sdk.contract.tracing import *
from paddock_sdk.contract.working_dir import *

_NAMES = sorted(name for name in globals() if not name.startswith("_"))

# Spelled out, as in `amplifier_core`; what follows is hidden from type checkers, which would accept any name.
TYPE_CHECKING = False
if not TYPE_CHECKING:
    __all__ = _NAMES

    def __getattr__(name: str) -> object:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; here, it has {', '.join(__all__)}")
