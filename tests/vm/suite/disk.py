"""Disk: workdir, /tmp and /dev/shm together, however they are written to."""

import unittest

from support import Session, api

LIMITS = {"max_disk_mb": 32, "max_inodes": 200}

WAYS = {
    "one file": """
with open("big", "wb") as file:
    while True:
        file.write(b"x" * (1 << 20))
""",
    "all three places in turn": """
number = 0
while True:
    for place in (".", "/tmp", "/dev/shm"):
        with open(f"{place}/file-{number}", "wb") as file:
            file.write(b"x" * (1 << 20))
    number += 1
""",
    "many small files": """
number = 0
while True:
    open(f"file-{number}", "w").close()
    number += 1
""",
    "directories": """
import os
number = 0
while True:
    os.mkdir(f"/tmp/directory-{number}")
    number += 1
""",
    "hard links": """
import os
open("file", "w").close()
number = 0
while True:
    os.link("file", f"link-{number}")
    number += 1
""",
    "symbolic links": """
import os
number = 0
while True:
    os.symlink("nowhere", f"link-{number}")
    number += 1
""",
    "a sparse file that is filled": """
import os
fd = os.open("sparse", os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 200 << 20)
for offset in range(0, 200 << 20, 1 << 20):
    os.pwrite(fd, b"x" * (1 << 20), offset)
""",
    "space that is reserved": """
import os
fd = os.open("reserved", os.O_RDWR | os.O_CREAT)
os.posix_fallocate(fd, 0, 200 << 20)
""",
    "files that are deleted and still open": """
import os
kept = []
while True:
    kept.append(os.open("deleted", os.O_RDWR | os.O_CREAT))
    os.unlink("deleted")
    os.write(kept[-1], b"x" * (1 << 20))
""",
}


class Disk(unittest.TestCase):
    def test_every_way_over_the_limit(self):
        for name, code in WAYS.items():
            with self.subTest(name), Session(limits=LIMITS) as session:
                outcome = session.execute(code)
                self.assertEqual(outcome["status"], "error", outcome)
                self.assertEqual(outcome["exception"]["type"], "OSError", outcome)
                self.assertIn("[Errno 28]", outcome["exception"]["message"])
                self.assertEqual(outcome["cause"], "disk_limit", outcome)
                self.assertEqual(outcome["state"], "preserved")
                used = api("GET", f"/v1/sessions/{session.id}")["usage"]["disk_bytes"]
                self.assertLessEqual(used, 32 << 20)

    def test_space_of_deleted_files_comes_back_when_they_are_closed(self):
        with Session(limits=LIMITS) as session:
            session.execute(WAYS["files that are deleted and still open"])
            after = session.execute(
                "for fd in kept: os.close(fd)\nopen('new', 'wb').write(b'x' * (20 << 20))"
            )
            self.assertEqual(after["status"], "ok", after)

    def test_a_single_file_has_a_limit_of_its_own(self):
        limits = {"max_disk_mb": 64, "max_file_size_mb": 8}
        with Session(limits=limits) as session:
            outcome = session.execute("open('big', 'wb').write(b'x' * (16 << 20))")
            self.assertIn("[Errno 27]", outcome["exception"]["message"], outcome)
