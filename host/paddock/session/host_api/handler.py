"""Declaration of the host's methods: one decorated function each, with the form of its arguments and their decoding.

`@handles` states all of it as data. `HostService` has the one table, and the one place where a request is decoded,
checked and answered. Arguments of a wrong form fail the request; a notification of them has no effect. A coroutine
function answers as a task. The result of any other function is the answer before the next frame is read. A function
that `answers_itself` also decodes by itself: its result is no answer.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints

from paddock_sdk.protocol.errors import UnfitValueError
from paddock_sdk.protocol.methods import HostMethod

F = TypeVar("F", bound=Callable[..., Any])

_MARK: Final = "_handles"


class Decode(Enum):
    """How the body of a request becomes its handler's arguments."""

    NAMED = auto()  # with the names of their types in the places of objects
    HANDLES = auto()  # with handles in the places of objects: the request concerns them, not their stand-ins
    DATA = auto()  # data alone, without objects
    PLAIN = auto()  # data alone, without objects and models: an event's
    HEADED = auto()  # a name, and a value that stays encoded
    NOT = auto()  # the message itself


@dataclass(frozen=True, slots=True)
class HandlerSpec:
    """The declaration of one method.

    `what` is the name of a malformed request, without an article. With `answers_itself`, the handler gets the call, the
    module and the message as it came, and ends the call, at once or later. With `collects`, its answer consists of
    modules' answers, which were counted as they came.
    """

    function: Callable[..., Any]
    method: HostMethod
    what: str
    decode: Decode
    is_notice: bool
    answers_itself: bool
    collects: bool


@dataclass(frozen=True, slots=True)
class MethodHandler:
    """One method of the host's, ready to be called."""

    spec: HandlerSpec
    run: Callable[..., Any]
    is_async: bool
    read: Callable[[Any], Sequence[Any]]


def handles(
    method: HostMethod,
    what: str = "",
    *,
    decode: Decode = Decode.NAMED,
    is_notice: bool = False,
    answers_itself: bool = False,
    collects: bool = False,
) -> Callable[[F], F]:
    """Declare that a function serves `method`.

    It is called with the module and the arguments of a request, which have to fit its parameters; without `what`, with
    the decoded value if it takes one.
    """

    def mark(function: F) -> F:
        setattr(function, _MARK, HandlerSpec(function, method, what, decode, is_notice, answers_itself, collects))
        return function

    return mark


def handlers_of(part: Any) -> Iterator[tuple[HostMethod, MethodHandler]]:
    """Return the methods that an object declares."""
    kind: Any = type(part)
    for name, spec, is_async in _declared(kind):
        yield spec.method, MethodHandler(spec, getattr(part, name), is_async, _reader(spec))


@cache
def _declared(kind: type[Any]) -> tuple[tuple[str, HandlerSpec, bool], ...]:
    marked = inspect.getmembers(kind, lambda function: hasattr(function, _MARK))
    return tuple((name, getattr(one, _MARK), inspect.iscoroutinefunction(one)) for name, one in marked)


def malformed(what: str, why: str = "") -> UnfitValueError:
    """Return the error for arguments that do not fit their method."""
    return UnfitValueError(f"malformed {what}{why}")


def within(least: float, most: float) -> Callable[[float], bool]:
    """Bound a number; a value that is no number is outside."""
    return lambda number: least <= number <= most


def at_most(size: int) -> Callable[[Any], bool]:
    """Bound the length of a text, of bytes or of a list; None has none."""
    return lambda value: value is None or len(value) <= size


@cache
def _reader(spec: HandlerSpec) -> Callable[[Any], Sequence[Any]]:
    """Return a function that takes the arguments from a list, and checks each against its parameter's type and bounds.

    It serves all sessions of this process. Pydantic's models would not do: names from modules may contain lone
    surrogates, which its texts may not.
    """
    names, what = [*inspect.signature(spec.function).parameters][2:], spec.what  # after the service and the module
    if not what:
        return lambda value: (value,) if names else ()
    hints = get_type_hints(spec.function, include_extras=True)
    checks = {name: _check_of(hints[name]) for name in names}

    def read(value: Any) -> Sequence[Any]:
        if not isinstance(value, (list, tuple)) or len(value) != len(checks):
            raise malformed(what, f": it is an array of {', '.join(checks)}")
        for (name, check), item in zip(checks.items(), value, strict=True):
            if not check(item):
                raise malformed(what, f": its {name} does not fit")
        return value

    return read


def _check_of(hint: Any) -> Callable[[Any], bool]:
    if get_origin(hint) is Annotated:
        base, *bounds = get_args(hint)
        is_one = _check_of(base)
        return lambda value: is_one(value) and all(bound(value) for bound in bounds)
    if get_origin(hint) is Literal:
        choices = get_args(hint)
        return lambda value: isinstance(value, str) and value in choices
    if hint is object:
        return lambda value: True
    of = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    classes = tuple(NoneType if one is None else get_origin(one) or one for one in of)
    if float in classes:
        classes += (int,)  # encoders of many languages write 1.0 so
    return lambda value: isinstance(value, classes)
