from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from collectors.files import InflatedFile
from tests.steps import LINEAR, growth


@given(st.binary(max_size=200), st.lists(st.tuples(st.booleans(), st.integers(1, 60)), max_size=12))
def test_looking_ahead_takes_nothing_away(data: bytes, steps: list[tuple[bool, int]]) -> None:
    opened, read = InflatedFile(io.BytesIO(b"{" + data)), b""
    for looks, count in steps:
        if looks:
            assert (b"{" + data)[len(read) : len(read) + count] == opened.sample(count)
        else:
            read += opened.read(count)
    assert b"{" + data == read + opened.readall()


def test_what_was_looked_at_as_a_whole_is_read_in_time_that_grows_with_it() -> None:
    def prepared(blocks: int) -> Callable[[], object]:
        opened = InflatedFile(io.BytesIO(bytes(range(1, 256)) * 16 * blocks))
        opened.sample(64 * 1024 * 1024)
        return lambda: [*iter(partial(opened.read, 4096), b"")]

    assert growth(prepared, 500) < LINEAR
    prepared(1_000_000 // 16)()  # copying the rest at each read would not end
