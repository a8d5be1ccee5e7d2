"""Decoding event streams, wherever they are cut."""

from __future__ import annotations

import pytest

from samples import STREAM
from vivarium_client._core.sse import Decoder, Message


def decode(*chunks: bytes) -> list[Message]:
    decoder = Decoder()
    return [message for chunk in chunks for message in decoder.feed(chunk)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_it_may_be_cut_at_any_byte(end: bytes) -> None:
    whole = b"".join([*STREAM[:4], b": keep-alive\n\n", *STREAM[4:]]).replace(b"\n", end)
    expected = decode(whole)
    assert [message.id for message in expected] == [str(n) for n in range(1, 11)]
    for cut in range(len(whole) + 1):
        assert decode(whole[:cut], whole[cut:]) == expected, cut
    assert decode(*(bytes([byte]) for byte in whole)) == expected


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: a\n\n", [Message("", "message", "a")]),
        (b"data:a\ndata: b\ndata:\n\n", [Message("", "message", "a\nb\n")]),
        (b"data:  two spaces\n\n", [Message("", "message", " two spaces")]),
        (b"\xef\xbb\xbfdata: after a BOM\n\n", [Message("", "message", "after a BOM")]),
        (b"data: \xef\xbb\xbfkept\n\n", [Message("", "message", "\ufeffkept")]),
        (b"data\n\n", [Message("", "message", "")]),
        (b"event: x\n\ndata: a\n\n", [Message("", "message", "a")]),
        (
            b"id: 1\ndata: a\n\ndata: b\n\n",
            [Message("1", "message", "a"), Message("1", "message", "b")],
        ),
        (
            b"id: 1\ndata: a\n\nid: a\0b\ndata: b\n\n",
            [Message("1", "message", "a"), Message("1", "message", "b")],
        ),
        (b"retry: 10\nunknown: x\n: comment\n\n", []),
        (b"data: unfinished\n", []),
        (b"data: unfinished", []),
        (b"\n\n\n", []),
        (b"data: \xff\n\n", [Message("", "message", "\ufffd")]),
    ],
)
def test_fields_are_those_of_the_standard(stream: bytes, expected: list[Message]) -> None:
    assert decode(stream) == expected


def test_line_ends_may_be_mixed() -> None:
    assert [m.data for m in decode(b"data: a\r\r\ndata: b\n\r\ndata: c\r\n\n")] == ["a", "b", "c"]


def test_a_long_line_in_many_chunks() -> None:
    chunks = [b"data: ", *[b"x" * 1000] * 5000, b"\n", b"\n"]
    assert [len(m.data) for m in decode(*chunks)] == [5_000_000]
