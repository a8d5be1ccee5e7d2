"""What becomes of answers that a daemon of a test does not give."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from vivarium_client import ApiError, AwaitingApproval, TransportError
from vivarium_client.models import Inspection

from vivarium_jupyter import messages


def test_the_one_who_waits_for_approval_is_told() -> None:
    event = AwaitingApproval(1, "1", "s", "a", datetime.now(timezone.utc))
    text = "[waits until somebody allows it]\n"
    assert messages.message(event, 1) == ("stream", {"name": "stderr", "text": text})


def test_a_refusal_is_named_by_its_code_and_says_what_to_do() -> None:
    error = ApiError(503, "draining", "it drains", {"fix": "wait"})
    assert messages.refusal(error) == messages.failure("draining", "it drains. wait")
    assert messages.refusal(TransportError("away")) == messages.failure("TransportError", "away")


@pytest.mark.parametrize(
    "text", ["{", "NaN", '"\\ud800"', "[" * 101 + "]" * 101, "[" * 100_000, "9" * 5000]
)
def test_json_that_a_frontend_may_not_take_stays_text(text: str) -> None:
    told = messages.data({"application/json": text, "application/x+json": "[1]"})
    assert told == {"application/json": text, "application/x+json": [1]}


def test_json_of_some_depth_is_json() -> None:
    told = messages.data({"application/json": "[" * 100 + "]" * 100, "text/plain": "[1]"})
    assert isinstance(told["application/json"], list)
    assert told["text/plain"] == "[1]"


def test_a_name_is_described_with_docstring_or_source() -> None:
    found = Inspection(True, "f", "function", "(x)", "Doc.", "<function f>", "def f(x): pass")
    told = messages.described(found, with_source=False)
    assert told == "Signature:  f(x)\nType:       function\nDocstring:\nDoc."
    assert messages.described(found, with_source=True).endswith("Source:\ndef f(x): pass")


@pytest.mark.parametrize(
    ("text", "seconds"), [("1h", 3600), ("1h30m", 5400), ("2d", 172_800), ("1s500ms", 1.5)]
)
def test_durations_of_the_policy_are_read(text: str, seconds: float) -> None:
    assert messages.seconds(text) == seconds
