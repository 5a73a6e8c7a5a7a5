"""What a model may be able to do."""

# Written from the table in tests/sdk/stand_in/reexports.py.

from paddock_sdk.contract.capabilities import (
    ALL_WELL_KNOWN_CAPABILITIES,
    AUDIO,
    BATCH,
    CODE_EXECUTION,
    COMPUTER_USE,
    DEEP_RESEARCH,
    EMBEDDINGS,
    FAST,
    IMAGE_GENERATION,
    JSON_MODE,
    LOCAL,
    LONG_CONTEXT,
    STREAMING,
    THINKING,
    TOOLS,
    VISION,
    WEB_SEARCH,
)

__all__ = [
    "TOOLS",
    "STREAMING",
    "THINKING",
    "VISION",
    "JSON_MODE",
    "FAST",
    "CODE_EXECUTION",
    "WEB_SEARCH",
    "DEEP_RESEARCH",
    "LOCAL",
    "AUDIO",
    "IMAGE_GENERATION",
    "COMPUTER_USE",
    "EMBEDDINGS",
    "LONG_CONTEXT",
    "BATCH",
    "ALL_WELL_KNOWN_CAPABILITIES",
]
