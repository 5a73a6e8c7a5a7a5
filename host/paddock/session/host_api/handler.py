"""How the host's methods are declared: one decorated function each, with what its arguments are and how they are read.

`@handles` says all of it as data. `HostService` has the one table, and the one place where a request is decoded,
checked and answered. A coroutine function answers as a task; arguments that are not of its method's form fail the
request. What any other function returns is the answer before the next frame is looked at; arguments that are not of its
form end the worker that sent them, as those of a notice do, which has no answer.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints

from paddock_sdk.protocol import RemoteProtocolError
from paddock_sdk.protocol.methods import HostMethod

F = TypeVar("F", bound=Callable[..., Any])

_MARK: Final = "_handles"


class Decode(Enum):
    """How the body of a request becomes what its handler is given."""

    NAMED = auto()  # with the names of their types in the places of objects
    HANDLES = auto()  # with handles in the places of objects: the request concerns them, not their stand-ins
    DATA = auto()  # data alone, without objects
    PLAIN = auto()  # data alone, without objects and models: an event's
    HEADED = auto()  # a name, and a value that stays encoded
    NOT = auto()  # the message itself


@dataclass(frozen=True, slots=True)
class HandlerSpec:
    """What is declared of one method.

    `what` names the request where it is none. With `answers_itself`, the handler is given the call and ends it; with
    `collects`, its answer is made of what modules answered, which was counted as it came.
    """

    method: HostMethod
    args: type[Any] | None
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
    read: Callable[[Any], Any]


def handles(
    method: HostMethod,
    args: type[Any] | None = None,
    what: str = "",
    *,
    decode: Decode = Decode.NAMED,
    is_notice: bool = False,
    answers_itself: bool = False,
    collects: bool = False,
) -> Callable[[F], F]:
    """Declare that a function serves `method`.

    It is called with the module and its arguments, an instance of the named tuple `args`; without `args`, with what the
    decoding gives.
    """

    def mark(function: F) -> F:
        setattr(function, _MARK, HandlerSpec(method, args, what, decode, is_notice, answers_itself, collects))
        return function

    return mark


def handlers_of(part: object) -> Iterator[tuple[HostMethod, MethodHandler]]:
    """Return what an object declares, by method."""
    for name, function in inspect.getmembers(type(part), inspect.isfunction):
        spec: HandlerSpec | None = getattr(function, _MARK, None)
        if spec is not None:
            read = _as_it_is if spec.args is None else _reader(spec.args, spec.what)
            yield spec.method, MethodHandler(spec, getattr(part, name), inspect.iscoroutinefunction(function), read)


def malformed(what: str) -> RemoteProtocolError:
    """Return the error that ends a worker for what is not of its method's form."""
    return RemoteProtocolError(f"{what} that is none")


def within(least: float, most: float) -> Callable[[float], bool]:
    """Bound a number; what is not a number is outside."""
    return lambda number: least <= number <= most


def at_most(size: int) -> Callable[[Any], bool]:
    """Bound the length of a text, of bytes or of a list; None has none."""
    return lambda value: value is None or len(value) <= size


def _as_it_is(value: Any) -> Any:
    return value


def _reader(model: type[Any], what: str) -> Callable[[Any], Any]:
    """Return what makes the arguments of a list, each of which is an instance of its type and keeps its bounds.

    Not pydantic's models: in what modules call things there may be lone surrogates, which its texts may not have.
    """
    checks = [_check_of(hint) for hint in get_type_hints(model, include_extras=True).values()]

    def read(value: Any) -> Any:
        if not isinstance(value, (list, tuple)) or len(value) != len(checks):
            raise malformed(what)
        if not all(check(item) for check, item in zip(checks, value, strict=True)):
            raise malformed(what)
        return model(*value)

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
    return lambda value: isinstance(value, classes)
