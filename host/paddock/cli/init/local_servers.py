"""Find the model servers that listen on this machine, and the models that each offers.

Each server gets one `GET /v1/models` over a direct connection to 127.0.0.1; no proxy and no redirect is followed. Any
program can listen on these ports: an answer that is late, too large, not of the expected form or not successful counts
as no server, and a model is left out if a terminal would not show each character of its name as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final

import anyio
import h11
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from paddock.plan.host_name import LOOPBACK
from paddock.text import escape

MAX_MODEL_CHARACTERS: Final = 200

_SECONDS: Final = 1.5  # for all servers together; the known ones answer this without loading a model
_MAX_BYTES: Final = 1 << 20  # of an answer: a thousand models take a fifth of it
_MAX_MODELS: Final = 1000
_CHUNK_BYTES: Final = 65536
# Where servers tell the tokens that a model takes: vLLM and SGLang, LiteLLM and others, Mistral and LM Studio, Groq.
_WINDOWS: Final = AliasChoices("max_model_len", "context_length", "max_context_length", "context_window")
_USUAL_WINDOW: Final = range(512, 100_000_001)  # what is outside is taken for a mistake


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A server at a port of 127.0.0.1, and the names of its models in the order of its answer.

    `windows` has the tokens that a model takes, where the server tells them.
    """

    port: int
    models: tuple[str, ...]
    windows: Mapping[str, int] = field(default_factory=dict)


class _Model(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)

    id: Annotated[str, StringConstraints(min_length=1, max_length=MAX_MODEL_CHARACTERS)]
    window: object = Field(None, validation_alias=_WINDOWS)


class _Models(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)

    data: Annotated[list[_Model], Field(max_length=_MAX_MODELS)]


def is_model_name(text: str) -> bool:
    """Return whether a text can be shown and written as the name of a model."""
    return 0 < len(text) <= MAX_MODEL_CHARACTERS and text.isprintable() and escape(text) == text


async def find_servers(ports: Sequence[int], *, seconds: float = _SECONDS) -> tuple[LocalServer, ...]:
    """Return the model servers at these ports, in the order of the ports, after `seconds` at the latest."""
    found: dict[int, LocalServer] = {}

    async def ask(port: int) -> None:
        try:
            answer = _Models.model_validate_json(await _answer(port))
        except (OSError, anyio.EndOfStream, anyio.BrokenResourceError, h11.ProtocolError, ValidationError):
            return
        models = {model.id: model.window for model in answer.data if is_model_name(model.id)}
        windows = {name: size for name, size in models.items() if type(size) is int and size in _USUAL_WINDOW}
        if models:
            found[port] = LocalServer(port, tuple(models), windows)

    with anyio.move_on_after(seconds):
        async with anyio.create_task_group() as tasks:
            for port in ports:
                tasks.start_soon(ask, port)
    return tuple(found[port] for port in ports if port in found)


async def _answer(port: int) -> bytes:
    """Return the body of the answer at a port."""
    connection = h11.Connection(h11.CLIENT)
    headers = [("Host", f"{LOOPBACK}:{port}"), ("Accept", "application/json"), ("Connection", "close")]
    request = connection.send(h11.Request(method="GET", target="/v1/models", headers=headers))
    assert request is not None
    body = bytearray()
    async with await anyio.connect_tcp(str(LOOPBACK), port) as stream:
        await stream.send(request)
        connection.send(h11.EndOfMessage())
        while True:
            match connection.next_event():
                case h11.NEED_DATA:
                    try:
                        connection.receive_data(await stream.receive(_CHUNK_BYTES))
                    except anyio.EndOfStream:
                        connection.receive_data(b"")
                case h11.InformationalResponse():
                    continue
                case h11.Response(status_code=200):
                    continue
                case h11.Data(data=data) if len(body) + len(data) <= _MAX_BYTES:
                    body += data
                case h11.EndOfMessage():
                    return bytes(body)
                case _:
                    raise h11.RemoteProtocolError("an answer is no success, or too large")
