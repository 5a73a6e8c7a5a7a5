"""How a turn is run, for code that calls it without a session."""

from paddock_sdk.kernel.execution import emit_raw_field_if_configured as emit_raw_field_if_configured
from paddock_sdk.kernel.execution import run_orchestrator as run_orchestrator
