"""Standard input, output and error: keeps them working, and flushes them where order matters."""

import _io as io  # Python 3.14 has not loaded `io` by itself.
import posix
import sys

from guard import call_user, interruptible, raised_by_user

originals: dict = {}


class NoInput(io.FileIO):
    """Standard input, from which nothing can be read."""

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
    """Puts the original streams back where user code left none that work."""
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
        return call_user(getattr, stream, "closed", False) is True
    except ValueError:
        return True
    except BaseException as error:
        if is_original(stream) and raised_by_user(error):
            raise
        return False


def is_original(stream):
    """Whether a stream is an original, which runs no user code but signal handlers."""
    return any(stream is it for it in originals.values())


def open_stream(fd, name):
    """A text stream over fd 0, 1 or 2; None if that is closed: print() does nothing then."""
    try:
        raw = (io.FileIO if fd else NoInput)(fd, "w" if fd else "r", closefd=False)
    except OSError:
        return None
    raw.name = name
    buffer = (io.BufferedWriter if fd else io.BufferedReader)(raw)
    return io.TextIOWrapper(buffer, "utf-8", "backslashreplace", line_buffering=True)


def flush():
    """Flushes the streams in use and the originals, so that all output comes before DONE."""
    in_use: tuple = (getattr(sys, "stdout", None), getattr(sys, "stderr", None))
    for stream in (*in_use, originals["stdout"], originals["stderr"]):
        try:
            call_user(stream.flush)
        except KeyboardInterrupt:
            # It is meant for a user's stream that hangs; the originals do not hang.
            continue
        except BaseException as error:
            if is_original(stream) and raised_by_user(error):
                raise


def flush_in_use():
    """Flushes the streams in use, so that earlier output comes before what follows."""
    for name in ("stdout", "stderr"):
        try:
            call_user(getattr(sys, name).flush)
        except KeyboardInterrupt:
            raise
        except BaseException:
            pass


def write_note(text):
    """Writes a note to standard error, even if user code has replaced sys.stderr."""
    flush_in_use()
    try:
        posix.write(2, b"vivarium: %s\n" % text.encode("utf-8", "backslashreplace"))
    except OSError:
        pass
