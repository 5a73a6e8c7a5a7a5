"""The contract's models and exceptions as they cross the wire: a closed list, rebuilt by name.

A subclass crosses as the nearest listed class, its further fields kept where the model keeps
extras. A class that is not listed never comes back as itself: an unknown exception becomes its
nearest known ancestor, or a `RuntimeError` that carries the original's name in `remote_type`.
The models are imported on first use only, so that a worker that never meets one never pays.
"""

from __future__ import annotations

import asyncio
import builtins
import dataclasses
import functools
import importlib
import traceback
from collections.abc import Callable
from typing import Any, Final

from paddock_sdk.contract import approval, boundary_errors, llm_errors, module_sources
from paddock_sdk.protocol.body import Ext

_MODULES: Final = {
    "paddock_sdk.contract.models": (
        "ToolResult",
        "HookResult",
        "ContextInjection",
        "Pricing",
        "ModelInfo",
        "ConfigField",
        "ProviderInfo",
        "ModuleInfo",
        "SessionStatus",
    ),
    "paddock_sdk.contract.message_models": (
        "TextBlock",
        "ThinkingBlock",
        "RedactedThinkingBlock",
        "ToolCallBlock",
        "ToolResultBlock",
        "ImageBlock",
        "ReasoningBlock",
        "Message",
        "ToolSpec",
        "ResponseFormatText",
        "ResponseFormatJson",
        "ResponseFormatJsonSchema",
        "ChatRequest",
        "ToolCall",
        "Usage",
        "Degradation",
        "ChatResponse",
    ),
    "paddock_sdk.contract.content_models": (
        "ContentBlock",
        "TextContent",
        "ThinkingContent",
        "ToolCallContent",
        "ToolResultContent",
    ),
    "paddock_sdk.contract.interfaces": ("ApprovalRequest", "ApprovalResponse"),
}
_HOME: Final = {name: module for module, names in _MODULES.items() for name in names}
_Form = tuple[str, Callable[[Any], dict[str, object]]]

_ERRORS: Final[dict[str, type[BaseException]]] = {
    **{
        name: value
        for name, value in vars(builtins).items()
        if isinstance(value, type) and issubclass(value, Exception) and not issubclass(value, BaseExceptionGroup)
    },
    **{
        name: value
        for source in (llm_errors, approval, module_sources, boundary_errors)
        for name, value in vars(source).items()
        if isinstance(value, type) and issubclass(value, Exception) and value.__module__ == source.__name__
    },
    "CancelledError": asyncio.CancelledError,
}
_TRACEBACK_CHARACTERS: Final = 8000  # of a remote traceback; the innermost frames are the ones kept
_TRACEBACK_ENTRY: Final = 2000  # characters of one frame or message in it, lest one push all others out
_MESSAGE_CHARACTERS: Final = 8000
_LINEAGE: Final = 32  # classes; deeper hierarchies of exceptions are jokes
_NAME_CHARACTERS: Final = 200
_ARGS_BYTES: Final = 64 * 1024  # all arguments together
_ATTRIBUTES_BYTES: Final = 64 * 1024  # all attributes together
_ORIGIN: Final = ("remote_type", "remote_traceback")  # attributes that the receiver sets
_MAX_INTEGER_BITS: Final = 3300  # a thousand digits, which is what can be sent


class ContractVocabulary:
    """The `Vocabulary` of everything the module contracts name."""

    __slots__ = ("_forms",)

    def __init__(self) -> None:
        self._forms: dict[type, _Form | None] = {}

    def to_wire(self, value: object) -> tuple[int, object] | None:
        """Return the form of a model or exception, None for anything else."""
        kind = type(value)
        try:
            form = self._forms[kind]
        except KeyError:
            form = self._forms[kind] = _form_of(kind)
        if form is not None:
            name, fields_of = form
            return Ext.MODEL, [name, fields_of(value)]
        if isinstance(value, BaseException):
            return Ext.ERROR, _describe_error(value)
        if hasattr(kind, "__pydantic_validator__"):  # a model of the module's own: its data crosses, its class cannot
            return Ext.MODEL, ["", value.model_dump()]  # type: ignore[attr-defined]
        return None

    def from_wire(self, extension: int, content: Any) -> object:
        """Rebuild a model through its own validation, or an exception without calling module code.

        Raises:
            ValueError: the content is no such thing.
        """
        if extension == Ext.MODEL:
            match content:
                case [str() as name, dict() as fields] if name in _HOME:
                    return _rebuilder(name)(fields)
                case ["", dict() as data]:
                    return data
        elif extension == Ext.ERROR:
            match content:
                case [list() as lineage, str() as message, list() as args, dict() as attributes, str() as trace]:
                    return _rebuild_error(lineage, message, args, attributes, trace)
        raise ValueError("no model or exception of the contract")


def _form_of(kind: type) -> _Form | None:
    """Return the name under which instances of a class cross and what reads their fields, None if they do not."""
    name = next((base.__name__ for base in kind.__mro__ if _HOME.get(base.__name__) == base.__module__), None)
    if name is None:
        return None
    return name, _dataclass_fields if dataclasses.is_dataclass(kind) else _model_fields


def _dataclass_fields(value: Any) -> dict[str, object]:
    # `raw` holds a vendor SDK's own object, which means nothing in another process.
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.name != "raw"}


def _model_fields(value: Any) -> dict[str, object]:
    given = value.__pydantic_fields_set__
    fields = {
        name: item
        for name, item in value.__dict__.items()
        # A default list or mapping may have been filled in place, which no model takes note of.
        if name in given or (item and type(item) in (list, dict))
    }
    extra = value.__pydantic_extra__
    if extra:
        fields.update(extra)
    return fields


@functools.cache
def _rebuilder(name: str) -> Callable[[dict[str, Any]], object]:
    """Return what makes a listed model of its fields, importing the model."""
    cls = getattr(importlib.import_module(_HOME[name]), name)
    if hasattr(cls, "model_validate"):
        validate: Callable[[dict[str, Any]], object] = cls.model_validate
        return validate
    return functools.partial(_rebuild_dataclass, cls)


def _rebuild_dataclass(cls: type, fields: dict[str, Any]) -> object:
    if "type" in fields:
        types = importlib.import_module(cls.__module__)
        fields = {**fields, "type": types.ContentBlockType(fields["type"])}
    allowed = {field.name for field in dataclasses.fields(cls)}
    try:
        return cls(**{key: item for key, item in fields.items() if key in allowed})
    except TypeError as exc:
        raise ValueError(f"no {cls.__name__}: {exc}") from exc


def _describe_error(error: BaseException) -> list[object]:
    """Return an exception's form, well below 256 KiB; what a module's own class will not tell is left out."""
    names = [
        _text(functools.partial(getattr, base, "__name__"), "Exception", _NAME_CHARACTERS) for base in _lineage(error)
    ]
    # One that crossed before keeps its first name and place.
    first = _carried(error, "remote_type")[:_NAME_CHARACTERS] or names[0]
    return [
        names if first == names[0] else [first, *names],
        _message(error),
        _arguments(error),
        _attributes(error),
        _carried(error, "remote_traceback") or _text(functools.partial(_trace, error), "", -_TRACEBACK_CHARACTERS),
    ]


def _carried(error: BaseException, attribute: str) -> str:
    return _text(lambda: vars(error).get(attribute), "", -_TRACEBACK_CHARACTERS)


def _lineage(error: BaseException) -> list[type]:
    return [base for base in type(error).__mro__ if base is not object][:_LINEAGE]


def _text(read: Callable[[], object], otherwise: str, characters: int) -> str:
    """Return a text's first `characters`, its last ones if negative; `otherwise` where it cannot be had."""
    try:
        text = read()
        # A subclass of str would come as what it makes of itself.
        plain = str.__str__(text) if isinstance(text, str) else otherwise
    except Exception:  # of a module's own making, like the three below
        return otherwise
    return plain[:characters] if characters > 0 else plain[characters:]


def _message(error: BaseException) -> str:
    return _text(functools.partial(str, error), type(error).__name__, _MESSAGE_CHARACTERS)


def _trace(error: BaseException) -> str:
    return "".join(
        entry if len(entry) <= _TRACEBACK_ENTRY else entry[:_TRACEBACK_ENTRY] + "…\n"
        for entry in traceback.format_exception(error)
    )


def _arguments(error: BaseException) -> list[object]:
    given = error.args
    if isinstance(error, OSError) and error.filename is not None and len(given) == 2:
        given = (*given, error.filename)  # what it is made of again; Python keeps the name apart
    kept: list[object] = []
    room = _ARGS_BYTES
    for arg in given:
        size = _size(arg, room) if type(arg) is not str or len(arg) <= _MESSAGE_CHARACTERS else None
        if size is None:
            arg = _text(functools.partial(str, arg), type(arg).__name__, _MESSAGE_CHARACTERS)
            size = _size(arg, room)
        if size is None:  # no room is left, for this or any further one
            break
        room -= size
        kept.append(arg)
    return kept


def _attributes(error: BaseException) -> dict[str, object]:
    kept: dict[str, object] = {}
    room = _ATTRIBUTES_BYTES
    try:
        attributes = dict(vars(error))
    except Exception:
        return kept
    for name, value in attributes.items():
        size = _size({name: value}, room, 4)
        if size is not None and name not in _ORIGIN:
            room -= size
            kept[name] = value
    return kept


def _size(value: Any, room: int, depth: int = 3) -> int | None:
    """Return how many bytes plain data takes, at most; None for what is not plain or takes more than `room`."""
    size = 9  # the head of anything, or all of a number
    if type(value) is str:
        size += len(value) if len(value) > room else len(value.encode("utf-8", "surrogatepass"))
    elif type(value) is bytes:
        size += len(value)
    elif type(value) is int:
        if value.bit_length() > _MAX_INTEGER_BITS:
            return None
        size += value.bit_length() // 3
    elif type(value) in (list, tuple, dict):
        inner: list[object] = []
        if type(value) is dict:
            if not all(type(key) is str for key in value):
                return None
            inner += value
            inner += value.values()
        else:
            inner += value
        if depth == 0 or len(inner) > room:
            return None
        for item in inner:
            taken = _size(item, room - size, depth - 1)
            if taken is None:
                return None
            size += taken
    elif value is not None and type(value) not in (bool, float):
        return None
    return size if size <= room else None


def _rebuild_error(
    lineage: list[Any], message: str, args: list[Any], attributes: dict[str, Any], trace: str
) -> BaseException:
    known = _nearest_known(lineage)
    original = lineage[0] if lineage and isinstance(lineage[0], str) else "Exception"
    if known is Exception:
        error: BaseException = RuntimeError(f"{original}: {message}")
    else:
        try:
            error = known(*args)
        except (TypeError, ValueError):  # a subclass of the module's own may be made of other arguments
            error = _blank(known)
            error.args = tuple(args)
        for key, item in attributes.items():
            if isinstance(key, str) and not hasattr(BaseException, key) and not key.startswith("__"):
                error.__dict__[key] = item
    # Last: whoever asks by these whether an error is a module's must not be told otherwise by the module.
    error.__dict__["remote_type"] = original
    error.__dict__["remote_traceback"] = trace
    return error


def _blank(known: type[BaseException]) -> BaseException:
    try:
        return known("")
    except TypeError:  # it takes more than words
        return known.__new__(known)


def _nearest_known(lineage: list[Any]) -> type[BaseException]:
    for name in lineage:
        known = _ERRORS.get(name) if isinstance(name, str) else None
        if known is module_sources.ModuleNotFoundError and "ImportError" in lineage:
            return builtins.ModuleNotFoundError  # the one name that the contract and Python both use
        # Classes of other libraries share names with ours; none may turn into what is no Exception, and cancels tasks.
        if known is not None and (issubclass(known, Exception) or "Exception" not in lineage):
            return known
    return Exception
