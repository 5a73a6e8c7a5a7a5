"""Tell a person which answers of a model ended otherwise than by themselves: cut off, held back, refused, empty.

It is told as well when a server answers with another model than before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from paddock.cli.terminal.render import Screen
from paddock.session.session import Session

_LAST: Final = 1_000_000  # after the handlers of modules
_MAX_REASON: Final = 60  # characters of a server's own word
_EMPTY: Final = "the model's answer is empty: ask again, or in another way"
_CUT: Final = (
    "the answer was cut off: it is as long as the model may write; `max_output_tokens` in `config` of the provider's "
    "entry allows more, or ask it to go on"
)
_HELD_BACK: Final = "the service held back a part of the answer: ask in another way"
_ENDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("stop", "end_turn", "stop_sequence", "tool_calls", "tool_use", "function_call", "eos"), ""),
    **dict.fromkeys(("length", "max_tokens", "max_output_tokens"), _CUT),
    "model_context_window_exceeded": "the answer was cut off: the conversation fills the model's window; ask for less, "
    "or begin anew (`/clear` in a chat)",
    **dict.fromkeys(("content_filter", "safety"), _HELD_BACK),
    "refusal": "the model refused to answer: ask in another way",
}


class AnswerEnds:
    """The ends of the answers in `session`, and their models, as its modules report them."""

    def __init__(self, session: Session) -> None:
        self._said: dict[str, None] = {}
        self._models: dict[object, str] = {}  # that answered last, by the one that was asked
        self._mask = session.mask
        for event in ("llm:response", "provider:response"):
            session.coordinator.hooks.register(event, self._take, priority=_LAST, name="paddock-answer-ends")

    def _take(self, event: str, data: Any) -> None:
        if not isinstance(data, Mapping):
            return
        response, model = data.get("response"), data.get("response_model")
        if isinstance(model, str):
            asked, model = str(data.get("model")), self._mask(model)[:_MAX_REASON]
            if self._models.setdefault(asked, model) != model:
                self._said[f"the server now answers with the model `{model}`"] = None
            self._models[asked] = model
        for place in (data, response):
            reason = place.get("finish_reason") if isinstance(place, Mapping) else None
            if isinstance(reason, str) and reason:
                unknown = f"the answer ended for a reason that is not known: `{self._mask(reason)[:_MAX_REASON]}`"
                self._said[_ENDS.get(reason.lower(), unknown)] = None
        content = response.get("content") if isinstance(response, Mapping) else None
        is_empty = content == "" or (isinstance(content, list) and all(map(_is_thought, content)))
        if is_empty and not data.get("tool_calls"):
            self._said[_EMPTY] = None

    def tell(self, screen: Screen) -> None:
        """Write a line for each different end since this was called last, unless it is an ordinary one."""
        for said in filter(None, self._said):
            screen.warning(said)
        self._said.clear()


def _is_thought(block: object) -> bool:
    return isinstance(block, Mapping) and "thinking" in str(block.get("type"))
