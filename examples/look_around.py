"""What code can see of the machine it runs on, and what it is refused.

    vivarium run examples/look_around.py
    python3 examples/look_around.py        the same without a sandbox, for comparison

It only looks: nothing it tries changes anything but this process.
"""

import ctypes
import errno
import os
import socket

CLONE_NEWUSER = 0x10000000
libc = ctypes.CDLL(None, use_errno=True)


def listed(path):
    try:
        return sorted(os.listdir(path))
    except OSError as error:
        return [f"{path}: {errno.errorcode[error.errno or 0]}"]


def interfaces():
    with open("/proc/net/dev") as file:
        return [line.split(":")[0].strip() for line in file if ":" in line]


def outcome(action):
    try:
        action()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    return "it worked"


def unshare(flags):
    if libc.unshare(flags) == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


processes = [name for name in listed("/proc") if name.isdigit()]
print(f"host name    {socket.gethostname()}")
print(f"ids          uid {os.getuid()}, gid {os.getgid()}")
print(f"processes    {len(processes)} visible; this one is {os.getpid()}")
print(f"interfaces   {', '.join(interfaces())}")
print(f"variables    {', '.join(sorted(os.environ))}")
print(f"homes        {', '.join(listed('/home') + listed('/root'))}")
print()
for label, action in [
    ("list /var", lambda: os.listdir("/var")),
    ("read /etc/shadow", lambda: open("/etc/shadow").close()),
    ("open a program for writing", lambda: open("/usr/bin/env", "ab").close()),
    ("see whether process 1 lives", lambda: os.kill(1, 0)),
    ("open a netlink socket", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).close()),
    ("reach the cloud's metadata", lambda: socket.create_connection(("169.254.169.254", 80), 2)),
    ("make a user namespace", lambda: unshare(CLONE_NEWUSER)),
]:
    print(f"{label:32}{outcome(action)}")
