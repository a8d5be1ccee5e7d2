"""Objects of libraries have their own representations, where these are installed."""

import json

from harness import KernelTest, needs


@needs("pandas", "numpy")
class Pandas(KernelTest):
    def test_frames_are_tables(self):
        self.run_ok("import pandas as pd\ndf = pd.DataFrame({'alpha': [1, 2]})")
        answer = self.run_ok("df")
        self.assertIn(b"<th>alpha</th>", answer.mime["text/html"])
        self.assertIn("   alpha", answer.value)
        self.assertEqual(self.run_ok("df.alpha").mime, {})
        self.assertIn(b"<table", self.shown("display(df)")[0][2]["text/html"])

    def test_large_values_do_not_pile_up(self):
        self.run_ok("import numpy as np, gc")
        for _ in range(10):
            self.run_ok("np.zeros(1_000_000)")
        alive = "sum(type(it) is np.ndarray and it.size == 1_000_000 for it in [*Out.values(), _])"
        self.assertLessEqual(int(self.run_ok(alive).value), 4)


@needs("pandas", "matplotlib")
class PandasPlots(KernelTest):
    def test_plots_are_images(self):
        self.kernel = self.start(MPLBACKEND="Agg")
        answer = self.run_ok("import pandas as pd\npd.Series([1, 2]).plot()")
        self.assertEqual([shown.kind for shown in answer.displays], ["image"])


@needs("plotly")
class Plotly(KernelTest):
    def test_figures_are_plots_and_pages(self):
        self.run_ok("import plotly.graph_objects as go, plotly.io as pio")
        kind = "application/vnd.plotly.v1+json"
        self.run_ok("fig = go.Figure(go.Scatter(x=[1, 2], y=[3, 4]))")
        answer = self.run_ok("fig")
        plot = json.loads(answer.mime[kind])
        self.assertEqual(plot["data"][0]["type"], "scatter")
        self.assertIn(b"plotly", answer.mime["text/html"])
        self.assertEqual((answer.displays, answer.stdout), ([], ""))
        for code in ("fig.show()", "display(fig)", "pio.show(fig)", "pio.show(fig.to_dict())"):
            with self.subTest(code):
                answer = self.run_ok(code)
                (shown,) = answer.displays
                self.assertEqual(json.loads(shown.mime[kind])["data"], plot["data"])
                self.assertEqual((answer.stdout, answer.stderr), ("", ""))


@needs("altair", "pandas")
class Altair(KernelTest):
    def test_charts_are_plots_and_pages(self):
        self.run_ok("import altair as alt, pandas as pd")
        self.run_ok("c = alt.Chart(pd.DataFrame({'a': [1]})).mark_bar().encode(x='a:Q')")
        for forms in (self.run_ok("c").mime, self.shown("display(c)")[0][2]):
            (kind,) = (name for name in forms if "vegalite" in name)
            self.assertRegex(kind, r"^application/vnd\.vegalite\.v\d+\+json$")
            self.assertIn(json.loads(forms[kind])["mark"], ("bar", {"type": "bar"}))


@needs("sympy")
class Sympy(KernelTest):
    def test_expressions_are_latex(self):
        self.run_ok("import sympy\nx = sympy.Symbol('x')")
        self.assertEqual(self.run_ok("x ** 2").mime["text/latex"], b"$\\displaystyle x^{2}$")
        self.assertIn(b"matrix", self.run_ok("sympy.Matrix([x])").mime["text/latex"])


@needs("networkx", "matplotlib")
class Networkx(KernelTest):
    def test_drawings_are_images(self):
        self.kernel = self.start(MPLBACKEND="Agg")
        answer = self.run_ok("import networkx as nx\nnx.draw(nx.path_graph(3))")
        self.assertEqual([shown.kind for shown in answer.displays], ["image"])


@needs("IPython")
class IPython(KernelTest):
    def test_an_installed_ipython_displays_through_the_kernel(self):
        code = (
            "from IPython.display import display, HTML, clear_output, update_display\n"
            "import IPython\nh = display(HTML('<b>'), display_id=True)\nh.update(HTML('<i>'))\n"
            "clear_output()\nIPython.display.display_html('<u>', raw=True)"
        )
        answer = self.run_ok(code)
        self.assertEqual(answer.stdout, "")
        kinds = [shown.kind for shown in answer.displays]
        self.assertEqual(kinds, ["display", "update", "clear", "display"])
        self.assertEqual(answer.displays[1].mime["text/html"], b"<i>")
        self.assert_value("IPython.__file__ is not None", "True")


class Watchdog(KernelTest):
    def test_its_observer_polls(self):
        # As watchdog has them, as far as it matters here.
        files = {
            "": "",
            "observers/": "Observer = 'inotify'",
            "observers/polling/": "PollingObserver = 'polls'",
        }
        code = (
            "import os, sys, tempfile\nroot = tempfile.mkdtemp()\nsys.path.insert(0, root)\n"
            f"for path, text in {files!r}.items():\n"
            "    os.makedirs(f'{root}/watchdog/{path}', exist_ok=True)\n"
            "    open(f'{root}/watchdog/{path}__init__.py', 'w').write(text)\n"
            "from watchdog.observers import Observer\nObserver"
        )
        self.assert_value(code, "'polls'")
