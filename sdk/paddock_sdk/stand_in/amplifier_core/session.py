"""The session class code gets when it names this module, and what is imported along with it.

The class is not the one at the top level of the package: this one raises what the orchestrator raised, keeps a status
and takes a loader.
"""

# Written from the table in tests/sdk/stand_in/reexports.py.

from paddock_sdk.contract.models import SessionStatus
from paddock_sdk.in_process.module_loader import ModuleLoader
from paddock_sdk.in_process.session import PlainAmplifierSession as AmplifierSession
from paddock_sdk.in_process.session import initialize_session
from paddock_sdk.kernel.coordinator import ModuleCoordinator
from paddock_sdk.kernel.redaction import redact_secrets

__all__ = [
    "SessionStatus",
    "ModuleLoader",
    "AmplifierSession",
    "initialize_session",
    "ModuleCoordinator",
    "redact_secrets",
]
