"""What the protocol's tests are fed: settings of the generators, frames, values, and paired connections."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from paddock_sdk.protocol import Connection, Frame, HandleEntry, HandleSide, Kind, Role
from paddock_sdk.protocol.frames import FrameParts, encode_frame
from support.examples import examples

_BASE = settings(
    deadline=None,
    derandomize=False,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
thorough = settings(_BASE, max_examples=examples(150))
costly = settings(_BASE, max_examples=25)
stateful = settings(_BASE, max_examples=examples(120), stateful_step_count=50)

KINDS = [kind for kind in Kind if kind is not Kind.DISCARDED]


def joined(frame: bytes | FrameParts | None) -> bytes:
    """Return the bytes of a frame as they are on the wire."""
    assert frame is not None
    return frame if isinstance(frame, bytes) else frame.head + bytes(frame.body)


def raw(kind: int, **fields: Any) -> bytes:
    """Return the bytes of a frame of any kind, in or out of order."""
    return joined(encode_frame(kind, **fields))


def plain(frame: Frame) -> Frame:
    """Return `frame` with its body as bytes, to be compared."""
    return frame._replace(body=bytes(frame.body))


def opened_pair(limit: int = 16 * 1024 * 1024) -> tuple[Connection, Connection]:
    """Return a host and a worker that have greeted each other."""
    host = Connection(Role.HOST, receive_limit=limit, send_limit=limit)
    worker = Connection(Role.WORKER, receive_limit=limit, send_limit=limit)
    host.receive_data(joined(worker.send_hello(b"")))
    worker.receive_data(joined(host.send_welcome(b"")))
    return host, worker


def pieces(data: bytes, cuts: list[int]) -> Iterator[bytes]:
    """Cut `data` at the given places, wherever they are."""
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for start, end in itertools.pairwise(edges):
        yield data[start:end]


# -- frames --------------------------------------------------------------------------------

u32 = st.integers(0, 0xFFFFFFFF)
handle_entries = st.builds(
    HandleEntry, st.sampled_from([HandleSide.SENDER, HandleSide.RECEIVER]), u32, st.binary(max_size=40)
)


@st.composite
def frame_fields(draw: st.DrawFn) -> dict[str, Any]:
    """The fields of some frame of some kind."""
    return {
        "kind": int(draw(st.sampled_from(KINDS))),
        "flags": draw(st.integers(0, 255)),
        "method": draw(st.integers(0, 0xFFFF)),
        "id": draw(u32),
        "target": draw(u32),
        "parent": draw(u32),
        "deadline_ms": draw(u32),
        "handles": tuple(draw(st.lists(handle_entries, max_size=4))),
        "body": draw(st.binary(max_size=200)),
    }


# -- values --------------------------------------------------------------------------------

any_text = st.text(st.characters(exclude_categories=()), max_size=20)  # lone surrogates included
integers = st.one_of(st.integers(), st.integers(-(10**1022), 10**1022), st.integers(2**63 - 2, 2**64 + 2))
# Of at least a second: Python reads a shorter one, as its own `isoformat` writes it, as none.
offsets = st.builds(
    dt.timezone,
    st.timedeltas(dt.timedelta(hours=-23), dt.timedelta(hours=23)).filter(
        lambda offset: abs(offset) >= dt.timedelta(seconds=1)
    ),
)
scalars: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    integers,
    st.floats(allow_nan=False),
    any_text,
    st.binary(max_size=40),
    st.decimals(allow_nan=False).filter(lambda number: abs(number.adjusted()) <= 6144),
    st.datetimes(timezones=st.none() | offsets),
    st.dates(),
    st.times(timezones=st.none() | offsets),
    st.timedeltas(),
    st.uuids(),
    any_text.map(Path),
)
hashables: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3).map(tuple), st.frozensets(inner, max_size=3)),
    max_leaves=4,
)
values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(scalars, st.just(float("nan")), st.just(Decimal("nan"))),
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(hashables, inner, max_size=5),
        st.dictionaries(any_text, inner, max_size=5),
        st.sets(hashables, max_size=4),
    ),
    max_leaves=20,
)


def same(left: Any, right: Any) -> bool:
    """Whether two values are equal, their types and the order of their keys included."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return same(list(left.items()), list(right.items()))
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(same(*pair) for pair in zip(left, right, strict=True))
    if isinstance(left, float | Decimal) and left != left:
        return bool(right != right)
    if isinstance(left, dt.datetime | dt.time):
        return bool(left.isoformat() == right.isoformat())
    return bool(left == right)
