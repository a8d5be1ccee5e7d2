"""A language model gets what an API takes, whatever code did."""

from __future__ import annotations

import base64
import json
from typing import Any, Callable

import pytest

from samples import EXCEPTION, PNG_BASE64
from test_models import outcome
from vivarium_client._text import LEAST_CHARS
from vivarium_client._tool import IMAGE_MOST_CHARS, IMAGE_MOST_PIXELS
from vivarium_client.models import Outcome

PNG = {"mime_type": "image/png", "data": PNG_BASE64}

FORMATS: list[Callable[..., Any]] = [
    lambda done, **most: done.as_tool_result(**most),
    lambda done, **most: done.as_tool_result("openai-chat", "call", **most),
    lambda done, **most: done.as_tool_result("openai-responses", "call", **most),
    lambda done, **most: done.as_tool_result("anthropic", "call", **most),
    lambda done, **most: done.as_tool_result("mcp", **most),
]

TEXT = "hello\n42\n[image 1: image/png, 69 bytes]"


def test_text_is_what_print_says() -> None:
    assert outcome().as_tool_result() == str(outcome()) == "hello\n42"


def test_openai_chat_completions() -> None:
    assert outcome(images=[PNG]).as_tool_result("openai-chat", "call") == {
        "role": "tool",
        "tool_call_id": "call",
        "content": TEXT,
    }


def test_openai_responses() -> None:
    assert outcome(images=[PNG]).as_tool_result("openai-responses", "call") == {
        "type": "function_call_output",
        "call_id": "call",
        "output": [
            {"type": "input_text", "text": TEXT},
            {"type": "input_image", "image_url": f"data:image/png;base64,{PNG_BASE64}"},
        ],
    }
    assert outcome().as_tool_result("openai-responses", "call")["output"] == "hello\n42"


def test_anthropic() -> None:
    assert outcome(images=[PNG]).as_tool_result("anthropic", "call") == {
        "type": "tool_result",
        "tool_use_id": "call",
        "content": [
            {"type": "text", "text": TEXT},
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": PNG_BASE64},
            },
        ],
        "is_error": False,
    }


def test_the_model_context_protocol() -> None:
    assert outcome(images=[PNG]).as_tool_result("mcp") == {
        "content": [
            {"type": "text", "text": TEXT},
            {"type": "image", "data": PNG_BASE64, "mimeType": "image/png"},
        ],
        "isError": False,
    }


@pytest.mark.parametrize(
    "changes",
    [{"status": "error", "exception": EXCEPTION}, {"status": "killed", "cause": "memory_limit"}],
)
def test_failures_are_errors(changes: dict[str, Any]) -> None:
    failed = outcome(result=None, **changes)
    assert failed.as_tool_result("anthropic", "call")["is_error"]
    assert failed.as_tool_result("mcp")["isError"]
    for form in FORMATS:
        assert f"[{failed.status}: " in json.dumps(form(failed))


@pytest.mark.parametrize("form", FORMATS)
def test_no_text_is_empty(form: Callable[..., Any]) -> None:
    for blank in ("", "\n "):
        assert "[no visible output]" in json.dumps(form(outcome(stdout=blank, result=None)))


def attached(done: Outcome, **most: int) -> list[Any]:
    return [block["data"] for block in done.as_tool_result("mcp", **most)["content"][1:]]


def test_images_of_displays_and_values_are_attached() -> None:
    mime = {"text/plain": "a plot", "image/png": PNG_BASE64}
    shown = outcome(
        images=[PNG], displays=[{"mime": mime}], result={"repr": "x", "type": "X", "mime": mime}
    )
    assert attached(shown) == [PNG_BASE64] * 3
    assert attached(shown, max_images=2) == [PNG_BASE64] * 2
    text = shown.as_tool_result("mcp", max_images=2)["content"][0]["text"]
    assert text.endswith("\n[images attached: 2 of 3]")


def test_the_least_text_has_room_for_its_notes() -> None:
    shown = outcome(stdout="x" * 10**4, images=[PNG])
    text = shown.as_tool_result("mcp", max_chars=LEAST_CHARS, max_images=0)["content"][0]["text"]
    assert len(text) <= LEAST_CHARS
    assert text.endswith("\n[images attached: 0 of 1]")


def png(width: int, height: int) -> str:
    header = base64.b64decode(PNG_BASE64)[:16]
    sides = width.to_bytes(4, "big") + height.to_bytes(4, "big")
    return base64.b64encode(header + sides + bytes(100)).decode()


@pytest.mark.parametrize(
    ("mime_type", "data"),
    [
        ("image/png", ""),
        ("image/png", "%"),
        ("image/png", "é"),
        ("image/png", base64.b64encode(b"<script>").decode()),
        ("image/png", base64.b64encode(base64.b64decode(PNG_BASE64)[:20]).decode()),
        ("image/jpeg", PNG_BASE64),
        ("image/svg+xml", base64.b64encode(b"<svg/>").decode()),
        ("image/png;x", PNG_BASE64),
        ("image/png", PNG_BASE64[:-4] + "A" * (IMAGE_MOST_CHARS - len(PNG_BASE64) + 8)),
        ("image/png", png(IMAGE_MOST_PIXELS + 1, 1)),
        ("image/png", png(1, 2**32 - 1)),
        ("image/png", png(0, 1)),
    ],
)
def test_what_an_api_would_refuse_is_not_attached(mime_type: str, data: str) -> None:
    hostile = outcome(images=[{"mime_type": mime_type, "data": data}, PNG])
    assert attached(hostile) == [PNG_BASE64]
    text = hostile.as_tool_result("mcp")["content"][0]["text"]
    assert text.endswith("\n[images attached: 1 of 2]")


def test_the_largest_image_is_attached() -> None:
    largest = png(IMAGE_MOST_PIXELS, IMAGE_MOST_PIXELS)
    assert attached(outcome(images=[{"mime_type": "image/png", "data": largest}])) == [largest]


@pytest.mark.parametrize("form", FORMATS)
def test_hostile_outcomes_stay_small_and_are_json(form: Callable[..., Any]) -> None:
    huge = "\x1b]0;\ud800\u202e" * 10**4
    hostile = outcome(
        stdout=huge,
        stderr=huge,
        detail=huge,
        status="killed",
        result={"repr": huge, "type": huge, "mime": {"image/png": huge}},
        exception={"type": huge, "message": huge, "traceback": huge},
        files=[{"name": huge, "error": huge}],
        images=[{"mime_type": huge, "data": huge}],
    )
    result = json.dumps(form(hostile, max_chars=1000), ensure_ascii=False)
    assert len(result.encode()) < 1500
    assert result.isprintable()


def test_call_ids_are_where_they_belong() -> None:
    untyped: Any = outcome()
    for format in ("openai-chat", "openai-responses", "anthropic"):
        with pytest.raises(TypeError, match="needs the call_id"):
            untyped.as_tool_result(format)
    for format in ("text", "mcp"):
        with pytest.raises(TypeError, match="takes no call_id"):
            untyped.as_tool_result(format, "call")
    with pytest.raises(ValueError, match="format is none of text, "):
        untyped.as_tool_result("other", "call")
