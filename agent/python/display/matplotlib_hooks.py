"""Decides when matplotlib's figures are shown.

As in notebooks, `plt.show()` shows and closes every open figure, and so does the end of an
execution. A figure that is saved to a file is shown as well.

Must not import matplotlib: import_hooks.py calls it once user code did.
"""

import budget
import figures
import guard
import publisher
import report
from classes import type_name
from guard import Any, call_for_user, call_user, load, modules, update_wrapper
from streams import write_note


class State:
    # pyplot's own `close`.
    close: Any = None


state = State()


def on_figure(module):
    figures.state.shown = load("weakref").WeakKeyDictionary()
    figures.state.savefig = original = module.Figure.savefig

    def savefig(self, fname, *args, **options):
        already_shown = figures.is_shown(self)
        result = original(self, fname, *args, **options)
        if not figures.state.animating:
            call_for_user(figures.on_saved, self, fname, options, already_shown)
        return result

    def show_figure(self, *args, **options):
        call_for_user(show_and_close, [self])

    module.Figure.savefig = update_wrapper(savefig, original)
    module.Figure.show = update_wrapper(show_figure, module.Figure.show)


def on_pyplot(module):
    state.close = module.close
    originals = module.show, module.savefig

    def show_open(*args, **options):
        call_for_user(show_and_close, open_figures())

    def savefig(*args, **options):
        result = originals[1](*args, **options)
        # pyplot draws the figure once more, which changes nothing.
        call_for_user(figures.mark_shown_again, module.gcf())
        return result

    module.show = update_wrapper(show_open, originals[0])
    module.savefig = update_wrapper(savefig, originals[1])
    if show_open_figures not in guard.state.post_execute:
        guard.state.post_execute.append(show_open_figures)


def open_figures():
    """pyplot's open figures, in the order of their numbers."""
    managers = modules["matplotlib._pylab_helpers"].Gcf.get_all_fig_managers()
    return [manager.canvas.figure for manager in managers]


def show_open_figures():
    """Shows and closes the figures that an execution left open."""
    helpers = modules.get("matplotlib._pylab_helpers")
    if helpers is None or not call_user(getattr, helpers.Gcf, "figs"):
        return
    for figure in call_user(open_figures):
        try:
            budget.with_time_limit(show_once, figure)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            note_not_drawn(error)
        call_user(state.close, figure)


def note_not_drawn(error):
    """Notes on standard error why a figure is missing."""
    why = "%s: %s" % (type_name(type(error)), report.message_of(error)[0])
    if type(error) is budget.RenderingTimeout:
        why = "it took over %g s" % budget.SECONDS
    write_note("a figure could not be drawn: " + why)


def show_and_close(shown):
    """Shows and closes figures because user code asks to: exceptions are for that code."""
    for figure in shown:
        try:
            show_once(figure)
        finally:
            if state.close is not None:
                call_user(state.close, figure)


def show_once(figure):
    """Shows a figure, or the frames of its animations, unless they were shown already."""
    if figures.is_shown(figure):
        return
    if "matplotlib.animation" in modules:
        import animations

        playing = animations.animations_of(figure)
        for animation in playing:
            animations.play(animation)
        if playing:
            figures.mark_shown(figure)
            return
    publisher.publish_image(figures.to_png(figure))
