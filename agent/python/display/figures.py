"""Draws matplotlib's figures, and tracks which of them have been shown.

A figure is shown once per execution unless it changes. matplotlib's flag `stale` detects a change:
we set it to 0, which matplotlib takes for False; changing or drawing the figure sets it to True or
False.
"""

import publisher
import wire
from budget import call_timed
from guard import Any, call_user, load

# A larger image is drawn with fewer dots per inch, or not cropped.
PIXELS_MAX = 16_000_000
FRAME_PIXELS_MAX = 1_000_000
# A larger saved file is not shown itself: its figure is drawn again.
FILE_MAX_BYTES = 8 << 20
# Around the drawing: matplotlib's default for saving.
PAD_INCHES = 0.1


class State:
    savefig: Any = None
    # Figure -> the execution in which it was last shown.
    shown: Any = None
    # How many animations are being saved: figures saved meanwhile are their frames.
    animating = 0


state = State()


def on_saved(figure, target, options, already_shown):
    """Shows a figure that was saved to a file."""
    try:
        if not already_shown and is_file(target):
            publisher.publish_image(file_content(target, options) or to_png(figure))
            already_shown = True
    except KeyboardInterrupt:
        raise
    except BaseException:
        pass  # The code asked for a file, and has it.
    if already_shown:
        mark_shown(figure)


def is_file(target):
    return isinstance(target, str) or hasattr(type(target), "__fspath__")


def file_content(target, options):
    """The content of the saved file, if that is a PNG of bounded size; else None."""
    path = call_user(str, target)
    if options.get("format") not in (None, "png") or not path.lower().endswith(".png"):
        return None
    file = call_user(load("io").open, path, "rb")
    try:
        content = call_user(file.read, FILE_MAX_BYTES + 1)
    finally:
        file.close()
    return content if len(content) <= FILE_MAX_BYTES else None


def mark_shown(figure):
    """Notes that a figure, as it is now, has been shown."""
    figure.stale = 0
    state.shown[figure] = wire.state.execution_number


def mark_shown_again(figure):
    if state.shown.get(figure) == wire.state.execution_number and figure.stale is False:
        mark_shown(figure)


def is_shown(figure):
    """Whether a figure has been shown in this execution as it is now."""
    execution_number = wire.state.execution_number
    return type(figure.stale) is int and state.shown.get(figure, b"") == execution_number


def to_png(figure):
    """A figure as PNG, cropped as in notebooks. Marks it as shown."""
    data = call_timed(draw, figure, PIXELS_MAX, True)
    mark_shown(figure)
    return data


def to_frame_png(figure):
    """A figure as PNG, one of many frames of the same size."""
    return call_timed(draw, figure, FRAME_PIXELS_MAX, False)


def draw(figure, pixels_max, crop):
    width, height = figure.get_size_inches()
    most = (pixels_max / (width * height)) ** 0.5
    area = drawn_area(figure, pixels_max) if crop and figure.dpi <= most else None
    buffer = load("io").BytesIO()
    state.savefig(
        figure,
        buffer,
        format="png",
        dpi=min(figure.dpi, most),
        bbox_inches=area or figure.bbox_inches,
    )
    return buffer.getvalue()


def drawn_area(figure, pixels_max):
    """The part of a figure with something in it, in inches; None if too large or unknown.

    It may reach far beyond the figure, if something was placed out of sight.
    """
    try:
        renderer = figure.canvas.get_renderer()
        with renderer._draw_disabled():
            figure.draw(renderer)
        area = figure.get_tightbbox(renderer).padded(PAD_INCHES)
    except AttributeError:
        return None
    return area if 0 < area.width * area.height * figure.dpi**2 <= pixels_max else None
