"""The contract's models and exceptions on the connection: a closed list, rebuilt by name.

A subclass crosses as the nearest listed class. Its further fields and its properties' values are kept where the model
keeps extras; a vendor's own object (`raw`) stays behind. An unlisted class never arrives as itself: a module's own data
class becomes a `Record`, an unknown exception its nearest known ancestor, or a `RuntimeError` that carries the
original's name in `remote_type`. The models are imported on first use only, so that a worker without them never pays.
"""

from __future__ import annotations

import asyncio
import builtins
import dataclasses
import functools
import importlib
import os
import traceback
from collections.abc import Callable
from types import SimpleNamespace, TracebackType
from typing import Any, Final

from paddock_sdk.contract import approval, boundary_errors, llm_errors, module_sources
from paddock_sdk.protocol.body import Record
from paddock_sdk.protocol.caps import Ext

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
    "paddock_sdk.contract.block_models": ("TextBlock", "ImageBlock"),
    "paddock_sdk.contract.message_models": (
        "ThinkingBlock",
        "RedactedThinkingBlock",
        "ToolCallBlock",
        "ToolResultBlock",
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
    "paddock_sdk.contract.model_pattern": ("ProviderPreference",),
}
_HOME: Final = {name: module for module, names in _MODULES.items() for name in names}
_BLOCKS: Final = frozenset(
    name
    for module in ("paddock_sdk.contract.block_models", "paddock_sdk.contract.message_models")
    for name in _MODULES[module]
    if name.endswith("Block")
)
# Lists that a class declares to hold models: the receiver's validation rebuilds these from their fields alone. A
# conversation has hundreds, and a name and an extension for each takes several times what its fields take.
_DECLARED: Final[dict[str, dict[str, frozenset[str]]]] = {
    "ChatRequest": {"messages": frozenset({"Message"}), "tools": frozenset({"ToolSpec"})},
    "Message": {"content": _BLOCKS},
    "ChatResponse": {"content": _BLOCKS, "tool_calls": frozenset({"ToolCall"})},
}
_DISCRIMINATOR: Final = "type"  # of the blocks; a receiver cannot tell their classes apart without it
_Reader = Callable[[Any], object]
_Form = tuple[str, _Reader]

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
_OURS: Final = (  # the first frames of a traceback, which do not concern a module
    os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), ""),
    os.path.join(os.path.dirname(importlib.__file__), ""),
    "<frozen importlib",
    "msgpack/",  # as it was compiled
)
_TRACEBACK_CHARACTERS: Final = 8000  # of a remote traceback; the innermost frames are the ones kept
_TRACEBACK_ENTRY: Final = 2000  # characters of one frame or message in it, lest one push all others out
_MESSAGE_CHARACTERS: Final = 8000
_LINEAGE: Final = 32  # classes; no honest hierarchy of exceptions is deeper
_NAME_CHARACTERS: Final = 200
_ARGS_BYTES: Final = 64 * 1024  # all arguments together
_ATTRIBUTES_BYTES: Final = 64 * 1024  # all attributes together
_ORIGIN: Final = ("remote_type", "remote_traceback")  # attributes that the receiver sets
_GROUP_MEMBERS: Final = 16  # exceptions of one group that are sent; as many again of a group in it
_GROUP_DEPTH: Final = 2
_GROUP_TRACES: Final = 64  # exceptions of a group whose traces are looked at
_VENDORS: Final = "raw"  # where a vendor SDK's own object is kept, which means nothing in another process
_MAX_INTEGER_BITS: Final = 3300  # a thousand digits, the most that can be sent


class ContractVocabulary:
    """The `Vocabulary` of all classes that the module contracts name.

    The place where an exception was raised is sent without code in the folders of `hidden`. An exception that was
    raised only there is sent as its text alone.
    """

    __slots__ = ("_forms", "_hidden")

    def __init__(self, hidden: tuple[str, ...] = ()) -> None:
        self._forms: dict[type, _Form | None] = {}
        self._hidden = tuple(os.path.join(folder, "") for folder in hidden)

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
            return Ext.ERROR, _describe_error(value, self._hidden)
        if kind is Record:
            return Ext.MODEL, ["", dict(value)]  # type: ignore[call-overload]
        if hasattr(kind, "__pydantic_decorators__") and hasattr(kind, "model_dump"):
            return Ext.MODEL, ["", _own_model_fields(value)]  # of the module's own: its data crosses, its class cannot
        return None

    def to_data(self, value: object) -> tuple[int, object] | None:
        """Return the fields of a data class of the module's own, None for anything else."""
        kind = type(value)
        if dataclasses.is_dataclass(kind):
            return Ext.MODEL, ["", _dataclass_fields(value)]
        if kind is SimpleNamespace:
            return Ext.MODEL, ["", dict(vars(value))]
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
                case ["", dict() as data] if all(type(name) is str for name in data):
                    return Record(data)
        elif extension == Ext.ERROR:
            match content:
                case [list() as lineage, str() as message, list() as args, dict() as attributes, str() as trace]:
                    return _rebuild_error(lineage, message, args, attributes, trace)
        raise ValueError("no model or exception of the contract")


def _form_of(kind: type) -> _Form | None:
    """Return the name under which instances of a class cross and the function that reads their fields, or None."""
    listed = next((base for base in kind.__mro__ if _HOME.get(base.__name__) == base.__module__), None)
    if listed is None:
        return None
    if dataclasses.is_dataclass(kind):
        return listed.__name__, _dataclass_fields
    if kind is not listed:
        return listed.__name__, functools.partial(_subclass_fields, _own_properties(kind, listed))
    return listed.__name__, _reader(listed.__name__)


@functools.cache
def _reader(name: str) -> _Reader:
    """Return what reads the fields of a listed model."""
    if name not in _DECLARED:
        return _model_fields
    listed = {
        field: {_class_of(item): _block_fields if item in _BLOCKS else _reader(item) for item in items}
        for field, items in _DECLARED[name].items()
    }
    return functools.partial(_fields_with_models, listed)


def _dataclass_fields(value: Any) -> dict[str, object]:
    return {
        field.name: getattr(value, field.name)
        for field in dataclasses.fields(value)
        if field.name != _VENDORS and hasattr(value, field.name)
    }


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


def _fields_with_models(listed: dict[str, dict[type, _Reader]], value: Any) -> dict[str, object]:
    """Return a model's fields; a model in one of its lists stands as its fields, if it has a reader there."""
    fields = _model_fields(value)
    for name, readers in listed.items():
        items = fields.get(name)
        if type(items) is list:
            fields[name] = [readers[type(item)](item) if type(item) in readers else item for item in items]
    return fields


def _block_fields(block: Any) -> object:
    """Return a block's fields; the block itself where its type is a default, which its receiver would count as set."""
    return _model_fields(block) if _DISCRIMINATOR in block.__pydantic_fields_set__ else block


def _subclass_fields(properties: tuple[str, ...], value: Any) -> dict[str, object]:
    """Return the fields of a module's own model that stands for one of the contract's."""
    fields = _model_fields(value)
    # Its fields that were not given: a reader finds their defaults on the original, too.
    fields.update((name, item) for name, item in value.__dict__.items() if name not in fields and item is not None)
    for name in properties:
        try:
            fields[name] = getattr(value, name)
        except Exception:  # noqa: S112 - a module's property failed; it is absent, as hasattr would say
            continue
    fields.pop(_VENDORS, None)
    return fields


def _own_properties(kind: type, listed: type) -> tuple[str, ...]:
    """Return the public properties that a subclass adds to a listed class."""
    own = kind.__mro__[: kind.__mro__.index(listed)]
    return tuple(
        dict.fromkeys(
            name
            for base in own
            for name, item in vars(base).items()
            if isinstance(item, property | functools.cached_property)
            and not name.startswith(("_", "model_"))
            and not hasattr(listed, name)
        )
    )


def _own_model_fields(value: Any) -> dict[str, object]:
    kind = type(value)
    fields = {
        name: item for name, item in value if name not in kind.model_fields or not kind.model_fields[name].exclude
    }
    for name in kind.model_computed_fields:
        fields[name] = getattr(value, name)
    return fields


@functools.cache
def _rebuilder(name: str) -> Callable[[dict[str, Any]], object]:
    """Return the function that makes a listed model from its fields, importing the model."""
    cls = _class_of(name)
    if hasattr(cls, "model_validate"):
        validate: Callable[[dict[str, Any]], object] = cls.model_validate
        return validate
    return functools.partial(_rebuild_dataclass, cls)


def _class_of(name: str) -> Any:
    """Return a listed class; its module is imported."""
    return getattr(importlib.import_module(_HOME[name]), name)


def _rebuild_dataclass(cls: type, fields: dict[str, Any]) -> object:
    if "type" in fields:
        types = importlib.import_module(cls.__module__)
        fields = {**fields, "type": types.ContentBlockType(fields["type"])}
    allowed = {field.name for field in dataclasses.fields(cls)}
    try:
        return cls(**{key: item for key, item in fields.items() if key in allowed})
    except TypeError as exc:
        raise ValueError(f"no {cls.__name__}: {exc}") from exc


def _describe_error(error: BaseException, hidden: tuple[str, ...], depth: int = 0) -> list[object]:
    """Return an exception's form, well below 256 KiB; values that a module's own class refuses to give are left out.

    Exceptions of a group share its room, and have no traces of their own: the group has them.
    """
    share = 4 * depth  # a sixteenth at each level
    lineage = [base for base in type(error).__mro__ if base is not object][:_LINEAGE]
    names = [_text(functools.partial(getattr, base, "__name__"), "Exception", _NAME_CHARACTERS) for base in lineage]
    # One that crossed before keeps its first name and place.
    first = _carried(error, "remote_type")[:_NAME_CHARACTERS] or names[0]
    return [
        names if first == names[0] else [first, *names],
        _message(error, _MESSAGE_CHARACTERS >> share),
        _group(error, hidden, depth)
        if isinstance(error, BaseExceptionGroup)
        else _arguments(error, _ARGS_BYTES >> share),
        _attributes(error, _ATTRIBUTES_BYTES >> share),
        ""
        if depth
        else _carried(error, "remote_traceback")
        or _text(functools.partial(_trace, error, hidden), "", -_TRACEBACK_CHARACTERS),
    ]


def _group(error: BaseExceptionGroup[Any], hidden: tuple[str, ...], depth: int) -> list[object]:
    """Return the parts of a group: its text, and the forms of its exceptions."""
    members = error.exceptions[:_GROUP_MEMBERS] if depth < _GROUP_DEPTH else ()
    words = _text(lambda: error.message, "a group of exceptions", _MESSAGE_CHARACTERS >> 4 * depth)
    return [words, [_describe_error(member, hidden, depth + 1) for member in members]]


def _carried(error: BaseException, attribute: str) -> str:
    return _text(lambda: vars(error).get(attribute), "", -_TRACEBACK_CHARACTERS)


def _text(read: Callable[[], object], otherwise: str, characters: int) -> str:
    """Return a text's first `characters`, its last ones if negative; `otherwise` where it cannot be had."""
    try:
        text = read()
        # A subclass of str would arrive as its own conversion's result.
        plain = str.__str__(text) if isinstance(text, str) else otherwise
    except Exception:  # of a module's own making, like the three below
        return otherwise
    return plain[:characters] if characters > 0 else plain[characters:]


def _message(error: BaseException, characters: int) -> str:
    text_of = getattr(type(error), "paddock_statement", str)  # the text of a host's own error has more, for people
    return _text(functools.partial(text_of, error), type(error).__name__, characters)


def _trace(error: BaseException, hidden: tuple[str, ...]) -> str:
    # Python lays out all of a group before it leaves most of it out, however many times it holds the same one.
    is_laid_out = _count(error, _GROUP_TRACES) <= _GROUP_TRACES
    trace = _theirs(error.__traceback__, hidden)
    if trace is None and hidden:
        return ""
    entries = traceback.format_exception(type(error), error, trace) if is_laid_out else traceback.format_tb(trace)
    return "".join(entry if len(entry) <= _TRACEBACK_ENTRY else entry[:_TRACEBACK_ENTRY] + "…\n" for entry in entries)


def _theirs(trace: TracebackType | None, hidden: tuple[str, ...]) -> TracebackType | None:
    """Return the traceback from the first to the last frame of a module's code.

    The frames before and after do not explain an error in it. A traceback without such frames stays whole, if nothing
    must be hidden.
    """
    entries: list[TracebackType] = []
    entry = trace
    while entry is not None:
        entries.append(entry)
        entry = entry.tb_next
    theirs = [not entry.tb_frame.f_code.co_filename.startswith((*_OURS, *hidden)) for entry in entries]
    if not any(theirs):
        return None if hidden else trace
    cut: TracebackType | None = None
    for entry in reversed(entries[theirs.index(True) : len(theirs) - theirs[::-1].index(True)]):
        cut = TracebackType(cut, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return cut


def _count(error: BaseException, most: int) -> int:
    """Return how many exceptions there are in a group, or one more than `most`."""
    waiting, counted = [error], 0
    while waiting and counted <= most:
        counted += 1
        last = waiting.pop()
        if isinstance(last, BaseExceptionGroup):
            waiting.extend(last.exceptions[: most + 1])
    return counted


def _arguments(error: BaseException, room: int) -> list[object]:
    given = error.args
    if isinstance(error, OSError) and error.filename is not None and len(given) == 2:
        given = (*given, error.filename)  # its arguments when it is rebuilt; Python keeps the name apart
    kept: list[object] = []
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


def _attributes(error: BaseException, room: int) -> dict[str, object]:
    kept: dict[str, object] = {}
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
    """Return the size of plain data in bytes, at most; None for other data, and for more than `room`."""
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
    if "BaseExceptionGroup" in lineage:
        error: BaseException = _rebuild_group(message, args)
    elif known is Exception:
        error = RuntimeError(f"{original}: {message}")
    else:
        error = _made(known, args, message, is_itself=known.__name__ == original)
    for key, item in attributes.items():
        if isinstance(key, str) and not hasattr(BaseException, key) and not key.startswith("__"):
            error.__dict__[key] = item
    notes = attributes.get("__notes__")
    for note in notes if isinstance(notes, list) else ():
        if isinstance(note, str):
            error.add_note(note)
    # Last: these decide whether an error is a module's, so the module must not override them.
    error.__dict__["remote_type"] = original
    error.__dict__["remote_traceback"] = trace
    return error


def _made(known: type[BaseException], args: list[Any], message: str, *, is_itself: bool) -> BaseException:
    """Return an exception of a known class, also where a module's own subclass took other arguments."""
    try:
        error = known(*args)
    except (TypeError, ValueError):
        error = _blank(known)
        error.args = tuple(args)
    if not is_itself and str(error) != message:
        made_of, error.args = error.args, (message,)  # the subclass has its own text, and people read that
        if str(error) != message:  # this class has, too
            error.args = made_of
    return error


def _rebuild_group(message: str, args: list[Any]) -> BaseException:
    members: list[Exception] = []
    words, forms = args if len(args) == 2 and isinstance(args[1], list) else (message, [])
    for form in forms:
        match form:
            case [list() as lineage, str() as said, list() as made_of, dict() as attributes, str() as trace]:
                member = _rebuild_error(lineage, said, made_of, attributes, trace)
                # An exception that is no Exception cancels tasks or ends the process: a group must not contain one.
                name = type(member).__name__
                members.append(member if isinstance(member, Exception) else RuntimeError(f"{name}: {said}"))
            case _:
                raise ValueError("a group of what are no exceptions")
    return ExceptionGroup(str(words), members) if members else RuntimeError(f"ExceptionGroup: {message}")


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
        # Classes of other libraries share names with ours; none may become a non-Exception, which cancels tasks.
        if known is not None and (issubclass(known, Exception) or "Exception" not in lineage):
            return known
    return Exception
