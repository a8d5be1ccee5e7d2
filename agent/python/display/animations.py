"""matplotlib's animations as video frames: of those that are saved, and of those that are shown.

`FuncAnimation.save`, `to_jshtml` and `to_html5_video` draw frame after frame and tell how far they
are: then we take a picture too, of so many frames at most, evenly. An animation that is shown is
saved to nowhere for that.

Must not import matplotlib: it is told of by import_hooks.py.
"""

import figures
import publisher
import wire
from budget import call
from guard import entered, imitate, interruptible, load

FRAMES_MAX = 100


class State:
    """What changes while the kernel lives."""

    save = writer = None
    alive = ()
    # Those that are saved to nowhere right now.
    playing = ()
    # Animation -> the execution in which its frames were last shown.
    played = None


def on_animation(module):
    weakref = load("weakref")
    State.alive, State.played = weakref.WeakSet(), weakref.WeakKeyDictionary()
    initialize, State.save = module.Animation.__init__, module.Animation.save

    def __init__(self, *args, **options):
        initialize(self, *args, **options)
        State.alive.add(self)

    def save(self, *args, **options):
        frames = Frames(self, options.get("progress_callback"))
        options["progress_callback"] = frames
        figures.State.animating += 1
        try:
            result = State.save(self, *args, **options)
        finally:
            figures.State.animating -= 1
        entered(frames_end, self)
        return result

    class Nowhere(module.AbstractMovieWriter):
        """A movie that is not written."""

        def setup(self, fig, outfile, dpi=None):
            self.fig, self.outfile, self.dpi = fig, outfile, dpi

        def grab_frame(self, **options):
            pass

        def finish(self):
            pass

    State.writer = Nowhere
    module.Animation.__init__ = imitate(__init__, initialize)
    module.Animation.save = imitate(save, State.save)


class Enough(Exception):
    """An animation that may never end has been seen for long enough."""


class Frames:
    """Takes pictures of an animation that is being saved."""

    def __init__(self, animation, theirs):
        self.animation, self.theirs = animation, theirs
        self.figure = animation._fig
        self.left = 0 if is_played(animation) else FRAMES_MAX

    @interruptible
    def __call__(self, number, total):
        entered(self.take, number, total)
        if self.theirs is not None:
            self.theirs(number, total)

    def take(self, number, total):
        step = max(1, -(-total // FRAMES_MAX)) if total else 1
        if self.left and number % step == 0:
            has_room = publisher.image(figures.frame(self.figure), wire.VIDEO_FRAME)
            self.left = self.left - 1 if has_room else 0
        if not total and not self.left and self.animation in State.playing:
            raise Enough


def frames_end(animation):
    """Notes that an animation's frames have been shown in this execution."""
    State.played[animation] = wire.state.shown_for
    figures.mark(animation._fig)


def is_played(animation):
    """Whether an animation's frames have been shown in this execution."""
    return State.played.get(animation, b"") == wire.state.shown_for


def of(figure):
    """A figure's animations that are alive."""
    return [animation for animation in State.alive if animation._fig is figure]


def play(animation):
    """Shows the frames of an animation."""
    if not is_played(animation):
        call(save_to_nowhere, animation)


def save_to_nowhere(animation):
    canvas = animation._fig.canvas
    # Each frame would be drawn a second time, for nobody to see.
    canvas.draw_idle = lambda *args, **options: None
    try:
        State.playing = (animation,)
        type(animation).save(animation, "frames", writer=State.writer())
    except Enough:
        frames_end(animation)
    finally:
        State.playing = ()
        del canvas.draw_idle
