"""The page that describes the protocol says the same numbers as the code."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from paddock.policy.limits import ResourceLimits
from paddock.rpc import object_limits, peer
from paddock_sdk.contract.interfaces import ContextManager, HookHandler, Orchestrator, Provider, Tool
from paddock_sdk.contract.vocabulary import ContractVocabulary
from paddock_sdk.kernel.mounts import MULTI_POINTS, RESOLVER_POINT, SINGLE_POINTS
from paddock_sdk.protocol import (
    MAX_DEPTH,
    MAX_ELEMENTS,
    MAX_FRAME_BYTES,
    MAX_HANDLES,
    PROTOCOL_VERSION,
    Flag,
    FrameDecoder,
    HandleEntry,
    HandleSide,
    RemoteProtocolError,
    connection,
)
from paddock_sdk.protocol.body import SCALARS, Codec
from paddock_sdk.protocol.caps import MAX_EXTENSION_BYTES, MAX_LOOSE_KEYS, Ext
from paddock_sdk.protocol.errors import UnfitValueError
from paddock_sdk.protocol.frames import HEADER_BYTES, MAX_DESCRIBED_BYTES, MAX_DESCRIPTION_BYTES, MAX_DESCRIPTION_VALUES

from .model_appendix import appendix, section
from .wire_inputs import KINDS
from .wire_vectors import VECTORS, text, vectors

PAGE = (Path(__file__).parents[2] / "sdk" / "PROTOCOL.md").read_text(encoding="utf-8")


def _section(heading: str) -> str:
    _, _, rest = PAGE.partition(f"{heading}\n")
    return re.split(r"^#", rest, maxsplit=1, flags=re.MULTILINE)[0]


def _numbered(heading: str) -> list[tuple[int, str]]:
    return [
        (int(number), name)
        for number, name in re.findall(r"^\| (\d+) \| ([a-z ]+) \|", _section(heading), re.MULTILINE)
    ]


def test_kinds_flags_sides_and_extensions_have_the_numbers_of_the_page() -> None:
    assert _numbered("### Kinds") == [(int(kind), kind.name.lower()) for kind in KINDS]
    assert _numbered("### Flags") == [(int(flag), str(flag.name).lower().replace("_", " ")) for flag in Flag if flag]
    assert _numbered("## Handles")[-2:] == [(int(side), side.name.lower()) for side in HandleSide]
    assert _numbered("## Bodies") == [(int(ext), ext.name.lower().replace("frozen", "frozen ")) for ext in Ext]


def test_scalars_are_those_of_the_page() -> None:
    assert re.findall(r"^\| `(\w+)` \|", _section("## Bodies"), re.MULTILINE) == list(SCALARS)


def test_caps_are_those_of_the_page() -> None:
    assert re.findall(r"\| (\d+)(?: ([KM])iB)?[:;|\s]", _section("### Caps")) == [
        (str(MAX_FRAME_BYTES >> 20), "M"),
        (str(MAX_HANDLES), ""),
        (str(MAX_DESCRIPTION_BYTES >> 10), "K"),
        (str(MAX_DESCRIPTION_VALUES), ""),
        (str(MAX_DESCRIBED_BYTES >> 20), "M"),
        (str(MAX_DEPTH), ""),
        (str(MAX_ELEMENTS), ""),
        (str(MAX_EXTENSION_BYTES >> 20), "M"),
        (str(ResourceLimits().calls_max), ""),
        (str(object_limits._MAX_OBJECTS), ""),
        (str(peer._MAX_UNCONFIRMED), ""),
        (str(connection._MAX_CREDIT), ""),
        (str(MAX_LOOSE_KEYS), ""),
    ]


def test_mount_points_and_members_are_those_of_the_contract() -> None:
    told = _section("## Mount points, and what stands there")
    assert {*re.findall(r"^\| `([a-z-]+)` \|", told, re.MULTILINE)} == {*MULTI_POINTS, *SINGLE_POINTS} - {
        RESOLVER_POINT
    }
    kinds = {"tool": Tool, "hook": HookHandler, "provider": Provider, "context": ContextManager}
    for kind, contract in {**kinds, "orchestrator": Orchestrator}.items():
        (row,) = re.findall(rf"^\| {kind} \| .*\|$", told, re.MULTILINE)
        flavours = dict(re.findall(r"`(\w+)\([^`]*\)` \[(\d)\]", row))
        for name, member in vars(contract).items():
            if isinstance(member, property):
                assert f"`{name}`" in row
            elif callable(member) and (name == "__call__" or not name.startswith("_")):
                assert flavours[name] == str(int(not inspect.iscoroutinefunction(member))), name


def test_the_appendix_is_the_vocabularys() -> None:
    assert section(PAGE) == appendix(), "PYTHONPATH=tests python -m protocol.model_appendix"


def test_the_vectors_are_what_is_said_and_refused() -> None:
    assert VECTORS.read_text(encoding="utf-8") == text(), "PYTHONPATH=tests python -m protocol.wire_vectors"
    refusals, codec = vectors()["refusals"], Codec(ContractVocabulary())
    for data in refusals["frames that break the protocol"].values():
        with pytest.raises(RemoteProtocolError):
            FrameDecoder().receive_data(bytes.fromhex(data))
    for of, is_meant in (("bodies that break the protocol", False), ("bodies that fail their call", True)):
        for name, data in refusals[of].items():
            with pytest.raises(RemoteProtocolError) as caught:
                codec.decode(bytes.fromhex(data))
            assert isinstance(caught.value, UnfitValueError) is is_meant, name


def test_the_version_and_the_size_of_a_header_are_those_of_the_page() -> None:
    assert f"It describes version {PROTOCOL_VERSION}." in PAGE
    assert f"A frame is a header of {HEADER_BYTES} bytes" in PAGE


def test_the_example_is_a_frame() -> None:
    lines = _section("## Frames").partition("```\n")[2].partition("```")[0].splitlines()
    (frame,) = FrameDecoder().receive_data(bytes.fromhex(lines[0] + lines[2]))
    assert frame == (
        3,
        5,
        0x0102,
        0x03040506,
        0x0708090A,
        0x0B0C0D0E,
        0x0F101112,
        (HandleEntry(1, 0x13141516, b"de"),),
        b"body",
    )
