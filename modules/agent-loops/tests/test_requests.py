"""A request is the same whether its messages were in the request before or not."""

from __future__ import annotations

import copy
from typing import Any

from agent_loop.messages import request_for
from agent_loop.spans import Span
from hypothesis import given, settings
from hypothesis import strategies as st

_SPAN = Span("session", "turn", "span")
_TEXT = st.sampled_from(["", "plain", "é", "half \ud83d", "\ud83d\ude00"])
_CONTENT = st.one_of(
    _TEXT,
    st.none(),
    st.lists(st.fixed_dictionaries({"type": st.just("tool_call"), "id": _TEXT, "name": _TEXT, "input": st.just({})})),
)
_MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant"]), "content": _CONTENT},
    optional={"metadata": st.dictionaries(_TEXT, st.lists(_TEXT, max_size=2), max_size=2)},
)


@settings(deadline=None)
@given(requests=st.lists(st.lists(_MESSAGE, max_size=4), max_size=4))
def test_a_request_is_the_same_after_others_with_some_of_its_messages(requests: list[list[dict[str, Any]]]) -> None:
    known: list[dict[str, Any]] = []
    grown: list[dict[str, Any]] = []
    for added in requests:
        grown = [*grown[-3:], *added]
        request = request_for(copy.deepcopy(grown), (), {}, _SPAN, known)
        assert request == request_for(copy.deepcopy(grown), (), {}, _SPAN)
        request.model_dump_json()  # which takes no half of a character


def test_what_a_provider_does_to_a_request_is_not_in_the_next() -> None:
    messages = [{"role": "assistant", "content": [{"type": "tool_call", "id": "1", "name": "f", "input": {"a": [1]}}]}]
    known: list[dict[str, Any]] = []
    for _ in range(3):
        request = request_for(copy.deepcopy(messages), (), {}, _SPAN, known)
        assert request.messages[0].model_dump(exclude_unset=True) == messages[0]
        block = request.messages[0].content[0]
        block.input["a"].append(2)
        block.name = "changed"
        request.messages[0].role = "user"
