"""Shows matplotlib's animations as video frames.

`FuncAnimation.save`, `to_jshtml` and `to_html5_video` draw frame after frame and report their
progress: at a bounded number of these reports, spread evenly, we draw a frame of our own. To show
an animation, we save it with a writer that writes nothing.

Must not import matplotlib: import_hooks.py calls it once user code did.
"""

import figures
import publisher
import wire
from budget import call_timed
from guard import Any, call_for_user, interruptible, load, update_wrapper

FRAMES_MAX = 100


class State:
    save: Any = None
    writer: Any = None
    alive: Any = ()
    # The animations that are being played now.
    playing: tuple = ()
    # Animation -> the execution in which its frames were last shown.
    played: Any = None


state = State()


def on_animation(module):
    weakref = load("weakref")
    state.alive, state.played = weakref.WeakSet(), weakref.WeakKeyDictionary()
    initialize, state.save = module.Animation.__init__, module.Animation.save

    def __init__(self, *args, **options):
        initialize(self, *args, **options)
        state.alive.add(self)

    def save(self, *args, **options):
        frames = FrameTaker(self, options.get("progress_callback"))
        options["progress_callback"] = frames
        figures.state.animating += 1
        try:
            result = state.save(self, *args, **options)
        finally:
            figures.state.animating -= 1
        call_for_user(mark_played, self)
        return result

    base: Any = module.AbstractMovieWriter

    class NullWriter(base):
        """A writer that writes nothing."""

        def setup(self, fig, outfile, dpi=None):
            self.fig, self.outfile, self.dpi = fig, outfile, dpi

        def grab_frame(self, **options):
            pass

        def finish(self):
            pass

    state.writer = NullWriter
    module.Animation.__init__ = update_wrapper(__init__, initialize)
    module.Animation.save = update_wrapper(save, state.save)


class StopSaving(Exception):
    """Ends an animation of unknown length after enough frames."""


class FrameTaker:
    """Shows frames of an animation while it is saved."""

    def __init__(self, animation, users_callback):
        self.animation, self.users_callback = animation, users_callback
        self.figure = animation._fig
        self.left = 0 if is_played(animation) else FRAMES_MAX

    @interruptible
    def __call__(self, number, total):
        call_for_user(self.take, number, total)
        if self.users_callback is not None:
            self.users_callback(number, total)

    def take(self, number, total):
        step = max(1, -(-total // FRAMES_MAX)) if total else 1
        if self.left and number % step == 0:
            has_room = publisher.publish_image(figures.to_frame_png(self.figure), wire.VIDEO_FRAME)
            self.left = self.left - 1 if has_room else 0
        if not total and not self.left and self.animation in state.playing:
            raise StopSaving


def mark_played(animation):
    """Notes that an animation's frames have been shown in this execution."""
    state.played[animation] = wire.state.execution_number
    figures.mark_shown(animation._fig)


def is_played(animation):
    """Whether an animation's frames have been shown in this execution."""
    return state.played.get(animation, b"") == wire.state.execution_number


def animations_of(figure):
    """The animations of a figure."""
    return [animation for animation in state.alive if animation._fig is figure]


def play(animation):
    """Shows the frames of an animation."""
    if not is_played(animation):
        call_timed(take_frames, animation)


def take_frames(animation):
    canvas = animation._fig.canvas
    # It would draw each frame a second time, invisibly.
    canvas.draw_idle = lambda *args, **options: None
    try:
        state.playing = (animation,)
        type(animation).save(animation, "frames", writer=state.writer())
    except StopSaving:
        mark_played(animation)
    finally:
        state.playing = ()
        del canvas.draw_idle
