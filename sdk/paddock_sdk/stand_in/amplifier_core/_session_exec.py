"""How a turn is run, for code that calls it without a session."""

# Written from the table in tests/sdk/stand_in/reexports.py.

from paddock_sdk.kernel.execution import emit_raw_field_if_configured, run_orchestrator

__all__ = ["emit_raw_field_if_configured", "run_orchestrator"]
