"""What holds in the guest, tried from inside: the answer of `vivarium-wasm inspect`."""

import _socket
import _thread
import os
import sys

import stand_ins


def fails(error, function, *args):
    try:
        function(*args)
    except error:
        return True
    except BaseException:
        return False
    return False


def connect():
    opened = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    try:
        opened.connect(("127.0.0.1", 22))
    finally:
        opened.close()


def inspect():
    paths = ("/", "/etc/passwd", "/proc/self/maps", "/usr", "../etc/passwd")
    tried = {
        "no file but those in preopened directories": all(
            fails(OSError, function, path)
            for path in paths
            for function in (os.stat, os.listdir, open)
        ),
        "no sockets": fails(OSError, connect),
        "linear memory bounded": fails(MemoryError, bytearray, 1 << 30)
        and len(bytearray(1 << 20)) > 0,
        "no threads or processes": fails(RuntimeError, _thread.start_new_thread, print, ()),
    }
    try:
        runtime_at = stand_ins.attach()
    except OSError:
        runtime_at = None
    tried["signals reach the interpreter"] = runtime_at is not None
    return {
        "runtime_at": runtime_at,
        "python": "%d.%d.%d" % sys.version_info[:3],
        "enforced": "; ".join(name for name, holds in tried.items() if holds),
        "missing": "; ".join(name for name, holds in tried.items() if not holds),
    }
