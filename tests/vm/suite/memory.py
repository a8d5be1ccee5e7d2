"""Memory: however the code goes over the limit, the kernel and all its children die, the agent
does not, the answer says so with limit and peak, and the next execution works."""

import unittest

from support import Session

LIMIT_MB = 128

WAYS = {
    "one big allocation": """
        data = b"x" * (1 << 30)
    """,
    "many processes, each below the limit": """
        import os, time
        for _ in range(10):
            if os.fork() == 0:
                data = b"x" * (24 << 20)
                time.sleep(600)
        time.sleep(600)
    """,
    "a child that starts sessions and groups of its own": """
        import os, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                data = b"x" * (1 << 30)
        time.sleep(600)
    """,
    "anonymous files": """
        import os
        for number in range(40):
            fd = os.memfd_create("memory")
            os.write(fd, b"x" * (16 << 20))
    """,
    "anonymous shared mappings": """
        import mmap
        kept = []
        for _ in range(40):
            kept.append(mmap.mmap(-1, 16 << 20))
            kept[-1].write(b"x" * (16 << 20))
    """,
    "a small program whose memory is in no process": """
        import os, subprocess
        fd = os.memfd_create("memory")
        subprocess.run(["dd", "if=/dev/zero", "bs=64k", "count=3200"], stdout=fd)
    """,
    "files and memory of its own": """
        with open("file", "wb") as file:
            for _ in range(60):
                file.write(b"x" * (1 << 20))
        data = b"x" * (100 << 20)
    """,
    "one page at a time": """
        import mmap
        kept = mmap.mmap(-1, 1 << 30, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        for offset in range(0, 1 << 30, 4096):
            kept[offset] = 1
    """,
}

# Files are in memory too, and outlive the kernel: they get half of it at most.
FILLS = {
    "files in the workdir": """
        for number in range(400):
            with open(f"file-{number}", "wb") as file:
                file.write(b"x" * (1 << 20))
    """,
    "files in /tmp": """
        for number in range(400):
            with open(f"/tmp/file-{number}", "wb") as file:
                file.write(b"x" * (1 << 20))
    """,
    "files in /dev/shm": """
        for number in range(400):
            with open(f"/dev/shm/file-{number}", "wb") as file:
                file.write(b"x" * (1 << 20))
    """,
    "a small program that fills the workdir": """
        import subprocess
        subprocess.run(["dd", "if=/dev/zero", "of=big", "bs=64k", "count=3200"])
        open("more", "wb").write(b"x" * (1 << 20))
    """,
}


def code(text):
    lines = text.strip("\n").splitlines()
    indent = len(lines[0]) - len(lines[0].lstrip())
    return "\n".join(line[indent:] for line in lines)


class Memory(unittest.TestCase):
    def test_every_way_over_the_limit(self):
        for name, text in WAYS.items():
            with self.subTest(name), Session(limits={"max_memory_mb": LIMIT_MB}) as session:
                agent = (session.scope / "agent/cgroup.procs").read_text()
                session.execute("open('kept', 'w').write('yes'); x = 1")
                outcome = session.execute(code(text))
                told = (outcome["status"], outcome["cause"], outcome["state"])
                self.assertEqual(told, ("killed", "memory_limit", "lost"), outcome)
                self.assertIn(f"the limit is {LIMIT_MB} MiB", outcome["detail"])
                self.assertRegex(outcome["detail"], r"the peak was 12[678] MiB")
                self.assertEqual((session.scope / "agent/cgroup.procs").read_text(), agent)
                after = session.execute("print('x' in globals(), open('kept').read())")
                self.assertEqual(after["stdout"], "False yes\n", after)
                self.assertEqual(len(session.members), 1, "the fresh kernel alone")

    def test_files_never_take_the_memory_that_a_kernel_needs(self):
        for name, text in FILLS.items():
            with self.subTest(name), Session(limits={"max_memory_mb": LIMIT_MB}) as session:
                self.assertEqual(session.info["limits"]["max_disk_mb"], LIMIT_MB // 2)
                outcome = session.execute(code(text))
                told = (outcome["status"], outcome["cause"], outcome["state"])
                self.assertEqual(told, ("error", "disk_limit", "preserved"), outcome)
                session.post("reset")
                after = session.execute("import numpy; int(numpy.ones(1000).sum())")
                self.assertEqual(after["status"], "ok", after)

    def test_memory_that_is_just_below_the_limit_is_given(self):
        with Session(limits={"max_memory_mb": LIMIT_MB}) as session:
            outcome = session.execute("data = b'x' * (64 << 20); len(data)")
            self.assertEqual(outcome["status"], "ok", outcome)
            self.assertGreater(outcome["usage"]["memory_peak_bytes"], 64 << 20)

    def test_memory_can_not_be_locked(self):
        with Session() as session:
            outcome = session.execute(
                "import ctypes, mmap\n"
                "libc = ctypes.CDLL(None, use_errno=True)\n"
                "memory = mmap.mmap(-1, 1 << 24)\n"
                "address = ctypes.addressof(ctypes.c_char.from_buffer(memory))\n"
                "print(libc.mlock(ctypes.c_void_p(address), 1 << 24), ctypes.get_errno())\n"
            )
            # EPERM by the seccomp filter or ENOMEM by the limit.
            self.assertIn(outcome["stdout"], ("-1 1\n", "-1 12\n"), outcome)

    def test_one_session_out_of_memory_is_nothing_to_another(self):
        with Session() as other, Session(limits={"max_memory_mb": LIMIT_MB}) as session:
            other.execute("x = 42")
            outcome = session.execute("data = b'x' * (1 << 30)")
            self.assertEqual(outcome["cause"], "memory_limit", outcome)
            self.assertEqual(other.execute("x")["result"]["repr"], "42")

    def test_a_child_killed_between_executions_is_told_by_the_next(self):
        with Session(limits={"max_memory_mb": LIMIT_MB}) as session:
            started = session.execute(
                "import subprocess, sys\n"
                "subprocess.Popen([sys.executable, '-c', "
                "'import time; time.sleep(2); b\"x\" * (1 << 30)']).pid > 0"
            )
            self.assertEqual(started["result"]["repr"], "True", started)
            outcome = session.execute("import time; time.sleep(60)")
            if outcome["status"] == "ok":
                self.fail("it was not killed")
            self.assertEqual(outcome["cause"], "memory_limit", outcome)
