"""Show what the next request to the model has in it, by its parts: instruction, tools, conversation, and the window.

The messages are those that the session's context makes for a request. Tokens are estimated at four bytes each, as
contexts without a tokenizer do; a hook may add messages at the last moment, which are not among these.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from paddock.cli.terminal.render import Screen
from paddock.session.instructing import preferred_provider
from paddock.session.journals.context_journal import text_of_message
from paddock.session.session import Session

_BYTES_PER_TOKEN: Final = 4
_SHOWN: Final = 10  # of the latest messages
_MAX_WORDS: Final = 60  # characters of each


async def tell_request(session: Session, screen: Screen) -> None:
    """Write the parts of the next request, and the latest messages in it.

    Raises:
        PaddockError: the context or the provider ended.
    """
    provider, context = preferred_provider(session.coordinator), session.coordinator.get("context")
    info = await provider.get_info() if hasattr(provider, "get_info") else None
    sizes = getattr(info, "defaults", None) or {}
    window, answer = sizes.get("context_window"), sizes.get("max_output_tokens")
    # Not the provider itself: the context would ask it, which only a loop may let it do.
    budget = window - answer if isinstance(window, int) and isinstance(answer, int) and answer < window else None
    prepare = getattr(context, "get_messages_for_request", None)
    messages = list(await (context.get_messages() if prepare is None else prepare(token_budget=budget)))
    tools: Mapping[str, Any] = session.coordinator.get("tools") or {}
    said = [one for one in messages if one.get("role") != "system"]
    described = [
        [name, getattr(one, "description", ""), getattr(one, "input_schema", {})] for name, one in tools.items()
    ]
    instruction = _tokens(one for one in messages if one.get("role") == "system")
    of_tools, of_messages = _tokens(described), _tokens(said)
    whole = instruction + of_tools + of_messages
    share = (
        f" of the model's window of {window:,} ({whole * 100 // window} %)"
        if isinstance(window, int) and window > 0
        else ""
    )
    rows = [
        ("  instruction  ", f"{instruction:,} tokens"),
        ("  tools  ", f"{of_tools:,} tokens: {', '.join(tools) or 'none'}"),
        ("  conversation  ", f"{of_messages:,} tokens in {len(said)} message{'' if len(said) == 1 else 's'}"),
        *((f"    {one.get('role')}  ", f"{_tokens([one]):,} tokens: {_words(one, screen)}") for one in said[-_SHOWN:]),
        ("  together  ", f"about {whole:,} tokens{share}"),
    ]
    screen.labelled(rows)


def _tokens(parts: Iterable[Any]) -> int:
    size = sum(len(json.dumps(part, ensure_ascii=False, default=str).encode("utf-8", "replace")) for part in parts)
    return -(-size // _BYTES_PER_TOKEN)


def _words(message: Mapping[str, Any], screen: Screen) -> str:
    text = screen.mask(text_of_message(message))
    return " ".join(text[: 4 * _MAX_WORDS].split())[:_MAX_WORDS]
