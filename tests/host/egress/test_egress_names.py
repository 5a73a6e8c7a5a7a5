"""The addresses that stand for names."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network

from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.egress.addresses import is_public
from paddock.egress.name_table import MAX_NAMES, NameTable


def test_a_name_has_one_address_and_the_address_that_name() -> None:
    table = NameTable()
    first = table.address_of("a.test")
    second = table.address_of("b.test")
    assert first is not None
    assert second is not None
    assert first != second
    assert table.address_of("a.test") == first
    assert (table.names_of(first), table.names_of(second)) == (("a.test",), ("b.test",))


def test_an_address_that_was_told_for_no_name_has_none() -> None:
    table = NameTable()
    assert table.names_of(IPv4Address("198.18.0.2")) == ()
    assert table.names_of(IPv4Address("1.1.1.1")) == ()
    assert table.address_of("a.test") == IPv4Address("198.18.0.2")


def test_the_table_has_room_for_so_many_names_and_keeps_those_it_has() -> None:
    table = NameTable()
    addresses = {name: table.address_of(name) for name in (f"n{number}.test" for number in range(MAX_NAMES))}
    assert len(set(addresses.values())) == MAX_NAMES
    assert table.address_of("one-more.test") is None
    assert all(table.address_of(name) == address for name, address in addresses.items())
    for address in addresses.values():
        assert address is not None
        assert address in IPv4Network("198.18.0.0/15")
        assert address.packed[3] not in (0, 255)
        assert address != IPv4Address("198.18.0.1")
        assert not is_public(address)


def test_unkept_names_take_turns_and_kept_ones_stay() -> None:
    table = NameTable()
    kept = table.address_of("kept.test")
    addresses = [table.address_of(f"n{number}.test", keep=False) for number in range(MAX_NAMES)]
    assert len({kept, *addresses}) == MAX_NAMES + 1
    assert table.address_of("n0.test", keep=False) == addresses[0]  # asked for again
    assert addresses[1] is not None and table.names_of(addresses[1]) == ("n1.test",)  # connected to
    assert table.address_of("one-more.test", keep=False) == addresses[2]
    assert table.names_of(addresses[2]) == ("one-more.test",)
    assert (table.address_of("kept.test"), table.address_of("n1.test", keep=False)) == (kept, addresses[1])


@settings(max_examples=50, deadline=None, database=None)
@given(st.lists(st.sampled_from([f"n{number}.test" for number in range(20)])))
def test_names_asked_for_in_any_order_go_there_and_back(names: list[str]) -> None:
    table = NameTable()
    for name in names:
        address = table.address_of(name)
        assert address is not None
        assert table.names_of(address) == (name,)


def test_names_share_a_real_address_and_keep_it() -> None:
    table, real = NameTable(), IPv4Address("1.1.1.1")
    made = [table.address_of(name) for name in ("a.test", "b.test")]
    for name in ("a.test", "b.test"):
        table.give_real(name, real)
    assert [table.address_of(name) for name in ("a.test", "b.test", "c.test")] == [
        real,
        real,
        IPv4Address("198.18.0.4"),
    ]
    assert table.names_of(real) == ("a.test", "b.test")
    assert [table.names_of(address) for address in made if address is not None] == [("a.test",), ("b.test",)]
