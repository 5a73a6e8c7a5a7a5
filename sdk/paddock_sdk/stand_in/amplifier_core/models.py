"""Results of tools and hooks, and what providers, modules and sessions say of themselves."""

from paddock_sdk.contract.message_models import ImageBlock as ImageBlock
from paddock_sdk.contract.message_models import TextBlock as TextBlock
from paddock_sdk.contract.models import *
from paddock_sdk.contract.models import _sanitize_for_llm as _sanitize_for_llm
