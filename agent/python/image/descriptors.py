"""The open descriptors of this process: which can be in an image, and how they are opened again.

Regular files, directories and a few devices are opened again by their path, flags and offset.
Pipes whose ends are all here are made anew, with what they hold, and so are the socket pairs of
event loops that do not run. An epoll instance gets back what it watched.
"""

from guard import Any, load, modules, posix

stat: Any = load("stat")

# The control socket and the standard streams are every kernel's.
OWN = {0, 1, 2, 3}
SEEK_SET, SEEK_CUR = 0, 1  # lseek(2)
# What any pipe holds: pipe(7).
PIPE_BYTES = 1 << 16
DEVICES = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}


class Refused(Exception):
    """Why a descriptor can be in no image."""


def obstacles(own):
    try:
        note(own)
    except Refused as error:
        return [str(error)]
    return []


def note(own):
    """What `restore` needs: of each descriptor how it is made. Raises Refused."""
    pipes: dict = {}
    noted, sockets, epolls = [], {}, []
    for number in sorted(numbers() - OWN - set(own)):
        try:
            found, name = posix.fstat(number), posix.readlink("/proc/self/fd/%d" % number)
        except OSError:
            continue  # The one that listed the directory.
        kind = stat.S_IFMT(found.st_mode)
        if kind in (stat.S_IFREG, stat.S_IFDIR) or name in DEVICES:
            noted.append(note_file(number, name, found))
        elif kind == stat.S_IFIFO and name.startswith("pipe:"):
            pipes.setdefault(name, []).append(number)
        elif kind == stat.S_IFSOCK:
            sockets[number] = name
        elif name == "anon_inode:[eventpoll]":
            epolls.append(number)
        else:
            raise Refused("descriptor %d is %s: close it" % (number, name))
    noted += [note_pipe(name, ends) for name, ends in pipes.items()]
    noted += note_pairs(sockets)
    # Last, as what they watch has to be there first.
    return noted + [note_epoll(number) for number in epolls]


def restore(noted):
    """Makes them again. Returns what could not be."""
    lost = []
    for kind, numbers, *how in noted:
        try:
            maker: Any = MAKERS[kind]
            made = maker(*how)
        except OSError as error:
            lost.append("descriptor %d (%s): %s" % (numbers[0], how[0], error.strerror))
            continue
        # Each is moved out of the way of those that come after it first.
        made = [move_above(descriptor, 512) for descriptor in made]
        for (number, inherited), descriptor in zip(numbers, made):
            posix.dup2(descriptor, number, inheritable=inherited)
            posix.close(descriptor)
    return lost


def numbers():
    return {int(name) for name in posix.listdir("/proc/self/fd")}


def with_inheritance(number):
    return number, posix.get_inheritable(number)


def flags_of(number):
    fcntl: Any = load("fcntl")
    return fcntl.fcntl(number, fcntl.F_GETFL)


def note_file(number, name, found):
    try:
        there = posix.stat(name)
    except OSError:
        there = None
    if there is None or (there.st_dev, there.st_ino) != (found.st_dev, found.st_ino):
        raise Refused(
            "descriptor %d is the file %s, which has no name any more: close it" % (number, name)
        )
    is_file = stat.S_ISREG(found.st_mode)
    offset = posix.lseek(number, 0, SEEK_CUR) if is_file else 0
    keep = flags_of(number) & ~(posix.O_CREAT | posix.O_EXCL | posix.O_TRUNC)
    return "file", [with_inheritance(number)], name, keep, offset


def open_file(name, flags, offset):
    descriptor = posix.open(name, flags | posix.O_CLOEXEC)
    if offset:
        posix.lseek(descriptor, offset, SEEK_SET)
    return [descriptor]


def waiting(number):
    """How many bytes can be read."""
    fcntl, termios = load("fcntl"), load("termios")
    assert fcntl is not None and termios is not None
    return int.from_bytes(fcntl.ioctl(number, termios.FIONREAD, bytes(4)), "little")


def note_pipe(name, ends):
    modes = [flags_of(end) & 3 for end in ends]
    if sorted(modes) != [posix.O_RDONLY, posix.O_WRONLY]:
        raise Refused("descriptor %d is an end of a pipe to another process: close it" % ends[0])
    reading, writing = ends if modes[0] == posix.O_RDONLY else ends[::-1]
    count, flags = waiting(reading), flags_of(reading)
    if count > PIPE_BYTES or (count and flags_of(writing) & posix.O_DIRECT):
        raise Refused(
            "the pipe of descriptors %d and %d holds more than an image does: read it"
            % (reading, writing)
        )
    content = posix.read(reading, count) if count else b""
    if content:
        posix.write(writing, content)
    return "pipe", [with_inheritance(end) for end in (reading, writing)], name, flags, content


def make_pipe(_name, flags, content):
    reading, writing = posix.pipe2(posix.O_CLOEXEC | flags & posix.O_NONBLOCK)
    if content:
        posix.write(writing, content)
    return reading, writing


def note_pairs(sockets):
    """Pairs of an event loop that does not run are all that is known of sockets."""
    noted = []
    for one, other in loop_pairs():
        ends = one.fileno(), other.fileno()
        if all(end in sockets for end in ends) and not any(map(waiting, ends)):
            noted.append(("pair", [with_inheritance(end) for end in ends], "a socket pair"))
            for end in ends:
                del sockets[end]
    for number in sockets:
        raise Refused("descriptor %d is a socket: close it" % number)
    return noted


def loop_pairs():
    """The socket pairs by which event loops wake themselves."""
    import event_loop

    found = [event_loop.state.loop]
    events = modules.get("asyncio.events")
    if events is not None:
        policy = getattr(events, "_event_loop_policy", None)
        found.append(getattr(getattr(policy, "_local", None), "_loop", None))
    pairs = []
    for loop in found:
        pair = getattr(loop, "_ssock", None), getattr(loop, "_csock", None)
        if None not in pair and pair not in pairs:
            pairs.append(pair)
    return pairs


def make_pair(_name):
    socket: Any = load("socket")
    pair = socket.socketpair()
    for end in pair:
        end.setblocking(False)
    return [end.detach() for end in pair]


def note_epoll(number):
    watched = []
    for line in read_lines("/proc/self/fdinfo/%d" % number):
        fields = line.split()
        if fields[:1] == ["tfd:"]:
            watched.append((int(fields[1]), int(fields[3], 16)))
    return "epoll", [with_inheritance(number)], "epoll", watched


def make_epoll(_name, watched):
    select: Any = load("select")
    epoll = select.epoll()
    for number, events in watched:
        epoll.register(number, events)
    return [posix.dup(epoll.fileno())]


def read_lines(path):
    with open(path, encoding="ascii", errors="replace") as lines:
        return lines.readlines()


def move_above(descriptor, least):
    fcntl: Any = load("fcntl")
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, least)
    posix.close(descriptor)
    return moved


MAKERS = {"file": open_file, "pipe": make_pipe, "pair": make_pair, "epoll": make_epoll}
