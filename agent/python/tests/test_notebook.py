"""Code written for notebooks runs without IPython."""

import base64
import pathlib

from harness import KernelTest, interpreter_with


class StandIn(KernelTest):
    def setUp(self):
        super().setUp()
        if interpreter_with(("IPython",)) == self.interpreter:
            self.skipTest("IPython is installed here")

    def test_ipython_appears_only_when_imported(self):
        self.assertEqual(self.run_ok("import sys; 'IPython' in sys.modules").value, "False")
        self.assertEqual(self.run_ok("import IPython\nIPython.__version__").value, "'9.0.0'")
        self.run_ok("from IPython.core.getipython import get_ipython as other")
        self.run_ok("assert other is get_ipython is IPython.get_ipython")
        self.run_ok("IPython.display.display, IPython.display.HTML")
        self.run_error("import IPython.core.magic", "ModuleNotFoundError")
        self.run_error("import IPythonic", "ModuleNotFoundError")

    def test_an_ipython_in_the_workdir_comes_first(self):
        pathlib.Path(self.workdir, "IPython.py").write_text("x = 'mine'")
        self.assert_value("import IPython; IPython.x", "'mine'")

    def test_common_names_can_be_imported(self):
        for module in ("IPython.display", "IPython.core.display"):
            self.run_ok(
                "from %s import display, HTML, Image, Markdown, JSON, SVG, Latex, Math,"
                " Javascript, Audio, Video, IFrame, Code, Pretty, FileLink, ProgressBar,"
                " clear_output, update_display, display_html, DisplayHandle,"
                " YouTubeVideo, publish_display_data, set_matplotlib_formats" % module
            )
        self.run_ok("import builtins\nassert display is builtins.display")
        self.run_ok("from IPython.display import *\nset_matplotlib_formats('svg')")

    def test_text_classes_render(self):
        self.run_ok("from IPython.display import *")
        pathlib.Path(self.workdir, "page.html").write_text("<p>\xe9", "utf-8")
        for code, kind, data in (
            ("HTML('<b>')", "text/html", b"<b>"),
            ("HTML(filename='page.html')", "text/html", "<p>\xe9".encode()),
            ("HTML('page.html')", "text/html", "<p>\xe9".encode()),
            ("import pathlib; HTML(pathlib.Path('page.html'))", "text/html", "<p>\xe9".encode()),
            ("Markdown('# a')", "text/markdown", b"# a"),
            ("Latex('$x$')", "text/latex", b"$x$"),
            ("Math('x^2')", "text/latex", b"$\\displaystyle x^2$"),
            ("SVG('<svg/>')", "image/svg+xml", b"<svg/>"),
            ("JSON({'a': 1})", "application/json", b'{"a": 1}'),
            ("JSON('[1]')", "application/json", b"[1]"),
            ("GeoJSON({'type': 'Point'})", "application/geo+json", b'{"type": "Point"}'),
            ("Javascript('f()')", "application/javascript", b"f()"),
            ("Code('a < b')", "text/html", b"<pre><code>a &lt; b</code></pre>"),
        ):
            with self.subTest(code):
                self.assertEqual(self.run_ok(code).mime[kind], data)
        self.assert_value("HTML('')", "<IPython.core.display.HTML object>")
        self.assert_value("Pretty('as it is')", "as it is")
        self.assert_value("ProgressBar(9)", "0/9")

    def test_media_classes_render(self):
        self.run_ok("from IPython.display import *")
        png = b"\x89PNG\r\n"
        pathlib.Path(self.workdir, "a.png").write_bytes(png)
        for code in ("Image('a.png')", "Image(filename='a.png')", "Image(data=b'\\x89PNG\\r\\n')"):
            self.assertEqual(self.run_ok(code).mime, {"image/png": png})
        jpeg = self.run_ok("Image(b'\\xff\\xd8\\xff')").mime
        self.assertEqual(jpeg, {"image/jpeg": b"\xff\xd8\xff"})
        html = self.run_ok("Image(url='http://a/b.png', width=5)").mime["text/html"]
        self.assertEqual(html, b'<img src="http://a/b.png" width="5"/>')
        answer = self.run_error("Image('missing.png')", "FileNotFoundError")
        self.assertNotIn("vivarium", answer.traceback)
        html = self.run_ok("Audio([0, 1, -1], rate=8000)").mime["text/html"].decode()
        sound = base64.b64decode(html.partition("base64,")[2].partition('"')[0])
        self.assertTrue(sound.startswith(b"RIFF") and sound.endswith(b"\0\0\xff\x7f\x01\x80"))
        self.assertIn(b"<video", self.run_ok("Video(data=b'x')").mime["text/html"])
        self.assertIn(b"youtube", self.run_ok("YouTubeVideo('x')").mime["text/html"])
        self.assertIn(b"'a.png'", self.run_ok("FileLink('a.png')").mime["text/html"])

    def test_display_functions_work(self):
        self.run_ok("from IPython.display import *")
        self.assertEqual(
            self.shown("display_html('<b>', raw=True); publish_display_data({'a/b': 'c'})"),
            [("display", "", {"text/html": b"<b>"}), ("display", "", {"a/b": b"c"})],
        )
        self.assertEqual(
            [kind for kind, _, _ in self.shown("display(HTML('x')); clear_output()")],
            ["display", "clear"],
        )
        forms = self.shown("display_markdown(Markdown('x'))")[0][2]
        self.assertEqual(set(forms), {"text/plain", "text/markdown"})
