"""Taking up again what an earlier life did, and taking back the rest."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from paddock.rpc.peer import Handle
from paddock.session.registrations import Registrations
from paddock_sdk.contract.vocabulary import ContractVocabulary
from paddock_sdk.protocol.body import Codec
from paddock_sdk.protocol.description import Description, Flavour, Member, encode_description

_CODEC = Codec(ContractVocabulary())


def _peer() -> Any:
    return SimpleNamespace(adopt=lambda handle: None)


_FIRST, _SECOND = _peer(), _peer()  # the lives of one module


def _handle(number: int, *members: str, owner: Any = _FIRST) -> Handle:
    described = Description("Thing", tuple(Member(name, Flavour.ASYNC) for name in members), {})
    return Handle(owner, number, encode_description(described, _CODEC))


def test_an_object_with_other_members_replaces_its_predecessor() -> None:
    undone: list[str] = []
    acts = Registrations(_CODEC)
    acts.begin_life(_FIRST)
    first = _handle(1, "execute")
    acts.add(("mount", "tools", "x"), first, lambda: undone.append("x"))
    acts.begin_life(_SECOND)
    assert acts.renew(("mount", "tools", "x"), _handle(9, "before_execute", "execute", owner=_SECOND)) is None
    assert (first.object_id, undone) == (1, ["x"])


def test_two_acts_of_one_key_are_renewed_one_after_the_other() -> None:
    acts = Registrations(_CODEC)
    acts.begin_life(_FIRST)
    handles = [_handle(number, "__call__") for number in (1, 2)]
    for handle in handles:
        acts.add(("handler", "e", None), handle, lambda: None)
    acts.begin_life(_SECOND)
    for number in (11, 12):
        acts.renew(("handler", "e", None), _handle(number, "__call__", owner=_SECOND))
    assert [handle.object_id for handle in handles] == [11, 12]


def test_the_object_of_another_is_renewed_by_nothing_and_renews_nothing() -> None:
    """Whoever holds it would call what the module registered in its place."""
    theirs = _handle(3, "__call__", owner=_peer())
    undone: list[str] = []
    acts = Registrations(_CODEC)
    acts.begin_life(_FIRST)
    own = _handle(1, "__call__")
    acts.add(("capability", "own"), own, lambda: undone.append("own"))
    acts.add(("capability", "theirs"), theirs, lambda: undone.append("theirs"))
    acts.begin_life(_SECOND)
    assert acts.renew(("capability", "theirs"), _handle(9, "__call__", owner=_SECOND)) is None
    assert acts.renew(("capability", "own"), theirs) is None
    assert (own.object_id, theirs.object_id) == (1, 3)
    acts.end_beginning()
    assert undone == ["own", "theirs"]
