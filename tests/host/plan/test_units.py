from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.plan.problems import NotAcceptedError
from paddock.plan.units import parse_count, parse_duration, parse_percentage, parse_size
from support.rows import each_row

Parser = Callable[[object], Any]
PARSERS: list[Parser] = [parse_size, parse_duration, parse_percentage, parse_count]


@each_row(
    ("parse", "written", "value"),
    [
        (parse_size, "1", 1),
        (parse_size, 4096, 4096),
        (parse_size, "4K", 4096),
        (parse_size, "256M", 256 * 1024**2),
        (parse_size, "256MiB", 256 * 1024**2),
        (parse_size, "1G", 1024**3),
        (parse_size, "2T", 2 * 1024**4),
        (parse_duration, "30s", 30.0),
        (parse_duration, "250ms", 0.25),
        (parse_duration, "5min", 300.0),
        (parse_duration, "1h", 3600.0),
        (parse_duration, "1.5h", 5400.0),
        (parse_percentage, "50%", 0.5),
        (parse_percentage, "200%", 2.0),
        (parse_percentage, "12.5%", 0.125),
        (parse_count, 32, 32),
        (parse_count, "32", 32),
    ],
)
def test_a_quantity_means_what_it_says(parse: Parser, written: object, value: float) -> None:
    assert parse(written) == pytest.approx(value)


@each_row(
    ("parse", "written"),
    [
        *[
            (parse_size, text)
            for text in [
                "",
                "M",
                "1.5G",
                "256m",
                "256MB",
                "256 M",
                "-1",
                "0",
                "0K",
                "9999999999999T",
                "1e3",
                "٣M",
                "1M\n",
            ]
        ],
        *[(parse_size, value) for value in [0, -1, 1.5, True, None, [1], 2**63]],
        *[
            (parse_duration, text)
            for text in ["", "30", "30 s", "5m", "1d", "0s", "-1s", "1h30min", "9999999h", "infs", "nan"]
        ],
        *[(parse_duration, value) for value in [30, 1.5, True, None]],
        *[(parse_percentage, text) for text in ["50", "%", "0%", "-5%", "5 %", "9999999%"]],
        *[(parse_percentage, value) for value in [0.5, 50, None]],
        *[(parse_count, value) for value in ["0", 0, -3, 1.0, True, "many", "1K", 2**31, None, "9" * 5000, 10**5000]],
    ],
    ids=lambda value: getattr(value, "__name__", None) or repr(value)[:20] if not isinstance(value, int) else "number",
)
def test_what_is_not_a_quantity_is_refused_with_what_would_be(parse: Parser, written: object) -> None:
    with pytest.raises(NotAcceptedError) as caught:
        parse(written)
    assert " as in " in caught.value.accepted
    assert len(str(caught.value)) < 250


@given(st.integers(1, 2**22), st.sampled_from([("", 0), ("K", 1), ("M", 2), ("G", 3), ("T", 4)]))
def test_sizes_are_powers_of_1024(number: int, unit: tuple[str, int]) -> None:
    assert parse_size(f"{number}{unit[0]}") == number * 1024 ** unit[1]


@given(st.integers(1, 8000), st.sampled_from([("s", 1), ("min", 60), ("h", 3600)]))
def test_durations_are_seconds(number: int, unit: tuple[str, int]) -> None:
    assert parse_duration(f"{number}{unit[0]}") == number * unit[1]


ANYTHING = st.one_of(
    st.text(),
    st.from_regex(r"[0-9.]{1,30}(K|M|G|T|KiB|ms|s|min|h|%)?", fullmatch=True),
    st.integers(),
    st.floats(),
    st.booleans(),
    st.none(),
    st.binary(),
)


@given(st.sampled_from(PARSERS), ANYTHING)
def test_any_input_gives_a_positive_number_or_a_unit_error(parse: Parser, written: object) -> None:
    try:
        value = parse(written)
    except NotAcceptedError:
        return
    assert value > 0
    assert type(value) is (int if parse in (parse_size, parse_count) else float)
