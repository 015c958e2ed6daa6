from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Callable

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors._admission import Holding, MemoryBudget
from collectors._http import Encoding, Gunzip, Inflater, Unzstd, inflate, inflater
from otel_agentic.errors import DecodeError, OverloadedError, TooLargeError

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zstd": zstandard.ZstdCompressor().compress,
    "identity": bytes,
}


def keep(_count: int) -> None:
    """Hold as much as there is."""


@settings(deadline=None)
@given(
    encoding=st.sampled_from(["gzip", "zstd", "identity"]),
    texts=st.lists(st.binary(max_size=50) | st.integers(1, 400_000).map(bytes), max_size=3),
    step=st.integers(1, 70_000),
)
def test_members_cut_anywhere_give_the_text_back(encoding: Encoding, texts: list[bytes], step: int) -> None:
    packed = b"".join(COMPRESS[encoding](text) for text in texts)
    step = max(step, len(packed) // 500)
    opened = inflater(encoding)
    pieces = [piece for start in range(0, len(packed), step) for piece in opened.feed(packed[start : start + step])]
    opened.finish()
    assert b"".join(pieces) == b"".join(texts)


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_body_cut_short_is_a_decode_error_wherever_it_is_cut(encoding: Encoding) -> None:
    packed = COMPRESS[encoding](b"some text" * 20)
    for end in range(1, len(packed)):
        with pytest.raises(DecodeError):
            inflate(packed[:end], encoding, 10_000, keep)


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_bytes_after_the_end_that_are_no_further_member_are_a_decode_error(encoding: Encoding) -> None:
    with pytest.raises(DecodeError):
        inflate(COMPRESS[encoding](b"text") + b"garbage!", encoding, 10_000, keep)


def test_zeros_after_a_gzip_member_are_padding() -> None:
    assert inflate(gzip.compress(b"text") + bytes(1000), "gzip", 10_000, keep) == b"text"


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_the_limit_is_exact_and_a_bomb_stops_at_it(encoding: Encoding) -> None:
    assert len(inflate(COMPRESS[encoding](bytes(1000)), encoding, 1000, keep)) == 1000
    with pytest.raises(TooLargeError, match="999 bytes"):
        inflate(COMPRESS[encoding](bytes(1000)), encoding, 999, keep)
    held: list[int] = []
    with pytest.raises(TooLargeError):
        inflate(COMPRESS[encoding](bytes(100_000_000)), encoding, 1_000_000, held.append)
    assert sum(held) <= 1_000_000


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_members_of_two_bytes_each_take_no_more_memory_than_they_hold(encoding: Encoding) -> None:
    packed = COMPRESS[encoding](b"ab") * 100_000

    def peak_bytes() -> int:
        tracemalloc.start()
        try:
            assert 200_000 == len(inflate(packed, encoding, 1_000_000, keep))
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    # More than once: a thread that another test left may take memory meanwhile.
    assert any(peak_bytes() < 1_000_000 for _ in range(3))


@pytest.mark.parametrize(("opened", "encoding", "bound"), [(Gunzip(), "gzip", 2**18), (Unzstd(), "zstd", 2**23)])
def test_pieces_are_bounded(opened: Inflater, encoding: str, bound: int) -> None:
    assert max(len(piece) for piece in opened.feed(COMPRESS[encoding](bytes(50_000_000)))) <= bound


def test_a_zstd_window_that_takes_too_much_memory_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=26)
    # Without the size in the frame's head, and longer than the window that is allowed.
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    packed = packer.compress(bytes(20_000_000)) + packer.flush()
    with pytest.raises(DecodeError, match="zstd"):
        inflate(packed, "zstd", 100_000_000, keep)


def test_all_requests_together_hold_no_more_than_the_budget() -> None:
    budget = MemoryBudget(100)
    with Holding(budget) as first, Holding(budget) as second:
        first.add(60)
        with pytest.raises(OverloadedError):
            second.add(41)
        second.add(40)
        assert budget.held_bytes == 100
    assert budget.held_bytes == 0
