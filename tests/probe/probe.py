"""Attacks on the sandbox, from inside. Run in a session by the tests, which judge the answers.

Every attempt is made in a forked child, so that one which kills its process, or changes it, is
told like any other and does not touch the next. System calls are made by number, past libc's
own checks.
"""

import ctypes
import errno
import json
import mmap
import os
import platform
import signal
import socket
import struct

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
X86 = platform.machine() == "x86_64"

# Numbers on x86_64 and on aarch64 (asm/unistd_64.h, asm-generic/unistd.h); from 424 on alike.
# None: the architecture does not have it.
# fmt: off
NUMBERS = {
    "ptrace": (101, 117), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
    "chroot": (161, 51), "unshare": (272, 97), "setns": (308, 268), "clone": (56, 220),
    "clone3": (435, 435), "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "personality": (135, 92),
    "modify_ldt": (154, None), "ioperm": (173, None), "iopl": (172, None),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "reboot": (169, 142),
    "swapon": (167, 224), "swapoff": (168, 225), "clock_settime": (227, 112),
    "settimeofday": (164, 170), "adjtimex": (159, 171), "clock_adjtime": (305, 266),
    "sethostname": (170, 161), "setdomainname": (171, 162), "acct": (163, 89),
    "quotactl": (179, 60), "quotactl_fd": (443, 443), "nfsservctl": (180, 42),
    "vhangup": (153, 58), "lookup_dcookie": (212, 18), "open_tree": (428, 428),
    "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "seccomp": (317, 277), "memfd_secret": (447, 447), "msgget": (68, 186),
    "shmget": (29, 194), "execveat": (322, 281), "mknodat": (259, 33), "getpid": (39, 172),
    "setrlimit": (160, 164), "prlimit64": (302, 261),
    "ioctl": (16, 29), "syslog": (103, 116), "fanotify_init": (300, 262),
    "openat": (257, 56), "openat2": (437, 437), "open": (2, None), "creat": (85, None),
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "mkdirat": (258, 34), "mknod": (133, None), "fcntl": (72, 25), "fsync": (74, 82),
    "fdatasync": (75, 83), "sync": (162, 81), "syncfs": (306, 267), "sync_file_range": (277, 84),
    "fadvise64": (221, 223), "mincore": (27, 232), "madvise": (28, 233), "mmap": (9, 222),
    "memfd_create": (319, 279), "inotify_init": (253, None), "inotify_init1": (294, 26),
}
# fmt: on

NEWNS, NEWUTS, NEWUSER, NEWNET = 0x00020000, 0x04000000, 0x10000000, 0x40000000


def word(value):
    """An argument of a system call as ctypes takes it."""
    if value is None:
        return ctypes.c_void_p(value)
    if isinstance(value, (str, bytes)):
        return ctypes.c_char_p(value.encode() if isinstance(value, str) else value)
    if hasattr(value, "_as_parameter_") or isinstance(value, ctypes.Array):
        return value
    return ctypes.c_long(value)


def call(name, *arguments):
    """Makes a system call by its name or number, and gives what it returned."""
    number = NUMBERS[name][0 if X86 else 1] if isinstance(name, str) else name
    if number is None:
        raise OSError(errno.ENOSYS, name)
    result = libc.syscall(ctypes.c_long(number), *map(word, arguments))
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def attempt(expression):
    """Evaluates it in a child, in the probe's own names, and prints what came of it as JSON."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            said = {"value": eval(expression, globals())}
        except OSError as error:
            name = errno.errorcode.get(error.errno or 0, str(error))
            said = {"errno": name, "detail": str(error)}
        except BaseException as error:
            said = {"error": "%s: %s" % (type(error).__name__, error)}
        os.write(writer, json.dumps(said, default=str).encode())
        os._exit(0)
    os.close(writer)
    answer = b""
    while chunk := os.read(reader, 65536):
        answer += chunk
    os.close(reader)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        answer = json.dumps({"signal": signal.Signals(os.WTERMSIG(status)).name}).encode()
    print(answer.decode())


def in_own_user_namespace(action, more=NEWNS):
    """Tries to become the owner of a user namespace first; does it whether that works or not."""
    try:
        call("unshare", NEWUSER | more)
    except OSError:
        pass
    return action()


def clone_with(flags):
    """A child by clone(2) with these flags, that ends at once."""
    # The raw call takes the stack second on both architectures; without CLONE_VM it is a fork.
    child = call("clone", flags | signal.SIGCHLD, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return "cloned"


class Iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


def copy_across(name):
    """Copies memory by process_vm_readv or process_vm_writev, from this process to itself."""
    here, there = ctypes.create_string_buffer(b"secret"), ctypes.create_string_buffer(16)
    local = Iovec(ctypes.addressof(there), 6)
    remote = Iovec(ctypes.addressof(here), 6)
    return call(name, os.getpid(), ctypes.addressof(local), 1, ctypes.addressof(remote), 1, 0)


def zeroed(size):
    """The address of a buffer that lives as long as the process."""
    buffer = ctypes.create_string_buffer(size)
    KEPT.append(buffer)
    return ctypes.addressof(buffer)


KEPT: list = []


def int80():
    """getpid(2) by the i386 entry."""
    code = bytes([0xB8, 20, 0, 0, 0, 0xCD, 0x80, 0xC3])  # mov eax, 20; int 0x80; ret
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    return ctypes.CFUNCTYPE(ctypes.c_long)(address)() > 0


def execute_arm32():
    """exit(0) by a program for 32-bit ARM, another architecture to the kernel."""
    import subprocess

    code = struct.pack("<3I", 0xE3A07001, 0xE3A00000, 0xEF000000)  # mov r7, #1; mov r0, #0; svc #0
    base, start = 0x10000, 52 + 32
    header = struct.pack(
        "<16sHHIIIIIHHHHHH",
        *(b"\x7fELF\x01\x01\x01", 2, 40, 1, base + start, 52, 0, 0x05000400, 52, 32, 1, 0, 0, 0),
    )
    segment = struct.pack("<8I", 1, 0, base, base, *[start + len(code)] * 2, 5, 4096)
    path = made("arm32")
    with open(path, "wb") as program:
        program.write(header + segment + code)
    os.chmod(path, 0o755)
    ended = subprocess.run([path]).returncode
    if ended < 0:
        os.kill(os.getpid(), -ended)
    return ended


def make_socket(family, kind=socket.SOCK_STREAM, protocol=0):
    """Makes a socket, and says nothing of it but that it was made."""
    socket.socket(family, kind, protocol).close()
    return "made"


def connect(family, address, kind=socket.SOCK_STREAM):
    """Connects; what the other side says first."""
    with socket.socket(family, kind) as connection:
        connection.settimeout(10)
        connection.connect(address)
        return connection.recv(100).decode() if kind == socket.SOCK_STREAM else "routed"


def read(path):
    """Reads a file."""
    with open(path, "rb") as file:
        return file.read(4096).decode(errors="replace")


def tells(path):
    """Whether there is anything to read at a path, or to list."""
    try:
        return bool(os.listdir(path) if os.path.isdir(path) else read(path))
    except OSError:
        return False


def lock(path):
    """Locks a file if nobody else has (flock(2))."""
    import fcntl

    with open(path, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return "locked"


def read_through_link(target, path):
    """Reads a file through a link to `target`, made for it."""
    link = "/tmp/link-%d" % os.getpid()
    os.symlink(target, link)
    return read(os.path.join(link, path))


def write(path, text="owned"):
    """Opens a file that is there for writing, and writes to it."""
    descriptor = os.open(path, os.O_WRONLY)
    return os.write(descriptor, text.encode())


def create(path):
    """Makes a file that was not there, and removes it for whoever tries next."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    os.unlink(path)
    return "made"


def fresh(name):
    """A path in the workdir at which nobody has made anything."""
    return "%s/%s-%d" % (HOME, name, os.getpid())


HOME = os.environ["HOME"]


def made(name):
    """The path of a new file in the workdir."""
    path = fresh(name)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    return path


def mode_after(action, path):
    """The permission bits that `path` has after it."""
    action(path)
    return oct(os.stat(path).st_mode & 0o7777)


def opened(path, flags=os.O_RDONLY):
    return os.open(path, flags)


def how(flags, mode):
    """struct open_how of openat2(2)."""
    buffer = ctypes.create_string_buffer(struct.pack("QQQ", flags, mode, 0), 24)
    KEPT.append(buffer)
    return ctypes.addressof(buffer)


def page():
    """The address of a page of memory."""
    KEPT.append(mmap.mmap(-1, 4096))
    return ctypes.addressof(ctypes.c_char.from_buffer(KEPT[-1]))


def execute_copy(path):
    """Writes a program to `path` and executes it; its exit code."""
    with open("/bin/true", "rb") as program, open(path, "wb") as copy:
        copy.write(program.read())
    os.chmod(path, 0o755)
    return execute(path)


def execute(*command):
    """Executes a program; what it printed, or its exit code."""
    import subprocess

    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    return done.stdout.decode().strip() or done.returncode


def status():
    """/proc/self/status as a mapping."""
    with open("/proc/self/status") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def kernel_pids():
    """The pids that /proc shows."""
    return sorted(int(name) for name in os.listdir("/proc") if name.isdigit())


def descriptors():
    """The open descriptors of the kernel process, the listing's own left out."""
    listing = os.open("/proc/%d/fd" % os.getppid(), os.O_RDONLY | os.O_DIRECTORY)
    return sorted(int(name) for name in os.listdir(listing))


def raise_limit(name, soft, hard):
    """Sets a resource limit; ValueError of the library is the kernel's EPERM."""
    import resource

    try:
        resource.setrlimit(getattr(resource, name), (soft, hard))
    except ValueError:
        raise OSError(errno.EPERM, "setrlimit") from None
    return resource.getrlimit(getattr(resource, name))


def queue_signals(count):
    """Queues so many real-time signals to this thread, which blocks them."""
    import threading

    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
    for _ in range(count):
        signal.pthread_kill(threading.get_ident(), signal.SIGRTMIN)


def limit(name):
    import resource

    return resource.getrlimit(getattr(resource, name))


def ioctl(descriptor, request, argument=0):
    """ioctl(2) past fcntl's own checks."""
    return call("ioctl", descriptor, request, argument)


def seccomp_mode():
    return int(status()["Seccomp"])


def namespaces():
    """The namespaces that all processes of a session share, by their kinds."""
    kinds = ("user", "pid", "mnt", "net", "ipc", "uts")
    return {kind: os.readlink("/proc/self/ns/" + kind) for kind in kinds}


def environment_of(pid):
    return read("/proc/%s/environ" % pid).split("\0")


def pack_handle():
    """struct file_handle with no room in it."""
    buffer = ctypes.create_string_buffer(struct.pack("II", 0, 0), 8)
    KEPT.append(buffer)
    return ctypes.addressof(buffer)
