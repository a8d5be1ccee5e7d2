"""Standard input, output and error: kept working, and flushed where order matters."""

import io
import posix
import sys

from guard import foreign, interruptible, is_foreign

originals = {}


class NoInput(io.FileIO):
    """Standard input: there is none."""

    @interruptible
    def readinto(self, buffer):
        raise EOFError("there is no standard input: code in a session can not ask for any")

    def readall(self):
        self.readinto(None)

    def read(self, size=-1):
        self.readinto(None)


def start():
    """Prepares the streams, before the first execution."""
    for name in ("stdout", "stderr"):
        originals[name] = stream = getattr(sys, name)
        if stream is not None:
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    sys.stdin = None
    restore_streams()


def restore_streams():
    """Puts the original streams back where the code left none that work."""
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        if is_dead(getattr(sys, name, None)):
            if is_dead(originals.get(name)):
                originals[name] = open_stream(fd, "<%s>" % name)
                setattr(sys, "__%s__" % name, originals[name])
            setattr(sys, name, originals[name])


def is_dead(stream):
    """Whether a stream is missing, closed or detached."""
    if stream is None:
        return True
    try:
        return foreign(getattr, stream, "closed", False) is True
    except ValueError:
        return True
    except BaseException as error:
        if is_ours_alone(stream) and is_foreign(error):
            raise
        return False


def is_ours_alone(stream):
    """Whether a stream runs no code of the tenant's, but for signal handlers."""
    return any(stream is it for it in originals.values())


def open_stream(fd, name):
    """A text stream over fd 0, 1 or 2; None if it is closed, and then print() does nothing."""
    try:
        raw = (io.FileIO if fd else NoInput)(fd, "w" if fd else "r", closefd=False)
    except OSError:
        return None
    raw.name = name
    buffer = (io.BufferedWriter if fd else io.BufferedReader)(raw)
    return io.TextIOWrapper(buffer, "utf-8", "backslashreplace", line_buffering=True)


def flush():
    """Flushes the streams in use and ours, so that all output comes before "done"."""
    ours = originals["stdout"], originals["stderr"]
    for stream in (getattr(sys, "stdout", None), getattr(sys, "stderr", None), *ours):
        try:
            foreign(stream.flush)
        except KeyboardInterrupt:
            # Meant for the tenant's stream, if that hangs. Ours do not.
            continue
        except BaseException as error:
            if is_ours_alone(stream) and is_foreign(error):
                raise


def flush_users():
    """Flushes the tenant's streams, so that what was printed before comes before."""
    for name in ("stdout", "stderr"):
        try:
            foreign(getattr(sys, name).flush)
        except KeyboardInterrupt:
            raise
        except BaseException:
            pass


def write_note(text):
    """Tells the reader of standard error something, past what the code made of sys.stderr."""
    flush_users()
    try:
        posix.write(2, b"vivarium: %s\n" % text.encode("utf-8", "backslashreplace"))
    except OSError:
        pass
