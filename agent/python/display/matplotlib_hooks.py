"""When matplotlib's figures are shown: as code shows or saves them, and at the end if left open.

As notebooks do it: `plt.show()` shows every open figure and closes it, and so does the end of an
execution. A figure that is saved to a file is shown as well.

Must not import matplotlib: it is told of by import_hooks.py.
"""

import budget
import figures
import guard
import publisher
import report
from classes import type_name
from guard import entered, foreign, imitate, load, modules
from streams import write_note


class State:
    """What changes while the kernel lives."""

    # pyplot's own `close`.
    close = None


def on_figure(module):
    figures.State.shown = load("weakref").WeakKeyDictionary()
    figures.State.savefig = original = module.Figure.savefig

    def savefig(self, fname, *args, **options):
        known = figures.is_shown(self)
        result = original(self, fname, *args, **options)
        if not figures.State.animating:
            entered(figures.saved, self, fname, options, known)
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
        entered(figures.mark_again, module.gcf())
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
    why = "%s: %s" % (type_name(type(error)), report.message_of(error)[0])
    if type(error) is budget.RenderingTimeout:
        why = "it took over %g s" % budget.SECONDS
    write_note("a figure could not be drawn: " + why)


def show_explicitly(shown):
    """Shows and closes figures, as the code asks to: what goes wrong is the code's to know."""
    for figure in shown:
        try:
            emit(figure)
        finally:
            if State.close is not None:
                foreign(State.close, figure)


def emit(figure):
    """Shows a figure, or the frames of its animation, if that was not done already."""
    if figures.is_shown(figure):
        return
    if "matplotlib.animation" in modules:
        import animations

        playing = animations.of(figure)
        for animation in playing:
            animations.play(animation)
        if playing:
            return figures.mark(figure)
    publisher.image(figures.picture(figure))
