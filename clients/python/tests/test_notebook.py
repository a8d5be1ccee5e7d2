"""A notebook shows what tenant code made, and runs none of it."""

from __future__ import annotations

import html.parser
import json
import subprocess
import sys
from typing import Any, Optional

import pytest

from samples import EXCEPTION, PNG_BASE64
from test_models import outcome
from vivarium_client._latex import typeset
from vivarium_client._notebook import plain, present, safe_bundle

ATTACKS = [
    "<script>steal()</script>",
    "<img src=x onerror=steal()>",
    '"><script>steal()</script>',
    "'></iframe><script>steal()</script>",
    "<iframe srcdoc='<script>parent.steal()</script>'>",
    "</iframe><script>steal()</script>",
    "<meta http-equiv=refresh content='0;url=http://example.org/'>",
]


class Elements(html.parser.HTMLParser):
    """The elements of a page, as a browser would find them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, Optional[str]]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, Optional[str]]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.mark.parametrize("attack", ATTACKS)
def test_html_is_in_a_frame_without_scripts_and_network(attack: str) -> None:
    # Without the frame there would be something to run: the positive control.
    assert Elements(attack).found or "script" in attack
    [(tag, attributes)] = Elements(safe_bundle({"text/html": attack})["text/html"]).found
    assert tag == "iframe"
    # An empty sandbox forbids scripts, forms, navigation and the page's own origin.
    assert attributes["sandbox"] == ""
    page = attributes["srcdoc"]
    assert page is not None
    assert page.endswith(attack)
    first, policy = Elements(page).found[0]
    assert (first, policy["http-equiv"]) == ("meta", "Content-Security-Policy")
    assert str(policy["content"]).startswith("default-src 'none';")


@pytest.mark.parametrize("attack", ATTACKS)
def test_svg_is_an_image(attack: str) -> None:
    for data in (f"<svg>{attack}</svg>", f'"><svg>{attack}', attack):
        [(tag, attributes)] = Elements(safe_bundle({"image/svg+xml": data})["text/html"]).found
        assert tag == "img"
        assert str(attributes["src"]).startswith("data:image/svg+xml;base64,")


def test_what_is_neither_text_nor_an_image_is_left_out() -> None:
    mime = {
        "text/plain": "x",
        "image/png": PNG_BASE64,
        "application/javascript": "steal()",
        "application/vnd.jupyter.widget-view+json": "{}",
        "application/vnd.plotly.v1+json": "{}",
        "text/markdown": "[x](javascript:steal())",
        "text/latex": r"$\href{javascript:steal()}{x}$",
    }
    assert safe_bundle(mime) == {"text/plain": "x", "image/png": PNG_BASE64}
    hostile = outcome(images=[{"mime_type": "text/html", "data": ATTACKS[0]}])
    assert "<script" not in str(hostile.images[0]._repr_mimebundle_())


@pytest.mark.parametrize(
    "formula",
    [
        r"$\displaystyle x^{2} + \frac{1}{2}$",
        r"$$\left[\begin{matrix}1 & 0\\0 & \alpha_{1}\end{matrix}\right]$$",
        r"$\begin{cases} 1 & \text{for}\: x \geq 0 \\ \mathtt{\text{a}} & \text{b} \end{cases}$",
        "\\begin{align*}a &= b\\\\\nc &= d\\end{align*}\n",
        r"$\sum_{\substack{0 \leq i\\i \leq n}} \operatorname{asin}{\left(x \right)} 5\% \$$",
    ],
)
def test_formulas_are_typeset(formula: str) -> None:
    mime = {"text/plain": "x", "text/latex": formula}
    assert safe_bundle(mime) == {"text/plain": "x", "text/latex": formula.strip()}


@pytest.mark.parametrize(
    "attack",
    [
        r"$\href{javascript:steal()}{x}$",
        r"$x \\\href{javascript:steal()}{x}$",
        r"$\require{html}\style{background: url(//example.org)}{x}$",
        r"$\class{button}{x}$",
        r"$\cssId{x}{x}$",
        r"$\def\x{y}\x$",
        r"$\csname hr\endcsname ef$",
        r"$\unicode{x41}$",
        r"$\begin{html}x\end{html}$",
        r"$\begin {html}x\end{html}$",
        r"$\begin\alpha{html}x$",
        r"$\mmlToken{mi}[href='javascript:steal()']{x}$",
        r"$\bbox[url(x)]{x}$",
        r"$x$ <script>steal()</script> $x$",
        r"$x$ [x](javascript:steal()) $x$",
        r"$x [x](javascript:steal())$",
        r"$x$ \(\href{javascript:steal()}{x}\)",
        r"[x](javascript:steal())",
        "$`x`$",
        "$x\x1b[2J$",
        "$x\u202ey$",
        "$x\\",
        "$\\$",
        "$$",
        "",
        f"${'x' * 10**6}$",
        f"${'{' * 10**4}\\href$",
    ],
)
def test_other_latex_is_shown_as_its_source(attack: str) -> None:
    assert safe_bundle({"text/latex": attack}) == {"text/plain": plain(attack)}


def test_markup_in_a_formula_is_an_operator() -> None:
    assert typeset("$a<img src=x onerror=steal()>b$") == (r"$a\lt img src=x onerror=steal()\gt b$")


def test_no_command_outside_the_list_is_typeset() -> None:
    for number in range(0x80):
        command = f"\\{chr(number)}"
        kept = typeset(f"$x {command} x$")
        assert kept is None or chr(number) in " ,;:!{}|\\_%&#$", command
    assert typeset(r"$\alphahref{x}$") is None


def test_markdown_is_shown_as_its_source() -> None:
    mime = {"text/plain": "<Markdown object>", "text/markdown": f"# x\x1b]0;t\x07 {ATTACKS[0]}"}
    assert safe_bundle(mime) == {"text/plain": f"# x {ATTACKS[0]}"}


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("application/vnd.plotly.v1+json", "plotly"),
        ("application/vnd.vegalite.v5+json", "vegalite"),
        ("application/vnd.vega.v5+json", "vega"),
        ("application/vnd.bokehjs_exec.v0+json", "bokehjs_exec"),
    ],
)
def test_figures_that_scripts_draw_are_told_of(kind: str, name: str) -> None:
    mime = {kind: "{}", "text/plain": "Figure({…})", "text/html": "<script>draw()</script>"}
    assert safe_bundle(mime) == {"text/plain": f"A figure of {name}: show(trusted=True) draws it"}
    # A picture of it says more.
    pictured = safe_bundle({**mime, "image/png": PNG_BASE64})
    assert pictured == {"text/plain": "Figure({…})", "image/png": PNG_BASE64}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\r\nc\b", "a\tb\r\nc\b"),
        ("\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"),
        ("50%\r\x1b[K60%\x1b[A", "50%\r\x1b[K60%\x1b[A"),
        ("a\x1b]0;title\x07b", "ab"),
        ("a\x1b]52;c;aGk=\x1b\\b", "ab"),
        ("a\x1bP1;payload\x1b\\b", "ab"),
        ("a\x1b]never ended", "a"),
        ("a\x1b[2Jb\x1b[?1049hc", "abc"),
        ("a\x1bcb\x9b31m\x07\x7f", "ab31m"),
        ("é\u4e2d", "é\u4e2d"),
    ],
)
def test_control_sequences_only_colour_and_move(text: str, shown: str) -> None:
    assert plain(text) == shown


def shown(capsys: pytest.CaptureFixture[str], *, trusted: bool, **changes: Any) -> list[Any]:
    published: list[Any] = []
    present(outcome(**changes), published.append, trusted=trusted)
    captured = capsys.readouterr()
    return [captured.out, *published, captured.err]


def test_all_is_shown_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    parts = shown(
        capsys,
        trusted=False,
        stderr="careful\n",
        displays=[{"mime": {"text/plain": "a"}}, {"mime": {"text/html": "<b>b</b>"}}],
        images=[{"mime_type": "image/png", "data": PNG_BASE64}],
    )
    assert parts[0] == "hello\n"
    assert parts[1] == {"text/plain": "a"}
    assert "&lt;b&gt;b" in parts[2]["text/html"]
    assert parts[3]["image/png"] == PNG_BASE64
    assert parts[4] == {"text/plain": "42"}
    assert parts[5] == "careful\n"


def test_failures_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    failed = shown(capsys, trusted=False, status="error", exception=EXCEPTION, result=None)
    assert failed == ["hello\n", EXCEPTION["traceback"]]
    killed = shown(capsys, trusted=False, status="killed", cause="signal", result=None)
    assert killed[-1] == "killed: signal\n"


def test_who_trusts_the_code_sees_everything(capsys: pytest.CaptureFixture[str]) -> None:
    figure = '{"data": [{"y": [1, 2]}], "layout": {}}'
    mime = {
        "text/html": ATTACKS[0],
        "text/markdown": "# Title",
        "text/latex": r"$\href{x}{y}$",
        "application/vnd.plotly.v1+json": figure,
        "application/json": "no JSON",
    }
    # Notebooks want objects of JSON types: a renderer cannot draw a string.
    wanted = {**mime, "application/vnd.plotly.v1+json": json.loads(figure)}
    assert wanted in shown(capsys, trusted=True, displays=[{"mime": mime}])


def test_in_ipython(capsys: pytest.CaptureFixture[str]) -> None:
    from IPython.core.interactiveshell import InteractiveShell  # noqa: PLC0415
    from IPython.utils.capture import capture_output  # noqa: PLC0415

    shell: Any = InteractiveShell.instance()
    try:
        with capture_output() as captured:
            shell.display_formatter.format(
                outcome(images=[{"mime_type": "image/png", "data": PNG_BASE64}])
            )
    finally:
        InteractiveShell.clear_instance()
    assert captured.stdout.startswith("hello\n")
    assert [sorted(shown.data) for shown in captured.outputs] == [
        ["image/png", "text/plain"],
        ["text/plain"],
    ]


def test_ipython_and_pillow_are_only_loaded_to_show() -> None:
    program = (
        "import sys, vivarium_client\n"
        "print([name for name in ('IPython', 'PIL') if name in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "[]\n"
