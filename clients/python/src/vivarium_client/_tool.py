"""An outcome as the result of a language model's tool call.

Where the shapes come from:

- OpenAI Chat Completions, a message of role `tool`, whose content is text alone:
  `ChatCompletionToolMessageParam` in openai-python,
  `src/openai/types/chat/chat_completion_tool_message_param.py`.
- OpenAI Responses, an item `function_call_output`, whose output is text or a list of `input_text`
  and `input_image`: `FunctionCallOutput` in `src/openai/types/responses/response_input_param.py`.
- Anthropic Messages, a block `tool_result` with blocks of text and base64 images:
  `ToolResultBlockParam` and `Base64ImageSourceParam` in `src/anthropic/types` of
  anthropic-sdk-python. Limits of images: https://docs.claude.com/en/docs/vision
- Model Context Protocol, a `CallToolResult` of `TextContent` and `ImageContent`:
  https://modelcontextprotocol.io/specification/2025-06-18/server/tools#tool-result
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Literal, Optional, Union

from ._text import described, images

if TYPE_CHECKING:
    from .models.media import Image
    from .models.outcome import Outcome

ToolFormat = Literal["text", "openai-chat", "openai-responses", "anthropic", "mcp"]

# The APIs refuse a whole request for an image that is none, is of another type than it says or is
# too large: then code could end the conversation by what it displays.
_BEGINNINGS = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/webp": (b"RIFF",),
}

IMAGE_MOST_CHARS = 5 * 1000 * 1000
"""The longest image, in base64."""

IMAGE_MOST_PIXELS = 8000
"""The longest side of a PNG, which figures are."""


def tool_result(
    outcome: Outcome,
    format: ToolFormat,
    call_id: Optional[str],
    max_chars: int,
    max_images: int,
) -> Union[str, dict[str, Any]]:
    """Returns what `Outcome.as_tool_result` promises."""
    if (call_id is None) != (format in ("text", "mcp")):
        wants = "takes no" if format in ("text", "mcp") else "needs the"
        raise TypeError(f"format {format!r} {wants} call_id")
    if format in ("text", "openai-chat"):
        text = described(outcome, max_chars)
        return text if format == "text" else _chat(text, call_id)
    found = images(outcome)
    attached = [image for image in found[:max_images] if _is_acceptable(image)]
    missing = len(attached) < len(found)
    notes = [f"images attached: {len(attached)} of {len(found)}"] if missing else []
    text = described(outcome, max_chars, *notes)
    if format == "openai-responses":
        return _responses(text, attached, call_id)
    if format == "anthropic":
        return _anthropic(text, attached, call_id, failed=not outcome.ok)
    if format == "mcp":
        return _mcp(text, attached, failed=not outcome.ok)
    raise ValueError(f"format is none of {', '.join(ToolFormat.__args__)}")  # type: ignore[attr-defined]


def _chat(text: str, call_id: Optional[str]) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def _responses(text: str, attached: list[Image], call_id: Optional[str]) -> dict[str, Any]:
    output = [
        {"type": "input_text", "text": text},
        *(
            {"type": "input_image", "image_url": f"data:{image.mime_type};base64,{image.data}"}
            for image in attached
        ),
    ]
    return {
        "type": "function_call_output",
        "call_id": call_id,
        "output": output if attached else text,
    }


def _anthropic(
    text: str, attached: list[Image], call_id: Optional[str], *, failed: bool
) -> dict[str, Any]:
    sources = (
        {"type": "base64", "media_type": image.mime_type, "data": image.data} for image in attached
    )
    return {
        "type": "tool_result",
        "tool_use_id": call_id,
        "content": [
            {"type": "text", "text": text},
            *({"type": "image", "source": source} for source in sources),
        ],
        "is_error": failed,
    }


def _mcp(text: str, attached: list[Image], *, failed: bool) -> dict[str, Any]:
    return {
        "content": [
            {"type": "text", "text": text},
            *(
                {"type": "image", "data": image.data, "mimeType": image.mime_type}
                for image in attached
            ),
        ],
        "isError": failed,
    }


def _is_acceptable(image: Image) -> bool:
    beginnings = _BEGINNINGS.get(image.mime_type)
    if beginnings is None or len(image.data) > IMAGE_MOST_CHARS:
        return False
    try:
        content = base64.b64decode(image.data, validate=True)
    except ValueError:
        return False
    if not content.startswith(beginnings):
        return False
    # A PNG begins with its signature and the chunk of its width and height (PNG, 5.6 and 11.2.1).
    sides = (content[16:20], content[20:24]) if image.mime_type == "image/png" else ()
    return all(0 < int.from_bytes(side, "big") <= IMAGE_MOST_PIXELS for side in sides)
