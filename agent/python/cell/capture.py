"""`%%capture`: collects what a cell prints and shows."""

import guard
import publisher
import show
from context import UsageError, run_body
from guard import interruptible, load, main_module, sys
from interactive import display


class RichOutput:
    """A display that was collected."""

    __module__ = "IPython.utils.capture"

    def __init__(self, data):
        self.data, self.metadata = data, {}

    @interruptible
    def display(self):
        display(self.data, raw=True)

    @interruptible
    def _repr_mimebundle_(self, include=None, exclude=None):
        return self.data

    def __repr__(self):
        text = self.data.get(publisher.PLAIN)
        return text if type(text) is str else "<%s>" % ", ".join(self.data)


class CapturedIO:
    """What a cell printed and showed."""

    __module__ = "IPython.utils.capture"

    def __init__(self, stdout, stderr, outputs):
        self.stdout, self.stderr, self.outputs = stdout, stderr, outputs

    @interruptible
    def show(self):
        """Prints and shows it, as the cell did not."""
        sys.stdout.write(self.stdout)
        sys.stderr.write(self.stderr)
        for output in self.outputs:
            output.display()

    __call__ = show

    def __str__(self):
        return self.stdout


def capture_cell(line, body):
    words = line.split()
    names = [word for word in words if not word.startswith("--no-")]
    unknown = {*words} - {*names} - {"--no-stdout", "--no-stderr", "--no-display"}
    if unknown or len(names) > 1:
        raise UsageError("%%capture takes a name, --no-stdout, --no-stderr and --no-display")
    outputs: list = []
    streams = {
        name: load("io").StringIO() for name in ("stdout", "stderr") if "--no-" + name not in words
    }
    before = {name: getattr(sys, name) for name in streams}
    collected_before = publisher.state.collected
    try:
        vars(sys).update(streams)
        if "--no-display" not in words:
            publisher.state.collected = outputs
        value = run_body(body, 1)
        if value is not None:
            display(value)
        for function in list(guard.state.post_execute):  # Shows figures that are open.
            function()
    finally:
        publisher.state.collected = collected_before
        vars(sys).update(before)
        if names:
            decoded = [RichOutput(show.decode_bundle(bundle)) for bundle in outputs]
            vars(main_module)[names[0]] = CapturedIO(
                text_of(streams, "stdout"), text_of(streams, "stderr"), decoded
            )


def text_of(streams, name):
    return streams[name].getvalue() if name in streams else ""
