"""matplotlib's figures and animations, and PIL's images."""

import pathlib
import struct

from harness import KernelTest, needs

BEGINNING = b"\x89PNG\r\n\x1a\n"


def size_of(png):
    return struct.unpack(">II", png[16:24])


class Matplotlib(KernelTest):
    needed = ("matplotlib", "numpy")

    def setUp(self):
        super().setUp()
        self.kernel = self.start(MPLBACKEND="Agg")
        self.run_ok("import matplotlib.pyplot as plt\nfrom matplotlib.figure import Figure")

    def images(self, code):
        """The images that an execution shows: nothing else, and nothing on standard error."""
        answer = self.run_ok(code)
        self.assertEqual(answer.stderr, "")
        images = []
        for kind, name, forms, _ in answer.displays:
            self.assertEqual((kind, name, list(forms)), ("image", "", ["image/png"]))
            self.assertTrue(forms["image/png"].startswith(BEGINNING))
            images.append(forms["image/png"])
        return images


class Figures(Matplotlib):
    def test_figures_shown_saved_or_left_open_are_shown_once(self):
        for code, count in (
            ("plt.plot([1, 2])\nplt.show()", 1),
            ("plt.plot([1, 2])\nNone", 1),
            ("plt.plot([1, 2])\nplt.show()\nplt.show()", 1),
            ("plt.figure(); plt.figure(); plt.show(block=False)", 2),
            ("plt.plot([1]); plt.show(); plt.plot([2]); None", 2),
            ("plt.plot([1, 2]); plt.savefig('a.png')", 1),
            ("plt.plot([1, 2]); plt.savefig('a.png', dpi=50); plt.show()", 1),
            ("plt.plot([1, 2]); plt.savefig('a.pdf'); plt.savefig('a.svg'); plt.show()", 1),
            ("plt.plot([1, 2]); plt.savefig('a.png'); plt.title('changed')\nNone", 2),
            ("plt.plot([1, 2]); plt.savefig('a.png'); plt.close()", 1),
            ("plt.plot([1, 2]); plt.close()", 0),
            ("f, ax = plt.subplots(); ax.plot([1]); f.show()", 1),
            ("f = Figure(); f.subplots().plot([1]); f.savefig('b.png')", 1),
            ("f = Figure(); f.subplots().plot([1])", 0),
            ("import io; plt.plot([1]); plt.savefig(io.BytesIO()); plt.close()", 0),
            ("import io; plt.plot([1]); plt.savefig(io.BytesIO())\nNone", 1),
            ("plt.plot([1]); plt.gcf().canvas.draw(); plt.show()", 1),
            ("import pathlib; plt.plot([1]); plt.savefig(pathlib.Path('c.png')); plt.show()", 1),
            ("plt.plot([1]); plt.pause(0.01)", 1),
            ("pass", 0),
        ):
            with self.subTest(code):
                self.assertEqual(len(self.images(code)), count)
                self.assert_value("plt.get_fignums()", "[]")

    def test_a_saved_image_is_shown_as_it_was_saved(self):
        (image,) = self.images("plt.plot([1]); plt.savefig('a.png', dpi=33)")
        self.assertEqual(image, pathlib.Path(self.workdir, "a.png").read_bytes())

    def test_figures_and_output_stay_in_order(self):
        answer = self.run_ok("print('a')\nplt.plot([1]); plt.show()\nprint('b')\nplt.plot([2])\n5")
        self.assertEqual([shown.stdout for shown in answer.displays], ["a\n", "a\nb\n"])
        self.assertEqual(answer.value, "5")

    def test_a_figure_that_is_a_value_is_not_shown_again(self):
        self.run_ok("f, ax = plt.subplots(); _ = ax.plot([1, 2])\nplt.close()")
        for code in ("f", "f, ax = plt.subplots(); f"):
            answer = self.run_ok(code)
            self.assertTrue(answer.mime["image/png"].startswith(BEGINNING))
            self.assertEqual(answer.displays, [])
        answer = self.run_ok("f, ax = plt.subplots(); display(f)")
        self.assertEqual([shown.kind for shown in answer.displays], ["display"])

    def test_a_figure_left_open_by_an_exception_is_shown(self):
        answer = self.run_error("plt.plot([1])\n1/0", "ZeroDivisionError")
        self.assertEqual([shown.kind for shown in answer.displays], ["image"])

    def test_image_sizes_are_bounded(self):
        for code in (
            "plt.figure(figsize=(200, 200)); None",
            "plt.figure(figsize=(0.5, 600)); plt.text(0.5, 0.5, 'x'); None",
            "plt.plot([1]); plt.text(1e3, 1e3, 'far out')\nNone",
        ):
            with self.subTest(code):
                (image,) = self.images(code)
                width, height = size_of(image)
                self.assertLessEqual(width * height, 17_000_000)

    def test_a_figure_that_can_not_be_drawn_is_reported(self):
        bad = "plt.title(r'$\\frac{$')\n"
        answer = self.run_error(bad + "plt.show()", "ValueError")
        self.assertIn("    plt.show()", answer.traceback)
        self.assertNotIn("vivarium", answer.traceback)
        answer = self.run_ok(bad + "5")
        self.assertIn("vivarium: a figure could not be drawn: ValueError", answer.stderr)
        self.assertEqual(answer.value, "5")
        self.set_budget(1)
        answer = self.run_ok(
            "class Slow(Figure):\n  def draw(self, renderer):\n    while True: pass\n"
            "plt.figure(FigureClass=Slow); None"
        )
        self.assertIn("could not be drawn: it took over 1 s", answer.stderr)
        self.assert_usable()

    def test_drawing_can_be_interrupted(self):
        self.run_ok(
            "class Slow(Figure):\n  def draw(self, renderer):\n    print('go')\n    while True: pass"
        )
        answer = self.kernel.run("plt.figure(FigureClass=Slow); plt.show()", 1)
        self.assertEqual(answer.completion, "interrupted")
        answer = self.kernel.run("plt.figure(FigureClass=Slow); None", 1)
        self.assertEqual(answer.completion, "interrupted")
        self.run_ok("plt.close('all')")
        self.assert_usable()

    def test_a_forked_child_prints_the_size_of_its_images(self):
        answer = self.run_ok(
            "import os\npid = os.fork()\nif pid == 0:\n  plt.plot([1]); plt.show()\n"
            "  import sys; sys.stdout.flush(); os._exit(0)\n_ = os.waitpid(pid, 0)"
        )
        self.assertEqual(answer.displays, [])
        self.assertIn("<image/png, ", answer.stdout)

    def test_replaced_functions_keep_name_and_signature(self):
        answer = self.run_ok(
            "import inspect\n[str(inspect.signature(it)) for it in (plt.show, Figure.savefig)]"
        )
        self.assertIn("fname", answer.value)
        self.assert_value("plt.show.__module__", "'matplotlib.pyplot'")


class Animations(Matplotlib):
    code = (
        "from matplotlib.animation import FuncAnimation\nf, ax = plt.subplots()\n"
        "line, = ax.plot([1, 2])\nseen = []\n"
        "def step(i):\n  seen.append(i); line.set_ydata([1, i]); return line,\n"
        "a = FuncAnimation(f, step, frames=%d)\n"
    )

    def frames(self, code, kinds=("video_frame",)):
        answer = self.run_ok(code)
        for shown in answer.displays:
            self.assertIn(shown.kind, kinds)
        return [shown.mime["image/png"] for shown in answer.displays]

    def test_the_frames_of_a_shown_animation_are_shown(self):
        frames = self.frames(self.code % 3 + "plt.show()")
        self.assertEqual(len(set(frames)), 3)
        self.assertEqual(self.frames(self.code % 3), frames)
        self.assertEqual(len(self.frames(self.code % 3 + "a")), 3)

    def test_the_frames_of_a_saved_animation_are_shown_once(self):
        saved = "a.save('a.gif', writer='pillow')\n"
        self.assertEqual(len(self.frames(self.code % 3 + saved)), 3)
        self.assertTrue(pathlib.Path(self.workdir, "a.gif").read_bytes().startswith(b"GIF8"))
        # Once, however often.
        self.assertEqual(
            len(self.frames(self.code % 3 + saved + "h = a.to_jshtml(); plt.show()")), 3
        )
        self.assert_value("'<img' in h", "True")
        progress = "calls = []\na.save('b.gif', writer='pillow', progress_callback=lambda i, n: calls.append((i, n)))"
        self.frames(self.code % 2 + progress)
        self.assert_value("calls", "[(0, 2), (1, 2)]")

    def test_the_number_of_frames_is_bounded(self):
        self.assertEqual(len(self.frames(self.code % 250 + "plt.show()")), 84)
        self.assert_value("seen[-1]", "249")

    def test_an_endless_animation_ends(self):
        code = self.code.replace("frames=%d", "frames=iter(int, 1), cache_frame_data=False")
        self.assertEqual(len(self.frames(code + "plt.show()")), 100)

    def test_an_animation_can_raise(self):
        code = self.code % 3 + "def bad(i): 1/0\nb = FuncAnimation(f, bad, frames=3)\n"
        self.run_error(code + "plt.show()", "ZeroDivisionError")
        self.assert_usable()


@needs("PIL")
class Pillow(KernelTest):
    def test_every_mode_is_shown(self):
        self.run_ok("from PIL import Image")
        for mode in ("1", "L", "P", "RGB", "RGBA", "CMYK", "YCbCr", "LAB", "HSV", "I", "F", "LA"):
            with self.subTest(mode):
                answer = self.run_ok("Image.new(%r, (3, 2))" % mode)
                self.assertEqual(list(answer.mime), ["image/png"])
                self.assertEqual(size_of(answer.mime["image/png"]), (3, 2))

    def test_show_displays_the_image(self):
        shown = self.shown("from PIL import Image\nImage.new('RGB', (3, 2)).show('title')")
        self.assertEqual([kind for kind, _, _ in shown], ["display"])
        self.assertIn("image/png", shown[0][2])

    def test_an_image_that_is_too_large_is_left_out(self):
        self.kernel.send(2, (1000).to_bytes(8, "little"))
        answer = self.run_ok(
            "import os\nfrom PIL import Image\nImage.frombytes('L', (99, 99), os.urandom(9801))"
        )
        self.assertEqual(answer.mime, {})
        self.assertIn("the image/png of a PIL.Image.Image object", answer.stderr)
