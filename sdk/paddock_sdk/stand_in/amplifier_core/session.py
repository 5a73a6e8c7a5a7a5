"""The session class code gets when it names this module.

It is not the one at the top level of the package: this one raises what the orchestrator raised, keeps a status
and takes a loader.
"""

from __future__ import annotations

from paddock_sdk.in_process.session import PlainAmplifierSession as AmplifierSession

__all__ = ["AmplifierSession"]
