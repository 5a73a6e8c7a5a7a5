"""The interface of each kind of module, as protocols, and the two models that approval hooks exchange.

`isinstance` answers for the protocols of the five kinds: whether an object has the members, not what they take. Members
a module may leave out (a provider's `stream`, a context's `set_system_prompt_factory`) are not declared; callers look
for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field

# At run time too: modules ask for the hints of these protocols with `typing.get_type_hints`.
from paddock_sdk.contract.block_models import FieldsByName
from paddock_sdk.contract.message_models import ChatRequest, ChatResponse, ToolCall
from paddock_sdk.contract.models import HookResult, ModelInfo, ProviderInfo, ToolResult

__all__ = [
    "ApprovalProvider",
    "ApprovalRequest",
    "ApprovalResponse",
    "ContextManager",
    "HookHandler",
    "Orchestrator",
    "Provider",
    "Tool",
]

if TYPE_CHECKING:
    from abc import ABCMeta as _ProtocolMeta
else:
    _ProtocolMeta = type(Protocol)

_ASKED_OF_TOOLS: Final = ("name", "description", "execute")


class _ToolMeta(_ProtocolMeta):
    """Has `isinstance` ignore `input_schema`, which older tools lack; `typing` has no way that every Python takes."""

    def __instancecheck__(cls, instance: object) -> bool:
        if cls is not Tool:
            return super().__instancecheck__(instance)
        return all(hasattr(instance, name) for name in _ASKED_OF_TOOLS)


@runtime_checkable
class Tool(Protocol, metaclass=_ToolMeta):
    """Something a model can call; it need not have an `input_schema`."""

    @property
    def name(self) -> str:
        """Return the name the model calls the tool by."""
        ...

    @property
    def description(self) -> str:
        """Return the tool's purpose, in words for a model; it may change between calls."""
        ...

    @property
    def input_schema(self) -> dict[str, Any]:
        """Return the JSON schema of the input."""
        return {}

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Run the tool."""
        ...


@runtime_checkable
class Provider(Protocol):
    """A way to language models."""

    @property
    def name(self) -> str:
        """Return the name the provider is mounted under by default."""
        ...

    def get_info(self) -> ProviderInfo:
        """Return the provider's description and configuration fields."""
        ...

    async def list_models(self) -> list[ModelInfo]:
        """Return the models on offer."""
        ...

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        """Return a model's answer.

        Raises:
            LLMError: the completion failed; the class is the reason.
        """
        ...

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        """Return the tool calls in a response."""
        ...


@runtime_checkable
class Orchestrator(Protocol):
    """The loop that turns a prompt into an answer; the kernel also passes `coordinator=`."""

    async def execute(
        self,
        prompt: str,
        context: ContextManager,
        providers: dict[str, Provider],
        tools: dict[str, Tool],
        hooks: Any,
        **kwargs: Any,
    ) -> str:
        """Return the final answer to one prompt."""
        ...


@runtime_checkable
class ContextManager(Protocol):
    """The conversation so far."""

    async def add_message(self, message: dict[str, Any]) -> None:
        """Append one message."""
        ...

    async def get_messages_for_request(
        self, token_budget: int | None = None, provider: Any | None = None
    ) -> list[dict[str, Any]]:
        """Return the messages to send, made to fit the budget or the provider's window."""
        ...

    async def get_messages(self) -> list[dict[str, Any]]:
        """Return every message, as it was added."""
        ...

    async def set_messages(self, messages: list[dict[str, Any]]) -> None:
        """Replace the conversation, as when a session is resumed."""
        ...

    async def clear(self) -> None:
        """Forget the conversation."""
        ...


@runtime_checkable
class HookHandler(Protocol):
    """Something that is called on events."""

    async def __call__(self, event: str, data: dict[str, Any]) -> HookResult:
        """Return the hook's decision."""
        ...


class ApprovalRequest(BaseModel):
    """An approval hook's request; `timeout` is seconds, None waits for ever."""

    model_config = ConfigDict(defer_build=True)

    tool_name: str
    action: str
    risk_level: str
    details: FieldsByName = Field(default_factory=dict)
    timeout: float | None = Field(default=None, gt=0)


class ApprovalResponse(BaseModel):
    """The answer to an approval request; `remember` asks not to be asked again."""

    model_config = ConfigDict(defer_build=True)

    approved: bool
    reason: str | None = None
    remember: bool = False


class ApprovalProvider(Protocol):
    """Answers approval hooks."""

    async def request_approval(self, request: ApprovalRequest) -> ApprovalResponse:
        """Return whether the action may go on."""
        ...
