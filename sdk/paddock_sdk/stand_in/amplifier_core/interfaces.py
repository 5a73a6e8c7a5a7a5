"""What each kind of module offers, and what it is given and gives back."""

from paddock_sdk.contract.interfaces import *
from paddock_sdk.contract.message_models import ChatRequest as ChatRequest
from paddock_sdk.contract.message_models import ChatResponse as ChatResponse
from paddock_sdk.contract.message_models import ToolCall as ToolCall
from paddock_sdk.contract.models import HookResult as HookResult
from paddock_sdk.contract.models import ModelInfo as ModelInfo
from paddock_sdk.contract.models import ProviderInfo as ProviderInfo
from paddock_sdk.contract.models import ToolResult as ToolResult
