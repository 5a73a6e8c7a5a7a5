"""The session class code gets when it names this module, and what is imported along with it.

The class is not the one at the top level of the package: this one raises what the orchestrator raised, keeps a status
and takes a loader.
"""

from paddock_sdk.contract.models import SessionStatus as SessionStatus
from paddock_sdk.in_process import session as _session
from paddock_sdk.in_process.module_loader import ModuleLoader as ModuleLoader
from paddock_sdk.in_process.session import initialize_session as initialize_session
from paddock_sdk.kernel.coordinator import ModuleCoordinator as ModuleCoordinator
from paddock_sdk.kernel.redaction import redact_secrets as redact_secrets

AmplifierSession = _session.PlainAmplifierSession
