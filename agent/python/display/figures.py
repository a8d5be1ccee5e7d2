"""matplotlib's figures as images, and which of them have been shown.

A figure is shown once per execution unless it has changed. `stale`, a bool that matplotlib keeps,
tells: we set it to 0, which is as good as False to matplotlib, and whatever changes or draws the
figure sets it to True or False.
"""

import publisher
import wire
from budget import call
from guard import foreign, load

# A larger image is drawn with fewer dots per inch, or not cut to what is drawn.
PIXELS_MAX = 16_000_000
FRAME_PIXELS_MAX = 1_000_000
# Of a saved file that is shown as it is.
FILE_MAX_BYTES = 8 << 20
# Around what is drawn: matplotlib's default for saving.
PAD_INCHES = 0.1


class State:
    """What changes while the kernel lives."""

    savefig = None
    # Figure -> the execution in which it was last shown.
    shown = None
    # While an animation is saved, its frames are not figures that are saved.
    animating = 0


def saved(figure, target, options, known):
    """A figure was saved: shows it, if it was saved to a file."""
    try:
        if not known and is_file(target):
            publisher.image(file_content(target, options) or picture(figure))
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
