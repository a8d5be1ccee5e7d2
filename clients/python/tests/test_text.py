"""An outcome as text says what happened, whatever the code printed."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest

from samples import EXCEPTION, PNG_BASE64
from test_models import outcome
from vivarium_client import errors
from vivarium_client._text import LEAST_CHARS, NAMED_AT_MOST, described, line, visible

IMAGE = {"mime_type": "image/png", "data": PNG_BASE64}

LOST = {"status": "killed", "cause": "memory_limit", "detail": "over 512 MiB", "state": "lost"}


def test_output_comes_first_and_then_the_value() -> None:
    assert str(outcome()) == "hello\n42"
    assert str(outcome(stdout="no end of line", stderr="careful\n")) == (
        "no end of line\n[stderr]\ncareful\n42"
    )
    shown = [{"mime": {"text/plain": "a"}}, {"mime": {"text/html": "<b>", "application/x": ""}}]
    assert str(outcome(displays=shown)) == ("hello\na\n[display: text/html, application/x]\n42")


OUTPUTS = [
    {"output_type": "stream", "name": "stdout", "text": "one\n"},
    {"output_type": "stream", "name": "stderr", "text": "careful\n"},
    {
        "output_type": "display_data",
        "metadata": {},
        "data": {"text/plain": "a plot", "image/png": PNG_BASE64, "application/json": {"a": 1}},
    },
    {
        "output_type": "display_data",
        "metadata": {"vivarium": {"part": "video_frames/0"}},
        "data": {"image/png": PNG_BASE64},
    },
    {"output_type": "stream", "name": "stdout", "text": "two\n"},
    {"output_type": "error", "ename": "E", "evalue": "m", "traceback": ["Traceback", "E: m"]},
]


def test_outputs_are_told_in_their_order() -> None:
    done = outcome(stdout="", result=None, status="error", outputs=OUTPUTS)
    assert str(done).splitlines() == [
        *("one", "[stderr]", "careful", "a plot", "[display: image/png]", "two"),
        *("Traceback", "E: m", "[error]", "[image 1: image/png, 69 bytes]"),
    ]
    with pytest.raises(errors.CodeError, match="m"):
        done.raise_for_status()


def test_what_the_daemon_has_cut_says_so_itself() -> None:
    mark = "a\n[900 of 1000 characters left out]\nz\n"
    cuts = [{"part": "stdout", "mime_type": None, "kept_chars": 100, "dropped_chars": 900}]
    done = outcome(stdout=mark, cuts=cuts)
    assert str(done) == f"{mark}42"
    assert (done.cuts[0].part, done.cuts[0].dropped_chars) == ("stdout", 900)


def test_sources_say_more_than_the_names_of_objects() -> None:
    mime = {"text/plain": "<Markdown object>", "text/markdown": "# Title"}
    assert str(outcome(displays=[{"mime": mime}], stdout="")) == "# Title\n42"


def test_nothing_is_said_as_well() -> None:
    for blank in ("", "\n", " \t\n\n", "\u2003"):
        assert str(outcome(stdout=blank, result=None)) == "[no visible output]"
    assert str(outcome(stdout="", result=None, status="interrupted")) == "[interrupted]"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"status": "error", "exception": EXCEPTION},
            f"{EXCEPTION['traceback']}[error: ZeroDivisionError]",
        ),
        (
            {"status": "error", "exception": {**EXCEPTION, "traceback": ""}},
            "ZeroDivisionError: division by zero\n[error: ZeroDivisionError]",
        ),
        (
            {"status": "error", "cause": "exited", "exit_code": 3},
            "[error: exited: exit code 3]",
        ),
        (LOST, "[killed: memory_limit: over 512 MiB]\n[all variables are lost]"),
        (
            {**LOST, "state": "preserved", "rolled_back": True},
            "[killed: memory_limit: over 512 MiB]"
            "\n[the session was rolled back to its last checkpoint]",
        ),
    ],
)
def test_failures_say_how_it_ended(changes: dict[str, Any], said: str) -> None:
    assert str(outcome(result=None, **changes)) == f"hello\n{said}"


def test_what_is_missing_is_said() -> None:
    text = str(outcome(stdout_truncated=True, stderr_truncated=True))
    assert text.endswith(
        "\n[stdout was longer than the limit: the rest is missing]"
        "\n[stderr was longer than the limit: the rest is missing]"
    )


def test_images_and_files_are_named() -> None:
    text = str(
        outcome(
            images=[IMAGE],
            video_frames=[IMAGE, IMAGE],
            displays=[{"mime": {"text/plain": "a plot", "image/png": PNG_BASE64}}],
            files=[
                {"name": "a", "mime_type": "text/plain", "size_bytes": 5, "text": "inner"},
                {"name": "b", "error": "no such file"},
            ],
            files_changed=[{"name": "c", "size_bytes": 1}, {"name": "d", "size_bytes": 2}],
            files_changed_more=True,
        )
    )
    assert text.splitlines() == [
        "hello",
        "a plot",
        "42",
        "[image 1: image/png, 69 bytes]",
        "[image 2: image/png, 69 bytes]",
        "[frames of animations: 2]",
        "[file a: text/plain, 5 bytes]",
        "[file b: no such file]",
        "[files changed: c (1 byte), d (2 bytes) and more]",
    ]


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("a\tb\r\nc\n", "a\tb\nc\n"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("50%\r60%", "50%\\r60%"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x1b[2J\x1b[?1049h\x9b31m", "\\x1b[2J\\x1b[?1049h\\x9b31m"),
        ("a\x1b[\x1b[0m2J", "a\\x1b[2J"),
        ("a\u202eb\u2066c\u2028d", "a\\u202eb\\u2066c\\u2028d"),
        ("\ud800", "\\ud800"),
        ("é\u4e2d\U0001f600", "é\u4e2d\U0001f600"),
    ],
)
def test_control_characters_are_spelt_out(text: str, seen: str) -> None:
    assert visible(text) == seen


def test_no_character_drives_a_terminal_or_breaks_an_encoder() -> None:
    every = "".join(map(chr, range(0x110000)))
    kept = visible(every)
    assert {mark for mark in kept if unicodedata.category(mark) in ("Cc", "Cs")} == {"\t", "\n"}
    assert kept.encode().decode() == kept
    assert not {mark for mark in kept if unicodedata.bidirectional(mark) in ("RLO", "LRO", "RLI")}


def test_every_part_of_an_outcome_is_spelt_out() -> None:
    attack = "\x1b]52;c;aGk=\x07\x1b[2J"
    text = str(
        outcome(
            stdout=attack,
            stderr=attack,
            result={"repr": attack, "type": attack, "mime": {}},
            exception={"type": attack, "message": attack, "traceback": attack},
            detail=attack,
            cause=attack,
            status="error",
            images=[{"mime_type": attack, "data": ""}],
            displays=[{"mime": {"text/plain": attack}}, {"mime": {attack: ""}}],
            files=[
                {"name": attack, "mime_type": attack, "text": ""},
                {"name": "x", "error": attack},
            ],
            files_changed=[{"name": attack, "size_bytes": 1}],
        )
    )
    assert text.isprintable() or set(filter(lambda mark: not mark.isprintable(), text)) == {"\n"}


def test_a_name_has_one_line() -> None:
    assert line("a]\n[killed: by nobody") == "a]\\n[killed: by nobody"


@pytest.mark.parametrize("most", [LEAST_CHARS, 1000, 10_000])
def test_long_texts_keep_both_ends_and_how_it_ended(most: int) -> None:
    long = outcome(stdout="begin" + "\x1b" * 10**6 + "end", result=None, **LOST)
    text = described(long, most)
    assert most * 0.9 < len(text) <= most
    assert text.startswith("begin\\x1b")
    assert "end\n[killed: memory_limit: over 512 MiB]\n[all variables are lost]" in text
    assert " of 4000009 characters left out]\n" in text
    # What is left and what is missing are all of it.
    missing = int(text.split(" of 4000009")[0].rsplit("[", 1)[1])
    body = text.split("[killed")[0]
    marker = f"\n[{missing} of 4000009 characters left out]\n"
    assert len(body) - len(marker) + missing == 4000009


def test_a_long_end_leaves_room() -> None:
    name = "n" * 10**5
    text = described(outcome(detail=name, status="killed", files=[{"name": name}]), 1000)
    assert len(text) <= 1000
    assert text.startswith("hello\n42\n[killed: nnn")
    with pytest.raises(ValueError, match="at least 200"):
        described(outcome(), LEAST_CHARS - 1)


def test_many_files_are_counted() -> None:
    files = [{"name": str(n), "error": "gone"} for n in range(1000)]
    changed = [{"name": str(n), "size_bytes": 0} for n in range(1000)]
    text = str(outcome(files=files, files_changed=changed, images=[IMAGE] * 1000))
    assert len(text.splitlines()) < 3 * NAMED_AT_MOST
    assert text.count(" more") == 3
    assert "[980 more images]" in text


def test_the_repr_is_short() -> None:
    huge = "\x1b" * 10**6
    short = outcome(stdout=huge, result={"repr": huge, "type": huge}, detail=huge)
    assert len(repr(short)) < 300
    assert repr(short).isprintable()
    assert repr(outcome()) == (
        "Outcome(status='ok', execution_id='1', session_id='demo', value='int')"
    )
