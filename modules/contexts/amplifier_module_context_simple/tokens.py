"""Count the tokens of a message: with a tokenizer if one is available, else by an estimate.

The tokenizer is `tiktoken`, if it is installed and the file of its encoding lies in its cache: otherwise it would
download the file, and a context waits for no network. Its counts are exact for models of OpenAI, and close for others.
The estimate is four bytes of UTF-8 a token, which is close for English and code and on the safe side for most other
scripts. Images count at a flat rate; their bytes are not text. `TokenCounter.method` names the method in use.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from .blocks import as_mapping, mappings_in

ESTIMATE = "estimate"  # the method's name in events and settings
AUTO = "auto"
CALL_BLOCKS = ("tool_call", "tool_use")  # the types of the blocks that are tool calls

_BYTES_PER_TOKEN = 4
_MESSAGE_OVERHEAD = 4  # tokens; role and delimiters
_IMAGE_TOKENS = 1_500  # the charge of vision models for a picture of ordinary size
_CHUNK = 8_192  # characters that are encoded at once: an encoding's time grows faster than its text

# The address from which tiktoken downloads an encoding (it names the file in the cache), and the file's hash.
ENCODINGS = {
    "o200k_base": (
        "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken",
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    ),
    "cl100k_base": (
        "https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken",
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    ),
}
TOKENIZERS = (AUTO, ESTIMATE, *ENCODINGS)


class TokenCounter:
    """Counts the size of messages; `method` is `estimate` or the name of an encoding."""

    def __init__(self, tokenizer: str = AUTO) -> None:
        """Use the tokenizer of this name; `auto` is the first available encoding, or else the estimate.

        Raises:
            ValueError: the named encoding is not available.
        """
        self.method = ESTIMATE
        self._encode: Callable[[str], list[int]] | None = None
        for name in tuple(ENCODINGS) if tokenizer == AUTO else (tokenizer,):
            if self._encode is None and name != ESTIMATE and (encode := _encoding(name)) is not None:
                self.method, self._encode = name, encode
        if tokenizer not in (AUTO, self.method):
            raise ValueError(
                f"the tokenizer `{tokenizer}` is not at hand: `tiktoken` has to be installed and the encoding's file "
                f"to lie in the folder that TIKTOKEN_CACHE_DIR names; `{ESTIMATE}` needs neither"
            )

    def tokens_of(self, message: Mapping[str, Any]) -> int:
        """Return the size of a message, its tool calls included."""
        content = message.get("content")
        calls = message.get("tool_calls")
        if isinstance(content, str):
            return _MESSAGE_OVERHEAD + self._of_text(content) + (self._size(calls) if calls else 0)
        parts = content if isinstance(content, list) else [content]
        # Contexts keep a call both as a block and in `tool_calls`; a provider sends it once.
        repeated = any(part.get("type") in CALL_BLOCKS for part in mappings_in(parts))
        size = _MESSAGE_OVERHEAD + sum(map(self._size, parts))
        return size if repeated or not calls else size + self._size(calls)

    def _size(self, part: Any) -> int:
        if part is None:
            return 0
        if isinstance(part, str):
            return self._of_text(part)
        read = as_mapping(part)
        if read is not None and read.get("type") == "image":
            return _IMAGE_TOKENS
        return self._of_text(json.dumps(part if read is None else read, ensure_ascii=False, default=str))

    def _of_text(self, text: str) -> int:
        if self._encode is None:
            return -(-_bytes(text) // _BYTES_PER_TOKEN)
        return sum(len(self._encode(text[start : start + _CHUNK])) for start in range(0, len(text), _CHUNK))


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _encoding(name: str) -> Callable[[str], list[int]] | None:
    """Return the function that encodes text, None unless it can be had without a network."""
    try:
        tiktoken = import_module("tiktoken")
        if not _is_cached(name):
            return None
        encode: Callable[[str], list[int]] = tiktoken.get_encoding(name).encode_ordinary
    except Exception:  # not installed, or of a version that has it differently
        return None
    return encode


def _is_cached(name: str) -> bool:
    url, digest = ENCODINGS[name]
    named = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    folder = Path(tempfile.gettempdir(), "data-gym-cache") if named is None else Path(named)
    file = folder / hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()
    # tiktoken downloads a file again if its hash differs.
    return named != "" and file.is_file() and hashlib.sha256(file.read_bytes()).hexdigest() == digest
