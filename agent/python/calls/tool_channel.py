"""Calls of functions that the client provides: the kernel's end of two pipes to the supervisor.

A frame is a little-endian u32, the length of the rest, then a type byte and the payload, as
supervisor/engine/src/session/calls/wire.rs describes it. The pipes come with an execution that may
call something, and are closed at its end, so that no image and no later code has them.

Any thread may call at any time, and each waits only for its own answer. One of those that wait
reads for all: whoever finds nobody reading. An event loop reads when its selector says that there
is something, and waits for nobody.

An interrupt is raised only while code waits, and gives up the call that it waits for.
"""

import wire
from guard import Any, RLock, allocate_lock, call_user, is_forked, load, posix, raised_by_user, sys

# Frames to the supervisor, and from it.
CALL, WITHDRAW = 1, 2
TOOLS, ANSWER = 1, 2
# Kinds of answers.
RESULT, ERROR, REFUSED, TIMEOUT, UNAVAILABLE = 0, 1, 2, 3, 4

NUMBERS = 1 << 32
READ_BYTES = 64 << 10
# Room for one control message with two descriptors, and MSG_CMSG_CLOEXEC: recvmsg(2).
ANCILLARY_BYTES = 64
CMSG_CLOEXEC = 0x40000000
ENDED = "the execution that could call it is over"
FORKED = "a process that code has forked cannot call it"
CLOSED = "the supervisor takes no more calls of this execution"


class Waiter:
    """A call that waits. `lock` is held until there is an answer."""

    def __init__(self, number, notify=None):
        self.number, self.notify = number, notify
        self.lock = allocate_lock()
        self.lock.acquire()
        self.answer: Any = None

    def settle(self, answer):
        """Notes the first answer. May be done again, after a signal handler has raised in it."""
        if self.answer is None:
            self.answer = answer
        self.wake()
        if self.notify is not None:
            try:
                self.notify()
            except Exception:
                pass  # Its event loop is closed: nobody waits.

    def wake(self):
        try:
            self.lock.release()
        except RuntimeError:
            pass  # It was woken already, and has not looked yet.


class Channel:
    """The pipes of one execution."""

    def __init__(self, calls, answers):
        self.calls, self.answers = calls, answers
        self.pid = posix.getpid()
        self.last = 0
        self.waiters: dict = {}
        # Why there are no more answers.
        self.why_closed: Any = None
        # What was read and is no whole frame yet, in pieces.
        self.inbox: list = []
        # Held to change what is above, never while anything waits.
        self.lock = RLock()
        # Held by who reads, which is then to wake somebody else, and by who writes.
        self.reading, self.writing = allocate_lock(), RLock()
        self.declaration: Any = None
        posix.set_blocking(answers, False)

    def number(self):
        with self.lock:
            while True:
                self.last = (self.last + 1) % NUMBERS
                if self.last not in self.waiters:
                    return self.last

    def start(self, tool, arguments, notify=None):
        """Makes a call with arguments as JSON, in bytes. Returns who waits for it."""
        with self.lock:
            if self.why_closed is not None:
                waiter = Waiter(0)
                waiter.settle((UNAVAILABLE, self.why_closed))
                return waiter
            waiter = Waiter(self.number(), notify)
            self.waiters[waiter.number] = waiter
        name = tool.encode()
        parts = wire.number(waiter.number), bytes([len(name)]), name, arguments
        try:
            self.write(wire.frame(CALL, *parts))
        except BaseException:
            # By a signal handler: the frame is whole, and nobody waits.
            self.withdraw(waiter)
            raise
        return waiter

    def withdraw(self, waiter):
        """Nobody waits for a call any more."""
        with self.lock:
            if self.waiters.pop(waiter.number, None) is None:
                return
        self.write(wire.frame(WITHDRAW, wire.number(waiter.number)))

    def write(self, frame):
        """Writes a whole frame. What signal handlers raise meanwhile is raised afterwards."""
        data = memoryview(b"".join(frame))
        counts: list = []
        raised = None
        with self.writing:
            while self.calls >= 0 and sum(counts) < len(data):
                try:
                    counts.extend(map(posix.write, (self.calls,), (data[sum(counts) :],)))
                except BaseException as error:
                    if is_of_system(error):
                        self.shut(CLOSED)
                        break
                    raised = error
        if raised is not None:
            raise raised

    def wait(self, waiter):
        """Waits for an answer. Returns its kind and its JSON."""
        try:
            while waiter.answer is None:
                if not self.read_until(lambda: waiter.answer is not None):
                    call_user(waiter.lock.acquire)
        except BaseException:
            self.withdraw(waiter)
            raise
        return waiter.answer

    def read_until(self, is_enough):
        """Reads for all that wait, unless somebody does. Returns whether this one has."""
        # Noted by the very call: signal handlers may raise after it.
        taken: list = []
        try:
            taken.extend(map(self.reading.acquire, (False,)))
            if taken[0]:
                # What was read before may have been left by a signal handler.
                self.take_frames()
                while not is_enough() and self.why_closed is None:
                    self.poll()
                    self.read()
        finally:
            if taken and taken[0]:
                self.reading.release()
                self.stop_reading()
        return taken[0]

    def stop_reading(self):
        """Leaves reading, which is released, to somebody else, or closes what there is no more."""
        self.wake_next()
        if self.calls < 0:
            self.close_answers()

    def wake_next(self):
        """Somebody else that waits in a thread is to read now."""
        with self.lock:
            waiters = [waiter for waiter in self.waiters.values() if waiter.notify is None]
        for waiter in waiters:
            if waiter.answer is None:
                waiter.wake()
                return

    def poll(self):
        select: Any = load("select")
        poller = select.poll()
        poller.register(self.answers, select.POLLIN)
        call_user(poller.poll)

    def read_some(self):
        """Reads what there is, for an event loop that was told of it."""
        taken: list = []
        try:
            taken.extend(map(self.reading.acquire, (False,)))
            if taken[0]:
                self.read()
        finally:
            if taken and taken[0]:
                self.reading.release()
                self.stop_reading()

    def read(self):
        """Reads what there is, and settles what is answered. Only for who holds `reading`."""
        raised = None
        while True:
            before = len(self.inbox)
            try:
                self.inbox.extend(map(posix.read, (self.answers,), (READ_BYTES,)))
            except BaseException as error:
                if not is_of_system(error):
                    raised = error
                    break
                if isinstance(error, BlockingIOError):
                    break
                self.inbox.append(b"")
            if not self.inbox[before:] or len(self.inbox[-1]) < READ_BYTES:
                break
        is_end = self.inbox[-1:] == [b""]
        self.take_frames()
        if is_end:
            self.shut(CLOSED)
        if raised is not None:
            raise raised

    def take_frames(self):
        """Takes whole frames, each removed once it is taken: signal handlers raise anywhere."""
        while True:
            data = b"".join(self.inbox)
            end = 4 + int.from_bytes(data[:4], "little")
            if len(data) < 5 or len(data) < end:
                return
            if data[4] == TOOLS:
                self.declaration = data[5:end]
            elif data[4] == ANSWER:
                number = int.from_bytes(data[5:9], "little")
                waiter = self.waiters.get(number)
                if waiter is not None:
                    waiter.settle((data[9], data[10:end]))
                    self.waiters.pop(number, None)
            self.inbox[:] = [data[end:]] if len(data) > end else []

    def declared(self):
        """What can be called, as JSON. The first time it is read, for which it waits."""
        while self.declaration is None and self.why_closed is None:
            if not self.read_until(lambda: self.declaration is not None):
                call_user(Waiter(0).lock.acquire, True, 0.01)
        return self.declaration

    def shut(self, why):
        """There are no more answers: whoever waits hears why."""
        with self.lock:
            if self.why_closed is None:
                self.why_closed = why
            waiters, self.waiters = list(self.waiters.values()), {}
        for waiter in waiters:
            waiter.settle((UNAVAILABLE, why))

    def close(self):
        """Closes the pipes. Who reads in another thread just now finds the end there."""
        self.shut(ENDED)
        with self.writing:
            calls, self.calls = self.calls, -1
        close(calls)
        if self.close_answers():
            return
        # The number stays that of a pipe, whose end is here, until that one has seen it.
        try:
            null = posix.open("/dev/null", posix.O_RDONLY | posix.O_CLOEXEC)
            posix.dup2(null, self.answers, False)
            posix.close(null)
        except OSError:
            pass

    def close_answers(self):
        """Closes it, unless somebody reads, who will. Returns whether it is closed."""
        if not self.reading.acquire(False):
            return False
        answers, self.answers = self.answers, -1
        self.reading.release()
        close(answers)
        return True


def is_of_system(error):
    """Whether a system call has failed. Signal handlers raise a TimeoutError, an OSError too."""
    return isinstance(error, OSError) and not raised_by_user(error)


def close(descriptor):
    if descriptor >= 0:
        try:
            posix.close(descriptor)
        except OSError:
            pass


class State:
    channel: Any = None
    # Whether forks of the kernel are watched.
    watches_forks = False


state = State()


def begin():
    """Takes the pipes that follow on STARTED."""
    descriptors = receive()
    if len(descriptors) != 2:
        # They could not be passed on: there is nothing to be called.
        for descriptor in descriptors:
            close(descriptor)
        return
    state.channel = Channel(*descriptors)
    if not state.watches_forks:
        state.watches_forks = True
        posix.register_at_fork(after_in_child=leave)


def receive():
    """The descriptors that come with the next byte of the control socket."""
    control = control_socket()
    messages: list = []
    raised = None
    try:
        while not messages:
            try:
                if control is None:  # The byte goes without its descriptors.
                    messages.extend(map(posix.read, (wire.CONTROL_FD,), (1,)))
                else:
                    # User code may have set a time limit for all sockets.
                    control.settimeout(None)
                    messages.extend(map(control.recvmsg, (1,), (ANCILLARY_BYTES,), (CMSG_CLOEXEC,)))
            except BaseException as error:
                if not is_of_system(error):
                    raised = error  # By a signal handler: the byte is still to come.
                elif isinstance(error, BlockingIOError):
                    posix.set_blocking(wire.CONTROL_FD, True)
                else:
                    break
    finally:
        if control is not None:
            control.close()
    found = descriptors_of(messages) if control is not None else []
    if raised is not None:
        for descriptor in found:
            close(descriptor)
        raise raised
    return found


def control_socket() -> Any:
    """The control socket, of its own: whatever happens may close it. None if there can be none."""
    module: Any = load("_socket")
    if module is None:
        return None
    try:
        duplicate = posix.dup(wire.CONTROL_FD)
    except OSError:
        return None  # The process has too many.
    return module.socket(module.AF_UNIX, module.SOCK_STREAM, 0, duplicate)


def descriptors_of(messages):
    found: list = []
    for _data, ancillary, _flags, _address in messages:
        for _level, _kind, content in ancillary:
            ends = range(4, len(content) + 1, 4)
            found += [int.from_bytes(content[end - 4 : end], sys.byteorder) for end in ends]
    return found


def end():
    """The execution is over."""
    channel, state.channel = state.channel, None
    if channel is not None:
        channel.close()


def leave():
    """In a child that code forked: it has nobody to call."""
    channel, state.channel = state.channel, None
    if channel is not None:
        close(channel.calls)
        close(channel.answers)


def current():
    """The channel of this execution, or why there is none."""
    if is_forked():
        return None, FORKED
    channel = state.channel
    if channel is None:
        return None, "this execution has no tools"
    return channel, ""
