"""Why a completion failed."""

from paddock_sdk.contract.llm_errors import *
