"""Retries with pauses that grow."""

from paddock_sdk.contract.llm_errors import LLMError as LLMError
from paddock_sdk.kernel.retry import *
