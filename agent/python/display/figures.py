"""matplotlib's figures as images: what is shown, what is saved, and what is left open.

As notebooks do it: `plt.show()` shows every open figure and closes it, and so does the end of an
execution. A figure that is saved to a file is shown as well. A figure is shown once per execution
unless it has changed. `stale`, a bool that matplotlib keeps, tells: we set it to 0, which is as
good as False to matplotlib, and whatever changes or draws the figure sets it to True or False.

Must not import matplotlib: it is told of by import_hooks.py.
"""

import budget
import guard
import render
import report
import show
import wire
from budget import call
from guard import entered, foreign, load, modules
from import_hooks import imitate

# A larger image is drawn with fewer dots per inch, or not cut to what is drawn.
PIXELS_MAX = 16_000_000
FRAME_PIXELS_MAX = 1_000_000
# Of a saved file that is shown as it is.
FILE_MAX_BYTES = 8 << 20
# Around what is drawn: matplotlib's default for saving.
PAD_INCHES = 0.1


class State:
    """What changes while the kernel lives."""

    savefig = close = None
    # Figure -> the execution in which it was last shown.
    shown = None
    # While an animation is saved, its frames are not figures that are saved.
    animating = 0


def on_figure(module):
    State.shown = load("weakref").WeakKeyDictionary()
    State.savefig = original = module.Figure.savefig

    def savefig(self, fname, *args, **options):
        known = is_shown(self)
        result = original(self, fname, *args, **options)
        if not State.animating:
            entered(saved, self, fname, options, known)
        return result

    def show_figure(self, *args, **options):
        entered(show_explicitly, [self])

    module.Figure.savefig = imitate(savefig, original)
    module.Figure.show = imitate(show_figure, module.Figure.show)


def on_pyplot(module):
    State.close = module.close
    originals = module.show, module.savefig

    def show_open(*args, **options):
        entered(show_explicitly, open_figures())

    def savefig(*args, **options):
        result = originals[1](*args, **options)
        # It has the figure drawn once more, which changes nothing.
        entered(mark_again, module.gcf())
        return result

    module.show = imitate(show_open, originals[0])
    module.savefig = imitate(savefig, originals[1])
    if flush not in guard.State.at_end:
        guard.State.at_end.append(flush)


def open_figures():
    """pyplot's open figures, in the order of their numbers."""
    managers = modules["matplotlib._pylab_helpers"].Gcf.get_all_fig_managers()
    return [manager.canvas.figure for manager in managers]


def flush():
    """Shows and closes the figures left open. At the end of an execution."""
    helpers = modules.get("matplotlib._pylab_helpers")
    if helpers is None or not foreign(getattr, helpers.Gcf, "figs"):
        return
    for figure in foreign(open_figures):
        try:
            budget.limited(emit, figure)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            not_drawn(error)
        foreign(State.close, figure)


def not_drawn(error):
    """Says why a figure is missing."""
    why = "%s: %s" % (report.type_name(type(error)), render.message_of(error))
    if type(error) is budget.RenderingTimeout:
        why = "it took over %g s" % budget.SECONDS
    render.note("a figure could not be drawn: " + why)


def show_explicitly(figures):
    """Shows and closes figures, as the code asks to: what goes wrong is the code's to know."""
    for figure in figures:
        try:
            emit(figure)
        finally:
            if State.close is not None:
                foreign(State.close, figure)


def emit(figure):
    """Shows a figure, or the frames of its animation, if that was not done already."""
    if is_shown(figure):
        return
    if "matplotlib.animation" in modules:
        import animations

        playing = animations.of(figure)
        for animation in playing:
            animations.play(animation)
        if playing:
            return mark(figure)
    show.image(picture(figure))


def saved(figure, target, options, known):
    """A figure was saved: shows it, if it was saved to a file."""
    try:
        if not known and is_file(target):
            show.image(file_content(target, options) or picture(figure))
            known = True
    except KeyboardInterrupt:
        raise
    except BaseException:
        pass  # It has been saved, which is what was asked for.
    if known:
        mark(figure)


def is_file(target):
    return isinstance(target, str) or hasattr(type(target), "__fspath__")


def file_content(target, options):
    """The file that was written, if that is an image of a fair size. Else None."""
    path = foreign(str, target)
    if options.get("format") not in (None, "png") or not path.lower().endswith(".png"):
        return None
    file = foreign(load("io").open, path, "rb")
    try:
        content = foreign(file.read, FILE_MAX_BYTES + 1)
    finally:
        file.close()
    return content if len(content) <= FILE_MAX_BYTES else None


def mark(figure):
    """Notes that a figure, as it is now, has been shown."""
    figure.stale = 0
    State.shown[figure] = wire.state.shown_for


def mark_again(figure):
    if State.shown.get(figure) == wire.state.shown_for and figure.stale is False:
        mark(figure)


def is_shown(figure):
    """Whether a figure has been shown in this execution as it is now."""
    shown_for = wire.state.shown_for
    return type(figure.stale) is int and State.shown.get(figure, b"") == shown_for


def picture(figure):
    """A figure as PNG, cut to what is drawn, as notebooks show it; it counts as shown then."""
    data = call(draw, figure, PIXELS_MAX, True)
    mark(figure)
    return data


def frame(figure):
    """A figure as PNG, to be one of many of the same size."""
    return call(draw, figure, FRAME_PIXELS_MAX, False)


def draw(figure, pixels_max, cut):
    width, height = figure.get_size_inches()
    most = (pixels_max / (width * height)) ** 0.5
    area = drawn_area(figure, pixels_max) if cut and figure.dpi <= most else None
    buffer = load("io").BytesIO()
    State.savefig(
        figure,
        buffer,
        format="png",
        dpi=min(figure.dpi, most),
        bbox_inches=area or figure.bbox_inches,
    )
    return buffer.getvalue()


def drawn_area(figure, pixels_max):
    """The part of a figure with something in it, in inches; None if too large, or not known.

    It may reach beyond the figure: far beyond, where something has been put out of sight.
    """
    try:
        renderer = figure.canvas.get_renderer()
        with renderer._draw_disabled():
            figure.draw(renderer)
        area = figure.get_tightbbox(renderer).padded(PAD_INCHES)
    except AttributeError:
        return None
    return area if 0 < area.width * area.height * figure.dpi**2 <= pixels_max else None
